"""The functions of ``json`` that scripts for Scheduled Events use, for ``import scheduled_events as json``."""

from __future__ import annotations

from ._errors import ParseError
from ._native import Document, Event, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

JSONDecodeError = ParseError
loads = parse


def load(file: Any, /) -> Document:
    """Parse the document in a file, like ``json.load``."""
    return parse(file.read())


def dumps(obj: Any, *, default: Callable[[Any], Any] | None = None, **options: Any) -> str:
    """Return ``obj`` as JSON, like ``json.dumps``; it may contain documents and events."""
    import json  # noqa: PLC0415 - only scripts that write JSON need it

    return json.dumps(obj, default=_with_events(default), **options)


def dump(obj: Any, file: Any, *, default: Callable[[Any], Any] | None = None, **options: Any) -> None:
    """Write ``obj`` as JSON to a file, like ``json.dump``; it may contain documents and events."""
    import json  # noqa: PLC0415 - only scripts that write JSON need it

    json.dump(obj, file, default=_with_events(default), **options)


def _with_events(default: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, (Document, Event)):
            return dict(value)
        if default is None:
            raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
        return default(value)

    return convert


load.__module__ = dumps.__module__ = dump.__module__ = "scheduled_events"
