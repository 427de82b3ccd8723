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
) -> Watch: ...

class Watch:
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
    async def aclose(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
