"""The records of a watcher and the steps of a session, as frozen objects.

A class lists its fields in their order, with types and defaults: type checkers, ``help`` and the page of the Python API
read them here. The native part makes the records; core has the one definition of their members, and a test compares.
"""

from __future__ import annotations

from datetime import datetime, timezone

from . import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Literal, Union, final

    from typing_extensions import TypeAlias, dataclass_transform

    from ._native import Event
    from ._words import Action

    _ChangeWord: TypeAlias = Literal[
        "scheduled",
        "started",
        "started-without-notice",
        "rescheduled",
        "updated",
        "completed",
        "cancelled",
        "ended",
        "advised",
        "advice-withdrawn",
    ]
    _GateWord: TypeAlias = Literal["open", "closed", "another-approves"]
    _GateOutcome: TypeAlias = Literal["open", "closed", "another-approves", "last-call"]
    _Phase: TypeAlias = Literal["prepare", "approve"]
    _WaitsFor: TypeAlias = Literal[
        "document",
        "due-time",
        "gate-to-prepare",
        "preparation",
        "gate-to-approve",
        "turn",
        "approval",
        "start",
        "start-unapproved",
        "start-unprepared",
        "cancelled-command",
        "end",
        "withdrawal",
        "recovery",
    ]
else:
    # Those of typing take longer to import than this package.
    def final(kind):
        return kind

    def dataclass_transform(**_):
        return final


_MEMBERS = _native._record_members()
# What fields are that several classes have.
_ABOUT = {
    "attempt": "The number to return with the answer.",
    "event_id": "The event's id.",
    "event_type": "The expected impact.",
    "event_status": "The event's progress.",
    "resource_type": "``VirtualMachine``.",
    "resources": "The names of the machines that the event affects; None if they are unknown.",
    "not_before": "The earliest start without an approval, as last known: an aware datetime in UTC, or None.",
    "description": "Azure's description of the event.",
    "event_source": "Who caused the event.",
    "duration_in_seconds": "The expected length of the interruption in seconds; None if it is unknown.",
    "mine": "Whether the event affects this machine; None while its name is unknown.",
    "time": "When it was made: an aware datetime in UTC.",
    "machine": "The name of the machine whose watcher made it; None if it is unknown, and in the records of a session.",
    "vm_id": "That machine's vmId; None if the watcher did not ask for it, as without a state file.",
}


# What the short form of a record leaves out: most of the event, and what is the same in every record.
_LONG = frozenset(
    {
        "event_status",
        "resource_type",
        "resources",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
        "events",
        "time",
        "machine",
        "vm_id",
    }
)


class _Field:
    def __init__(self, about: str, default: Any) -> None:
        self.about = about
        self.default = default


def _field(about: str, *, default: Any = ...) -> Any:
    """Say what a field is; without a default it must be given."""
    return _Field(about, default)


def _getter(index: int) -> Callable[[Frozen], Any]:
    return lambda record: record._values[index]


class _Signature:
    """The signature of a class, made when it is asked for: inspect takes long to import."""

    def __get__(self, _: object, owner: type[Frozen]) -> Any:
        import inspect  # noqa: PLC0415

        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        names = owner.__match_args__
        return inspect.Signature(
            [inspect.Parameter(name, kind, default=owner._defaults.get(name, empty)) for name in names]
        )


@dataclass_transform(frozen_default=True, field_specifiers=(_field,))
class Frozen:
    """Fields that cannot be changed; objects compare and hash by their values."""

    __slots__ = ("_values",)
    __match_args__: ClassVar[tuple[str, ...]] = ()
    __signature__ = _Signature()
    _defaults: ClassVar[dict[str, Any]] = {}
    if TYPE_CHECKING:
        _values: tuple[Any, ...]

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            # A class of somebody else has the fields of ours.
            return
        annotations: dict[str, str] = vars(cls).get("__annotations__", {})
        names = [name for name, kind in annotations.items() if not kind.startswith("ClassVar")]
        fields = [vars(cls).get(name, ...) for name in names]
        fields = [
            field if isinstance(field, _Field) else _Field(_ABOUT[name], field) for name, field in zip(names, fields)
        ]
        cls.__match_args__ = tuple(names)  # type: ignore[misc]
        cls._defaults = {name: field.default for name, field in zip(names, fields) if field.default is not ...}
        for index, (name, field) in enumerate(zip(names, fields)):
            setattr(cls, name, property(_getter(index), doc=field.about))
        if not cls.__name__.startswith("_"):
            cls.__module__ = "scheduled_events"

    def __init__(self, *args: Any, **fields: Any) -> None:
        kind, names = type(self).__name__, self.__match_args__
        if len(args) > len(names):
            raise TypeError(f"{kind} takes {len(names)} fields, not {len(args)}")
        by_name, values = names[len(args) :], {**self._defaults, **fields}
        for name in fields:
            if name not in by_name:
                problem = f"got the field {name!r} twice" if name in names else f"has no field {name!r}"
                raise TypeError(f"{kind} {problem}")
        for name in by_name:
            if name not in values:
                raise TypeError(f"{kind} lacks the field {name!r}")
        object.__setattr__(self, "_values", (*args, *(values[name] for name in by_name)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frozen) or type(other) is not type(self):
            return NotImplemented
        return self._values == other._values

    def __hash__(self) -> int:
        return hash((type(self), self._values))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in zip(self.__match_args__, self._values))
        return f"{type(self).__name__}({fields})"

    def __str__(self) -> str:
        """For a log: without what is None or as usual, and of an event with its id, type and NotBefore alone."""
        defaults = self._defaults
        fields = [
            f"{name}={_short(value)}"
            for name, value in zip(self.__match_args__, self._values)
            if name not in _LONG and value is not None and value != defaults.get(name)
        ]
        return f"{type(self).__name__}({', '.join(fields)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values

    def _plain(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: _plain(getattr(self, name)) for name in names}


class _AboutEvent(Frozen):
    """What has the members of an event."""

    __slots__ = ()

    @property
    def event(self) -> Event:
        """The event with the members that are known of it."""
        return _native._event_of_record(self)


class Record(Frozen):
    """One record of a watcher: what the command prints as one line of JSON. Frozen; compared by its values."""

    __slots__ = ()
    record: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as the command prints it."""
        known = [name for name in ("time", "machine", "vm_id") if getattr(self, name, None) is not None]
        return {"record": self.record, **self._plain((*_MEMBERS[self.record], *known))}


@final
class EventRecord(_AboutEvent):
    """The members of an event in a record that is about several. Frozen; compared by its values."""

    __slots__ = ()
    event_id: str
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the members as the command prints them."""
        return self._plain(self.__match_args__)


@final
class Change(_AboutEvent, Record):
    """An event changed."""

    __slots__ = ()
    record: ClassVar[Literal["change"]] = "change"
    change: _ChangeWord = _field(
        "What happened, as a word: ``scheduled``, ``started``, ``rescheduled``, ``completed``, ``cancelled``."
    )
    event_id: str
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class Decision(_AboutEvent, Record):
    """What the policy decides about an event."""

    __slots__ = ()
    record: ClassVar[Literal["decision"]] = "decision"
    action: Action = _field("What is done.")
    rule: int | None = _field("The number of the rule that matched, from 1; None if none did.")
    reason: str = _field("Why, for people.")
    event_id: str | None = None
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None
    act_from: datetime | None = _field(
        "The time before which the event is neither prepared for nor approved; None for no such time, and in a "
        "watcher's record.",
        default=None,
    )
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class Approval(Record):
    """An approval was posted."""

    __slots__ = ()
    record: ClassVar[Literal["approval"]] = "approval"
    event_ids: tuple[str, ...] = _field("The ids of the events.")
    status: int | None = _field("The status of the response; None if there was none.")
    events: tuple[EventRecord, ...] = _field("The same events in the same order.", default=())
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class Prepare(_AboutEvent, Record):
    """A preparation begins, or has ended."""

    __slots__ = ()
    record: ClassVar[Literal["prepare"]] = "prepare"
    event_id: str
    outcome: Literal["begun", "ready", "failed", "abandoned", "cancelled", "no-command", "dry-run"] = _field(
        "The result: ``no-command`` if there is no function for it."
    )
    attempt: int | None = _field("The number of the attempt.", default=None)
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class Gate(_AboutEvent, Record):
    """The gate gave a new answer, or the machine prepares by its last call."""

    __slots__ = ()
    record: ClassVar[Literal["gate"]] = "gate"
    event_id: str
    phase: _Phase = _field("What it was asked: ``prepare`` before the preparation, ``approve`` before the approval.")
    outcome: _GateOutcome = _field("Its answer, or ``last-call``.")
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class Recover(_AboutEvent, Record):
    """A recovery ended. Its event is the one that ended last."""

    __slots__ = ()
    record: ClassVar[Literal["recover"]] = "recover"
    event_id: str = _field("The event that ended last.")
    outcome: Literal["done", "failed", "cancelled", "no-command", "dry-run"] = _field(
        "The result: ``no-command`` if there is no function for it."
    )
    event_ids: tuple[str, ...] = _field("All events that the recovery is for, the last one first.", default=())
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class PollFailed(Record):
    """A poll failed. It ends no event."""

    __slots__ = ()
    record: ClassVar[Literal["poll-failed"]] = "poll-failed"
    cause: str = _field("Why, as a word: ``timeout``, ``unreachable``, ``status-503``.")
    retry_in_ms: int = _field("Milliseconds until the next poll.")
    repeated: int = _field(
        "How many earlier failures of the same cause were merged into it: nobody read their records in time.",
        default=0,
    )
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class Problem(Record):
    """A part of the document is invalid."""

    __slots__ = ()
    record: ClassVar[Literal["problem"]] = "problem"
    event: int | None = _field(
        "Its index in the document's Events, left-out ones counted; None for the document itself."
    )
    member: str | None = _field("The JSON name of the member; None for the event or the document.")
    kind: str = _field("What is wrong, as a word.")
    line: int | None = _field("The line, from 1.")
    column: int | None = _field("The column in characters, from 1.")
    offset: int | None = _field("The position in bytes, from 0; None in a watcher's record.", default=None)
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class Untracked(Record):
    """The document has more events than the watcher can follow."""

    __slots__ = ()
    record: ClassVar[Literal["untracked"]] = "untracked"
    own: int = _field("This machine's events that are not followed.")
    others: int = _field("Other machines' events that are not followed.")
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class NoAdvice(Record):
    """The service does not know the API version that has advice. It is tried again once a day, and reported once."""

    __slots__ = ()
    record: ClassVar[Literal["no-advice"]] = "no-advice"
    api_version: str = _field("The version that the service does not know.")
    time: datetime | None = None
    machine: str | None = None
    vm_id: str | None = None


@final
class Dropped(Record):
    """Records were dropped here, since nobody read them in time."""

    __slots__ = ()
    record: ClassVar[Literal["dropped"]] = "dropped"
    count: int = _field("How many.")
    time: datetime | None = _field("Always None.", default=None)
    machine: str | None = _field("Always None.", default=None)
    vm_id: str | None = _field("Always None.", default=None)


@final
class Get(Frozen):
    """Send the GET request."""

    __slots__ = ()
    timeout: float = _field("The request's time-out in seconds.")
    api_version: str = _field("The version of the API that the request names.")


@final
class Post(Frozen):
    """Send this body with POST."""

    __slots__ = ()
    body: bytes = _field("The body to send.")
    timeout: float = _field("The request's time-out in seconds.")
    event_ids: tuple[str, ...] = _field("The ids of the events.")
    api_version: str = _field("The version of the API that the request names.")


@final
class Wait(Frozen):
    """Do nothing before this time."""

    __slots__ = ()
    until: datetime = _field("The time to wait for, cut to whole seconds; sleep for ``seconds``.")
    seconds: float = _field("How many seconds that is from now.")


@final
class PrepareDue(_AboutEvent):
    """Prepare for the event."""

    __slots__ = ()
    event_id: str
    attempt: int
    by_last_call: bool = _field("Whether it is the last call: the gate has not answered yes.")
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None


@final
class GateDue(_AboutEvent):
    """Ask the gate."""

    __slots__ = ()
    event_id: str
    phase: _Phase = _field("What it is asked: ``prepare`` before the preparation, ``approve`` before the approval.")
    attempt: int
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None


@final
class RecoverDue(_AboutEvent):
    """Recover: take the machine back into service. Its event is the one that ended last."""

    __slots__ = ()
    event_id: str = _field("The event that ended last.")
    event_ids: tuple[str, ...] = _field("All events that the recovery is for, the last one first.")
    events: tuple[Event, ...] = _field("The same events in the same order.")
    own: bool = _field("Whether this machine recovers, not another one that a rule covers.")
    attempt: int
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None


@final
class Waiting(_AboutEvent):
    """What an event waits for, and why. All times are times of day."""

    __slots__ = ()
    event_id: str
    waits_for: _WaitsFor = _field("What has to happen next, as a word of the record `waiting`.")
    since: datetime | None = _field("Since when that runs; None if it does not.")
    until: datetime | None = _field("When it happens at the earliest, or is tried again; None if that is unknown.")
    attempt: int | None = _field("The number of the attempt that runs; None if none does.")
    action: Action | None = _field("What the policy decided; None before the first document after a start.")
    rule: int | None = _field("The number of the rule that decided, from 1; None if no rule did.")
    reason: str | None = _field("Why, in a few words for people.")
    last_call: bool = _field("Whether it prepares, or has prepared, by the last call.")
    event_type: str | None = None
    event_status: str | None = None
    resource_type: str | None = None
    resources: tuple[str, ...] | None = None
    not_before: datetime | None = None
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None
    mine: bool | None = None


@final
class Cancel(Frozen):
    """End what runs for this attempt, and report its result as usual: it does not count.

    Until it is reported, nothing else is issued for the event, or for the recovery,
    except a preparation by the last call.
    """

    __slots__ = ()
    attempt: int
    event_id: str | None = _field("The event of the step that is cancelled.")


@final
class Report(Frozen):
    """A record for people and logs."""

    __slots__ = ()
    record: Change | Decision | Gate | Problem | Untracked | NoAdvice = _field("The record.")


_KINDS = (Change, Decision, Approval, Prepare, Gate, Recover, PollFailed, Problem, Untracked, NoAdvice)
_RECORDS = {kind.record: kind for kind in _KINDS}
# Only a reader in this process can miss records, so the command has no such record.
_MEMBERS["dropped"] = ("count",)
if TYPE_CHECKING:
    _AnyRecord: TypeAlias = Union[
        Change, Decision, Approval, Prepare, Gate, Recover, PollFailed, Problem, Untracked, NoAdvice, Dropped
    ]


def _short(value: object) -> str:
    return str(value) if isinstance(value, (datetime, Frozen)) else repr(value)


def _plain(value: datetime | EventRecord | tuple[EventRecord | str, ...] | str | int | None) -> object:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, EventRecord):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value
