"""The records of a watcher and the steps of a session."""

from datetime import datetime
from typing import Any, ClassVar, Literal, final

from typing_extensions import TypeAlias

from . import Action, Event

_ChangeWord: TypeAlias = Literal[
    "scheduled", "started", "started-without-notice", "rescheduled", "updated", "completed", "cancelled", "ended"
]
_GateWord: TypeAlias = Literal["open", "closed", "another-approves"]
_GateOutcome: TypeAlias = Literal["open", "closed", "another-approves", "last-call"]
_Phase: TypeAlias = Literal["prepare", "approve"]

class Frozen:
    """Fields that cannot be changed; objects compare and hash by their values."""

    __match_args__: ClassVar[tuple[str, ...]] = ...
    def __init__(self, *args: Any, **fields: Any) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __setattr__(self, name: str, value: object) -> None: ...
    def __delattr__(self, name: str) -> None: ...

class _AboutEvent(Frozen):
    """What has the members of an event."""

    @property
    def event_type(self) -> str | None: ...
    @property
    def event_status(self) -> str | None: ...
    @property
    def resource_type(self) -> str | None: ...
    @property
    def resources(self) -> tuple[str, ...] | None: ...
    @property
    def not_before(self) -> datetime | None:
        """The last known one."""
    @property
    def description(self) -> str | None: ...
    @property
    def event_source(self) -> str | None: ...
    @property
    def duration_in_seconds(self) -> int | None: ...
    @property
    def mine(self) -> bool | None:
        """Whether the event affects this machine; None while its name is unknown."""
    @property
    def event(self) -> Event:
        """The event with the members that are known of it."""

class Record(Frozen):
    """One record of a watcher: what the command prints as one line of JSON. Frozen; compared by its values."""

    @property
    def record(self) -> str:
        """The kind of record."""
    def to_dict(self) -> dict[str, Any]:
        """Return the record as the command prints it."""

@final
class EventRecord(_AboutEvent):
    """The members of an event in a record that is about several. Frozen; compared by its values."""

    __match_args__ = (
        "event_id",
        "event_type",
        "event_status",
        "resource_type",
        "resources",
        "not_before",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
    )
    def __init__(
        self,
        event_id: str,
        event_type: str | None = None,
        event_status: str | None = None,
        resource_type: str | None = None,
        resources: tuple[str, ...] | None = None,
        not_before: datetime | None = None,
        description: str | None = None,
        event_source: str | None = None,
        duration_in_seconds: int | None = None,
        mine: bool | None = None,
    ) -> None: ...
    @property
    def event_id(self) -> str: ...
    def to_dict(self) -> dict[str, Any]:
        """Return the members as the command prints them."""

@final
class Change(_AboutEvent, Record):
    """An event changed."""

    __match_args__ = (
        "change",
        "event_id",
        "event_type",
        "event_status",
        "resource_type",
        "resources",
        "not_before",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
        "time",
    )
    def __init__(
        self,
        change: _ChangeWord,
        event_id: str,
        event_type: str | None = None,
        event_status: str | None = None,
        resource_type: str | None = None,
        resources: tuple[str, ...] | None = None,
        not_before: datetime | None = None,
        description: str | None = None,
        event_source: str | None = None,
        duration_in_seconds: int | None = None,
        mine: bool | None = None,
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["change"]: ...
    @property
    def change(self) -> _ChangeWord: ...
    @property
    def event_id(self) -> str: ...
    @property
    def time(self) -> datetime | None: ...

@final
class Decision(_AboutEvent, Record):
    """What the policy decides about an event."""

    __match_args__ = (
        "action",
        "rule",
        "reason",
        "event_id",
        "event_type",
        "event_status",
        "resource_type",
        "resources",
        "not_before",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
        "act_from",
        "time",
    )
    def __init__(
        self,
        action: Action,
        rule: int | None,
        reason: str,
        event_id: str | None = None,
        event_type: str | None = None,
        event_status: str | None = None,
        resource_type: str | None = None,
        resources: tuple[str, ...] | None = None,
        not_before: datetime | None = None,
        description: str | None = None,
        event_source: str | None = None,
        duration_in_seconds: int | None = None,
        mine: bool | None = None,
        act_from: datetime | None = None,
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["decision"]: ...
    @property
    def action(self) -> Action: ...
    @property
    def rule(self) -> int | None:
        """The number of the rule that matched, from 1."""
    @property
    def reason(self) -> str:
        """Why, for people."""
    @property
    def event_id(self) -> str | None: ...
    @property
    def act_from(self) -> datetime | None:
        """The time before which the event is neither prepared for nor approved; None for no such time.

        Always None in a watcher's record.
        """
    @property
    def time(self) -> datetime | None: ...

@final
class Approval(Record):
    """An approval was posted. The status is None if there was no response."""

    __match_args__ = ("event_ids", "status", "events", "time")
    def __init__(
        self,
        event_ids: tuple[str, ...],
        status: int | None,
        events: tuple[EventRecord, ...] = (),
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["approval"]: ...
    @property
    def event_ids(self) -> tuple[str, ...]: ...
    @property
    def status(self) -> int | None: ...
    @property
    def events(self) -> tuple[EventRecord, ...]:
        """The same events in the same order."""
    @property
    def time(self) -> datetime | None: ...

@final
class Prepare(_AboutEvent, Record):
    """A preparation begins, or has ended."""

    __match_args__ = (
        "event_id",
        "outcome",
        "event_type",
        "event_status",
        "resource_type",
        "resources",
        "not_before",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
        "time",
    )
    def __init__(
        self,
        event_id: str,
        outcome: Literal["begun", "ready", "failed", "cancelled", "no-command", "dry-run"],
        event_type: str | None = None,
        event_status: str | None = None,
        resource_type: str | None = None,
        resources: tuple[str, ...] | None = None,
        not_before: datetime | None = None,
        description: str | None = None,
        event_source: str | None = None,
        duration_in_seconds: int | None = None,
        mine: bool | None = None,
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["prepare"]: ...
    @property
    def event_id(self) -> str: ...
    @property
    def outcome(self) -> Literal["begun", "ready", "failed", "cancelled", "no-command", "dry-run"]:
        """``no-command`` if there is no function for it."""
    @property
    def time(self) -> datetime | None: ...

@final
class Gate(_AboutEvent, Record):
    """The gate gave a new answer, or the machine prepares by its last call."""

    __match_args__ = (
        "event_id",
        "phase",
        "outcome",
        "event_type",
        "event_status",
        "resource_type",
        "resources",
        "not_before",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
        "time",
    )
    def __init__(
        self,
        event_id: str,
        phase: _Phase,
        outcome: _GateOutcome,
        event_type: str | None = None,
        event_status: str | None = None,
        resource_type: str | None = None,
        resources: tuple[str, ...] | None = None,
        not_before: datetime | None = None,
        description: str | None = None,
        event_source: str | None = None,
        duration_in_seconds: int | None = None,
        mine: bool | None = None,
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["gate"]: ...
    @property
    def event_id(self) -> str: ...
    @property
    def phase(self) -> _Phase:
        """What it was asked: ``prepare`` before the preparation, ``approve`` before the approval."""
    @property
    def outcome(self) -> _GateOutcome: ...
    @property
    def time(self) -> datetime | None: ...

@final
class Recover(_AboutEvent, Record):
    """A recovery ended. Its event is the one that ended last."""

    __match_args__ = (
        "event_id",
        "outcome",
        "event_ids",
        "event_type",
        "event_status",
        "resource_type",
        "resources",
        "not_before",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
        "time",
    )
    def __init__(
        self,
        event_id: str,
        outcome: Literal["done", "failed", "cancelled", "no-command", "dry-run"],
        event_ids: tuple[str, ...] = (),
        event_type: str | None = None,
        event_status: str | None = None,
        resource_type: str | None = None,
        resources: tuple[str, ...] | None = None,
        not_before: datetime | None = None,
        description: str | None = None,
        event_source: str | None = None,
        duration_in_seconds: int | None = None,
        mine: bool | None = None,
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["recover"]: ...
    @property
    def event_id(self) -> str:
        """The event that ended last."""
    @property
    def outcome(self) -> Literal["done", "failed", "cancelled", "no-command", "dry-run"]:
        """``no-command`` if there is no function for it."""
    @property
    def event_ids(self) -> tuple[str, ...]:
        """All events that the recovery is for, the last one first."""
    @property
    def time(self) -> datetime | None: ...

@final
class PollFailed(Record):
    """A poll failed. It ends no event."""

    __match_args__ = ("cause", "retry_in_ms", "repeated", "time")
    def __init__(
        self,
        cause: str,
        retry_in_ms: int,
        repeated: int = 0,
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["poll-failed"]: ...
    @property
    def cause(self) -> str: ...
    @property
    def retry_in_ms(self) -> int: ...
    @property
    def repeated(self) -> int:
        """How many earlier failures of the same cause were merged into it: nobody read their records in time."""
    @property
    def time(self) -> datetime | None: ...

@final
class Problem(Record):
    """A part of the document is invalid."""

    __match_args__ = ("event", "member", "kind", "line", "column", "offset", "time")
    def __init__(
        self,
        event: int | None,
        member: str | None,
        kind: str,
        line: int | None,
        column: int | None,
        offset: int | None = None,
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["problem"]: ...
    @property
    def event(self) -> int | None:
        """Its index in the document's Events, left-out ones counted; None for the document itself."""
    @property
    def member(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def line(self) -> int | None: ...
    @property
    def column(self) -> int | None: ...
    @property
    def offset(self) -> int | None:
        """The position in bytes, from 0; None in a watcher's record."""
    @property
    def time(self) -> datetime | None: ...

@final
class Untracked(Record):
    """The document has more events than the watcher can follow."""

    __match_args__ = ("own", "others", "time")
    def __init__(
        self,
        own: int,
        others: int,
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["untracked"]: ...
    @property
    def own(self) -> int: ...
    @property
    def others(self) -> int: ...
    @property
    def time(self) -> datetime | None: ...

@final
class Dropped(Record):
    """Records were dropped here, since nobody read them in time."""

    __match_args__ = ("count", "time")
    def __init__(
        self,
        count: int,
        time: datetime | None = None,
    ) -> None: ...
    @property
    def record(self) -> Literal["dropped"]: ...
    @property
    def count(self) -> int:
        """How many."""
    @property
    def time(self) -> datetime | None:
        """Always None."""

@final
class Get(Frozen):
    """Send the GET request."""

    __match_args__ = ("timeout",)
    def __init__(
        self,
        timeout: float,
    ) -> None: ...
    @property
    def timeout(self) -> float:
        """The request's time-out in seconds."""

@final
class Post(Frozen):
    """Send this body with POST."""

    __match_args__ = ("body", "timeout", "event_ids")
    def __init__(
        self,
        body: bytes,
        timeout: float,
        event_ids: tuple[str, ...],
    ) -> None: ...
    @property
    def body(self) -> bytes: ...
    @property
    def timeout(self) -> float:
        """The request's time-out in seconds."""
    @property
    def event_ids(self) -> tuple[str, ...]: ...

@final
class Wait(Frozen):
    """Do nothing before this time."""

    __match_args__ = ("until", "seconds")
    def __init__(
        self,
        until: datetime,
        seconds: float,
    ) -> None: ...
    @property
    def until(self) -> datetime: ...
    @property
    def seconds(self) -> float: ...

@final
class PrepareDue(_AboutEvent):
    """Prepare for the event."""

    __match_args__ = (
        "event_id",
        "attempt",
        "by_last_call",
        "event_type",
        "event_status",
        "resource_type",
        "resources",
        "not_before",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
    )
    def __init__(
        self,
        event_id: str,
        attempt: int,
        by_last_call: bool,
        event_type: str | None = None,
        event_status: str | None = None,
        resource_type: str | None = None,
        resources: tuple[str, ...] | None = None,
        not_before: datetime | None = None,
        description: str | None = None,
        event_source: str | None = None,
        duration_in_seconds: int | None = None,
        mine: bool | None = None,
    ) -> None: ...
    @property
    def event_id(self) -> str: ...
    @property
    def attempt(self) -> int:
        """The number to return with the answer."""
    @property
    def by_last_call(self) -> bool:
        """Whether it is the last call: the gate has not answered yes."""

@final
class GateDue(_AboutEvent):
    """Ask the gate."""

    __match_args__ = (
        "event_id",
        "phase",
        "attempt",
        "event_type",
        "event_status",
        "resource_type",
        "resources",
        "not_before",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
    )
    def __init__(
        self,
        event_id: str,
        phase: _Phase,
        attempt: int,
        event_type: str | None = None,
        event_status: str | None = None,
        resource_type: str | None = None,
        resources: tuple[str, ...] | None = None,
        not_before: datetime | None = None,
        description: str | None = None,
        event_source: str | None = None,
        duration_in_seconds: int | None = None,
        mine: bool | None = None,
    ) -> None: ...
    @property
    def event_id(self) -> str: ...
    @property
    def phase(self) -> _Phase:
        """What it is asked: ``prepare`` before the preparation, ``approve`` before the approval."""
    @property
    def attempt(self) -> int:
        """The number to return with the answer."""

@final
class RecoverDue(_AboutEvent):
    """Recover: take the machine back into service."""

    __match_args__ = (
        "event_id",
        "event_ids",
        "events",
        "own",
        "attempt",
        "event_type",
        "event_status",
        "resource_type",
        "resources",
        "not_before",
        "description",
        "event_source",
        "duration_in_seconds",
        "mine",
    )
    def __init__(
        self,
        event_id: str,
        event_ids: tuple[str, ...],
        events: tuple[Event, ...],
        own: bool,
        attempt: int,
        event_type: str | None = None,
        event_status: str | None = None,
        resource_type: str | None = None,
        resources: tuple[str, ...] | None = None,
        not_before: datetime | None = None,
        description: str | None = None,
        event_source: str | None = None,
        duration_in_seconds: int | None = None,
        mine: bool | None = None,
    ) -> None: ...
    @property
    def event_id(self) -> str:
        """The event that ended last."""
    @property
    def event_ids(self) -> tuple[str, ...]:
        """All events that the recovery is for, the last one first."""
    @property
    def events(self) -> tuple[Event, ...]:
        """The same events in the same order."""
    @property
    def own(self) -> bool:
        """Whether this machine recovers, not another one that a rule covers."""
    @property
    def attempt(self) -> int:
        """The number to return with the answer."""

@final
class Cancel(Frozen):
    """End what runs for this attempt, and report its result as usual: it does not count.

    Until it is reported, nothing else is issued for the event, or for the recovery,
    except a preparation by the last call.
    """

    __match_args__ = ("attempt", "event_id")
    def __init__(
        self,
        attempt: int,
        event_id: str | None,
    ) -> None: ...
    @property
    def attempt(self) -> int: ...
    @property
    def event_id(self) -> str | None:
        """The event of the step that is cancelled."""

@final
class Report(Frozen):
    """A record for people and logs."""

    __match_args__ = ("record",)
    def __init__(
        self,
        record: Change | Decision | Problem | Untracked,
    ) -> None: ...
    @property
    def record(self) -> Change | Decision | Problem | Untracked: ...

_AnyRecord: TypeAlias = (
    Change | Decision | Approval | Prepare | Gate | Recover | PollFailed | Problem | Untracked | Dropped
)

def from_dict(fields: dict[str, Any], **more: Any) -> Any: ...
def due(name: str, fields: dict[str, Any]) -> Any: ...
def event_record(fields: dict[str, Any]) -> Any: ...
