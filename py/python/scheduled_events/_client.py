"""The client of the metadata service, and its watchers."""

from __future__ import annotations

import operator
import os

from . import _native
from ._errors import ArgumentError, ConfigError, EndpointError, Error, ParseError

TYPE_CHECKING = False  # Like typing's, which takes longer to import than this package.
if TYPE_CHECKING:
    import logging
    import threading
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from typing import Any, TypeVar, Union

    from typing_extensions import Self

    from ._native import Document, Event, _Duration, _EventId, _Gate, _Names, _Policy, _Worker
    from ._records import _AnyRecord

    _Result = TypeVar("_Result")
    _Workers = dict[str, Union[Callable[..., object], None]]

_CO_COROUTINE = 0x80  # Like inspect's, which takes longer to import than a watcher takes to start.


class _Later:
    """The result of a request that is to be repeated after a while."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class _Abandoned(BaseException):
    """Whether it succeeded is unknown: a restart repeats it."""


def start_requests(events: _EventId | Iterable[_EventId]) -> bytes:
    """Return the request body that approves these events: ids, events, records, or mappings with an EventId."""
    return _native._start_requests(events)


class Client:
    """A client of the metadata service; a context manager.

    The endpoint is by default the environment's SCHEDULED_EVENTS_ENDPOINT, or http://169.254.169.254. Any other address
    that is not on this machine needs ``allow_endpoint``: that server decides when this machine's services are drained.
    Without a ``timeout`` in seconds the first request may take 130 and every later one 5.

    ``poll``, ``approve`` and ``vm_name`` repeat a request that may succeed later up to ``retries`` times, 1 to 10
    seconds apart, or what the response asks for, at most 10; watchers have a pace of their own. ``user_agent`` is sent
    with every request. ``trace`` is a ``logging.Logger`` that gets one line for each request, with the level DEBUG:
    method, path, status or cause, milliseconds and bytes; never a text from outside.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        api_version: str | None = None,
        timeout: float | None = None,
        vm_names: _Names | None = None,
        allow_endpoint: bool = False,
        user_agent: str | None = None,
        retries: int = 0,
        trace: logging.Logger | None = None,
    ) -> None:
        endpoint = endpoint or os.environ.get("SCHEDULED_EVENTS_ENDPOINT") or None
        self._retries = _not_negative("retries", retries)
        if trace is not None and not callable(getattr(trace, "debug", None)):
            raise ArgumentError(f"expected trace as a logging.Logger, not {type(trace).__name__}")
        self._options = (endpoint, api_version, timeout, allow_endpoint, user_agent, trace is not None)
        self._process = os.getpid()
        self._imds: _native.Imds | None = _native.Imds(*self._options)
        self._vm_names = _native._names(vm_names)
        self._api_version = api_version
        self._trace = trace
        self._watchers: list[Callable[[], Watch | None]] = []

    def _open(self) -> _native.Imds:
        if self._imds is None:
            raise Error("the client is closed")
        if self._process != os.getpid():
            # The connection of a client that was forked is the parent's: each would read the other's responses.
            self._imds, self._process = _native.Imds(*self._options), os.getpid()
        return self._imds

    @property
    def endpoint(self) -> str:
        """The endpoint, without a path."""
        return self._open().endpoint

    def poll(self) -> Document:
        """Request the document.

        Raises EndpointError if there is none, also for an empty body, which does not mean that there are no events,
        and for status 304; its ``cause`` is the word that the record of such a poll has. Raises ParseError if the body
        is not a document.
        """
        return self._request(self._open().poll)

    def approve(self, events: _EventId | Iterable[_EventId]) -> None:
        """Approve events: Azure may then start them early, on all machines that they name.

        An event is an id, an Event, a mapping with an EventId, as json.loads gives, or a record of an event.
        """
        imds = self._open()
        self._request(lambda: imds.approve(events))

    def vm_name(self) -> str:
        """Return this machine's name as events spell it: the first of ``vm_names``, or requested from the service."""
        imds = self._open()
        return self._vm_names[0] if self._vm_names else self._request(imds.vm_name)

    def _request(self, request: Callable[[], _Result]) -> _Result:
        """Call ``request``, and again as often as ``retries`` allows while that may help."""
        retry = 0
        while isinstance(result := self._attempt(request, retry), _Later):
            import time  # noqa: PLC0415 - only retries need it

            time.sleep(result.seconds)
            retry += 1
        return result

    def _attempt(self, request: Callable[[], _Result], retry: int) -> _Result | _Later:
        """Call ``request``; if it fails, return when to call it again, or raise the error if that does not help."""
        # Another thread may close the client meanwhile.
        imds = self._imds
        try:
            return request()
        except (EndpointError, ParseError) as error:
            if retry >= self._retries or not _is_transient(error):
                raise
            return _Later(_pause(retry, getattr(error, "retry_after", None)))
        finally:
            if self._trace is not None and imds is not None:
                for line in imds.take_trace():
                    self._trace.debug("%s", line)

    def watch(
        self,
        policy: _Policy | None = None,
        *,
        prepare: _Worker | None = None,
        recover: _Worker | None = None,
        gate: _Gate | None = None,
        last_call: _Duration | None = None,
        prepare_retries: int | None = None,
        recover_all: bool = False,
        state: str | os.PathLike[str] | None = None,
        until_idle: bool = False,
        interval: float = 1.0,
        max_polls: int | None = None,
        dry_run: bool = False,
    ) -> Watch:
        """Poll, report changes, decide, prepare, approve and recover. Iterate over the returned watcher's records.

        ``policy`` is a Policy, "observe" (the default: nothing is approved), "sample" or a TOML file's path.
        ``prepare`` and ``recover`` are called with the event, each on its own thread; False or an exception means that
        it failed, anything else that it succeeded. One that takes a second argument gets a Task, with ``deadline`` and
        ``cancelled``. ``prepare`` takes the machine out of service for one event;
        without it, an event whose rule says to prepare is held. One that failed is called again after
        5 seconds to a minute, while the event has not started and its start is not nearer than the last call took; at
        most ``prepare_retries`` times, and not if it sets its task's ``retry`` to False.
        ``recover`` takes it back, once no event keeps it out any more, with the event that ended last; one that failed
        is called again after 5 seconds to 5 minutes. With ``recover_all`` it follows every event of this machine that
        started, prepared for or not.

        ``gate`` is called with the event and "prepare" before a preparation, "approve" before an approval, and a Task
        if it takes a third argument, also on a thread: True means to go on, False not yet, "another-approves" that
        another machine approves the event. The last two are asked again every 5 seconds until NotBefore, and so is an
        exception. The policy's leader is ignored. Azure starts the event at NotBefore whatever a gate says, so
        ``prepare`` is called at the last call although the gate has not answered yes: half of the notice before
        NotBefore, at most 5 minutes, and at once for a Preempt and for less than a minute; or ``last_call`` before it,
        as seconds, timedelta or text such as "2min"; "never" waits for the gate. Approving still takes its yes.

        A function cannot be interrupted. When the event changes so that what runs for it is void, its task's
        ``cancelled`` is set; the watcher waits until the function returns, ignores its result, and only then calls one
        anew; the record's outcome is ``cancelled``.

        ``state`` is a file from which a restart continues. A change that was not read from the watcher is reported
        again by the next one with this file, for the newest 256 of them. With ``dry_run`` nothing is called or posted,
        and no file changes.

        Nothing waits for who reads the records: 1,024 of them are kept, and repeated failures of polls are one. Beyond
        that the oldest are dropped, changes last, and a record Dropped says how many. Messages go to
        ``logging.getLogger("scheduled_events")``.
        """
        imds = self._open()
        workers = {
            "preparation": _checked(prepare, "prepare", 1),
            "recovery": _checked(recover, "recover", 1),
            "gate": _checked(gate, "gate", 2),
        }
        self._check(policy, interval, max_polls, last_call, prepare_retries)
        native = _native.Watch(
            imds,
            policy=policy,
            vm_names=self._vm_names,
            api_version=self._api_version,
            interval=interval,
            until_idle=until_idle,
            max_polls=max_polls,
            dry_run=dry_run,
            last_call=last_call,
            prepare_retries=prepare_retries,
            recover_all=recover_all,
            state=state,
            prepares=prepare is not None,
            recovers=recover is not None,
            gates=gate is not None,
        )
        import weakref  # noqa: PLC0415 - only watchers need it

        watch = Watch(native, workers, self._trace)
        self._watchers = [reference for reference in self._watchers if reference() is not None]
        self._watchers.append(weakref.ref(watch))
        return watch

    def _check(
        self,
        policy: object,
        interval: float,
        max_polls: int | None,
        last_call: object,
        prepare_retries: int | None,
    ) -> None:
        """Refuse what a watcher would refuse."""
        for name, number in (("max_polls", max_polls), ("prepare_retries", prepare_retries)):
            if number is not None:
                _not_negative(name, number)
        _native.Watch.check(policy, self._vm_names, self._api_version, interval, last_call)

    def close(self) -> None:
        """Close the client's watchers. Further calls raise Error."""
        self._imds = None
        for reference in self._watchers:
            watch = reference()
            if watch is not None:
                watch.close()
        self._watchers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<Client closed>" if self._imds is None else f"<Client of {self._imds.endpoint}>"


class Task:
    """What a function that prepares, recovers or answers for the gate is called for."""

    __slots__ = {
        "__weakref__": None,
        "cancelled": "Set when the result does not count any more: the event has changed or ended, or the watch ends.",
        "deadline": "The event's NotBefore, when Azure may start it; None if it is unknown, and for a recovery.",
        "events": "The events that a recovery is for, the one that ended last first, or the one event.",
        "retry": "Whether a preparation that fails is called again while there is time; a function sets it to False.",
    }

    def __init__(self, events: Iterable[Event], deadline: datetime | None = None) -> None:
        import threading  # noqa: PLC0415 - only workers need it

        self.events: tuple[Event, ...] = tuple(events)
        self.deadline: datetime | None = deadline
        self.cancelled: threading.Event = threading.Event()
        self.retry: bool = True

    @property
    def event(self) -> Event:
        """The event, for a recovery the one that ended last."""
        return self.events[0]

    def __repr__(self) -> str:
        cancelled = ", cancelled" if self.cancelled.is_set() else ""
        return f"<Task for {self.event.event_id!r}, deadline {self.deadline}{cancelled}>"


class Watch:
    """A running watcher: an iterator over its records, and a context manager that closes it."""

    def __init__(self, native: _native.Watch, workers: _Workers, trace: logging.Logger | None = None) -> None:
        self._native = native
        self._closed = False
        self._log_thread = _start(_log_messages, native, trace)
        if any(workers.values()):
            _start(_dispatch, native, workers)
        _close_at_exit(self)

    @property
    def closed(self) -> bool:
        """Whether the watcher has ended. Records that were not read may be left."""
        return self._closed

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _AnyRecord:
        record = self._native.next(True)
        if record is None:
            self._closed = True
            self._finish_log()
            raise StopIteration
        return record

    def close(self) -> None:
        """Stop the watcher and save its state. An iteration ends after the records that were not read.

        Those of them that are changes are reported again by the next watcher with the same state file.
        A function that prepares, recovers or answers for the gate continues to run; its result is ignored.
        """
        self._closed = True
        self._native.close()
        self._finish_log()

    def _finish_log(self) -> None:
        """Let the messages so far be logged, but do not wait for a log that blocks."""
        import threading  # noqa: PLC0415

        if self._log_thread is not threading.current_thread():
            self._log_thread.join(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A loop over the records that ends with `break` leaves nothing to close the watcher with.
        if not getattr(self, "_closed", True):
            self._closed = True
            self._native.close()

    def __repr__(self) -> str:
        return f"<Watch {'ended' if self._closed else 'running'}>"


Client.__module__ = Watch.__module__ = Task.__module__ = start_requests.__module__ = "scheduled_events"


def _not_negative(name: str, number: object) -> int:
    """Return the number, if it is one that counts something."""
    try:
        count = operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(f"{name}: expected a whole number, not {type(number).__name__}") from None
    if count < 0:
        raise ConfigError(f"{name} must not be negative, not {count}")
    return count


def _is_transient(error: EndpointError | ParseError) -> bool:
    """Whether the same request may succeed later."""
    status = getattr(error, "status", None)
    return status is None or status in {200, 304, 404, 408, 410, 429} or status >= 500


def _pause(retry: int, retry_after: int | None) -> float:
    """Return how many seconds to wait before the next attempt: with jitter, and never over ten."""
    return min(10.0, max(retry_after or 0.0, 2.0 ** min(retry, 4) * (0.75 + os.urandom(1)[0] / 1024)))


def _checked(worker: Callable[..., object] | None, name: str, usual: int) -> Callable[..., object] | None:
    """Return the function as one that takes the task after its ``usual`` arguments."""
    if worker is None:
        return None
    if getattr(getattr(worker, "__code__", None), "co_flags", 0) & _CO_COROUTINE:
        raise ArgumentError(f"{worker!r} is a coroutine function; use scheduled_events.aio.watch() for those")
    if _takes_task(worker, name, usual):
        return worker
    return lambda *arguments: worker(*arguments[:usual])


def _takes_task(worker: Callable[..., object], name: str, usual: int) -> bool:
    """Whether the function takes a task: it needs one more argument, or that one is called ``task``."""
    if not callable(worker):
        raise ArgumentError(f"expected {name} as a function, not {type(worker).__name__}")
    known = getattr(worker, "_takes_task", None)
    if isinstance(known, bool):
        return known
    import inspect  # noqa: PLC0415 - only workers need it

    try:
        signature = inspect.signature(worker)
    except (TypeError, ValueError):
        # A function in C that does not say what it takes.
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [parameter for parameter in signature.parameters.values() if parameter.kind in kinds]
    more = positional[usual : usual + 1]
    takes = any(parameter.default is parameter.empty or parameter.name == "task" for parameter in more)
    try:
        signature.bind(*[None] * (usual + takes))
    except TypeError as error:
        raise ArgumentError(f"{name} cannot be called with {usual} or {usual + 1} arguments: {error}") from None
    return takes


_open_watchers: list[Callable[[], Watch | None]] = []


def _close_at_exit(watch: Watch) -> None:
    """Make sure that no thread waits for a record while the interpreter shuts down."""
    import atexit  # noqa: PLC0415 - only watchers need it
    import weakref  # noqa: PLC0415

    if not _open_watchers:
        atexit.register(_close_all)
    _open_watchers[:] = [reference for reference in _open_watchers if reference() is not None]
    _open_watchers.append(weakref.ref(watch))


def _close_all() -> None:
    for reference in _open_watchers:
        watch = reference()
        if watch is not None:
            watch.close()


def _dispatch(native: _native.Watch, workers: _Workers) -> None:
    """Call the workers, each on its own thread, so that a slow one delays no other."""
    running: dict[int, threading.Event] = {}
    while (given := native.task()) is not None:
        if isinstance(given, int):
            if given in running:
                running[given].set()
            continue
        deadline = given.events[0].not_before if given.kind != "recovery" else None
        task = Task(given.events, deadline)
        running[given.attempt] = task.cancelled
        worker = workers[given.kind]
        try:
            _start(_do, given, task, worker, running)
        except RuntimeError as error:
            _log(30, "cannot start another thread; the next event waits until this one is done", error)
            _do(given, task, worker, running)
    for cancelled in list(running.values()):
        cancelled.set()


def _do(
    given: _native.Task, task: Task, worker: Callable[..., object] | None, running: dict[int, threading.Event]
) -> None:
    success = False
    try:
        arguments = (task.event, task) if given.phase is None else (task.event, given.phase, task)
        answer = None if worker is None else worker(*arguments)
        if hasattr(answer, "__await__"):
            getattr(answer, "close", bool)()
            returned = f"it returned {answer!r}, which only scheduled_events.aio.watch() awaits"
            _log(40, f"the {given.kind} failed: {returned}")
        elif given.kind == "gate":
            given.answer(answer)
        else:
            success = answer is not False
    except _Abandoned:
        given.abandon()
        _log(10, f"the {given.kind} was abandoned")
    except BaseException as error:
        _log(40, f"the {given.kind} failed", error)
    finally:
        given.complete(success, bool(task.retry))
        running.pop(given.attempt, None)


def _log_messages(native: _native.Watch, trace: logging.Logger | None) -> None:
    """Log what a watcher has to say, on a thread of its own, since a log may block."""
    while (message := native.message()) is not None:
        level, text = message
        if level == 0 and trace is not None:
            trace.debug("%s", text)
        else:
            _log(level, text)


def _start(target: Callable[..., None], *args: Any) -> threading.Thread:
    import threading  # noqa: PLC0415 - only watchers need it

    thread = threading.Thread(target=target, args=args, name="scheduled-events", daemon=True)
    thread.start()
    return thread


def _log(level: int, message: str, error: BaseException | None = None) -> None:
    import logging  # noqa: PLC0415 - only messages need it

    # Messages contain text from outside this machine.
    logging.getLogger("scheduled_events").log(level, "%s", _native._printable(message), exc_info=error)
