"""Azure Scheduled Events: read, track, decide, approve."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from types import TracebackType
from typing import Any, ClassVar, Literal, TypeAlias, final, overload

from typing_extensions import Self

from . import aio as aio

__version__: str

_Moment: TypeAlias = datetime | float
_Names: TypeAlias = str | Iterable[str]
_Policy: TypeAlias = Policy | str | os.PathLike[str]
_Worker: TypeAlias = Callable[[Event], object]
_Duration: TypeAlias = int | str | timedelta

# --- words

class EventType(str, Enum):
    """The impact that an event will have."""

    FREEZE = "Freeze"
    REBOOT = "Reboot"
    REDEPLOY = "Redeploy"
    PREEMPT = "Preempt"
    TERMINATE = "Terminate"

class EventStatus(str, Enum):
    """How far an event has come. One that is over is absent from the document."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"

class EventSource(str, Enum):
    """Who caused an event."""

    PLATFORM = "Platform"
    USER = "User"

class Action(str, Enum):
    """What is done about an event."""

    APPROVE = "approve"
    PREPARE = "prepare"
    HOLD = "hold"
    IGNORE = "ignore"

# --- errors

class Error(Exception):
    """The base of all errors of this package."""

    def __init__(self, message: str, **details: object) -> None: ...

class ParseError(Error, ValueError):
    """The bytes are no Scheduled Events document."""

    kind: str
    """What is wrong, as a word: ``unexpected-byte``."""
    offset: int
    """The byte at which it is wrong, from 0; a str's bytes are those of its UTF-8."""
    line: int
    """The line, from 1."""
    column: int
    """The column in characters, from 1."""

class EndpointError(Error):
    """The metadata service could not be reached, or refused."""

    status: int | None
    """The status of the answer, where there was one."""
    cause: str | None
    """Why there was no answer, as a word: ``timeout``, ``unreachable``."""

class PolicyError(Error, ValueError):
    """A policy's text is refused."""

    line: int | None
    """The line, from 1, where the text has one to name."""
    column: int | None
    """The column, from 1."""

class ConfigError(Error, ValueError):
    """An option is out of its range."""

class StateError(Error):
    """The state file cannot be used."""

class SnapshotError(Error, ValueError):
    """The bytes are no session's snapshot."""

class CapacityError(Error):
    """A document holds more events than a tracker."""

    needed: int
    """How many it holds."""

# --- reading

def parse(data: bytes | bytearray | memoryview | str, /) -> Document:
    """Read a document, as the metadata service gives it. Raises ParseError.

    Texts are made only when they are read. What is odd in one event is among the document's problems.
    """

def loads(data: bytes | bytearray | memoryview | str, /) -> Document:
    """Read a document: ``parse``, under the name that scripts written for ``json`` look for."""

@final
class Document(Mapping[str, Any]):
    """A Scheduled Events document, checked once.

    Items by the wire's names (``document["Events"]``) give what a script written for ``json.loads`` expects.
    """

    __match_args__: ClassVar[tuple[str, str]] = ...
    @property
    def incarnation(self) -> int | str | None:
        """Changes with every change of the document; good for equality, for nothing else."""
    @property
    def events(self) -> tuple[Event, ...]:
        """The events, in the document's order; those without an id of their own are left out, and are problems."""
    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is odd in the document."""
    def concerns(self, vm_names: _Names) -> bool:
        """Tell whether an event of the document concerns one of these names."""
    @overload
    def __getitem__(self, key: Literal["Events"], /) -> list[Event]: ...
    @overload
    def __getitem__(self, key: str, /) -> Any: ...
    def get(self, key: str, default: Any = None, /) -> Any:
        """Give the member of this name on the wire, or the default."""
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Event(Mapping[str, Any]):
    """One event: a maintenance, an eviction or a deletion of one or more virtual machines.

    Attributes give what the document means; what it does not say, or says unreadably, is None. Items by the wire's
    names (``event["EventId"]``) give what ``json.loads`` would have given.
    """

    __match_args__: ClassVar[tuple[str, str, str]] = ...
    @property
    def event_id(self) -> str:
        """The event's id: opaque; compare it without ASCII case, echo it unchanged."""
    @property
    def event_type(self) -> EventType | str | None:
        """The impact to expect; a word that this package does not know is a plain text."""
    @property
    def event_status(self) -> EventStatus | str | None:
        """How far the event has come."""
    @property
    def event_source(self) -> EventSource | str | None:
        """Who caused the event."""
    @property
    def resource_type(self) -> str | None:
        """``VirtualMachine`` so far."""
    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the machines concerned; empty where the document names none."""
    @property
    def not_before(self) -> datetime | None:
        """The moment before which the event does not start unless it is approved: aware, in UTC."""
    @property
    def description(self) -> str | None:
        """A sentence about the event."""
    @property
    def duration_in_seconds(self) -> int | None:
        """How many seconds the interruption is expected to last; None where it is unknown (-1 on the wire)."""
    def concerns(self, vm_names: _Names) -> bool:
        """Tell whether one of these names stands among the resources, compared whole and without ASCII case."""
    def __getitem__(self, key: str, /) -> Any: ...
    def get(self, key: str, default: Any = None, /) -> Any:
        """Give the member of this name on the wire, or the default."""
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

# --- records and steps

class Record:
    """One record of a watch: what the command prints as one line of JSON. Frozen; compared by its values."""

    __match_args__: ClassVar[tuple[str, ...]] = ...
    record: str
    """The record's kind, as the command spells it."""
    def __init__(self, *args: Any, **fields: Any) -> None: ...
    def to_dict(self) -> dict[str, Any]:
        """Give the record as the command prints it."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __setattr__(self, name: str, value: object) -> None: ...
    def __delattr__(self, name: str) -> None: ...

class Change(Record):
    """An event changed."""

    @property
    def change(self) -> str:
        """Give ``scheduled``, ``started``, ``rescheduled``, ``completed``, ``cancelled`` and so on."""
    @property
    def event_id(self) -> str: ...
    @property
    def event_type(self) -> str | None: ...
    @property
    def event_status(self) -> str | None: ...
    @property
    def not_before(self) -> datetime | None:
        """The last start that was known."""
    @property
    def mine(self) -> bool | None:
        """Whether it concerns this machine; None while its name is unknown."""
    @property
    def time(self) -> datetime:
        """When the change was seen."""

class Decision(Record):
    """What is done about an event, and why."""

    @property
    def action(self) -> Action: ...
    @property
    def rule(self) -> int | None:
        """The rule that says so, from 1."""
    @property
    def reason(self) -> str:
        """Why, for a person."""
    @property
    def event_id(self) -> str: ...

class Approval(Record):
    """An approval was answered; the status is None without an answer."""

    @property
    def event_ids(self) -> tuple[str, ...]: ...
    @property
    def status(self) -> int | None: ...

class Prepare(Record):
    """A preparation ended; as a step of a session, it is due, and the outcome is None."""

    @property
    def event_id(self) -> str: ...
    @property
    def outcome(self) -> str | None:
        """``ready``, ``failed``, or ``no-command`` where nothing prepares."""
    @property
    def event(self) -> Event | None:
        """The event, in a step."""

class Recover(Record):
    """A recovery ended; as a step of a session, it is due, and the outcome is None."""

    @property
    def event_id(self) -> str: ...
    @property
    def outcome(self) -> str | None:
        """``done``, ``failed``, or ``no-command`` where nothing recovers."""
    @property
    def event(self) -> Event | None:
        """The event, in a step."""

class PollFailed(Record):
    """A poll failed; nothing ended by that."""

    @property
    def cause(self) -> str: ...
    @property
    def retry_in_ms(self) -> int: ...

class Problem(Record):
    """Something odd in a document."""

    @property
    def event(self) -> int | None:
        """Its place in the document's Events, left-out ones counted; None for the document itself."""
    @property
    def member(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...
    @property
    def offset(self) -> int | None:
        """The byte, from 0; None in a watch's record."""

class Untracked(Record):
    """More events are announced than can be followed."""

    @property
    def own(self) -> int: ...
    @property
    def others(self) -> int: ...

class _Step:
    __match_args__: ClassVar[tuple[str, ...]] = ...
    def __init__(self, *args: Any, **fields: Any) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Get(_Step):
    """Send the GET."""

    @property
    def timeout(self) -> float:
        """How long the request may take, in seconds."""

class Post(_Step):
    """Send this body with POST."""

    @property
    def body(self) -> bytes: ...
    @property
    def timeout(self) -> float:
        """How long the request may take, in seconds."""
    @property
    def event_ids(self) -> tuple[str, ...]: ...

class Wait(_Step):
    """Nothing to do before this moment."""

    @property
    def until(self) -> datetime: ...
    @property
    def seconds(self) -> float: ...

class Report(_Step):
    """Something to tell people."""

    @property
    def record(self) -> Change | Decision | Problem | Untracked: ...

_AnyRecord: TypeAlias = Change | Decision | Approval | Prepare | Recover | PollFailed | Problem | Untracked

# --- deciding

@final
class Tracker:
    """Remembers the events of the last document, and tells what the next one changes. It holds 1024 events."""

    def __new__(cls, vm_names: _Names | None = None, *, api_version: str = "2020-07-01") -> Self: ...
    def observe(self, document: Document, now: _Moment | None = None) -> list[Change]:
        """Take a document and give the changes since the last one. Raises CapacityError, and then changes nothing.

        Give it documents only: a failed poll, an empty body or a 304 says nothing, so it ends nothing.
        """
    def approved(self, event_id: str) -> bool:
        """Note that an approval succeeded, by which ``cancelled`` and ``ended`` are told apart."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

@final
class Rule:
    """One rule of a policy: what it matches, and what is done.

    ``event`` and ``source`` are one word or several, None for all. Durations are inclusive: seconds, a timedelta, or a
    text such as "2min". Raises PolicyError for words that do not exist.
    """

    __match_args__: ClassVar[tuple[str, str, str]] = ...
    def __new__(
        cls,
        action: str,
        *,
        event: str | Iterable[str] | None = None,
        source: str | Iterable[str] | None = None,
        min_duration: _Duration | None = None,
        max_duration: _Duration | None = None,
        scope: str = "mine",
    ) -> Self: ...
    @property
    def action(self) -> Action: ...
    @property
    def event(self) -> list[str] | None: ...
    @property
    def source(self) -> list[str] | None: ...
    @property
    def min_duration(self) -> int | None: ...
    @property
    def max_duration(self) -> int | None: ...
    @property
    def scope(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Policy:
    """Rules in order, of which the first that matches decides.

    Some things no rule can change: only Scheduled events are approved, none with a problem in a member that decisions
    rest on, none while this machine's name is unknown, and never another machine's Terminate. ``leader`` says which
    of several machines approves: "first-resource", "everyone", "rank", or ``{"mode": "rank", "take_over_after": 30}``.
    """

    def __new__(cls, rules: Sequence[Rule] = (), leader: str | Mapping[str, Any] | None = None) -> Self: ...
    @staticmethod
    def observe() -> Policy:
        """The policy that never approves anything. It is the default everywhere."""
    @staticmethod
    def sample() -> Policy:
        """The policy of Microsoft's published sample: approve what a user started, and short freezes."""
    @staticmethod
    def from_toml(text: str) -> Policy:
        """Read a policy from TOML. Raises PolicyError with .line and .column."""
    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> Policy:
        """Read a policy from a TOML file. Raises PolicyError, or OSError where the file cannot be read."""
    def to_toml(self) -> str:
        """Give the policy as TOML, as from_toml reads it."""
    def decide(
        self,
        event: Event,
        vm_names: _Names | None = None,
        now: _Moment | None = None,
        *,
        api_version: str = "2020-07-01",
    ) -> Decision:
        """Decide about one event at the moment ``now``, for the machine of these names."""
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def start_requests(events: str | Event | Iterable[str | Event]) -> bytes:
    """Write the body that approves these events: ids, or events themselves."""

@final
class Session:
    """The whole client, without I/O: ask next() what to do, do it, and tell what came of it.

    It keeps the pace of polling, tells changes, decides, says when to prepare, when to approve and when to recover, and
    survives restarts through snapshot() and restore(). ``now`` is everywhere the current time by default.
    """

    def __new__(
        cls,
        policy: _Policy | None = None,
        vm_names: _Names | None = None,
        *,
        interval: float = 1.0,
        dry_run: bool = False,
        seed: int | None = None,
        api_version: str = "2020-07-01",
    ) -> Self: ...
    def next(self, now: _Moment | None = None) -> Get | Post | Wait | Prepare | Recover | Report:
        """Tell what to do now."""
    def on_response(
        self,
        status: int,
        body: bytes | bytearray | memoryview | str | None = None,
        retry_after: float | None = None,
        now: _Moment | None = None,
    ) -> PollFailed | Approval | None:
        """Take the answer to the request under way."""
    def on_failure(self, cause: str | BaseException, now: _Moment | None = None) -> PollFailed | Approval | None:
        """Take note that the request under way got no answer.

        ``cause`` is "timeout", "unreachable", "connection-lost" or "too-large", or the exception that says so.
        """
    def prepared(self, event_id: str, ready: bool = True) -> bool:
        """Answer Prepare. False where no preparation of this event is under way."""
    def recovered(self, event_id: str) -> bool:
        """Answer Recover. False where no recovery of this event is under way."""
    def set_names(self, vm_names: _Names) -> None:
        """Set this machine's names once they are known, or anew."""
    def snapshot(self) -> bytes:
        """Give what a restart must not forget."""
    def restore(self, snapshot: bytes) -> None:
        """Take up where a snapshot left off. Raises SnapshotError for bytes that no session wrote."""
    @property
    def awaits_answer(self) -> bool:
        """Whether a request is under way, whose answer was not fed back yet."""
    @property
    def has_seen_event(self) -> bool:
        """Whether an event was seen, in this run or before the snapshot."""
    @property
    def is_idle(self) -> bool:
        """Whether the newest document announces nothing, and nothing is left to do."""

# --- doing

class Client:
    """A connection to the metadata service; a context manager.

    The endpoint is by default the environment's SCHEDULED_EVENTS_ENDPOINT, or http://169.254.169.254. One that is
    neither that address nor on this machine needs ``allow_endpoint``. Without a ``timeout`` in seconds the first
    request may take 130 and every later one 10.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        api_version: str | None = None,
        timeout: float | None = None,
        vm_names: _Names | None = None,
        allow_endpoint: bool = False,
    ) -> None: ...
    @property
    def endpoint(self) -> str:
        """The endpoint, without a path."""
    def poll(self) -> Document | None:
        """Ask for the document once; None if the body is empty, which does not mean that there are no events.

        Raises EndpointError, or ParseError for a body that is no document.
        """
    def approve(self, events: str | Event | Iterable[str | Event]) -> None:
        """Approve events, so that Azure may start them early, for all the machines they name."""
    def vm_name(self) -> str:
        """Ask for this machine's name, as the resources of its events spell it; the given name, if one was."""
    def watch(
        self,
        policy: _Policy | None = None,
        *,
        prepare: _Worker | None = None,
        recover: _Worker | None = None,
        state: str | os.PathLike[str] | None = None,
        until_idle: bool = False,
        interval: float = 1.0,
        max_polls: int | None = None,
        dry_run: bool = False,
    ) -> Watch:
        """Do the main job: poll, tell changes, decide, prepare, approve, recover. Iterate over its records.

        ``policy`` is a Policy, "observe" (the default: nothing is approved), "sample" or a TOML file's path.
        ``prepare`` and ``recover`` are called with the event, each on a thread of its own beside the polling; False or
        an exception means that it failed, anything else that it is done. ``state`` is a file that a restart takes up.
        """
    def close(self) -> None:
        """End the client's watches; further calls raise Error."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

class Watch:
    """A running watch: an iterator over its records, and a context manager that ends it."""

    def __init__(self, native: Any, prepare: _Worker | None, recover: _Worker | None) -> None: ...
    @property
    def closed(self) -> bool:
        """Whether the watch has ended."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> _AnyRecord: ...
    def close(self) -> None:
        """End the watch: its state is kept, and whoever waits for a record waits no longer.

        A function that prepares or recovers runs on; what it says is no longer heard.
        """
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def __del__(self) -> None: ...

# --- testing

def replay(
    scenario: str | os.PathLike[str],
    *,
    speed: float = 1.0,
    faults: Sequence[str] = (),
    vm_name: str = "WestNO_0",
    listen: str = "127.0.0.1:0",
    seed: int | None = None,
) -> Replay:
    """Serve a scenario as Azure's metadata service would, until the ``with`` block ends or close() is called.

    ``scenario`` is a built-in name or a TOML file; ``speed`` 60 turns minutes into seconds; ``faults`` are written as
    the command's ``--fault``. Scenario time begins with the first request for events.
    """

def scenarios() -> dict[str, str]:
    """Give the names of the built-in scenarios, each with a sentence about it."""

@final
class Replay:
    """Azure's metadata service, imitated: a context manager that gives the URL."""

    @property
    def url(self) -> str:
        """The endpoint to give to a client, such as ``http://127.0.0.1:40123``."""
    @property
    def finished(self) -> bool:
        """Whether every event of the scenario has appeared and gone."""
    def requests(self) -> list[dict[str, Any]]:
        """Give the requests so far, oldest first: method, target, headers, body and status."""
    def close(self) -> None:
        """End the server and free its port."""
    def __enter__(self) -> str: ...
    def __exit__(self, *_args: object) -> None: ...

__all__ = [
    "Action",
    "Approval",
    "CapacityError",
    "Change",
    "Client",
    "ConfigError",
    "Decision",
    "Document",
    "EndpointError",
    "Error",
    "Event",
    "EventSource",
    "EventStatus",
    "EventType",
    "Get",
    "ParseError",
    "Policy",
    "PolicyError",
    "PollFailed",
    "Post",
    "Prepare",
    "Problem",
    "Record",
    "Recover",
    "Replay",
    "Report",
    "Rule",
    "Session",
    "SnapshotError",
    "StateError",
    "Tracker",
    "Untracked",
    "Wait",
    "Watch",
    "__version__",
    "aio",
    "loads",
    "parse",
    "replay",
    "scenarios",
    "start_requests",
]
