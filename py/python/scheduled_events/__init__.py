"""Azure Scheduled Events: read, track, decide, approve.

Reading: ``parse``. Deciding: ``Tracker``, ``Policy``, ``Session``. Doing: ``Client``, and ``aio`` for asyncio. Testing:
``replay`` imitates Azure's metadata service.
"""

from __future__ import annotations

from types import ModuleType

from ._client import Client, Watch, start_requests
from ._errors import (
    CapacityError,
    ConfigError,
    EndpointError,
    Error,
    ParseError,
    PolicyError,
    SnapshotError,
    StateError,
)
from ._native import (
    Document,
    Event,
    Policy,
    Replay,
    Rule,
    Session,
    Tracker,
    __version__,
    parse,
    replay,
    scenarios,
)
from ._records import (
    Approval,
    Change,
    Decision,
    Get,
    PollFailed,
    Post,
    Prepare,
    Problem,
    Record,
    Recover,
    Report,
    Untracked,
    Wait,
)
from ._words import Action, EventSource, EventStatus, EventType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Lazy(ModuleType):
    """A module that is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        import importlib  # noqa: PLC0415

        return getattr(importlib.import_module(self.__name__), name)


# asyncio takes longer to import than all the rest, and most scripts do without it. A function __getattr__ of this
# package could wait as well, but with one the interpreter caches no name of the package, parse among them.
aio = _Lazy(f"{__name__}.aio")

# The name under which scripts written for `json` look for it.
loads = parse

__all__ = [
    "Action",
    "Approval",
    "CapacityError",
    "Change",
    "Client",
    "ConfigError",
    "Decision",
    "Document",
    "EndpointError",
    "Error",
    "Event",
    "EventSource",
    "EventStatus",
    "EventType",
    "Get",
    "ParseError",
    "Policy",
    "PolicyError",
    "PollFailed",
    "Post",
    "Prepare",
    "Problem",
    "Record",
    "Recover",
    "Replay",
    "Report",
    "Rule",
    "Session",
    "SnapshotError",
    "StateError",
    "Tracker",
    "Untracked",
    "Wait",
    "Watch",
    "__version__",
    "aio",
    "loads",
    "parse",
    "replay",
    "scenarios",
    "start_requests",
]
