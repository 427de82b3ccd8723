"""A fixture for pytest: ``scheduled_events_replay``, Azure's metadata service as a scenario.

It is there as soon as the package is installed::

    def test_my_service_drains(scheduled_events_replay):
        url = scheduled_events_replay("preempt", speed=60, faults=["status:500@2"], vm_name="web_0")
        ...

Each call starts a server of its own and gives its URL; the test's end stops them all. The servers themselves, whose
``requests()`` tell what was asked, are in ``scheduled_events_replay.servers``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from . import _native

if TYPE_CHECKING:
    from collections.abc import Iterator


class Replays:
    """Starts replay servers, and remembers them."""

    def __init__(self) -> None:
        self.servers: list[_native.Replay] = []

    def __call__(self, scenario: str, **options: Any) -> str:
        """Start a server, as ``scheduled_events.replay`` does, and give its URL."""
        server = _native.replay(scenario, **options)
        self.servers.append(server)
        return server.url


@pytest.fixture
def scheduled_events_replay() -> Iterator[Replays]:
    """Replay servers that end with the test."""
    replays = Replays()
    yield replays
    for server in replays.servers:
        server.close()
