"""What a watch has to say: the command's JSON records, and the steps of a session, as frozen objects."""

from __future__ import annotations

from datetime import datetime, timezone

from ._words import Action

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TIMES = frozenset({"not_before", "time"})


class Frozen:
    """Fields that never change, and compare and hash by their values."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def __init__(self, *args: Any, **fields: Any) -> None:
        names = self.__match_args__
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} fields, not {len(args)}")
        for name, value in zip(names, args, strict=False):
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


class Record(Frozen):
    """One record of a watch: what the command prints as one line of JSON."""

    __slots__ = ()
    record = ""
    _members: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the record as the command prints it."""
        members = {name: _plain(getattr(self, name)) for name in self._members}
        if members["time"] is None:
            del members["time"]
        return {"record": self.record, **members}


def _record(name: str, about: str, members: str, more: tuple[str, ...] = (), order: str = "", **defaults: Any) -> Any:
    members += " time"
    fields = (*(order or members).replace(" time", "").split(), *more, "time")
    defaults = {"time": None, **defaults}
    return type(
        "".join(word.title() for word in name.split("-")),
        (Record,),
        {
            "__slots__": fields,
            "__doc__": about,
            "__module__": "scheduled_events",
            "__match_args__": fields,
            "record": name,
            "_members": tuple(members.split()),
            "_defaults": defaults,
        },
    )


Change = _record(
    "change",
    "An event changed.",
    "change event_id event_type event_status resource_type resources not_before description event_source"
    " duration_in_seconds mine",
)
Decision = _record(
    "decision",
    "What is done about an event, and why.",
    "event_id action rule reason",
    order="action rule reason event_id",
    event_id=None,
)
Approval = _record("approval", "An approval was answered; the status is None without an answer.", "event_ids status")
Prepare = _record(
    "prepare",
    "A preparation ended; as a step of a session, it is due, and the outcome is None.",
    "event_id outcome",
    ("event",),
    outcome=None,
    event=None,
)
Recover = _record(
    "recover",
    "A recovery ended; as a step of a session, it is due, and the outcome is None.",
    "event_id event_ids outcome",
    ("event", "event_ids"),
    order="event_id outcome",
    event_ids=(),
    outcome=None,
    event=None,
)
PollFailed = _record("poll-failed", "A poll failed; nothing ended by that.", "cause retry_in_ms")
Problem = _record("problem", "Something odd in a document.", "event member kind line column", ("offset",), offset=None)
Untracked = _record("untracked", "More events are announced than can be followed.", "own others")

_KINDS = (Change, Decision, Approval, Prepare, Recover, PollFailed, Problem, Untracked)
_RECORDS = {kind.record: kind for kind in _KINDS}


def _step(name: str, about: str, *fields: str) -> Any:
    body = {"__slots__": fields, "__doc__": about, "__module__": "scheduled_events", "__match_args__": fields}
    return type(name, (Frozen,), body)


Get = _step("Get", "Send the GET.", "timeout")
Post = _step("Post", "Send this body with POST.", "body", "timeout", "event_ids")
Wait = _step("Wait", "Nothing to do before this moment.", "until", "seconds")
Report = _step("Report", "Something to tell people.", "record")

Record.__module__ = "scheduled_events"


def from_dict(fields: dict[str, Any]) -> Any:
    """Make the record that a dictionary of the command's form spells."""
    kind = _RECORDS[fields.pop("record")]
    for name in _TIMES.intersection(fields):
        if fields[name] is not None:
            fields[name] = _moment(fields[name])
    for name in ("event_ids", "resources"):
        if fields.get(name) is not None:
            fields[name] = tuple(fields[name])
    if "action" in fields:
        fields["action"] = Action(fields["action"])
    return kind(**fields)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, OverflowError):
        # A year that Python does not know, as an offset from the first or the last one gives it.
        return None


def _plain(value: datetime | tuple[str, ...] | Action | str | int | None) -> object:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Action) else value
