"""Reads the files of a run, for check.py. Times are in milliseconds since 1970."""

from __future__ import annotations

import calendar
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SERVER_LINE = re.compile(
    r"(\d+) (?:\S+ )?([0-9A-Fa-f-]{36}) of .*? (appears, Scheduled|is approved|is Started|has ended)"
)
# Faults that last for ever.
FOR_EVER = {"removed", "terminated"}
PARTS = ("watcher", "daemon", "name")


@dataclass
class Event:
    """What is known about an event."""

    resources: set[str]
    not_before: int | None = None  # from its last announcement
    appeared: int | None = None
    approved: int | None = None
    started: int | None = None
    ended: int | None = None
    opened: list[int] = field(default_factory=list)  # when a gate said that it may be approved
    asked: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # what each gate said about the preparation
    seen: dict[str, int] = field(default_factory=dict)  # when each machine saw it first; again with an empty disk

    def granted(self) -> int | None:
        """When a gate first allowed a preparation."""
        return min(
            (at for answers in self.asked.values() for at, outcome in answers if outcome == "open"), default=None
        )

    def is_over(self, at: int) -> bool:
        return self.ended is not None and self.ended <= at


@dataclass
class Step:
    """A preparation or a recovery, or `lost`: the machine is back with an empty disk. A killed one has no end."""

    kind: str
    event: str
    begin: int
    end: int | None = None


@dataclass
class Fault:
    """A fault of a machine, or of the store."""

    what: str
    begin: int
    end: int

    def hits(self, part: str) -> bool:
        """Whether this part of the machine did not work: the watcher, the daemon with its connection to the store, or
        the name, if another computer had it as well."""
        if self.what in FOR_EVER or self.what == "off":
            return True
        if self.what.startswith(("killed", "stopped")):
            return part in self.what
        if self.what == "late documents":
            return part == "watcher"
        if self.what == "copy":
            return part == "name"
        return part == "daemon"


@dataclass
class History:
    """A run."""

    limit: int
    silent_after: int
    return_within: int
    events: dict[str, Event] = field(default_factory=dict)
    steps: dict[str, list[Step]] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)  # by machine; those of the store have no name

    def of(self, machine: str, part: str) -> list[Fault]:
        """The faults that hit a part of a machine, in the order of their begins."""
        return [fault for fault in self.faults.get(machine, []) if fault.hits(part)]

    def restores(self, until: int) -> list[Fault]:
        """When the store was backed up and restored, up to this time."""
        return [fault for fault in self.faults.get("", []) if fault.what == "restored store" and fault.end <= until]

    def is_calm(self, machines: set[str], begin: int, end: int, parts: tuple[str, ...] = PARTS) -> bool:
        """Whether no fault hit these machines or, if their daemons matter, the store in this time."""
        faults = [fault for machine in machines for part in parts for fault in self.of(machine, part)]
        if "daemon" in parts:
            faults += self.faults.get("", [])
        return not any(fault.begin <= end and fault.end >= begin for fault in faults)


def seconds(text: str) -> int:
    """RFC 3339 in milliseconds."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")) * 1000


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """All records of a machine, oldest first, also those of lost disks. A line that a crash cut off is no record."""
    lost = {int(file.name.split("-")[2].split(".")[0]) for file in folder.glob("audit-lost-*")}
    for stem in [*(f"audit-lost-{number}" for number in sorted(lost)), "audit"]:
        for file in [*sorted(folder.glob(f"{stem}.[0-9]"), reverse=True), folder / stem]:
            if not file.exists():
                continue
            for line in file.read_text(errors="replace").splitlines():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError:
                    continue


def read_audits(folder: Path, events: dict[str, Event]) -> None:
    for machine in sorted((folder / "machines").iterdir()):
        own = machine.name.lower()
        for record in records(machine):
            if "event_id" not in record:
                continue
            key = record["event_id"].lower()
            if record.get("resources"):
                event = events.setdefault(key, Event({name.lower() for name in record["resources"]}))
                if record.get("not_before"):
                    event.not_before = seconds(record["not_before"])
            if key not in events:
                continue
            event, at = events[key], seconds(record["time"])
            if (record["record"], record.get("change")) == ("change", "scheduled"):
                event.seen[own] = at
            elif record["record"] == "gate" and record["phase"] == "prepare":
                event.asked.setdefault(own, []).append((at, record["outcome"]))
            elif record["record"] == "gate" and record["outcome"] == "open":
                event.opened.append(at)


def read_copies(folder: Path, events: dict[str, Event]) -> None:
    """The gate of a copy of a machine may say yes, too."""
    for copy in sorted((folder / "copies").glob("*")):
        for record in records(copy):
            key = record.get("event_id", "").lower()
            said = (record["record"], record.get("phase"), record.get("outcome"))
            if said == ("gate", "approve", "open") and key in events:
                events[key].opened.append(seconds(record["time"]))


def read_servers(folder: Path, events: dict[str, Event]) -> None:
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
            elif found[3] == "has ended":
                event.ended = at
            else:
                event.appeared = at


def read_steps(file: Path, faults: list[Fault]) -> list[Step]:
    """The preparations and recoveries of a machine, and when it lost its disk, in the order of their begins."""
    own = [Step("lost", "", fault.begin) for fault in faults if fault.what == "lost disk"]
    running: dict[str, Step] = {}
    lines = file.read_text().splitlines() if file.exists() else []
    for at, what, kind, event, process in (line.split() for line in lines if line.count(" ") == 4):
        if what == "begin":
            running[process] = Step(kind, event.lower(), int(at))
            own.append(running[process])
        elif process in running:
            running.pop(process).end = int(at)
    return sorted(own, key=lambda step: step.begin)


def read(folder: Path) -> History:
    facts = json.loads((folder / "run.json").read_text())
    history = History(facts["limit"], facts["silent_after"] * 1000, facts["return_within"] * 1000)
    for line in (folder / "faults").read_text().splitlines():
        fault = json.loads(line)
        end = 1 << 62 if fault["what"] in FOR_EVER else fault["end"]
        own = history.faults.setdefault(fault["machine"].lower(), [])
        own.append(Fault(fault["what"], fault["begin"], end))
    read_audits(folder, history.events)
    read_copies(folder, history.events)
    read_servers(folder, history.events)
    for machine in sorted((folder / "machines").iterdir()):
        name = machine.name.lower()
        history.steps[name] = read_steps(machine / "hooks", history.faults.get(name, []))
    return history
