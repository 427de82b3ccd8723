"""The words of the wire and of the policies, as enumerations that are texts."""

from __future__ import annotations

from enum import Enum


class _Word(str, Enum):
    """A text with a name: it compares, hashes, prints and formats as the text itself."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, format_spec: str) -> str:
        return str.__format__(self, format_spec)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class EventType(_Word):
    """The impact that an event will have."""

    FREEZE = "Freeze"
    REBOOT = "Reboot"
    REDEPLOY = "Redeploy"
    PREEMPT = "Preempt"
    TERMINATE = "Terminate"


class EventStatus(_Word):
    """How far an event has come. One that is over is absent from the document."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"


class EventSource(_Word):
    """Who caused an event."""

    PLATFORM = "Platform"
    USER = "User"


class Action(_Word):
    """What is done about an event."""

    APPROVE = "approve"
    PREPARE = "prepare"
    HOLD = "hold"
    IGNORE = "ignore"


for _enumeration in (EventType, EventStatus, EventSource, Action):
    _enumeration.__module__ = "scheduled_events"
del _enumeration
