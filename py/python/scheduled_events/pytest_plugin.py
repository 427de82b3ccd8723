"""A fixture for pytest: ``scheduled_events_replay`` serves scenarios like Azure's metadata service.

pytest finds it once the package is installed::

    def test_my_service_drains(scheduled_events_replay):
        url = scheduled_events_replay("preempt", speed=60, faults=["status:500@2"], vm_name="web_0")
        ...

Each call starts a server and returns its URL; all servers stop when the test ends. ``scheduled_events_replay.servers``
lists them; their ``requests()`` return the requests that they received.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from . import _native

if TYPE_CHECKING:
    from collections.abc import Iterator


class Replays:
    """Starts replay servers and keeps them."""

    def __init__(self) -> None:
        self.servers: list[_native.Replay] = []

    def __call__(self, scenario: str, **options: Any) -> str:
        """Start a server, as ``scheduled_events.replay`` does, and return its URL."""
        server = _native.replay(scenario, **options)
        self.servers.append(server)
        return server.url


@pytest.fixture
def scheduled_events_replay() -> Iterator[Replays]:
    """Replay servers that stop when the test ends."""
    replays = Replays()
    yield replays
    for server in replays.servers:
        server.close()
