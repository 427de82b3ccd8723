"""Scheduled Events for asyncio: ``async for record in aio.watch(...)``."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from ._client import Client, _Abandoned, _takes_task
from ._client import Watch as SyncWatch

if TYPE_CHECKING:
    import logging
    import os
    from collections.abc import Callable

    from typing_extensions import Self

    from ._native import _Duration, _Gate, _Names, _Policy, _Worker
    from ._records import _AnyRecord

__all__ = ["Watch", "watch"]

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
    client = Client(
        endpoint,
        api_version=api_version,
        timeout=timeout,
        vm_names=vm_names,
        allow_endpoint=allow_endpoint,
        user_agent=user_agent,
        trace=trace,
    )
    for name, worker in (("prepare", prepare), ("recover", recover), ("gate", gate)):
        if worker is not None:
            _takes_task(worker, name, _USUAL[name])
    client._check(policy, interval, max_polls, last_call, prepare_retries)
    return Watch(
        client,
        {
            "policy": policy,
            "last_call": last_call,
            "prepare_retries": prepare_retries,
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
        self._client.close()
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
