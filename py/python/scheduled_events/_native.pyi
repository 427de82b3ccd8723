"""The native part. What the package has in Python is typed in its source."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, final, overload

from typing_extensions import Self, TypeAlias

from ._client import Task as _Task
from ._records import (
    Approval,
    Cancel,
    Change,
    Decision,
    EventRecord,
    GateDue,
    Get,
    PollFailed,
    Post,
    Prepare,
    PrepareDue,
    Problem,
    Record,
    RecoverDue,
    Report,
    Wait,
    Waiting,
    _AnyRecord,
    _GateWord,
    _Phase,
)
from ._words import Action, EventSource, EventStatus, EventType

__version__: str

_Moment: TypeAlias = datetime | float
_Names: TypeAlias = str | Iterable[str]
_Policy: TypeAlias = Policy | str | os.PathLike[str]
_Worker: TypeAlias = Callable[[Event], object] | Callable[[Event, _Task], object]
_Gate: TypeAlias = Callable[[Event, _Phase], object] | Callable[[Event, _Phase, _Task], object]
_Duration: TypeAlias = int | str | timedelta
# One event: its id, itself, a mapping with an EventId, or a record or step about it.
_EventId: TypeAlias = (
    str | Event | Mapping[str, Any] | EventRecord | Change | Decision | Prepare | PrepareDue | GateDue | RecoverDue
)

# The words of records and rules.
_ActionWord: TypeAlias = Literal["approve", "prepare", "hold", "ignore"]
_TypeWord: TypeAlias = Literal["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate", "SpotRebalanceRecommendation"]
_SourceWord: TypeAlias = Literal["Platform", "User"]
_ScopeWord: TypeAlias = Literal["mine", "others", "any"]
_LeaderWord: TypeAlias = Literal["first-resource", "everyone", "rank"]
_SessionSource: TypeAlias = Literal["documents", "notifications", "both"]
_NotificationOutcome: TypeAlias = Literal["applied", "ignored", "untracked"]
_Outcome: TypeAlias = Literal["passed", "broken", "warned", "not-checked"]
_CauseWord: TypeAlias = Literal["timeout", "unreachable", "connection-lost", "too-large"]

# --- reading

def parse(data: bytes | bytearray | memoryview | str, /) -> Document:
    """Parse a Scheduled Events document. Raises ParseError if the input is not one.

    Anything invalid inside one event is among the document's problems. Strings are made only when they are read.
    """

@final
class Document(Mapping[str, Any]):
    """A Scheduled Events document, validated when it is parsed.

    Items by their JSON names (``document["Events"]``) are what a script written for ``json.loads`` expects.
    """

    __match_args__ = ("incarnation", "events")
    @property
    def incarnation(self) -> int | str | None:
        """Changes whenever the document changes; compare it for equality only."""
    @property
    def events(self) -> tuple[Event, ...]:
        """The events, in the document's order.

        Those without an id, or with the id of an earlier one, are left out, and are problems. Only the first 64 ids are
        compared.
        """
    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is invalid in the document: a tuple of Problem."""
    def concerns(self, vm_names: _Names) -> bool:
        """Whether an event of the document concerns one of these names."""
    def to_dict(self) -> dict[str, Any]:
        """Return the document's own record, as the command prints it with ``--json``."""
    @overload
    def __getitem__(self, key: Literal["Events"], /) -> list[Event]: ...
    @overload
    def __getitem__(self, key: str, /) -> Any: ...
    def get(self, key: str, default: Any = None, /) -> Any:
        """Return the member of this JSON name, or the default."""
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Event(Mapping[str, Any]):
    """One event: maintenance, an eviction or a deletion of one or more virtual machines.

    Attributes are the meaning of the members; one that is absent or invalid is None. Items by their JSON names
    (``event["EventId"]``) are what ``json.loads`` gives.
    """

    __match_args__ = ("event_id", "event_type", "event_status")
    @property
    def event_id(self) -> str:
        """The event's id: opaque; compare it without ASCII case, and return it unchanged."""
    @property
    def event_type(self) -> EventType | str | None:
        """The expected impact: an ``EventType``, or a str for a word that this package does not know."""
    @property
    def event_status(self) -> EventStatus | str | None:
        """The event's progress: an ``EventStatus``, or a str for a word that this package does not know."""
    @property
    def event_source(self) -> EventSource | str | None:
        """Who caused the event: an ``EventSource``, or a str for a word that this package does not know."""
    @property
    def resource_type(self) -> str | None:
        """``VirtualMachine``."""
    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the machines that the event affects; empty if the document has none."""
    @property
    def not_before(self) -> datetime | None:
        """The earliest time at which the event starts without an approval: an aware datetime in UTC."""
    @property
    def description(self) -> str | None:
        """Azure's description of the event."""
    @property
    def duration_in_seconds(self) -> int | None:
        """The expected length of the interruption in seconds; None if it is unknown, which Azure writes as -1."""
    @property
    def is_advice(self) -> bool:
        """Whether it is advice and no maintenance, by its type or its status: there is nothing to approve."""
    def concerns(self, vm_names: _Names) -> bool:
        """Whether one of these names is among the resources. Whole names are compared, without ASCII case."""
    def to_dict(self, vm_names: _Names | None = None, *, api_version: str = "2020-07-01") -> dict[str, Any]:
        """Return the event's record, as the command prints it with ``--json``.

        Without names, ``mine`` is None.
        """
    def __getitem__(self, key: str, /) -> Any: ...
    def get(self, key: str, default: Any = None, /) -> Any:
        """Return the member of this JSON name, or the default."""
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

# --- deciding

@final
class Tracker:
    """Remembers the events of the last document, and reports what the next one changes.

    Give it documents only: a failed poll or an empty body ends no event. It holds 1024 events.
    """

    def __new__(cls, vm_names: _Names | None = None, *, api_version: str = "2020-07-01") -> Self: ...
    def observe(self, document: Document, now: _Moment | None = None) -> list[Change]:
        """Apply a document and return the changes since the last one. Raises CapacityError, and then changes nothing.

        Give it documents only: a failed poll or an empty body ends no event.
        """

    @property
    def ignored(self) -> int:
        """How many events of the last document were ignored because an earlier event has the same id.

        Those among the first 64 ids are not counted: ``Document.events`` leaves them out, and they are problems.
        """
    def approved(self, event_id: _EventId) -> bool:
        """Note that an approval of this event succeeded, which distinguishes ``ended`` from ``cancelled``."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

@final
class Rule:
    """One rule of a policy: which events it matches, and what is done about them.

    ``event`` and ``source`` are one word or several, None for all; only rules that name SpotRebalanceRecommendation
    match advice. Durations are inclusive: seconds, a timedelta, or a
    text such as "2min". The notice is the time from the first sight of a NotBefore until it. ``prepare_before`` is how
    long before NotBefore the event is prepared for or approved at the earliest. Raises PolicyError for unknown words.
    """

    __match_args__ = ("action", "event", "source")
    def __new__(
        cls,
        action: _ActionWord | Action,
        *,
        event: _TypeWord | EventType | Iterable[_TypeWord | EventType] | None = None,
        source: _SourceWord | EventSource | Iterable[_SourceWord | EventSource] | None = None,
        min_duration: _Duration | None = None,
        max_duration: _Duration | None = None,
        min_notice: _Duration | None = None,
        max_notice: _Duration | None = None,
        prepare_before: _Duration | None = None,
        scope: _ScopeWord = "mine",
    ) -> Self: ...
    @property
    def action(self) -> Action:
        """What is done: an Action."""
    @property
    def event(self) -> list[str] | None:
        """The event types that it matches; None for all."""
    @property
    def source(self) -> list[str] | None:
        """The event sources that it matches; None for all."""
    @property
    def min_duration(self) -> int | None:
        """The shortest interruption that it matches, in seconds."""
    @property
    def max_duration(self) -> int | None:
        """The longest interruption that it matches, in seconds."""
    @property
    def min_notice(self) -> int | None:
        """The shortest notice that it matches, in seconds."""
    @property
    def max_notice(self) -> int | None:
        """The longest notice that it matches, in seconds."""
    @property
    def prepare_before(self) -> int | None:
        """How many seconds before NotBefore the event is prepared for or approved at the earliest; None: no limit."""
    @property
    def scope(self) -> _ScopeWord:
        """Whose events it matches: ``mine``, ``others`` or ``any``."""
    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Policy:
    """Rules in order; the first that matches an event decides.

    Four limits hold whatever the rules are: only Scheduled events are approved, none with a problem in a member that
    the decision depends on, none while this machine's name is unknown, and never another machine's Terminate.

    ``leader`` chooses which of several machines approves an event that names them: "first-resource", "everyone",
    "rank", or ``{"mode": "rank", "take_over_after": 30}``. By default, None, the first one approves what a rule says to
    approve; what a rule says to prepare for is not approved then, since nobody knows whether the other machines are
    ready.
    """

    def __new__(cls, rules: Sequence[Rule] = (), leader: _LeaderWord | dict[str, Any] | None = None) -> Self: ...
    @property
    def leader(self) -> _LeaderWord | dict[str, Any] | None:
        """Which of several machines approves, as in the constructor: a mode, a dict for "rank", or None."""
    @staticmethod
    def observe() -> Policy:
        """The policy that never approves anything: every event is held. It is the default everywhere."""
    @staticmethod
    def sample() -> Policy:
        """Approve events that a user caused, and freezes shorter than nine seconds, as Microsoft's sample of 2020 does.

        Hold the others. Unlike the sample, approve only events whose first resource is this machine.
        """
    @staticmethod
    def from_toml(text: str) -> Policy:
        """Read a policy from TOML. Raises PolicyError with .line and .column."""
    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> Policy:
        """Read a policy from a TOML file. Raises PolicyError, or OSError if the file cannot be read."""
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

@final
class Session:
    """The whole client without I/O: ask next() what to do, do it, and feed the result back.

    It paces the polls, reports changes, decides when to prepare, approve and recover, and survives restarts through
    snapshot() and restore(). ``now`` is the current time by default, from a clock that never steps.

    With ``gate``, it asks before each preparation and each approval, and ignores the policy's leader; ``last_call`` is
    when it prepares although the gate has not answered yes, as for Client.watch. ``prepare_retries`` is how often a
    failed preparation is given again at most; by default as often as there is time. With ``recover_all``, it recovers
    after every event of this machine that started, prepared for or not. ``machine_id`` is an id that a clone of this
    machine does not have, such as its vmId, and ``boot_id`` one that changes at each boot.

    Each Get and Post has the ``api_version`` of its request: the one of the argument, or by default 2020-07-01; a Get
    has 2024-07-09 while a rule names SpotRebalanceRecommendation, or with ``needs_advice``, as long as the service
    knows it.

    With the ``source`` "notifications" or "both", on_notification() feeds it what Azure says outside the machine. With
    notifications alone it never polls, and a Post is sent as ``acknowledge_request(resource_id, step.event_ids)``.
    After a restart, pass the notifications that are known, such as the rows of Resource Graph, before you call next().
    """

    def __new__(
        cls,
        policy: _Policy | None = None,
        vm_names: _Names | None = None,
        *,
        interval: float = 1.0,
        dry_run: bool = False,
        gate: bool = False,
        last_call: _Duration | None = None,
        prepare_retries: int | None = None,
        recover_all: bool = False,
        seed: int | None = None,
        machine_id: str | None = None,
        boot_id: str | None = None,
        source: _SessionSource = "documents",
        api_version: str | None = None,
        needs_advice: bool = False,
    ) -> Self: ...
    def next(
        self, now: _Moment | None = None
    ) -> Get | Post | Wait | PrepareDue | RecoverDue | GateDue | Cancel | Report:
        """Return what to do now: a Get, Post, Wait, PrepareDue, RecoverDue, GateDue, Cancel or Report."""
    def on_response(
        self,
        status: int,
        body: bytes | bytearray | memoryview | str | None = None,
        retry_after: float | None = None,
        now: _Moment | None = None,
        repeated: bool = False,
    ) -> PollFailed | Approval | None:
        """Apply the response to the request, and return a PollFailed, an Approval, or None.

        ``repeated`` says that it is the answer to a request in ``repeat_version``: what it does not have may still be
        there.
        """
    def on_failure(self, cause: _CauseWord | BaseException, now: _Moment | None = None) -> PollFailed | Approval | None:
        """Note that the request failed, and return a PollFailed, an Approval, or None.

        ``cause`` is ``timeout``, ``unreachable``, ``connection-lost``, ``too-large``, or an exception.
        """
    def on_notification(self, notification: Notification, now: _Moment | None = None) -> _NotificationOutcome:
        """Apply a notification, if the source has them; then call next().

        The result is "applied" if the event is followed and is as the notification says. It is "ignored" if the
        notification is late, its event is over or was never followed, or a document says more about it. It is
        "untracked" if too many events are followed: pass the notification again when one of them is over.
        """
    def prepared(
        self, event_id: _EventId, ready: bool = True, attempt: int | None = None, *, retry: bool = True
    ) -> bool:
        """Complete a PrepareDue, also one that was cancelled. Without ``attempt``, it is the one in progress.

        False if the answer counts for nothing: no preparation for this event is in progress, it was cancelled, or
        ``attempt`` is the number of another one. One that is not ready is given again after 5 seconds to a minute,
        while there is time, unless ``retry`` is False.
        """
    def recovered(
        self, event_id: _EventId, done: bool = True, attempt: int | None = None, now: _Moment | None = None
    ) -> bool:
        """Complete a RecoverDue, also one that was cancelled. Without ``attempt``, it is the one in progress.

        One that is not done is issued again, after 5 seconds to 5 minutes. False if the answer counts for nothing: no
        recovery for which this event is the last one is in progress, it was cancelled, or ``attempt`` is the number of
        another one.
        """
    def gate_answered(
        self,
        event_id: _EventId,
        answer: bool | _GateWord,
        attempt: int | None = None,
        now: _Moment | None = None,
    ) -> bool:
        """Answer a GateDue: True to go on, False for not yet, or "another-approves", as the words of the record do.

        It is asked again after 5 seconds unless the answer is True. An event is approved only if a poll that begins
        after the answer shows it unchanged. False if the answer counts for nothing.
        """
    def set_names(self, vm_names: _Names) -> None:
        """Set or replace this machine's names."""
    def set_policy(self, policy: _Policy) -> None:
        """Set another policy: a Policy, the name of a preset, or the path of a file.

        The next document is decided with it. A preparation that was issued goes on, and what it led to counts.
        """
    def set_time_of_day_ahead(self, ahead: float | timedelta) -> None:
        """Set how far the time of day is ahead of the ``now`` of the other methods; negative if it is behind.

        A NotBefore is a time of day: it is reached sooner if the system clock was set forward, or if the machine was
        frozen while the clock of ``now`` stood still. Where ``now`` is not passed, the session knows it.
        """
    def waiting(self, now: _Moment | None = None) -> tuple[Waiting, ...]:
        """What each event waits for, and why: a tuple of Waiting, in the order of ``events``.

        Nothing changes by asking.
        """
    def snapshot(self) -> bytes:
        """Return what a restart needs, as bytes for restore()."""
    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot.

        Raises SnapshotError, whose kind says why, for bytes that no session of this machine wrote; the session is empty
        then.
        """
    @property
    def events(self) -> tuple[EventRecord, ...]:
        """The events that are followed, this machine's own first if there are too many: a tuple of EventRecord."""
    @property
    def repeat_version(self) -> str:
        """The version of the API that every service knows, for requests beside a Get without an answer.

        They are sent after 5 seconds and then every 10.
        """
    @property
    def advice_unseen_since(self) -> datetime | None:
        """Since when the version of the API that has advice brings no documents, while the other one does.

        That was so for several polls in a row.
        """
    @property
    def out_of_service_since(self) -> datetime | None:
        """Since when this machine is out of service: an aware datetime in UTC, or None if it is in service.

        It is out of service from the first preparation until it has recovered.
        """
    @property
    def awaits_answer(self) -> bool:
        """Whether a request is in progress: its response was not fed back yet."""
    @property
    def has_seen_event(self) -> bool:
        """Whether an event was seen, in this run or before the snapshot."""
    @property
    def is_idle(self) -> bool:
        """Whether the newest document has no events, and nothing is left to do."""

# --- outside the machine

def parse_notifications(data: bytes | bytearray | memoryview | str, /) -> Notifications:
    """Parse notifications of Event Grid or Resource Graph. Raises ParseError if the input is not JSON.

    The input is one message, in Event Grid's schema or in that of CloudEvents 1.0, an array of them, a row of Resource
    Graph, or its answer. What is no Scheduled Event of a machine is left out and counted. In preview at Azure.
    """

@final
class Notifications(Sequence[Notification]):
    """The notifications in one body: a sequence of Notification, in the order of the body."""

    @property
    def left_out(self) -> int:
        """How many messages and rows are left out: other topics, the maintenance of AKS, a validation."""
    @property
    def validation_code(self) -> str | None:
        """The code of Event Grid's validation. A web hook returns ``{"validationResponse": code}``."""
    @overload
    def __getitem__(self, index: int, /) -> Notification: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[Notification, ...]: ...
    def __contains__(self, value: object, /) -> bool: ...
    def __iter__(self) -> Iterator[Notification]: ...
    def __reversed__(self) -> Iterator[Notification]: ...
    def __len__(self) -> int: ...
    def index(self, value: Any) -> int:  # type: ignore[override]
        """Return the index of a notification. Raises ValueError if it is not there."""
    def count(self, value: Any) -> int:
        """Return how often a notification is there."""

@final
class Notification:
    """One notification: that an event is in some state.

    Notifications arrive at least once and in any order. An event goes from ``scheduled`` to ``started`` to
    ``completed`` or ``canceled``, never back: ignore one of an earlier state.
    """

    __match_args__ = ("id", "time", "resource_id", "state", "event")
    @property
    def id(self) -> str | None:
        """The id of the message, the same if it is delivered again; None for a row of Resource Graph."""
    @property
    def time(self) -> datetime | None:
        """When the event changed, or the message was sent: an aware datetime in UTC; None if neither is known."""
    @property
    def resource_id(self) -> str:
        """The machine, or the set that the machines are in, as received, maybe followed by the event; or empty."""
    @property
    def state(self) -> str:
        """``scheduled``, ``started``, ``completed``, ``canceled``, or another word; empty if there is none."""
    @property
    def event(self) -> Event:
        """The event, with the members that it has in a document."""
    @property
    def machines(self) -> tuple[str, ...]:
        """The id of each machine of the event in Azure Resource Manager; compare them without ASCII case.

        Names that no machine can have are left out, and it is empty if resource_id is not the id of a machine or a set.
        """
    def __eq__(self, value: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

def acknowledge_request(resource_id: str, event_ids: _EventId | Iterable[_EventId]) -> Request:
    """Return the request to Azure Resource Manager that approves these events: ids, events, or what has one.

    ``resource_id`` is the machine or the set that the events are of, as a Notification has it. Raises ConfigError if
    that is no such id, or if the id of an event is not a GUID. In preview at Azure.
    """

@final
class Request:
    """A request to Azure Resource Manager.

    The path follows ``https://management.azure.com``, or another cloud's address.
    """

    __match_args__ = ("method", "path", "body")
    @property
    def method(self) -> str:
        """``POST``."""
    @property
    def path(self) -> str:
        """The path with its query."""
    @property
    def body(self) -> bytes:
        """The body: empty for one event, JSON for several."""

# --- testing

def replay(
    scenario: str | os.PathLike[str],
    *,
    speed: float = 1.0,
    faults: Sequence[str] = (),
    vm_name: str = "WestNO_0",
    listen: str = "127.0.0.1:0",
    seed: int | None = None,
    newest_api_version: str = "2020-07-01",
    machines: int = 1,
) -> Replay:
    """Serve a scenario like Azure's metadata service, until the ``with`` block ends or close() is called.

    ``scenario`` is a built-in name or a TOML file; ``speed`` 60 turns minutes into seconds; ``faults`` have the form of
    the command's ``--fault``. Scenario time starts with the first request for events. The service has the versions up
    to ``newest_api_version``: ``2024-07-09`` shows advice. With several ``machines`` each has an address, and the
    faults, of its own. Raises ConfigError for an invalid argument.
    """

def scenarios() -> dict[str, str]:
    """Return the names of the built-in scenarios, each with its description."""

@final
class Replay:
    """A running imitation of Azure's metadata service: a context manager that returns the URL."""

    @property
    def url(self) -> str:
        """The endpoint for a client of the first machine, such as ``http://127.0.0.1:40123``."""
    @property
    def machines(self) -> dict[str, str]:
        """The endpoints of all machines by their names, that of the first one first."""
    @property
    def finished(self) -> bool:
        """Whether every event of the scenario has appeared and ended."""
    def step(self) -> bool:
        """Apply the next change of the scenario now, and return whether there was one.

        There is none before the first request for events, and none once every event has ended. With a low speed, such
        as 0.01, nothing changes but by a step, so that a test neither waits nor depends on how fast the machine is.
        """
    def inject_fault(self, fault: str, machine: str | None = None) -> None:
        """Add a fault of the form of ``faults`` while the server runs, before its others.

        Its window counts from now on: ``post.status:503@1`` is the next approval. Without ``machine``, which is one of
        the names, it is a fault of every machine.
        """
    def clear_faults(self, machine: str | None = None) -> None:
        """Remove the faults of a machine; without ``machine`` those of every machine."""
    def requests(self) -> list[dict[str, Any]]:
        """Return the requests so far, oldest first.

        Each is a dictionary of machine, method, target, headers, body and status.
        """
    def finish(self) -> Verdict:
        """End the test, and return which rules of the wire contract the clients kept: they send no more requests.

        The server runs on. Later calls return the same, also after close(), which ends the test if nothing else did.
        """
    def close(self) -> None:
        """Stop the server and free its port."""
    def __enter__(self) -> str: ...
    def __exit__(self, *_args: object) -> None: ...

@final
class Verdict:
    """Which rules of the wire contract the clients of a replay server kept.

    ``str`` is the report: each broken rule with what the client did, where the contract has the rule, and the rule as a
    sentence. A client that ends while an event of its machine is open did not poll to the event's end.
    """

    @property
    def is_clean(self) -> bool:
        """Whether the client of every machine was shown its events, and broke no rule that a client must keep."""
    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, oldest first for each machine: a tuple of Finding.

        Those of rules that a client should keep are included.
        """
    @property
    def rules(self) -> dict[str, _Outcome]:
        """The outcome of each rule by its id, the worst one of all machines.

        It is ``passed``, ``broken``, ``warned`` or ``not-checked``.
        """
    @property
    def reasons(self) -> dict[str, str]:
        """Why each rule that is ``not-checked`` was not, by its id, of the first machine."""
    def assert_clean(self) -> None:
        """Raise AssertionError with the report unless the verdict is clean."""

@final
class Finding:
    """A client's violation of a rule. ``str`` is a line for people, with text from outside escaped."""

    @property
    def rule(self) -> str:
        """The rule's id, such as ``poll-gap``."""
    @property
    def level(self) -> Literal["must", "should"]:
        """``must`` or ``should``: a verdict with findings of rules that a client should keep is clean."""
    @property
    def about(self) -> str:
        """The rule as a sentence: what a client does that keeps it."""
    @property
    def section(self) -> str:
        """Where the contract, docs/inside/wire.md, has the rule: the section's number and the row or paragraph."""
    @property
    def message(self) -> str:
        """What the client did. It may have text that the client sent."""
    @property
    def machine(self) -> str:
        """The machine whose client it was."""
    @property
    def event_id(self) -> str | None:
        """The event that it is about; None if it is about none."""
    @property
    def at(self) -> float:
        """Seconds since the server started."""

# --- for the package

def run(arguments: Sequence[str]) -> int: ...
def _names(vm_names: object) -> list[str]: ...
def _start_requests(events: object) -> bytes: ...
def _event(object: bytes) -> Event: ...  # noqa: A002
def _event_of_record(record: object) -> Event: ...
def _policy(text: str) -> Policy: ...
def _printable(text: str) -> str: ...
def _spot_next_phase(phase: str, signal: str) -> str | None: ...
def _record_example(kind: str, time: datetime | None = None) -> Record | None: ...
def _record_examples() -> list[dict[str, Any]]: ...
def _record_members() -> dict[str, tuple[str, ...]]: ...

@final
class Imds:
    def __new__(
        cls,
        endpoint: str | None,
        api_version: str | None,
        timeout: float | None,
        allow_endpoint: bool,
        user_agent: str | None,
        trace: bool,
    ) -> Self: ...
    @property
    def endpoint(self) -> str: ...
    def take_trace(self) -> list[str]: ...
    def poll(self) -> Document: ...
    def approve(self, events: object) -> None: ...
    def vm_name(self) -> str: ...

def parse_timeout(text: str) -> int: ...
def format_timeout(seconds: int) -> str: ...
def check_os_image_timeout(text: str) -> None: ...
def check_profile(enable: bool, is_spot: bool, api_version: str) -> None: ...

@final
class Task:
    @property
    def kind(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def events(self) -> list[Event]: ...
    @property
    def phase(self) -> str | None: ...
    def complete(self, success: bool, retry: bool) -> None: ...
    def answer(self, answer: object) -> None: ...
    def abandon(self) -> None: ...

@final
class Watch:
    def __new__(
        cls,
        imds: Imds,
        *,
        policy: Policy | str | os.PathLike[str] | None,
        vm_names: Sequence[str] | None,
        api_version: str | None,
        interval: float,
        until_idle: bool,
        max_polls: int | None,
        dry_run: bool,
        last_call: int | str | timedelta | None,
        prepare_retries: int | None,
        recover_all: bool,
        state: str | os.PathLike[str] | None,
        prepares: bool,
        recovers: bool,
        gates: bool,
    ) -> Self: ...
    @staticmethod
    def check(
        policy: object, vm_names: Sequence[str] | None, api_version: str | None, interval: float, last_call: object
    ) -> None: ...
    @property
    def has_ended(self) -> bool: ...
    def next(self, wait: bool) -> _AnyRecord | None: ...
    def wait(self, seen: int) -> int | None: ...
    def message(self) -> tuple[int, str] | None: ...
    def task(self) -> Task | int | None: ...
    def close(self) -> None: ...
