"""What can go wrong, under one base."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Error(Exception):
    """The base of all errors of this package."""

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        for name, value in details.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.args, dict(self.__dict__))


def _again(kind: type[Error], args: tuple[str], details: dict[str, Any]) -> Error:
    return kind(*args, **details)


class ParseError(Error, ValueError):
    """The bytes are no Scheduled Events document."""

    kind = ""
    offset = 0
    line = 1
    column = 1


class EndpointError(Error):
    """The metadata service could not be reached, or refused."""

    status = None
    cause = None


class PolicyError(Error, ValueError):
    """A policy's text is refused."""

    line = None
    column = None


class ConfigError(Error, ValueError):
    """An option is out of its range."""


class StateError(Error):
    """The state file cannot be used."""


class SnapshotError(Error, ValueError):
    """The bytes are no session's snapshot."""


class CapacityError(Error):
    """A document holds more events than a tracker."""

    needed = 0


for _error in (Error, ParseError, EndpointError, PolicyError, ConfigError, StateError, SnapshotError, CapacityError):
    _error.__module__ = "scheduled_events"
del _error
