"""The words of documents and policies, as enumerations of strings."""

from __future__ import annotations

from enum import Enum


class _Word(str, Enum):
    """A member compares, hashes, prints and formats as its string."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, format_spec: str) -> str:
        return str.__format__(self, format_spec)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class EventType(_Word):
    """The expected impact of an event."""

    FREEZE = "Freeze"
    REBOOT = "Reboot"
    REDEPLOY = "Redeploy"
    PREEMPT = "Preempt"
    TERMINATE = "Terminate"
    SPOT_REBALANCE_RECOMMENDATION = "SpotRebalanceRecommendation"


class EventStatus(_Word):
    """The progress of an event. An event that has ended is absent from the document."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"
    ADVISORY = "Advisory"


class EventSource(_Word):
    """Who caused an event."""

    PLATFORM = "Platform"
    USER = "User"


class Action(_Word):
    """What a policy decides to do about an event."""

    APPROVE = "approve"
    PREPARE = "prepare"
    HOLD = "hold"
    IGNORE = "ignore"


MEMBERS = {
    enumeration.__name__: {str(member): member for member in enumeration}
    for enumeration in (EventType, EventStatus, EventSource, Action)
}

EventType.__module__ = EventStatus.__module__ = EventSource.__module__ = Action.__module__ = "scheduled_events"
