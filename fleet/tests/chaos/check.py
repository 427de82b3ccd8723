#!/usr/bin/env python3
"""Checks the files of a run of `fleet/tests/chaos/run`: was anybody approved who was not ready?

    check.py FOLDER       check a run; exit code 1 if an invariant is broken
    check.py --self-test  plant violations, and check that each is found

It reads only what others wrote, and shares no code with the gate:

- `machines/NAME/audit*`: the audit files of `scheduled-events watch`.
- `machines/NAME/hooks`: a line for each begin and end of a preparation or a recovery, with the time in milliseconds.
- `server-*.log`: the output of the replay servers, each line with the time in milliseconds at which it was read.
- `run.json`: the limit of the group, and for how long no process was down at the end.

The invariants, as far as they can be seen from outside:

S1  An event is approved only after a watcher's gate said yes to it.
S2  When an event is approved, every machine that it names has completed a preparation for it since its last recovery. A machine
    may be preparing again by then, since that is done once more after a crash: but then every other machine had been ready
    before that, so that the decision can have been made before.
S3  Nobody else is approved: a machine that is back in service, or that never prepared.
S4  At most `limit` machines are out of service together, or those of one event: from the begin of a preparation to the end of
    the recovery.
L1  An event all of whose machines were ready for long enough before NotBefore is approved.
"""

from __future__ import annotations

import calendar
import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

# All ready for so long before NotBefore: then somebody approves, no matter which process is killed meanwhile. A watcher asks its
# gate every five seconds, and each process is down for some seconds.
MARGIN = 45_000
SERVER_LINE = re.compile(r"(\d+) (?:\S+ )?([0-9A-Fa-f-]{36}) of .*? (appears, Scheduled|is approved|is Started|has ended)")


@dataclass
class Event:
    """What is known about an event."""

    resources: set[str]
    not_before: int | None = None  # milliseconds, from its last announcement
    approved: int | None = None
    started: int | None = None
    opened: list[int] = field(default_factory=list)  # when a gate said that it may be approved


@dataclass
class Step:
    """A preparation or a recovery. One that was killed has no end."""

    kind: str
    event: str
    begin: int
    end: int | None = None


def seconds(text: str) -> int:
    """RFC 3339 in milliseconds."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")) * 1000


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """All records of a machine, oldest file first. A line that a crash cut off is no record."""
    for file in [*sorted(folder.glob("audit.[0-9]"), reverse=True), folder / "audit"]:
        if not file.exists():
            continue
        for line in file.read_text(errors="replace").splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue


def read_events(folder: Path) -> dict[str, Event]:
    """The events by their ids, from the audit files and the servers' output."""
    events: dict[str, Event] = {}
    for machine in sorted((folder / "machines").iterdir()):
        for record in records(machine):
            if "event_id" not in record:
                continue
            key = record["event_id"].lower()
            if record.get("resources"):
                event = events.setdefault(key, Event({name.lower() for name in record["resources"]}))
                if record.get("not_before"):
                    event.not_before = seconds(record["not_before"])
            if key in events and (record["record"], record.get("phase"), record.get("outcome")) == ("gate", "approve", "open"):
                events[key].opened.append(seconds(record["time"]))
    for log in sorted(folder.glob("server-*.log")):
        for line in log.read_text(errors="replace").splitlines():
            found = SERVER_LINE.match(line)
            if not found or found[2].lower() not in events:
                continue
            event, at = events[found[2].lower()], int(found[1])
            if found[3] == "is approved":
                event.approved = at
            elif found[3] == "is Started":
                event.started = at
    return events


def read_steps(folder: Path) -> dict[str, list[Step]]:
    """The preparations and recoveries of each machine, in the order of their begins."""
    steps: dict[str, list[Step]] = {}
    for machine in sorted((folder / "machines").iterdir()):
        own: list[Step] = []
        running: dict[str, Step] = {}
        file = machine / "hooks"
        lines = file.read_text().splitlines() if file.exists() else []
        for at, what, kind, event, process in (line.split() for line in lines if line.count(" ") == 4):
            if what == "begin":
                running[process] = Step(kind, event.lower(), int(at))
                own.append(running[process])
            elif process in running:
                running.pop(process).end = int(at)
        steps[machine.name.lower()] = own
    return steps


def ready_since(steps: list[Step], event: str, at: int) -> int | None:
    """Since when a machine was ready for an event at this time: the end of its last complete preparation for it, unless it began
    to recover after that."""
    since = None
    for step in sorted(steps, key=lambda step: step.begin):
        if step.begin > at:
            break
        if step.kind == "recover":
            since = None
        elif step.event == event and step.end is not None and step.end <= at:
            since = step.end
    return since


def prepares_again(steps: list[Step], event: str, at: int) -> int | None:
    """When a preparation for the event began that had not ended at this time, because of a crash or at all."""
    begun = None
    for step in steps:
        if step.kind == "prepare" and step.event == event and step.begin <= at:
            begun = None if step.end is not None and step.end <= at else begun or step.begin
    return begun


def check_approvals(events: dict[str, Event], steps: dict[str, list[Step]]) -> Iterator[str]:
    for key, event in sorted(events.items()):
        if event.approved is None:
            continue
        # The audit file has whole seconds.
        if not any(at <= event.approved for at in event.opened):
            yield f"S1: {key} was approved, and no gate had said yes"
        for machine in sorted(event.resources):
            if ready_since(steps.get(machine, []), key, event.approved) is None:
                yield f"S3: {key} was approved, and {machine} was not ready"
                continue
            again = prepares_again(steps[machine], key, event.approved)
            others = event.resources - {machine}
            if again and any(ready_since(steps.get(other, []), key, again) is None for other in others):
                yield f"S2: {key} was approved while {machine} prepared again, which began before all were ready"


def check_limit(events: dict[str, Event], steps: dict[str, list[Step]], limit: int) -> Iterator[str]:
    moments = []
    for machine, own in steps.items():
        for step in own:
            if step.kind == "prepare":
                moments.append((step.begin, 1, machine))
            elif step.end is not None:
                moments.append((step.end, 0, machine))
    out: set[str] = set()
    for at, goes_out, machine in sorted(moments):
        if not goes_out:
            out.discard(machine)
        elif machine not in out:
            out.add(machine)
            if len(out) > limit and not any(out <= event.resources for event in events.values()):
                yield f"S4: at {at} {len(out)} machines were out of service, at most {limit} may be: {' '.join(sorted(out))}"


def check_progress(events: dict[str, Event], steps: dict[str, list[Step]]) -> Iterator[str]:
    for key, event in sorted(events.items()):
        if event.approved is not None or event.started is None or event.not_before is None:
            continue
        since = [ready_since(steps.get(machine, []), key, event.started) for machine in event.resources]
        again = [prepares_again(steps.get(machine, []), key, event.started) for machine in event.resources]
        if all(since) and not any(again):
            time_left = event.not_before - max(at for at in since if at)
            if time_left > MARGIN:
                yield f"L1: {key} was not approved, and all were ready for {time_left / 1000:.0f} s"


def check(folder: Path) -> tuple[list[str], str]:
    """The violations, and one line about what was checked."""
    events, steps = read_events(folder), read_steps(folder)
    limit = json.loads((folder / "run.json").read_text())["limit"]
    found = [*check_approvals(events, steps), *check_limit(events, steps, limit), *check_progress(events, steps)]
    approved = [event for event in events.values() if event.approved]
    forced = sum(event.started is not None and event.approved is None for event in events.values())
    latencies = []
    for key, event in events.items():
        since = [ready_since(steps.get(machine, []), key, event.approved) for machine in event.resources] if event.approved else []
        if since and all(since):
            latencies.append(event.approved - max(at for at in since if at))
    latencies.sort()
    middle = f"; from the last one ready to the approval {latencies[len(latencies) // 2]} ms in the middle" if latencies else ""
    preparations = sum(step.kind == "prepare" for own in steps.values() for step in own)
    return found, (
        f"{len(events)} events of {len(steps)} machines: {len(approved)} approved, {forced} started at NotBefore, "
        f"{preparations} preparations{middle}"
    )


# --- The check of the check.

A, B, C = (f"{number:08}-0000-4000-8000-000000000000" for number in range(3))
EPOCH = 1_700_000_000_000


class Story:
    """Files of a run in which two machines are prepared for one event, and which is right."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[tuple[int, str, str, str, int]]] = {"vm_0": [], "vm_1": [], "vm_2": []}
        self.resources = {A: ["VM_0", "vm_1"]}
        self.open = {A: 20}
        self.server = [(1, A, "appears, Scheduled"), (21, A, "is approved"), (22, A, "is Started"), (24, A, "has ended")]
        self.not_before = {A: 600}
        self.does("vm_0", "prepare", A, 5, 8)
        self.does("vm_1", "prepare", A, 6, 18)
        self.does("vm_0", "recover", A, 25, 26)
        self.does("vm_1", "recover", A, 25, 27)

    def does(self, machine: str, kind: str, event: str, begin: int, end: int | None) -> None:
        process = len(self.hooks[machine]) + 100
        self.hooks[machine].append((begin, "begin", kind, event, process))
        if end is not None:
            self.hooks[machine].append((end, "end", kind, event, process))

    def undo(self, machine: str, index: int) -> None:
        del self.hooks[machine][index]

    def write(self, folder: Path, limit: int = 2) -> None:
        def at(second: int) -> str:
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH // 1000 + second))

        for machine, lines in self.hooks.items():
            own = folder / "machines" / machine
            own.mkdir(parents=True)
            text = [f"{EPOCH + 1000 * begin} {what} {kind} {event} {process}" for begin, what, kind, event, process in sorted(lines)]
            (own / "hooks").write_text("\n".join(text) + "\n")
            audit = [
                {"record": "change", "change": "scheduled", "event_id": event, "resources": names,
                 "not_before": at(self.not_before[event]), "time": at(1)}
                for event, names in self.resources.items()
            ]  # fmt: skip
            audit += [
                {"record": "gate", "event_id": event, "phase": "approve", "outcome": "open", "time": at(when)}
                for event, when in self.open.items()
            ]
            (own / "audit").write_text("".join(json.dumps(record) + "\n" for record in audit) + '{"cut off')
        (folder / "server-0.log").write_text(
            "".join(f"{EPOCH + 1000 * when} Reboot {event} of vm_0 and vm_1 {what}\n" for when, event, what in self.server)
        )
        (folder / "run.json").write_text(json.dumps({"limit": limit}))


def unready(story: Story) -> None:
    story.undo("vm_1", 1)


def late(story: Story) -> None:
    story.server[1] = (17, A, "is approved")
    story.open[A] = 16


def in_service(story: Story) -> None:
    story.does("vm_0", "recover", A, 10, 11)


def recovering(story: Story) -> None:
    story.does("vm_0", "recover", A, 20, None)


def for_another(story: Story) -> None:
    story.hooks["vm_1"] = [(at, what, kind, B, process) for at, what, kind, _, process in story.hooks["vm_1"]]


def without_yes(story: Story) -> None:
    del story.open[A]


def early(story: Story) -> None:
    story.open[A] = 23


def again_too_early(story: Story) -> None:
    story.does("vm_0", "prepare", A, 15, None)


def third(story: Story) -> None:
    story.resources[C] = ["vm_2"]
    story.not_before[C] = 600
    story.does("vm_2", "prepare", C, 10, None)


def missed(story: Story) -> None:
    story.server = [(1, A, "appears, Scheduled"), (600, A, "is Started")]
    story.hooks["vm_0"], story.hooks["vm_1"] = story.hooks["vm_0"][:2], story.hooks["vm_1"][:2]


def again_after(story: Story) -> None:
    story.does("vm_0", "prepare", A, 19, None)


def third_after(story: Story) -> None:
    story.resources[C] = ["vm_2"]
    story.not_before[C] = 600
    story.does("vm_2", "prepare", C, 28, 29)


def self_test() -> int:
    plants = [
        ("nothing", lambda _: None, set()),
        ("prepared again after all were ready", again_after, set()),
        ("a third machine, later", third_after, set()),
        ("a preparation that never ended", unready, {"S3"}),
        ("an approval before the last preparation ended", late, {"S3"}),
        ("a machine that went back into service", in_service, {"S3"}),
        ("a machine that has begun to recover", recovering, {"S3"}),
        ("a preparation for another event", for_another, {"S3"}),
        ("no yes of a gate", without_yes, {"S1"}),
        ("a yes only after the approval", early, {"S1"}),
        ("prepared again before all were ready", again_too_early, {"S2"}),
        ("a machine more than the limit", third, {"S4"}),
        ("all ready and not approved", missed, {"L1"}),
    ]
    failed = 0
    for name, plant, expected in plants:
        with tempfile.TemporaryDirectory() as folder:
            story = Story()
            plant(story)
            story.write(Path(folder), limit=2)
            found, _ = check(Path(folder))
        if {line[:2] for line in found} != expected:
            failed += 1
            print(f"error: {name}: expected {sorted(expected)}, found {found}")
    print(f"{len(plants) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found, summary = check(Path(sys.argv[1]))
    for line in found:
        print(f"error: {line}")
    print(summary)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
