"""Azure Scheduled Events: read them, track them, decide about them and approve them.

``parse`` reads a document, ``parse_notifications`` what Azure publishes outside the machine. ``Tracker``, ``Policy``
and ``Session`` need no network. ``Client`` talks to the metadata service; ``aio`` does so for asyncio. ``replay``
imitates the service, for tests. What is refused raises ``Error`` at the call. Watchers log to
``logging.getLogger("scheduled_events")``.
"""

from __future__ import annotations

from types import ModuleType

from ._client import Client, Task, Watch, start_requests
from ._errors import (
    ArgumentError,
    CapacityError,
    ConfigError,
    EndpointError,
    Error,
    ParseError,
    PolicyError,
    SnapshotError,
    StateError,
)
from ._json import JSONDecodeError, dump, dumps, load, loads
from ._native import (
    Document,
    Event,
    Finding,
    Notification,
    Notifications,
    Policy,
    Replay,
    Request,
    Rule,
    Session,
    Tracker,
    Verdict,
    __version__,
    acknowledge_request,
    parse,
    parse_notifications,
    replay,
    scenarios,
)
from ._records import (
    Approval,
    Cancel,
    Change,
    Decision,
    Dropped,
    EventRecord,
    Gate,
    GateDue,
    Get,
    NoAdvice,
    PollFailed,
    Post,
    Prepare,
    PrepareDue,
    Problem,
    Record,
    Recover,
    RecoverDue,
    Report,
    Untracked,
    Wait,
    Waiting,
)
from ._words import Action, EventSource, EventStatus, EventType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import aio, spot, terminate


class _Lazy(ModuleType):
    # A module that is imported at the first access to its attributes.

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        import importlib  # noqa: PLC0415

        return importlib.import_module(self.__name__).__doc__

    def __getattr__(self, name: str) -> Any:
        import importlib  # noqa: PLC0415

        return getattr(importlib.import_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        import importlib  # noqa: PLC0415

        return sorted(vars(importlib.import_module(self.__name__)))


if not TYPE_CHECKING:
    # Importing asyncio takes longer than importing the rest of this package, and few programs use the others. A
    # function __getattr__ of this package could delay them too, but then the interpreter caches none of its attributes.
    aio = _Lazy(f"{__name__}.aio")
    spot = _Lazy(f"{__name__}.spot")
    terminate = _Lazy(f"{__name__}.terminate")

__all__ = [
    "Action",
    "Approval",
    "ArgumentError",
    "Cancel",
    "CapacityError",
    "Change",
    "Client",
    "ConfigError",
    "Decision",
    "Document",
    "Dropped",
    "EndpointError",
    "Error",
    "Event",
    "EventRecord",
    "EventSource",
    "EventStatus",
    "EventType",
    "Finding",
    "Gate",
    "GateDue",
    "Get",
    "JSONDecodeError",
    "NoAdvice",
    "Notification",
    "Notifications",
    "ParseError",
    "Policy",
    "PolicyError",
    "PollFailed",
    "Post",
    "Prepare",
    "PrepareDue",
    "Problem",
    "Record",
    "Recover",
    "RecoverDue",
    "Replay",
    "Report",
    "Request",
    "Rule",
    "Session",
    "SnapshotError",
    "StateError",
    "Task",
    "Tracker",
    "Untracked",
    "Verdict",
    "Wait",
    "Waiting",
    "Watch",
    "__version__",
    "acknowledge_request",
    "aio",
    "dump",
    "dumps",
    "load",
    "loads",
    "parse",
    "parse_notifications",
    "replay",
    "scenarios",
    "spot",
    "start_requests",
    "terminate",
]
