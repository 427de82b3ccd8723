"""The check of check.py: runs without a violation, and runs with one, which it must find."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

A, B, C, D = (f"{number:08}-0000-4000-8000-000000000000" for number in range(4))
EPOCH = 1_700_000_000_000
NAMES = ["vm_0", "vm_1", "vm_2", "vm_3"]


class Story:
    """Files of a run without a violation: two machines of four are prepared for one event. Times are in seconds."""

    def __init__(self) -> None:
        self.limit = 2
        self.hooks: dict[str, list[tuple[float, str, str, str, int]]] = {name: [] for name in NAMES}
        self.audit: dict[str, list[dict[str, object]]] = {name: [] for name in NAMES}
        self.lost: dict[str, list[dict[str, object]]] = {}
        self.server: list[tuple[float, str, str]] = []
        self.faults: list[tuple[str, str, float, float]] = []
        self.event(A, ["VM_0", "vm_1"], appears=1, not_before=600)
        self.asks("vm_0", A, 4, "open")
        self.asks("vm_1", A, 5, "open")
        self.does("vm_0", "prepare", A, 5, 8)
        self.does("vm_1", "prepare", A, 6, 18)
        self.yes("vm_1", A, 20)
        self.server += [(21, A, "is approved"), (22, A, "is Started"), (24, A, "has ended")]
        self.does("vm_0", "recover", A, 25, 26)
        self.does("vm_1", "recover", A, 25, 27)

    def event(self, event: str, resources: list[str], appears: int, not_before: int) -> None:
        self.server.append((appears, event, "appears, Scheduled"))
        for name in resources:
            self.sees(name.lower(), event, resources, appears, not_before)

    def sees(self, machine: str, event: str, resources: list[str], at: int, not_before: int) -> None:
        facts: dict[str, object] = {"resources": resources, "not_before": moment(not_before), "time": moment(at)}
        facts |= {"record": "change", "change": "scheduled", "event_id": event}
        self.audit[machine].append(facts)

    def asks(self, machine: str, event: str, at: int, outcome: str) -> None:
        self.gate(machine, event, at, "prepare", outcome)

    def yes(self, machine: str, event: str, at: int) -> None:
        self.gate(machine, event, at, "approve", "open")

    def gate(self, machine: str, event: str, at: int, phase: str, outcome: str) -> None:
        record: dict[str, object] = {
            "record": "gate",
            "event_id": event,
            "phase": phase,
            "outcome": outcome,
            "time": moment(at),
        }
        self.audit[machine].append(record)

    def never_said(self, event: str, phase: str, outcome: str) -> None:
        for machine, records in self.audit.items():
            said = (event, phase, outcome)
            self.audit[machine] = [
                one for one in records if (one["event_id"], one.get("phase"), one.get("outcome")) != said
            ]

    def does(self, machine: str, kind: str, event: str, begin: float, end: float | None) -> None:
        process = len(self.hooks[machine]) + 100
        self.hooks[machine].append((begin, "begin", kind, event, process))
        if end is not None:
            self.hooks[machine].append((end, "end", kind, event, process))

    def fault(self, machine: str, what: str, begin: float, end: float) -> None:
        self.faults.append((machine, what, begin, end))

    def ends(self, event: str, at: float) -> None:
        """Azure starts it at NotBefore, and it is over at once."""
        self.server += [(at, event, "is Started"), (at + 2, event, "has ended")]

    def approves(self, machine: str, event: str, at: int) -> None:
        """A machine approves it, and it is over at once."""
        self.yes(machine, event, at - 1)
        self.server.append((at, event, "is approved"))
        self.ends(event, at + 1)

    def write(self, folder: Path) -> None:
        for machine, lines in self.hooks.items():
            own = folder / "machines" / machine
            own.mkdir(parents=True)
            hooks = [
                f"{at(when)} {what} {kind} {event} {process}" for when, what, kind, event, process in sorted(lines)
            ]
            (own / "hooks").write_text("\n".join(hooks) + "\n")
            (own / "audit").write_text("".join(f"{json.dumps(one)}\n" for one in self.audit[machine]) + '{"cut off')
            if machine in self.lost:
                (own / "audit-lost-1").write_text("".join(f"{json.dumps(one)}\n" for one in self.lost[machine]))
        (folder / "server-0.log").write_text(
            "".join(f"{at(when)} Reboot {event} of vm_0 and vm_1 {what}\n" for when, event, what in self.server)
        )
        (folder / "faults").write_text(
            "".join(
                f"{json.dumps({'machine': machine, 'what': what, 'begin': at(begin), 'end': at(end)})}\n"
                for machine, what, begin, end in self.faults
            )
        )
        (folder / "run.json").write_text(json.dumps({"limit": self.limit, "silent_after": 20, "return_within": 60}))


def at(second: float) -> int:
    return EPOCH + int(1000 * second)


def moment(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH // 1000 + second))


def again_after(story: Story) -> None:
    """A machine prepares again after all were ready."""
    story.does("vm_0", "prepare", A, 19, None)


def third_after(story: Story) -> None:
    """A third machine prepares once the others are back."""
    story.event(C, ["vm_2"], 1, 600)
    story.asks("vm_2", C, 28, "open")
    story.does("vm_2", "prepare", C, 28, 29)
    story.approves("vm_2", C, 60)


def without_yes(story: Story) -> None:
    """No gate says yes."""
    story.never_said(A, "approve", "open")


def early(story: Story) -> None:
    """A gate says yes only after the approval."""
    story.never_said(A, "approve", "open")
    story.yes("vm_1", A, 23)


def again_too_early(story: Story) -> None:
    """A machine prepares again before all were ready."""
    story.does("vm_0", "prepare", A, 15, None)


def unready(story: Story) -> None:
    """A preparation never ends."""
    del story.hooks["vm_1"][1]


def late_approval(story: Story) -> None:
    """An approval comes before the last preparation has ended."""
    story.never_said(A, "approve", "open")
    story.server[1] = (17, A, "is approved")
    story.yes("vm_0", A, 16)


def in_service(story: Story) -> None:
    """A machine goes back into service before the approval."""
    story.does("vm_0", "recover", A, 10, 11)


def recovering(story: Story) -> None:
    """A machine begins to recover before the approval."""
    story.does("vm_0", "recover", A, 20, None)


def for_another(story: Story) -> None:
    """A machine is prepared for another event."""
    story.hooks["vm_1"] = [(at, what, kind, B, process) for at, what, kind, _, process in story.hooks["vm_1"]]


def lost_before(story: Story) -> None:
    """A machine that was ready comes back with an empty disk before the approval."""
    story.fault("vm_0", "lost disk", 15, 15)


def lost_during(story: Story) -> None:
    """A machine comes back from the event with an empty disk, and never recovers."""
    story.hooks["vm_0"] = story.hooks["vm_0"][:2]
    story.fault("vm_0", "off", 22, 26)
    story.fault("vm_0", "lost disk", 26, 26)
    story.lost["vm_0"], story.audit["vm_0"] = story.audit["vm_0"], []
    third_after(story)


def third(story: Story) -> None:
    """A machine more than the limit prepares."""
    story.event(C, ["vm_2"], 1, 600)
    story.asks("vm_2", C, 9, "open")
    story.does("vm_2", "prepare", C, 10, None)


def alone(story: Story) -> None:
    """An event of more machines than the limit goes alone."""
    story.limit = 1


def third_by_last_call(story: Story) -> None:
    """A machine more than the limit prepares by its last call."""
    story.event(C, ["vm_2"], 1, 100)
    story.asks("vm_2", C, 4, "closed")
    story.asks("vm_2", C, 9, "last-call")
    story.does("vm_2", "prepare", C, 10, 11)
    story.ends(C, 100)


def last_call_and_yes(story: Story) -> None:
    """A machine more than the limit gets a yes after its last call, and prepares again."""
    third_by_last_call(story)
    story.asks("vm_2", C, 12, "open")
    story.does("vm_2", "prepare", C, 13, 14)
    story.yes("vm_2", C, 15)
    story.server.insert(-2, (16, C, "is approved"))


def beside_last_call(story: Story) -> None:
    """A slot is given although a machine is out by its last call, for long."""
    story.limit = 1
    story.event(B, ["vm_3"], 30, 200)
    story.asks("vm_3", B, 31, "last-call")
    story.does("vm_3", "prepare", B, 32, 33)
    story.ends(B, 200)
    story.event(C, ["vm_2"], 30, 600)
    story.asks("vm_2", C, 60, "open")
    story.does("vm_2", "prepare", C, 61, 62)
    story.approves("vm_2", C, 70)


def beside_unknown_last_call(story: Story) -> None:
    """The same, while the store does not hear of the last call."""
    beside_last_call(story)
    story.fault("vm_3", "silent store", 31, 65)


def beside_silent(story: Story) -> None:
    """A slot is given although a machine is silent."""
    story.limit = 1
    story.fault("vm_3", "killed daemon", 30, 200)
    story.event(C, ["vm_2"], 30, 600)
    story.asks("vm_2", C, 80, "open")
    story.does("vm_2", "prepare", C, 81, 82)
    story.approves("vm_2", C, 90)


def beside_paused(story: Story) -> None:
    """A slot is given although a machine is silent, but not for long enough to count."""
    beside_silent(story)
    story.faults = [("vm_3", "killed daemon", 60, 200)]


def beside_terminated(story: Story) -> None:
    """A slot is given although a machine is silent, which has left."""
    beside_silent(story)
    story.faults = [("vm_3", "terminated", 30, 30)]


def slot_of_booting(story: Story) -> None:
    """A slot is given while the machine that had it still boots after its event."""
    story.limit = 1
    story.hooks["vm_0"] = story.hooks["vm_0"][:2]
    story.does("vm_0", "recover", A, 70, 71)
    story.fault("vm_0", "off", 22, 69)
    story.event(C, ["vm_2"], 30, 600)
    story.asks("vm_2", C, 40, "open")
    story.does("vm_2", "prepare", C, 41, 42)
    story.approves("vm_2", C, 50)


def slot_of_recovering(story: Story) -> None:
    """A slot is given while the machine that had it recovers."""
    story.limit = 1
    story.hooks["vm_0"] = story.hooks["vm_0"][:2]
    story.does("vm_0", "recover", A, 25, 50)
    story.event(C, ["vm_2"], 30, 600)
    story.asks("vm_2", C, 40, "open")
    story.does("vm_2", "prepare", C, 41, 42)
    story.approves("vm_2", C, 50)


def slot_of_given_up(story: Story) -> None:
    """A slot is given after the machine that had it was away for long."""
    story.limit = 1
    story.hooks["vm_0"] = story.hooks["vm_0"][:2]
    story.does("vm_0", "recover", A, 120, 121)
    story.fault("vm_0", "off", 22, 119)
    story.event(C, ["vm_2"], 30, 600)
    story.asks("vm_2", C, 100, "open")
    story.does("vm_2", "prepare", C, 101, 102)
    story.approves("vm_2", C, 110)


def missed(story: Story) -> None:
    """All are ready, and nobody approves."""
    story.never_said(A, "approve", "open")
    story.server = [(1, A, "appears, Scheduled"), (600, A, "is Started")]
    story.hooks["vm_0"], story.hooks["vm_1"] = story.hooks["vm_0"][:2], story.hooks["vm_1"][:2]


def missed_with_faults(story: Story) -> None:
    """The same, while the store is gone."""
    missed(story)
    story.fault("", "killed store", 300, 599)


def missed_by_late(story: Story) -> None:
    """The same, and one machine is out by its last call: it has no slot."""
    missed(story)
    story.never_said(A, "prepare", "open")
    story.asks("vm_1", A, 5, "last-call")


def undrained(story: Story) -> None:
    """A machine that lives never begins to prepare, while the store is gone."""
    story.event(C, ["vm_2"], 30, 230)
    story.fault("", "killed store", 28, 300)
    story.ends(C, 230)


def drained_late(story: Story) -> None:
    """A machine begins to prepare long after its last call."""
    undrained(story)
    story.does("vm_2", "prepare", C, 170, 172)


def drained_by_last_call(story: Story) -> None:
    """A machine prepares by its last call, which is half of the notice before NotBefore."""
    undrained(story)
    story.asks("vm_2", C, 131, "last-call")
    story.does("vm_2", "prepare", C, 131, 133)


def undrained_without_watcher(story: Story) -> None:
    """A machine whose watcher is down does not prepare."""
    undrained(story)
    story.fault("vm_2", "killed watcher", 120, 140)


def overtaken(story: Story) -> None:
    """A later event gets a slot which the earlier one needs that was refused."""
    story.limit = 1
    story.event(B, ["vm_2"], 30, 500)
    story.asks("vm_2", B, 31, "closed")
    story.event(C, ["vm_3"], 30, 600)
    story.asks("vm_3", C, 31, "closed")
    story.asks("vm_3", C, 90, "open")
    story.does("vm_3", "prepare", C, 91, 92)
    story.approves("vm_3", C, 100)
    story.does("vm_3", "recover", C, 103, 104)
    story.asks("vm_2", B, 105, "open")
    story.does("vm_2", "prepare", B, 106, 107)
    story.approves("vm_2", B, 120)


def both_fit(story: Story) -> None:
    """The same, and there is capacity for both."""
    overtaken(story)
    story.limit = 2


def in_order(story: Story) -> None:
    """The same, and the other one is the earlier one."""
    overtaken(story)
    for record in story.audit["vm_2"]:
        if "not_before" in record:
            record["not_before"] = moment(700)


def overtaken_while_down(story: Story) -> None:
    """The same, and the machine of the earlier one does not ask."""
    overtaken(story)
    story.fault("vm_2", "stopped watcher and daemon", 70, 95)


def overtaken_at_a_change(story: Story) -> None:
    """The same, and the group was reserved for an event before both of them, which has just got its slots."""
    overtaken(story)
    story.event(D, ["vm_1"], 30, 400)
    story.asks("vm_1", D, 31, "closed")
    story.asks("vm_1", D, 80, "open")
    story.does("vm_1", "prepare", D, 81, 82)
    story.approves("vm_1", D, 84)
    story.does("vm_1", "recover", D, 87, 88)


def restored(story: Story) -> None:
    """A machine prepares again before all were ready, and then the store comes back from a backup."""
    again_too_early(story)
    story.fault("", "restored store", 12, 19)


def restored_before(story: Story) -> None:
    """The same, and the store came back before that."""
    again_too_early(story)
    story.fault("", "restored store", 3, 9)


def restored_after(story: Story) -> None:
    """The same, and the store came back after the approval."""
    again_too_early(story)
    story.fault("", "restored store", 12, 30)


def unready_when_restored(story: Story) -> None:
    """A preparation never ends, and the store comes back from a backup of long after its begin."""
    unready(story)
    story.fault("", "restored store", 13, 19)


def ready_as_copy(story: Story) -> None:
    """A copy of a machine is ready, and approves; the machine is not."""
    unready(story)
    story.fault("vm_1", "copy", 7, 23)


def allowed_again(story: Story) -> None:
    """A machine may prepare again after all were ready, since the event has changed, and has not begun to."""
    story.asks("vm_0", A, 19, "open")


def allowed_again_and_ready(story: Story) -> None:
    """The same, and the machine is ready again."""
    allowed_again(story)
    story.does("vm_0", "prepare", A, 19.2, 19.8)


def allowed_again_and_stopped(story: Story) -> None:
    """The same as the first one, and the watcher that approves was stopped."""
    allowed_again(story)
    story.fault("vm_1", "stopped watcher", 18, 20.5)


def slot_of_restored(story: Story) -> None:
    """A slot is given while the machine that had it recovers, and the store came back without that slot."""
    slot_of_recovering(story)
    story.fault("", "restored store", 2, 11)


def slot_of_copied(story: Story) -> None:
    """A slot is given while the machine that had it recovers, and a copy of it gave the slot back."""
    slot_of_recovering(story)
    story.fault("vm_0", "copy", 20, 35)
    story.hooks["vm_1"][-1] = (27, "end", "recover", A, 102)


def slot_beside_copied(story: Story) -> None:
    """A machine more than the limit prepares, and another one, whose event is not over, had a copy."""
    third(story)
    story.fault("vm_0", "copy", 6, 9)


def missed_with_copy(story: Story) -> None:
    """All are ready, and nobody approves while a copy of one of them runs."""
    missed(story)
    story.fault("vm_0", "copy", 560, 590)


def missed_with_late_documents(story: Story) -> None:
    """All are ready, and nobody approves while the documents of one of them are late."""
    missed(story)
    story.fault("vm_0", "late documents", 560, 590)


def undrained_with_copy(story: Story) -> None:
    """A machine never begins to prepare while a copy of it runs."""
    undrained(story)
    story.fault("vm_2", "copy", 100, 200)


STORIES: list[tuple[Callable[[Story], None], set[str]]] = [
    (again_after, set()),
    (third_after, set()),
    (without_yes, {"S1"}),
    (early, {"S1"}),
    (again_too_early, {"S2"}),
    (unready, {"S3"}),
    (late_approval, {"S3"}),
    (in_service, {"S3"}),
    (recovering, {"S3"}),
    (for_another, {"S3"}),
    (lost_before, {"S3"}),
    (lost_during, set()),
    (third, {"S4"}),
    (alone, set()),
    (third_by_last_call, set()),
    (last_call_and_yes, {"S4"}),
    (beside_last_call, {"S4"}),
    (beside_unknown_last_call, set()),
    (beside_silent, {"S4"}),
    (beside_paused, set()),
    (beside_terminated, set()),
    (slot_of_booting, {"S5"}),
    (slot_of_recovering, {"S5"}),
    (slot_of_given_up, set()),
    (missed, {"L1"}),
    (missed_with_faults, set()),
    (missed_by_late, set()),
    (undrained, {"L2"}),
    (drained_late, {"L2"}),
    (drained_by_last_call, set()),
    (undrained_without_watcher, set()),
    (overtaken, {"L3"}),
    (both_fit, set()),
    (in_order, set()),
    (overtaken_while_down, set()),
    (overtaken_at_a_change, set()),
    (restored, set()),
    (restored_before, {"S2"}),
    (restored_after, {"S2"}),
    (unready_when_restored, {"S3"}),
    (ready_as_copy, {"S3"}),
    (allowed_again, {"S6"}),
    (allowed_again_and_ready, set()),
    (allowed_again_and_stopped, set()),
    (slot_of_restored, set()),
    (slot_of_copied, set()),
    (slot_beside_copied, {"S4"}),
    (missed_with_copy, set()),
    (missed_with_late_documents, set()),
    (undrained_with_copy, {"L2"}),
]


def self_test(check: Callable[[Path], tuple[list[str], str]]) -> int:
    failed = 0
    for plant, expected in STORIES:
        with tempfile.TemporaryDirectory() as folder:
            story = Story()
            plant(story)
            story.write(Path(folder))
            found, _ = check(Path(folder))
        if {line[:2] for line in found} != expected:
            failed += 1
            print(f"error: {plant.__name__}: {plant.__doc__} Expected {sorted(expected)}, found {found}")
    print(f"{len(STORIES) - failed} passed, {failed} failed")
    return 1 if failed else 0
