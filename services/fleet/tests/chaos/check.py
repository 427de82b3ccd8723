#!/usr/bin/env python3
"""Checks a run of `services/fleet/tests/chaos/run`: what the gate promises, as far as one sees it from outside.

    check.py FOLDER       check a run; exit code 1 if an invariant is broken
    check.py --self-test  plant violations, and check that each is found

It reads only the files of a run, and shares no code with the gate:

- `machines/NAME/audit*`: the audit files of `scheduled-events watch`; `audit-lost-N*` are those of a lost disk.
- `machines/NAME/hooks`: a line for each begin and end of a preparation or a recovery, with the time in milliseconds.
- `server-*.log`: the output of the replay servers, each line with the time in milliseconds at which it was read.
- `copies/NAME-N/audit`: those of other computers that ran with a machine's configuration and without its state.
- `faults`: the faults of machines and of the store, with their times.
- `run.json`: the smallest limit of the group, and the daemons' times.

The invariants:

S1  An event is approved only after a watcher's gate said yes to it.
S2  When an event is approved, every machine that it names has completed a preparation for it since its last recovery.
    A machine may be preparing again by then, since that is done once more after a crash: but then every other machine
    had been ready before that, so that the decision can have been made before.
S3  Nobody else is approved: a machine that is back in service, or that never prepared.
S4  The gate takes at most `limit` machines out of service together, or those of one event: from the begin of a
    preparation to the end of the recovery. Machines that are silent, or out by a last call that the store knows
    about, count for those that follow.
S5  The same, of machines whose events are over and that have not recovered: their slots were given back too early. Only
    a machine that was away for `return_within` after the event may lose its slot.
S6  An event is not approved after a machine's gate allowed it to prepare again, before it is ready again: the event had
    changed, or its watcher had lost its state. A watcher that was stopped may post later than the gate waits for that.
L1  An event all of whose machines were ready for long enough before NotBefore is approved.
L2  Every machine whose watcher runs has begun to prepare by its last call, whatever else fails.
L3  A slot is not given to a later event while the earliest one that was refused needs it. An event becomes the earliest
    one when another one gets its slots; it reserves the group when its machines ask for the next time.

When the store was restored from a backup, S2, S3 and S6 do not hold for a machine that prepared or recovered between
the backup and the restore, and S4 and S5 do not count one that took its place then, until it is back. S5 does not count
one whose name a copy of it had since, which may give the place back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import history
from history import Event, History, Step

# If all are ready for this long before NotBefore, and no fault hits them or the store in the last
# part, somebody must approve. A watcher asks its gate every five seconds.
MARGIN = 45_000
CALM = 30_000
# From the last call to the begin of the preparation: documents may be late, too.
GRACE = 20_000
LAST_CALL_MAX = 300_000
# From a last call until the store knows about it, and grants to others reflect it.
KNOWN = 15_000
# From the time at which an event is the earliest one that waits, until the group is reserved for
# it.
RESERVED = 15_000
# A refusal of an event that is not the next one counts for this part of its waiting time, at most
# for REFUSED_MAX.
WAITED_PART = 8
REFUSED_MAX = 120_000

# From the time at which a mark is withdrawn, or a place is taken, to what the machine does then.
SETTLED = 5_000


def ready_since(steps: list[Step], event: str, at: int) -> int | None:
    """Since when a machine was ready for an event at this time.

    That is the end of its last complete preparation for it, unless it began to recover, or lost its disk, after that.
    """
    since = None
    for step in steps:
        if step.begin > at:
            break
        if step.kind != "prepare":
            since = None
        elif step.event == event and step.end is not None and step.end <= at:
            since = step.end
    return since


def prepares_again(steps: list[Step], event: str, at: int) -> int | None:
    """When a preparation for the event began that had not ended by this time, or never ended because of a crash."""
    begun = None
    for step in steps:
        if step.kind == "prepare" and step.event == event and step.begin <= at:
            begun = None if step.end is not None and step.end <= at else begun or step.begin
    return begun


def is_late(event: Event, machine: str, at: int) -> bool:
    """Whether a machine is out of service by its last call: the gate has not said yes since."""
    said = [outcome for time, outcome in event.asked.get(machine, []) if time <= at + 1000]
    said = [outcome for outcome in said if outcome in {"open", "last-call"}]
    return bool(said) and said[-1] == "last-call"


def is_restored(run: History, machine: str, key: str, at: int) -> bool:
    """Whether a mark that the machine has withdrawn may have come back from a backup."""
    steps = run.steps.get(machine, [])
    said = run.events[key].asked.get(machine, [])
    times = [step.begin for step in steps] + [time for time, outcome in said if outcome in {"open", "last-call"}]
    ready = [step.end for step in steps if step.kind == "prepare" and step.event == key and step.end is not None]
    return any(
        end <= fault.begin + SETTLED and max(end, fault.begin - SETTLED) < time <= fault.end + SETTLED
        for fault in run.restores(at)
        for end in ready
        for time in times
    )


def is_allowed_again(run: History, machine: str, key: str, event: Event, at: int) -> bool:
    """Whether the gate has allowed the machine to prepare, and it has not done so since."""
    said = [(time, outcome) for time, outcome in event.asked.get(machine, []) if outcome in {"open", "last-call"}]
    said = [(time, outcome) for time, outcome in said if time + 1000 <= at]
    # A yes after a last call allows what was begun by it.
    if not said or "last-call" in (outcome for _, outcome in said[-2:]):
        return False
    allowed = said[-1][0]
    done = [
        step.begin
        for step in run.steps.get(machine, [])
        if step.kind == "prepare" and step.event == key and step.end is not None and step.end <= at
    ]
    if any(begin >= allowed for begin in done):
        return False
    stopped = [fault for name in event.resources for fault in run.of(name, "watcher") if "stopped" in fault.what]
    return not any(fault.begin <= at and fault.end >= allowed for fault in stopped)


def check_approvals(run: History) -> Iterator[str]:
    """S1 to S3, and S6."""
    for key, event in sorted(run.events.items()):
        if event.approved is None:
            continue
        # The audit file has whole seconds.
        if not any(at <= event.approved for at in event.opened):
            yield f"S1: {key} was approved, and no gate had said yes"
        for machine in sorted(event.resources):
            steps = run.steps.get(machine, [])
            if is_restored(run, machine, key, event.approved):
                continue
            if ready_since(steps, key, event.approved) is None:
                yield f"S3: {key} was approved, and {machine} was not ready"
                continue
            again = prepares_again(steps, key, event.approved)
            others = event.resources - {machine}
            if again and any(ready_since(run.steps.get(other, []), key, again) is None for other in others):
                yield f"S2: {key} was approved while {machine} prepared again, which began before all were ready"
            elif is_allowed_again(run, machine, key, event, event.approved):
                yield f"S6: {key} was approved after {machine} was allowed to prepare again"


def moments(run: History) -> list[tuple[int, int, str, str]]:
    """When each machine goes out of service, for which event, and when it is back; returns come first."""
    found = []
    for machine, steps in run.steps.items():
        for step in steps:
            if step.kind == "prepare":
                found.append((step.begin, 1, machine, step.event))
            elif step.kind == "lost":
                found.append((step.begin, 0, machine, ""))
            elif step.end is not None:
                found.append((step.end, 0, machine, ""))
        found += [(fault.begin, 0, machine, "") for fault in run.of(machine, "") if fault.what in history.FOR_EVER]
    return sorted(found)


def silent(run: History, at: int) -> set[str]:
    """The machines that have been silent for long enough to count. A machine that has left does not."""
    since = at - run.silent_after - KNOWN
    names = set()
    for machine in run.steps:
        faults = run.of(machine, "daemon")
        is_there = not any(fault.what == "terminated" and fault.begin <= at for fault in faults)
        # A machine that is silent for at least twice as long may be forgotten by now.
        if is_there and any(since - run.silent_after <= fault.begin <= since and fault.end >= at for fault in faults):
            names.add(machine)
    return names


def is_given_up(run: History, machine: str, event: Event) -> bool:
    """Whether others may have freed a machine's slot: it was away for long enough after the event."""
    if event.ended is None:
        return False
    at = event.ended + run.return_within
    return any(fault.begin <= at <= fault.end for fault in run.of(machine, "daemon"))


def is_place_lost(run: History, machine: str, event: Event, since: int, at: int) -> bool:
    """Whether the place of a machine that is out since this time may be missing in a backup, or a copy gave it back."""
    taken = (since, event.granted() or since)
    for fault in run.restores(at + SETTLED):
        if any(fault.begin - SETTLED <= time <= fault.end + SETTLED for time in taken):
            return True
    copies = [fault for fault in run.of(machine, "name") if fault.what == "copy"]
    return event.is_over(at) and any(since <= fault.end and fault.begin <= at for fault in copies)


def check_limit(run: History) -> Iterator[str]:
    """S4 and S5."""
    out: dict[str, str] = {}
    out_since: dict[str, int] = {}
    late: dict[str, int] = {}
    for at, goes_out, machine, key in moments(run):
        if not goes_out:
            out.pop(machine, None)
            late.pop(machine, None)
            continue
        event = run.events.get(key)
        if machine in out or event is None:
            continue
        if is_late(event, machine, at):
            late.setdefault(machine, at)
            continue
        late.pop(machine, None)
        out[machine], out_since[machine] = key, at
        granted = event.granted() or at
        # What the store knew at the time of the grant.
        known = {
            name
            for name, since in late.items()
            if run.is_calm({name}, since, since + KNOWN) and since + KNOWN < granted
        }
        first = not any(other != machine and its == key for other, its in out.items())
        lost = {
            name
            for name, its in out.items()
            if its in run.events and is_place_lost(run, name, run.events[its], out_since[name], at)
        }
        counts = (set(out) - lost) | (known | silent(run, granted) if first else set())

        def fits(names: set[str]) -> bool:
            return len(names) <= run.limit or any(names <= one.resources for one in run.events.values())

        over = {name for name, its in out.items() if its in run.events and run.events[its].is_over(at)}
        given_up = {name for name in over if is_given_up(run, name, run.events[out[name]])}
        if fits(counts - given_up):
            continue
        names = " ".join(sorted(counts))
        if fits(counts - over):
            yield f"S5: at {at} {machine} got a slot, and these had not recovered: {' '.join(sorted(over - given_up))}"
        else:
            yield f"S4: at {at} {len(counts)} machines were out of service, at most {run.limit} may be: {names}"


def check_approval(run: History) -> Iterator[str]:
    """L1."""
    for key, event in sorted(run.events.items()):
        if event.approved is not None or event.started is None or event.not_before is None:
            continue
        since = [ready_since(run.steps.get(machine, []), key, event.started) for machine in event.resources]
        again = [prepares_again(run.steps.get(machine, []), key, event.started) for machine in event.resources]
        ready = [at for at in since if at is not None]
        if len(ready) < len(since) or any(again):
            continue
        if any(is_late(event, machine, event.started) for machine in event.resources):
            continue
        time_left = event.not_before - max(ready)
        if time_left > MARGIN and run.is_calm(event.resources, event.not_before - CALM, event.not_before):
            yield f"L1: {key} was not approved, and all were ready for {time_left / 1000:.0f} s"


def check_last_calls(run: History) -> Iterator[str]:
    """L2."""
    for key, event in sorted(run.events.items()):
        for machine in sorted(event.resources & event.seen.keys()):
            if event.not_before is None:
                continue
            seen = event.seen[machine]
            notice = event.not_before - seen
            until = event.not_before - min(LAST_CALL_MAX, notice // 2) + GRACE
            gone = min((at for at in (event.approved, event.started, event.ended) if at is not None), default=None)
            # Another machine's approval ends the wait, too.
            if notice < 2 * GRACE or (gone is not None and gone <= until):
                continue
            if not run.is_calm({machine}, until - 2 * GRACE, until, parts=("watcher",)):
                continue
            steps = run.steps.get(machine, [])
            if not any(step.kind == "prepare" and step.event == key and step.begin <= until for step in steps):
                yield f"L2: {machine} had not begun to prepare for {key} by its last call"


def waiting(event: Event, at: int) -> bool:
    """Whether an event waits: it was refused, and nobody prepares for it."""
    if event.appeared is None or event.appeared > at or event.not_before is None or event.not_before <= at:
        return False
    if any(time is not None and time <= at for time in (event.started, event.ended)):
        return False
    said = [outcome for answers in event.asked.values() for time, outcome in answers if time <= at]
    return "closed" in said and "open" not in said and "last-call" not in said


def check_order(run: History) -> Iterator[str]:
    """L3."""
    for key, event in sorted(run.events.items()):
        granted = event.granted()
        if granted is None or event.not_before is None:
            continue

        def earliest_at(at: int) -> tuple[int, str] | None:
            others = [(one.not_before or 0, name) for name, one in run.events.items() if waiting(one, at)]
            return min(others, default=None)

        earliest = earliest_at(granted - 1000)
        if earliest is None or earliest >= (event.not_before, key):
            continue
        first = run.events[earliest[1]]
        since = min(at for answers in first.asked.values() for at, outcome in answers if outcome == "closed")
        if earliest_at(granted - RESERVED - min(REFUSED_MAX, (granted - since) // WAITED_PART)) != earliest:
            continue
        known = first.asked.keys() | event.asked.keys()
        is_settled = since <= granted - CALM and first.resources <= first.asked.keys()
        if not is_settled or not run.is_calm(known, granted - CALM, granted):
            continue
        out = {
            machine
            for machine, steps in run.steps.items()
            for last in [[step for step in steps if step.begin <= granted][-1:]]
            if last and last[0].kind == "prepare"
        }
        if len(out | first.resources | event.resources) > run.limit:
            yield f"L3: {key} got slots, and {earliest[1]} was refused before, is earlier, and needs them"


def check(folder: Path) -> tuple[list[str], str]:
    """The violations, and one line that summarizes the checks."""
    run = history.read(folder)
    found = [*check_approvals(run), *check_limit(run), *check_approval(run), *check_last_calls(run), *check_order(run)]
    approved = [(key, event) for key, event in run.events.items() if event.approved is not None]
    forced = sum(event.started is not None and event.approved is None for event in run.events.values())
    latencies = []
    for key, event in approved:
        assert event.approved is not None
        since = [ready_since(run.steps.get(machine, []), key, event.approved) for machine in event.resources]
        ready = [at for at in since if at is not None]
        if len(ready) == len(since):
            latencies.append(event.approved - max(ready))
    latencies.sort()
    middle = latencies[len(latencies) // 2] if latencies else 0
    preparations = sum(step.kind == "prepare" for steps in run.steps.values() for step in steps)
    late = sum(
        outcome == "last-call" for event in run.events.values() for said in event.asked.values() for _, outcome in said
    )
    return found, (
        f"{len(run.events)} events, {len(approved)} approved, {forced} started at NotBefore, "
        f"{preparations} preparations, {late} last calls; "
        f"from the last one ready to the approval {middle} ms in the middle"
    )


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        from stories import self_test

        return self_test(check)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found, summary = check(Path(sys.argv[1]))
    for line in found:
        print(f"error: {line}")
    print(summary)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
