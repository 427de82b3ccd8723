"""Scheduled Events for asyncio: ``async for record in aio.watch(...)``."""

import logging
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal

from typing_extensions import Self

from . import (
    Approval,
    Change,
    Client,
    Decision,
    Dropped,
    Event,
    Gate,
    Policy,
    PollFailed,
    Prepare,
    Problem,
    Recover,
    Task,
    Untracked,
)

__all__ = ["Watch", "watch"]

def watch(
    endpoint: str | None = None,
    *,
    policy: Policy | str | os.PathLike[str] | None = None,
    prepare: Callable[[Event], object] | Callable[[Event, Task], object] | None = None,
    recover: Callable[[Event], object] | Callable[[Event, Task], object] | None = None,
    gate: Callable[[Event, Literal["prepare", "approve"]], object]
    | Callable[[Event, Literal["prepare", "approve"], Task], object]
    | None = None,
    last_call: int | str | timedelta | None = None,
    recover_all: bool = False,
    state: str | os.PathLike[str] | None = None,
    until_idle: bool = False,
    interval: float = 1.0,
    max_polls: int | None = None,
    dry_run: bool = False,
    timeout: float | None = None,
    vm_names: str | Iterable[str] | None = None,
    api_version: str | None = None,
    allow_endpoint: bool = False,
    user_agent: str | None = None,
    trace: logging.Logger | None = None,
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
    ) -> Change | Decision | Approval | Prepare | Gate | Recover | PollFailed | Problem | Untracked | Dropped: ...
    async def aclose(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
