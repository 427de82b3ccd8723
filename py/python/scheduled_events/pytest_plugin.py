"""A fixture for pytest: ``scheduled_events_replay`` serves scenarios like Azure's metadata service.

pytest finds it once the package is installed::

    def test_my_service_drains(scheduled_events_replay):
        url = scheduled_events_replay("preempt", speed=60, faults=["status:500@2"], vm_name="web_0")
        ...

Each call starts a server and returns its URL; all servers stop when the test ends. ``scheduled_events_replay.servers``
lists them; their ``requests()`` return the requests that they received.

A test that passed fails if a client of one of its servers broke a rule of the wire contract. The client has to go on
until ``scheduled_events_replay.servers[0].finished``. With ``verdict=False`` nothing is checked unless the test calls
the server's ``finish()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import _native

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence


class Replays:
    """Starts replay servers and keeps them."""

    def __init__(self) -> None:
        self.servers: list[_native.Replay] = []
        self._judged: list[_native.Replay] = []

    def __call__(
        self,
        scenario: str | os.PathLike[str],
        *,
        speed: float = 1.0,
        faults: Sequence[str] = (),
        vm_name: str = "WestNO_0",
        listen: str = "127.0.0.1:0",
        seed: int | None = None,
        newest_api_version: str = "2020-07-01",
        machines: int = 1,
        verdict: bool = True,
    ) -> str:
        """Start a server, as ``scheduled_events.replay`` does, and return its URL."""
        server = _native.replay(
            scenario,
            speed=speed,
            faults=faults,
            vm_name=vm_name,
            listen=listen,
            seed=seed,
            newest_api_version=newest_api_version,
            machines=machines,
        )
        self.servers.append(server)
        if verdict:
            self._judged.append(server)
        return server.url

    def assert_clean(self) -> None:
        """Raise AssertionError if a client of a server broke a rule, unless its verdict is left to the test."""
        for server in self._judged:
            server.finish().assert_clean()


@pytest.fixture
def scheduled_events_replay() -> Iterator[Replays]:
    """Replay servers that stop when the test ends."""
    replays = Replays()
    yield replays
    for server in replays.servers:
        server.close()


# After the test, unless that failed.
@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail a test that passed although a client broke a rule."""
    replays = getattr(item, "funcargs", {}).get("scheduled_events_replay")
    if isinstance(replays, Replays):
        try:
            replays.assert_clean()
        except AssertionError as broken:
            raise pytest.fail.Exception(str(broken), pytrace=False) from None
