"""Scheduled Events for asyncio: ``async for record in aio.watch(...)``, and ``await client.poll()`` of a Client."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any

from ._client import Client as SyncClient
from ._client import Watch as SyncWatch
from ._client import _Abandoned, _Later, _takes_task

if TYPE_CHECKING:
    import logging
    import os
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from typing_extensions import Self

    from ._native import Document, _Duration, _EventId, _Gate, _Names, _Policy, _Worker
    from ._records import _AnyRecord

    _Result = TypeVar("_Result")

__all__ = ["Client", "Watch", "watch"]

# How many arguments the functions take without the task.
_USUAL = {"prepare": 1, "recover": 1, "gate": 2}


def watch(
    endpoint: str | None = None,
    *,
    policy: _Policy | None = None,
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
    timeout: float | None = None,
    vm_names: _Names | None = None,
    api_version: str | None = None,
    allow_endpoint: bool = False,
    user_agent: str | None = None,
    trace: logging.Logger | None = None,
) -> Watch:
    """Watch while the event loop runs; iterate over the records with ``async for``.

    The arguments are those of Client and Client.watch; what they refuse is refused at this call. ``prepare``,
    ``recover`` and ``gate`` are called on threads; an awaitable that they return, like that of a coroutine function,
    runs on the loop. When the event changes, it is not cancelled either: the watcher sets the task's ``cancelled``,
    waits until it is done, and ignores its result. Cancelling the iteration takes effect at once; close the watcher
    with ``await watch.aclose()`` or ``async with``.
    """
    client = SyncClient(
        endpoint,
        api_version=api_version,
        timeout=timeout,
        vm_names=vm_names,
        allow_endpoint=allow_endpoint,
        user_agent=user_agent,
        trace=trace,
    )
    return _watch(
        client,
        policy=policy,
        prepare=prepare,
        recover=recover,
        gate=gate,
        last_call=last_call,
        prepare_retries=prepare_retries,
        recover_all=recover_all,
        state=state,
        until_idle=until_idle,
        interval=interval,
        max_polls=max_polls,
        dry_run=dry_run,
    )


class Client:
    """A client of the metadata service for asyncio; an asynchronous context manager.

    The arguments are those of ``scheduled_events.Client``. A request runs on a thread of its own: cancelling the task
    that awaits it takes effect at once, and the thread ends with the request's time-out.
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
        self._client = SyncClient(
            endpoint,
            api_version=api_version,
            timeout=timeout,
            vm_names=vm_names,
            allow_endpoint=allow_endpoint,
            user_agent=user_agent,
            retries=retries,
            trace=trace,
        )

    @property
    def endpoint(self) -> str:
        """The endpoint, without a path."""
        return self._client.endpoint

    async def poll(self) -> Document:
        """Request the document. It raises what ``scheduled_events.Client.poll`` raises."""
        return await self._request(self._client._open().poll)

    async def approve(self, events: _EventId | Iterable[_EventId]) -> None:
        """Approve events: Azure may then start them early, on all machines that they name.

        Whether Azure got the approval is unknown if the task is cancelled.
        """
        await self._request(partial(self._client._open().approve, events))

    async def vm_name(self) -> str:
        """Return this machine's name as events spell it: the first of ``vm_names``, or requested from the service."""
        imds = self._client._open()
        names = self._client._vm_names
        return names[0] if names else await self._request(imds.vm_name)

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
        """Watch while the event loop runs, as ``scheduled_events.aio.watch`` does; close the watcher or this client."""
        self._client._open()
        return _watch(
            self._client,
            policy=policy,
            prepare=prepare,
            recover=recover,
            gate=gate,
            last_call=last_call,
            prepare_retries=prepare_retries,
            recover_all=recover_all,
            state=state,
            until_idle=until_idle,
            interval=interval,
            max_polls=max_polls,
            dry_run=dry_run,
        )

    async def aclose(self) -> None:
        """Close the client's watchers. Further calls raise Error."""
        self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return repr(self._client)

    async def _request(self, request: Callable[[], _Result]) -> _Result:
        retry = 0
        while isinstance(result := await _on_thread(partial(self._client._attempt, request, retry)), _Later):
            await asyncio.sleep(result.seconds)
            self._client._open()
            retry += 1
        return result


async def _on_thread(call: Callable[[], _Result]) -> _Result:
    """Await a call on a thread for which, unlike for those of an executor, nothing waits once the task is cancelled."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            conclude = partial(future.set_exception, error)
        else:
            conclude = partial(future.set_result, result)
        # If the loop is closed, nobody awaits the result.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if future.done() else conclude())

    threading.Thread(target=run, name="scheduled-events-aio", daemon=True).start()
    return await future


def _watch(
    client: SyncClient,
    *,
    prepare: _Worker | None,
    recover: _Worker | None,
    gate: _Gate | None,
    **options: Any,
) -> Watch:
    """Make a watcher, and refuse at once what it would refuse when it starts."""
    workers: dict[str, Callable[..., object] | None] = {"prepare": prepare, "recover": recover, "gate": gate}
    for name, worker in workers.items():
        if worker is not None:
            _takes_task(worker, name, _USUAL[name])
    checked = ("policy", "interval", "max_polls", "last_call", "prepare_retries")
    client._check(*(options[name] for name in checked))
    return Watch(client, options, workers)


class Watch:
    """A watcher as an asynchronous iterator and context manager. It starts with the first iteration."""

    def __init__(
        self, client: SyncClient, options: dict[str, Any], workers: dict[str, Callable[..., object] | None]
    ) -> None:
        self._client = client
        self._options = options
        self._workers = workers
        self._watch: SyncWatch | None = None
        self._added: asyncio.Event | None = None
        self._ended = False

    def _start(self) -> SyncWatch:
        loop = asyncio.get_running_loop()
        workers: dict[str, Any] = {
            name: _on_loop(worker, loop, name, _USUAL[name]) for name, worker in self._workers.items()
        }
        self._watch = self._client.watch(**workers, **self._options)
        # The thread below does not refer to this object, so that an abandoned watcher can be collected and stops.
        native, added = self._watch._native, asyncio.Event()
        self._added = added

        def pump() -> None:
            """Wake the reader whenever there are records. They stay in the watcher until they are read."""
            seen: int | None = 0
            while seen is not None:
                seen = native.wait(seen)
                try:
                    loop.call_soon_threadsafe(added.set)
                except RuntimeError:
                    # The loop is closed.
                    native.close()
                    return

        threading.Thread(target=pump, name="scheduled-events-aio", daemon=True).start()
        return self._watch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _AnyRecord:
        if self._watch is None and self._ended:
            raise StopAsyncIteration
        watch = self._watch or self._start()
        assert self._added is not None  # noqa: S101 - made with the watcher
        while True:
            self._added.clear()
            # In this order: nothing is added after the end.
            has_ended = watch._native.has_ended
            try:
                record = watch._native.next(False)
            except BaseException:
                await self.aclose()
                raise
            if record is not None:
                return record
            if has_ended:
                await self.aclose()
                raise StopAsyncIteration
            await self._added.wait()

    async def aclose(self) -> None:
        """Stop the watcher and save its state. An iteration ends after the records that were not read."""
        self._ended = True
        if self._watch is not None:
            self._watch.close()
        if self._added is not None:
            self._added.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _on_loop(
    worker: Callable[..., object] | None, loop: asyncio.AbstractEventLoop, name: str, usual: int
) -> Callable[..., object] | None:
    """Run an awaitable that the worker returns on the loop, while the worker's thread waits for it."""
    if not callable(worker):
        return worker
    takes_task = _takes_task(worker, name, usual)

    async def awaited(answer: Any) -> object:
        return await answer

    def call(*arguments: object) -> object:
        answer: Any = worker(*arguments[: usual + takes_task])
        if not hasattr(answer, "__await__"):
            return answer
        running = awaited(answer)
        try:
            return asyncio.run_coroutine_threadsafe(running, loop).result()
        except (CancelledError, RuntimeError) as error:
            # A loop that shuts down cancels its tasks, or starts none. If the loop stays open, somebody cancelled this
            # task alone: it failed.
            deadline = time.monotonic() + (5 if isinstance(error, CancelledError) else 0)
            while not loop.is_closed():
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.05)
            for unfinished in (running, answer):
                getattr(unfinished, "close", bool)()
            raise _Abandoned from None

    call._takes_task = True  # type: ignore[attr-defined]
    return call
