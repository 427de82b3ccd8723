"""A connection between a daemon and its store that can fail: silence, refusal, cuts."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

LOOP = asyncio.new_event_loop()


def wait(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine in the thread of the proxies."""
    asyncio.run_coroutine_threadsafe(work, LOOP).result(60)


class Proxy:
    """Listens on a port of its own, and forwards data in both directions."""

    def __init__(self, port: int) -> None:
        """A proxy for this port of the loopback interface."""
        if not LOOP.is_running():
            threading.Thread(target=LOOP.run_forever, daemon=True).start()
        self.target = port
        self.port = 0
        self.server: asyncio.Server | None = None
        self.passes: asyncio.Event | None = None
        self.writers: set[asyncio.StreamWriter] = set()
        wait(self.listen())

    async def listen(self) -> None:
        if not self.passes:
            self.passes = asyncio.Event()
            self.passes.set()
        self.server = await asyncio.start_server(self.connect, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            self.end(writer)
            return
        self.writers.add(back)
        pumps = {asyncio.create_task(self.pump(reader, back)), asyncio.create_task(self.pump(there, writer))}
        # HTTP has no use for one direction alone, and a connection of which only half is closed
        # keeps two files open.
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        self.end(writer)
        self.end(back)

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self.passes
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                # Data that arrived meanwhile is late, as after a fault of the network.
                await self.passes.wait()
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    def end(self, writer: asyncio.StreamWriter) -> None:
        self.writers.discard(writer)
        writer.transport.abort()

    def silence(self) -> None:
        """Accepts connections, and forwards nothing."""

        async def work() -> None:
            assert self.passes
            self.passes.clear()

        wait(work())

    def cut(self) -> None:
        """Resets all connections."""

        async def work() -> None:
            for writer in list(self.writers):
                self.end(writer)

        wait(work())

    def refuse(self) -> None:
        """Resets all connections, and accepts no more."""

        async def work() -> None:
            if self.server:
                self.server.close()
                self.server = None
            for writer in list(self.writers):
                self.end(writer)

        wait(work())

    def heal(self) -> None:
        """Forwards data again."""

        async def work() -> None:
            assert self.passes
            self.passes.set()
            if not self.server:
                await self.listen()

        wait(work())
