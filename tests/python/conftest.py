"""Fixtures of several tests."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from left_over import left

import scheduled_events as se

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

ROOT = Path(__file__).resolve().parents[2]
VM = "WestNO_0"
# No test reaches this many seconds unless it fails.
PATIENCE = 60.0

DOCUMENT = b"""{"DocumentIncarnation":2,"Events":[{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123",
"EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["WestNO_0","WestNO_1"],
"NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","Description":"Live Migration.","EventSource":"Platform",
"DurationInSeconds":5}]}"""


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_over() -> "Iterator[None]":
    """Fail the last test of each process if tests have left servers or sockets. It ends after all other fixtures."""
    yield
    gc.collect()  # A test that keeps an error keeps what its traceback names.
    end = time.monotonic() + 5.0
    while what := left():
        assert time.monotonic() < end, f"the tests have left {len(what)} open: {', '.join(what)}"
        time.sleep(0.02)


@pytest.fixture
def document() -> se.Document:
    return se.parse(DOCUMENT)


@pytest.fixture
def event(document: se.Document) -> se.Event:
    return document.events[0]


@pytest.fixture
def environment() -> "dict[str, str]":
    return python_path()


def python_path() -> "dict[str, str]":
    """The environment for programs that use this Python."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}


def has_prepared(record: object) -> "TypeGuard[se.Prepare]":
    """Whether it is the end of a preparation."""
    return isinstance(record, se.Prepare) and record.outcome != "begun"


def eventually(what: str, condition: "Callable[[], Any]") -> Any:
    """Wait until a condition returns something true, and return it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen")
