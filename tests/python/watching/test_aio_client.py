"""`aio.Client`: requests and watchers of an event loop, which none of them holds up."""

import asyncio
import time

import pytest
from conftest import PATIENCE, VM

import scheduled_events as se


def test_it_polls_approves_and_watches() -> None:
    async def main(url: str) -> "list[str]":
        async with se.aio.Client(url) as client:
            assert client.endpoint == url
            assert await client.vm_name() == VM
            assert (await client.poll()).events == ()
            server.step()
            await client.approve((await client.poll()).events)
            server.step()
            assert [event.event_status for event in (await client.poll()).events] == ["Started"]
            kinds = []
            async with client.watch("sample", until_idle=True) as watch:
                async for record in watch:
                    if isinstance(record, se.Change):
                        kinds.append(record.change)
                        server.step()
            # The client goes on after the watcher.
            assert (await client.poll()).events == ()
            return kinds

    server = se.replay("user-reboot", speed=0.01)
    with server as url:
        assert asyncio.run(main(url)) == ["started-without-notice", "completed"]
        assert server.finish().is_clean, str(server.finish())


def test_it_raises_what_the_other_client_raises() -> None:
    async def main(url: str) -> None:
        client = se.aio.Client(url)
        with pytest.raises(se.EndpointError) as caught:
            await client.poll()
        assert caught.value.cause == "status-503"
        with pytest.raises(se.ConfigError, match="events"):
            await client.approve([])
        with pytest.raises(se.ConfigError, match="interval"):
            client.watch(interval=0.1)
        watch = client.watch()
        await client.aclose()
        for call in (client.poll, client.vm_name, watch.__anext__):
            with pytest.raises(se.Error, match="closed"):
                await call()
        named = se.aio.Client(url, vm_names="a")
        await named.aclose()
        with pytest.raises(se.Error, match="closed"):
            await named.vm_name()

    with se.replay("user-reboot", faults=["get.status:503"]) as url:
        asyncio.run(main(url))
    with pytest.raises(se.ConfigError, match="endpoint"):
        se.aio.Client("nowhere")


def test_it_repeats_a_request_while_the_loop_runs() -> None:
    async def main(url: str) -> int:
        async with se.aio.Client(url, retries=1) as client:
            polling = asyncio.create_task(client.poll())
            turns = 0
            while not polling.done():
                await asyncio.sleep(0.01)
                turns += 1
            assert polling.result().incarnation == 1
            return turns

    with se.replay("user-reboot", faults=["get.status:503@1"]) as url:
        # A loop that is blocked during the pause before the second request has one or two.
        assert asyncio.run(main(url)) > 5


def test_a_cancelled_request_holds_up_neither_the_task_nor_the_end_of_the_program() -> None:
    async def main(url: str) -> None:
        async with se.aio.Client(url) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.poll(), 0.2)

    with se.replay("user-reboot", faults=["silence"]) as url:
        began = time.monotonic()
        asyncio.run(main(url))
        # The first request has 130 s.
        assert time.monotonic() - began < PATIENCE / 4
