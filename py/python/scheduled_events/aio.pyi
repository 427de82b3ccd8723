"""Scheduled Events for asyncio: ``async for record in aio.watch(...)``."""

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from typing_extensions import Self

from . import (
    Approval,
    Change,
    Client,
    Decision,
    Event,
    Gate,
    Policy,
    PollFailed,
    Prepare,
    Problem,
    Recover,
    Untracked,
)

__all__ = ["Watch", "watch"]

def watch(
    endpoint: str | None = None,
    *,
    policy: Policy | str | os.PathLike[str] | None = None,
    prepare: Callable[[Event], object] | None = None,
    recover: Callable[[Event], object] | None = None,
    gate: Callable[[Event, str], object] | None = None,
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

class Watch:
    """A watcher as an asynchronous iterator and context manager. It starts with the first iteration."""

    def __init__(
        self,
        client: Client,
        options: dict[str, Any],
        workers: dict[str, Callable[..., object] | None],
    ) -> None: ...
    def __aiter__(self) -> Self: ...
    async def __anext__(
        self,
    ) -> Change | Decision | Approval | Prepare | Gate | Recover | PollFailed | Problem | Untracked: ...
    async def aclose(self) -> None:
        """Stop the watcher and save its state."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
