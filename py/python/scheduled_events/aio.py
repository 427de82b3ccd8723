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
    from collections.abc import Iterable

    from . import Record
    from ._client import _Worker
    from ._native import Event, Policy

    _Told = tuple[int, str] | Record | BaseException | None

__all__ = ["Watch", "watch"]


def watch(
    endpoint: str | None = None,
    *,
    policy: Policy | str | os.PathLike[str] | None = None,
    prepare: _Worker | None = None,
    recover: _Worker | None = None,
    state: str | os.PathLike[str] | None = None,
    until_idle: bool = False,
    interval: float = 1.0,
    max_polls: int | None = None,
    dry_run: bool = False,
    vm_names: str | Iterable[str] | None = None,
    api_version: str | None = None,
    allow_endpoint: bool = False,
) -> Watch:
    """Do the main job beside the event loop; iterate over the records with ``async for``.

    The arguments are those of Client and Client.watch. What ``prepare`` and ``recover`` give to be awaited, as
    coroutine functions do, runs on the loop; they themselves run on threads. Cancelling whoever iterates takes effect
    at once; close the watch with ``await watch.aclose()`` or ``async with``.
    """
    client = Client(endpoint, api_version=api_version, vm_names=vm_names, allow_endpoint=allow_endpoint)
    return Watch(
        client,
        {
            "policy": policy,
            "state": state,
            "until_idle": until_idle,
            "interval": interval,
            "max_polls": max_polls,
            "dry_run": dry_run,
        },
        prepare,
        recover,
    )


class Watch:
    """A watch as an asynchronous iterator and context manager. It starts when it is first asked."""

    def __init__(
        self, client: Client, options: dict[str, Any], prepare: _Worker | None, recover: _Worker | None
    ) -> None:
        self._client = client
        self._options = options
        self._workers = (prepare, recover)
        self._queue: asyncio.Queue[_Told] | None = None
        self._watch: SyncWatch | None = None
        self._ended = False

    def _start(self) -> asyncio.Queue[_Told]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[_Told] = asyncio.Queue()
        prepare, recover = (_on_loop(worker, loop) for worker in self._workers)
        self._watch = self._client.watch(prepare=prepare, recover=recover, **self._options)
        # The thread below knows nothing of this object, so that one who is forgotten can be collected, and ends.
        native = self._watch._native

        def tell(told: _Told) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, told)
            except RuntimeError:
                # The loop is closed, so nobody listens any more.
                native.close()

        def pump() -> None:
            try:
                while (told := native.next()) is not None:
                    tell(told)
                tell(None)
            except BaseException as error:
                tell(error)

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
            told = await queue.get()
            if isinstance(told, tuple):
                _log(*told)
                continue
            if told is None or isinstance(told, BaseException):
                await self.aclose()
                raise StopAsyncIteration if told is None else told
            return told

    async def aclose(self) -> None:
        """End the watch; its state is kept."""
        self._ended = True
        self._client.close()
        if self._queue is not None:
            self._queue.put_nowait(None)

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _on_loop(worker: _Worker | None, loop: asyncio.AbstractEventLoop) -> _Worker | None:
    """Let what a worker gives to be awaited run on the loop, while a thread waits for it."""
    if worker is None:
        return None

    async def awaited(answer: Any) -> object:
        return await answer

    def call(event: Event) -> object:
        answer: Any = worker(event)
        if not hasattr(answer, "__await__"):
            return answer
        running = awaited(answer)
        try:
            return asyncio.run_coroutine_threadsafe(running, loop).result()
        except (CancelledError, RuntimeError) as error:
            # A loop that is taken down cancels what runs on it, or does not let it begin. Whoever cancels it and keeps
            # the loop has decided that it failed.
            patience = time.monotonic() + (5 if isinstance(error, CancelledError) else 0)
            while not loop.is_closed():
                if time.monotonic() >= patience:
                    raise
                time.sleep(0.05)
            for unfinished in (running, answer):
                getattr(unfinished, "close", bool)()
            raise _Abandoned from None

    return call
