"""The exceptions, under one base class."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_NAMES_ARGUMENT = "while processing '"


class Error(Exception):
    """The base class of this package's errors."""

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        for name, value in details.items():
            setattr(self, name, value)

    def add_note(self, note: str) -> None:
        """Add a note. PyO3 names the argument that it refuses in one: the message begins with the name instead."""
        if note.startswith(_NAMES_ARGUMENT):
            self.args = (f"{note[len(_NAMES_ARGUMENT) : -1]}: {self}",)
        else:
            self.__dict__.setdefault("__notes__", []).append(note)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(kind: type[Error], args: tuple[str], details: dict[str, Any]) -> Error:
    return kind(*args, **details)


class ParseError(Error, ValueError):
    """The input is not a Scheduled Events document."""

    kind: str = ""
    """What is wrong, as a word: ``unexpected-byte``."""
    offset: int = 0
    """The position in bytes, from 0; for a str, in its UTF-8 encoding."""
    line: int = 1
    """The line, from 1."""
    column: int = 1
    """The column in characters, from 1."""


class EndpointError(Error):
    """The metadata service did not respond, or responded with something else than a document or success."""

    status: int | None = None
    """The status of the response; None if there was none."""
    cause: str | None = None
    """Why, as the word in the record of such a poll: ``timeout``, ``unreachable``, ``status-503``, ``empty-body``."""
    retry_after: int | None = None
    """How many seconds the response asks to wait; None if it does not."""


class PolicyError(Error, ValueError):
    """A policy is invalid."""

    line: int | None = None
    """The line, from 1; None if the error has no position."""
    column: int | None = None
    """The column, from 1."""


class ConfigError(Error, ValueError):
    """An argument is out of range, or an unknown word."""


class ArgumentError(Error, TypeError):
    """An argument has a type that is not accepted."""


class StateError(Error):
    """The state file cannot be used."""


class SnapshotError(Error, ValueError):
    """The bytes are not a snapshot of a session on this machine."""

    kind: str = ""
    """What is wrong, as a word: ``damaged``, ``unknown-version``, ``too-many-events`` or ``other-machine``."""


class CapacityError(Error):
    """A document has more events than a tracker holds."""

    needed: int = 0
    """How many it has."""


class ProfileError(Error, ValueError):
    """A profile of a scale set breaks a rule of Azure."""

    rule: str = ""
    """The name of the rule."""


for _error in (
    Error,
    ParseError,
    EndpointError,
    PolicyError,
    ConfigError,
    ArgumentError,
    StateError,
    SnapshotError,
    CapacityError,
):
    _error.__module__ = "scheduled_events"
ProfileError.__module__ = "scheduled_events.terminate"
del _error
