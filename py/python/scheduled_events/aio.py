"""Scheduled Events for asyncio: ``async for record in aio.watch(...)``."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from ._client import Client, _Abandoned, _log
from ._client import Watch as SyncWatch

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from . import Record
    from ._client import _Gate, _Worker
    from ._native import Policy

    _Output = tuple[int, str] | Record | BaseException | None

__all__ = ["Watch", "watch"]


def watch(
    endpoint: str | None = None,
    *,
    policy: Policy | str | os.PathLike[str] | None = None,
    prepare: _Worker | None = None,
    recover: _Worker | None = None,
    gate: _Gate | None = None,
    recover_all: bool = False,
    state: str | os.PathLike[str] | None = None,
    until_idle: bool = False,
    interval: float = 1.0,
    max_polls: int | None = None,
    dry_run: bool = False,
    vm_names: str | Iterable[str] | None = None,
    api_version: str | None = None,
    allow_endpoint: bool = False,
) -> Watch:
    """Watch while the event loop runs; iterate over the records with ``async for``.

    The arguments are those of Client and Client.watch. ``prepare``, ``recover`` and ``gate`` are called on threads; an
    awaitable that they return, like that of a coroutine function, runs on the loop. When the event changes, it is not
    cancelled either: the watcher waits until it is done, and ignores its result. Cancelling the iteration takes effect
    at once; close the watcher with ``await watch.aclose()`` or ``async with``.
    """
    client = Client(endpoint, api_version=api_version, vm_names=vm_names, allow_endpoint=allow_endpoint)
    return Watch(
        client,
        {
            "policy": policy,
            "recover_all": recover_all,
            "state": state,
            "until_idle": until_idle,
            "interval": interval,
            "max_polls": max_polls,
            "dry_run": dry_run,
        },
        {"prepare": prepare, "recover": recover, "gate": gate},
    )


class Watch:
    """A watcher as an asynchronous iterator and context manager. It starts with the first iteration."""

    def __init__(
        self, client: Client, options: dict[str, Any], workers: dict[str, Callable[..., object] | None]
    ) -> None:
        self._client = client
        self._options = options
        self._workers = workers
        self._queue: asyncio.Queue[_Output] | None = None
        self._watch: SyncWatch | None = None
        self._ended = False

    def _start(self) -> asyncio.Queue[_Output]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[_Output] = asyncio.Queue()
        workers = {name: _on_loop(worker, loop) for name, worker in self._workers.items()}
        self._watch = self._client.watch(**workers, **self._options)
        # The thread below does not refer to this object, so that an abandoned watcher can be collected and stops.
        native = self._watch._native

        def send(output: _Output) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, output)
            except RuntimeError:
                # The loop is closed.
                native.close()

        def pump() -> None:
            try:
                while (output := native.next()) is not None:
                    send(output)
                send(None)
            except BaseException as error:
                send(error)

        threading.Thread(target=pump, name="scheduled-events-aio", daemon=True).start()
        self._queue = queue
        return queue

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Any:
        if self._ended:
            raise StopAsyncIteration
        queue = self._queue or self._start()
        while True:
            output = await queue.get()
            if isinstance(output, tuple):
                _log(*output)
                continue
            if output is None or isinstance(output, BaseException):
                await self.aclose()
                raise StopAsyncIteration if output is None else output
            return output

    async def aclose(self) -> None:
        """Stop the watcher and save its state."""
        self._ended = True
        self._client.close()
        if self._queue is not None:
            self._queue.put_nowait(None)

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _on_loop(worker: Callable[..., object] | None, loop: asyncio.AbstractEventLoop) -> Callable[..., object] | None:
    """Run an awaitable that the worker returns on the loop, while the worker's thread waits for it."""
    if worker is None:
        return None

    async def awaited(answer: Any) -> object:
        return await answer

    def call(*arguments: object) -> object:
        answer: Any = worker(*arguments)
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

    return call
