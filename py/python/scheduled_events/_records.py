"""The records of a watcher and the steps of a session, as frozen objects.

The native part has the one definition of a record's members; the classes below add positions, defaults and, for
help(), what each field is.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone

from . import _native
from ._words import Action

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TIMES = frozenset({"not_before", "time"})
_LISTS = frozenset({"event_ids", "resources"})
_FIELDS = {
    "act_from": "The time before which the event is neither prepared for nor approved; None for no such time.",
    "action": "What is done: an Action.",
    "attempt": "The number to return with the answer.",
    "body": "The body to send.",
    "by_last_call": "Whether it is the last call: the gate has not answered yes.",
    "cause": "Why, as a word: ``timeout``, ``unreachable``, ``status-503``.",
    "change": "What happened, as a word: ``scheduled``, ``started``, ``rescheduled``, ``completed``, ``cancelled``.",
    "column": "The column in characters, from 1.",
    "count": "How many.",
    "description": "Azure's description of the event.",
    "duration_in_seconds": "The expected length of the interruption in seconds; None if it is unknown.",
    "event_id": "The event's id.",
    "event_ids": "The ids of the events, of a recovery the last one first.",
    "event_source": "Who caused the event.",
    "event_status": "The event's progress.",
    "event_type": "The expected impact.",
    "event": "Its index in the document's Events, left-out ones counted; None for the document itself.",
    "events": "The events, in the order of ``event_ids``.",
    "kind": "What is wrong, as a word.",
    "line": "The line, from 1.",
    "member": "The JSON name of the member; None for the event or the document.",
    "mine": "Whether the event affects this machine; None while its name is unknown.",
    "not_before": "The earliest start without an approval, as last known: an aware datetime in UTC, or None.",
    "offset": "The position in bytes, from 0; None in a watcher's record.",
    "others": "Other machines' events that are not followed.",
    "outcome": "The result, as a word.",
    "own": "Of a recovery, whether this machine recovers; else this machine's events that are not followed.",
    "phase": "What the gate is asked: ``prepare`` before the preparation, ``approve`` before the approval.",
    "reason": "Why, for people.",
    "record": "The record.",
    "repeated": "How many earlier failures of the same cause were merged into it: nobody read their records in time.",
    "resource_type": "``VirtualMachine``.",
    "resources": "The names of the machines that the event affects; None if they are unknown.",
    "retry_in_ms": "Milliseconds until the next poll.",
    "rule": "The number of the rule that matched, from 1; None if none did.",
    "seconds": "How many seconds that is from now.",
    "status": "The status of the response; None if there was none.",
    "time": "When it was made: an aware datetime in UTC.",
    "timeout": "The request's time-out in seconds.",
    "until": "The time to wait for.",
}


class _Signature:
    """The signature of a class, made when it is asked for: inspect takes long to import."""

    def __get__(self, _: object, owner: type[Frozen]) -> Any:
        import inspect  # noqa: PLC0415

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = {name: owner._defaults.get(name, inspect.Parameter.empty) for name in owner.__match_args__}
        return inspect.Signature([inspect.Parameter(name, kind, default=default[name]) for name in default])


class Frozen:
    """Fields that cannot be changed; objects compare and hash by their values."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()
    __signature__ = _Signature()
    _defaults: dict[str, Any] = {}  # noqa: RUF012 - constant

    def __init__(self, *args: Any, **fields: Any) -> None:
        names = self.__match_args__
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} fields, not {len(args)}")
        for name, value in zip(names, args):
            if name in fields:
                raise TypeError(f"{type(self).__name__} got the field {name!r} twice")
            fields[name] = value
        for name in names:
            if name not in fields and name not in self._defaults:
                raise TypeError(f"{type(self).__name__} lacks the field {name!r}")
            value = fields.pop(name) if name in fields else self._defaults[name]
            object.__setattr__(self, name, value)
        if fields:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(fields))!r}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frozen) or type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()


_MEMBERS = _native._record_members()


class _AboutEvent(Frozen):
    """What has the members of an event."""

    __slots__ = ()

    @property
    def event(self) -> Any:
        """The event with the members that are known of it."""
        if self.event_id is None:  # type: ignore[attr-defined]
            return None
        members = {name: _plain(getattr(self, name)) for name in _MEMBERS["event"]}
        return _native._event_of_record(json.dumps(members))


class _Members(_AboutEvent):
    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the members as the command prints them."""
        return {name: _plain(getattr(self, name)) for name in self.__match_args__}


EventRecord: Any = type(
    "EventRecord",
    (_Members,),
    {
        "__slots__": {name: _FIELDS[name] for name in _MEMBERS["event"]},
        "__doc__": "The members of an event in a record that is about several.",
        "__module__": "scheduled_events",
        "__match_args__": _MEMBERS["event"],
        "_defaults": dict.fromkeys(name for name in _MEMBERS["event"] if name != "event_id"),
    },
)


class Record(Frozen):
    """One record of a watcher: what the command prints as one line of JSON."""

    __slots__ = ()
    record = ""
    _members: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the record as the command prints it."""
        fields = {"record": self.record, **{name: _plain(getattr(self, name)) for name in self._members}}
        if self.time is not None:  # type: ignore[attr-defined]
            fields["time"] = _plain(self.time)  # type: ignore[attr-defined]
        return fields


def _record(kind: str, about: str, *, first: str = "", more: str = "", defaults: dict[str, Any] | None = None) -> Any:
    """Make the class for a kind of record.

    Its fields are the record's members, those of ``first`` before the others; then ``more``, which are not part of the
    record, and ``time``.
    """
    members = _MEMBERS[kind]
    about_event = set(_MEMBERS["event"]) <= set(members)
    unknown = [name for name in _MEMBERS["event"] if about_event and name != "event_id"]
    others = (name for name in members if name not in first.split())
    fields = (*first.split(), *others, *more.split(), "time")
    return type(
        "".join(word.title() for word in kind.split("-")),
        (Record, _AboutEvent) if about_event else (Record,),
        {
            "__slots__": {name: _FIELDS.get(name, "") for name in fields},
            "__doc__": about,
            "__module__": "scheduled_events",
            "__match_args__": fields,
            "record": kind,
            "_members": members,
            "_defaults": {**dict.fromkeys((*unknown, *more.split(), "time")), **(defaults or {})},
        },
    )


Change = _record("change", "An event changed.")
Decision = _record(
    "decision",
    "What the policy decides about an event.",
    first="action rule reason",
    more="act_from",
    defaults={"event_id": None},
)
Approval = _record(
    "approval", "An approval was posted. The status is None if there was no response.", defaults={"events": ()}
)
Prepare = _record("prepare", "A preparation begins, or has ended.")
Gate = _record("gate", "The gate gave a new answer, or the machine prepares by its last call.")
Recover = _record(
    "recover",
    "A recovery ended. Its event is the one that ended last.",
    first="event_id outcome",
    defaults={"event_ids": ()},
)
PollFailed = _record("poll-failed", "A poll failed. It ends no event.", more="repeated", defaults={"repeated": 0})
Problem = _record("problem", "A part of the document is invalid.", more="offset")
Untracked = _record("untracked", "The document has more events than the watcher can follow.")

_KINDS = (Change, Decision, Approval, Prepare, Gate, Recover, PollFailed, Problem, Untracked)
_RECORDS = {kind.record: kind for kind in _KINDS}

# Only a reader in this process can miss records, so the command has no such record.
_MEMBERS["dropped"] = ("count",)
Dropped = _record("dropped", "Records were dropped here, since nobody read them in time.")


def _step(name: str, about: str, fields: str, *, about_event: bool = False) -> Any:
    """Make the class for a step; one about an event has the event's members after ``fields``."""
    first = fields.split()
    names = (*first, *(name for name in _MEMBERS["event"] if about_event and name not in first))
    body = {
        "__slots__": {name: _FIELDS[name] for name in names},
        "__doc__": about,
        "__module__": "scheduled_events",
        "__match_args__": names,
        "_defaults": dict.fromkeys(name for name in names if name not in first),
    }
    return type(name, (_AboutEvent if about_event else Frozen,), body)


Get = _step("Get", "Send the GET request.", "timeout")
Post = _step("Post", "Send this body with POST.", "body timeout event_ids")
Wait = _step("Wait", "Do nothing before this time.", "until seconds")
PrepareDue = _step("PrepareDue", "Prepare for the event.", "event_id attempt by_last_call", about_event=True)
GateDue = _step("GateDue", "Ask the gate.", "event_id phase attempt", about_event=True)
RecoverDue = _step(
    "RecoverDue",
    "Recover: take the machine back into service. Its event is the one that ended last.",
    "event_id event_ids events own attempt",
    about_event=True,
)
Cancel = _step("Cancel", "End what runs for this attempt, and report its result as usual.", "attempt event_id")
Report = _step("Report", "A record for people and logs.", "record")

Record.__module__ = "scheduled_events"


def from_dict(fields: dict[str, Any], **more: Any) -> Any:
    """Make the record of a dictionary as the command prints it, and of fields that are not part of the record."""
    kind = _RECORDS[fields.pop("record")]
    _read(fields)
    if "action" in fields:
        fields["action"] = Action(fields["action"])
    if "events" in fields:
        fields["events"] = tuple(EventRecord(**_read(dict(event))) for event in fields["events"])
    return kind(**fields, **more)


def due(name: str, fields: dict[str, Any]) -> Any:
    """Make the step of this name from fields as JSON has them."""
    kinds = {"PrepareDue": PrepareDue, "GateDue": GateDue, "RecoverDue": RecoverDue}
    return kinds[name](**_read(fields))


def event_record(fields: dict[str, Any]) -> Any:
    """Make the EventRecord of members as JSON has them."""
    return EventRecord(**_read(fields))


def _read(fields: dict[str, Any]) -> dict[str, Any]:
    """Make times and tuples of what JSON has instead."""
    for name in _TIMES.intersection(fields):
        if fields[name] is not None:
            fields[name] = _datetime(fields[name])
    for name in _LISTS.intersection(fields):
        if fields[name] is not None:
            fields[name] = tuple(fields[name])
    return fields


def _datetime(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, OverflowError):
        # A year that Python does not have.
        return None


def _plain(value: datetime | tuple[str | _Members, ...] | str | int | None) -> object:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, tuple):
        return [item.to_dict() if isinstance(item, _Members) else item for item in value]
    return str(value) if isinstance(value, str) else value
