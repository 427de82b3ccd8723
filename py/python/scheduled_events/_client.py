"""The client of the metadata service, and its watchers."""

from __future__ import annotations

import os

from . import _native
from ._errors import Error

TYPE_CHECKING = False  # Like typing's, which takes longer to import than this package.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ._native import Document, Event, Policy

    _Worker = Callable[[Event], object]
    _Gate = Callable[[Event, str], object]
    _Workers = dict[str, Callable[..., object] | None]

_CO_COROUTINE = 0x80  # Like inspect's, which takes longer to import than a watcher takes to start.


class _Abandoned(BaseException):
    """Whether it succeeded is unknown: a restart repeats it."""


def start_requests(events: str | Event | Iterable[str | Event]) -> bytes:
    """Return the request body that approves these events: ids or events."""
    return _native._start_requests(_ids(events))


def _ids(events: str | Event | Iterable[str | Event]) -> list[str]:
    if isinstance(events, (str, _native.Event)):
        events = [events]
    elif isinstance(events, (bytes, bytearray, _native.Document)):
        raise TypeError(f"expected ids or events, not {type(events).__name__}; a document has .events")
    return [event if isinstance(event, str) else event.event_id for event in events]


class Client:
    """A client of the metadata service; a context manager.

    The endpoint is by default the environment's SCHEDULED_EVENTS_ENDPOINT, or http://169.254.169.254. Any other address
    that is not on this machine needs ``allow_endpoint``: that server decides when this machine's services are drained.
    Without a ``timeout`` in seconds the first request may take 130 and every later one 5.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        api_version: str | None = None,
        timeout: float | None = None,
        vm_names: str | Iterable[str] | None = None,
        allow_endpoint: bool = False,
    ) -> None:
        endpoint = endpoint or os.environ.get("SCHEDULED_EVENTS_ENDPOINT") or None
        self._imds: _native.Imds | None = _native.Imds(endpoint, api_version, timeout, allow_endpoint)
        self._api_version = api_version
        self._vm_names = [vm_names] if isinstance(vm_names, str) else list(vm_names or ())
        self._watchers: list[Callable[[], Watch | None]] = []

    def _open(self) -> _native.Imds:
        if self._imds is None:
            raise Error("the client is closed")
        return self._imds

    @property
    def endpoint(self) -> str:
        """The endpoint, without a path."""
        return self._open().endpoint

    def poll(self) -> Document | None:
        """Request the document once; None if the body is empty, which does not mean that there are no events.

        Raises EndpointError, or ParseError if the body is not a document.
        """
        return self._open().poll()

    def approve(self, events: str | Event | Iterable[str | Event]) -> None:
        """Approve events: Azure may then start them early, on all machines that they name."""
        ids = _ids(events)
        if not ids or not all(ids):
            raise ValueError("expected at least one event to approve, and no empty id")
        self._open().approve(ids)

    def vm_name(self) -> str:
        """Return this machine's name as events spell it: the first of ``vm_names``, or requested from the service."""
        imds = self._open()
        return self._vm_names[0] if self._vm_names else imds.vm_name()

    def watch(
        self,
        policy: Policy | str | os.PathLike[str] | None = None,
        *,
        prepare: _Worker | None = None,
        recover: _Worker | None = None,
        gate: _Gate | None = None,
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
        it failed, anything else that it succeeded. ``prepare`` takes the machine out of service for one event.
        ``recover`` takes it back, once no event keeps it out any more, with the event that ended last; one that failed
        is called again after 5 seconds to 5 minutes. With ``recover_all`` it follows every event of this machine that
        started, prepared for or not.

        ``gate`` is called with the event and "prepare" before a preparation, "approve" before an approval, also on a
        thread: True means to go on, False not yet, "another-approves" that another machine approves the event. The last
        two are asked again every 5 seconds until NotBefore, and so is an exception. The policy's leader is ignored.

        A function cannot be interrupted. When the event changes so that what runs for it is void, the watcher waits
        until the function returns, ignores its result, and only then calls one anew; the record's outcome is
        ``cancelled``.

        ``state`` is a file from which a restart continues. With ``dry_run`` nothing is called or posted, and no file
        changes.
        """
        for worker in (prepare, recover, gate):
            if getattr(getattr(worker, "__code__", None), "co_flags", 0) & _CO_COROUTINE:
                raise TypeError(f"{worker!r} is a coroutine function; use scheduled_events.aio.watch() for those")
        native = _native.Watch(
            self._open(),
            policy=policy,
            vm_names=self._vm_names,
            api_version=self._api_version,
            interval=interval,
            until_idle=until_idle,
            max_polls=max_polls,
            dry_run=dry_run,
            recover_all=recover_all,
            state=state,
            prepares=prepare is not None,
            recovers=recover is not None,
            gates=gate is not None,
        )
        import weakref  # noqa: PLC0415 - only watchers need it

        watch = Watch(native, {"preparation": prepare, "recovery": recover, "gate": gate})
        self._watchers = [reference for reference in self._watchers if reference() is not None]
        self._watchers.append(weakref.ref(watch))
        return watch

    def close(self) -> None:
        """Close the client's watchers. Further calls raise Error."""
        self._imds = None
        for reference in self._watchers:
            watch = reference()
            if watch is not None:
                watch.close()
        self._watchers.clear()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<Client closed>" if self._imds is None else f"<Client of {self._imds.endpoint}>"


class Watch:
    """A running watcher: an iterator over its records, and a context manager that closes it."""

    def __init__(self, native: _native.Watch, workers: _Workers) -> None:
        self._native = native
        self._closed = False
        if any(workers.values()):
            _start(_dispatch, native, workers)
        _close_at_exit(self)

    @property
    def closed(self) -> bool:
        """Whether the watcher has ended."""
        return self._closed

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Any:
        while not self._closed:
            output = self._native.next()
            if output is None:
                self._closed = True
            elif isinstance(output, tuple):
                _log(*output)
            else:
                return output
        raise StopIteration

    def close(self) -> None:
        """Stop the watcher and save its state. An iteration that waits for a record ends.

        A function that prepares, recovers or answers for the gate continues to run; its result is ignored.
        """
        self._closed = True
        self._native.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A loop over the records that ends with `break` leaves nothing to close the watcher with.
        if not getattr(self, "_closed", True):
            self.close()

    def __repr__(self) -> str:
        return f"<Watch {'ended' if self._closed else 'running'}>"


Client.__module__ = Watch.__module__ = start_requests.__module__ = "scheduled_events"

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
    while (task := native.task()) is not None:
        worker = workers[task.kind]
        try:
            _start(_do, task, worker)
        except RuntimeError as error:
            _log(30, "cannot start another thread; the next event waits until this one is done", error)
            _do(task, worker)


def _do(task: _native.Task, worker: Callable[..., object] | None) -> None:
    success = False
    try:
        arguments = (task.event,) if task.phase is None else (task.event, task.phase)
        answer = None if worker is None else worker(*arguments)
        if hasattr(answer, "__await__"):
            getattr(answer, "close", bool)()
            returned = f"it returned {answer!r}, which only scheduled_events.aio.watch() awaits"
            _log(40, f"the {task.kind} failed: {returned}")
        elif task.kind == "gate":
            task.answer(answer)
        else:
            success = answer is not False
    except _Abandoned:
        task.abandon()
        _log(10, f"the {task.kind} was abandoned")
    except BaseException as error:
        _log(40, f"the {task.kind} failed", error)
    finally:
        task.complete(success)


def _start(target: Callable[..., None], *args: Any) -> None:
    import threading  # noqa: PLC0415 - only workers need it

    threading.Thread(target=target, args=args, name="scheduled-events", daemon=True).start()


def _log(level: int, message: str, error: BaseException | None = None) -> None:
    import logging  # noqa: PLC0415 - only messages need it

    # Messages contain text from outside this machine.
    logging.getLogger("scheduled_events").log(level, "%s", _native._printable(message), exc_info=error)
