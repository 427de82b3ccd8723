"""The native part. The package's own stub describes what is public."""

import os
from collections.abc import Sequence
from typing import final

from typing_extensions import Self

from . import Document as Document
from . import Event as Event
from . import Policy as Policy
from . import Record
from . import Replay as Replay
from . import Rule as Rule
from . import Session as Session
from . import Tracker as Tracker
from . import parse as parse
from . import replay as replay
from . import scenarios as scenarios

__version__: str

def run(arguments: Sequence[str]) -> int: ...
def _start_requests(ids: Sequence[str]) -> bytes: ...
def _event(object: bytes) -> Event: ...  # noqa: A002
def _event_of_record(record: str) -> Event: ...
def _policy(text: str) -> Policy: ...
def _printable(text: str) -> str: ...
def _record_examples() -> list[str]: ...
def _record_members() -> dict[str, tuple[str, ...]]: ...

@final
class Imds:
    def __new__(
        cls, endpoint: str | None, api_version: str | None, timeout: float | None, allow_endpoint: bool
    ) -> Self: ...
    @property
    def endpoint(self) -> str: ...
    def poll(self) -> Document | None: ...
    def approve(self, ids: Sequence[str]) -> None: ...
    def vm_name(self) -> str: ...

@final
class Task:
    @property
    def kind(self) -> str: ...
    @property
    def event(self) -> Event: ...
    @property
    def phase(self) -> str | None: ...
    @property
    def time_left(self) -> float | None: ...
    def complete(self, success: bool) -> None: ...
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
        recover_all: bool,
        state: str | os.PathLike[str] | None,
        prepares: bool,
        recovers: bool,
        gates: bool,
    ) -> Self: ...
    def next(self) -> tuple[int, str] | Record | None: ...
    def task(self) -> Task | None: ...
    def close(self) -> None: ...
