"""Azure Scheduled Events: read, track, decide, approve.

Reading: ``parse``. Deciding: ``Tracker``, ``Policy``, ``Session``. Doing: ``Client``, and ``aio`` for asyncio. Testing:
``replay`` imitates Azure's metadata service.
"""

from __future__ import annotations

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
    Events,
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
    "Events",
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


def __getattr__(name: str) -> Any:
    # asyncio takes longer to import than all the rest, and most scripts do without it.
    if name == "aio":
        import importlib  # noqa: PLC0415

        return importlib.import_module(".aio", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
