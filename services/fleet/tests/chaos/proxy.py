"""Connections that can fail: of a daemon to its store by silence, refusal and cuts, and of a machine to its metadata
service by documents that are late."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Callable, Coroutine
from email.utils import formatdate
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


DATE = re.compile(rb"(?i)(\r\ndate: )[^\r]*")
LENGTH = re.compile(rb"(?i)(\r\ncontent-length: )(\d+)")


class Documents:
    """A machine's metadata service: that of a replay server, whose documents it can change and delay."""

    def __init__(self, url: str, change: Callable[[dict[str, Any]], None]) -> None:
        """`url` is the machine's address at the replay server; `change` changes each document."""
        if not LOOP.is_running():
            threading.Thread(target=LOOP.run_forever, daemon=True).start()
        self.target = int(url.rsplit(":", 1)[1])
        self.change = change
        # The last answer to each request.
        self.last: dict[bytes, bytes] = {}
        self.is_late = False
        self.port = 0
        wait(self.listen())
        self.url = f"http://127.0.0.1:{self.port}"

    async def listen(self) -> None:
        server = await asyncio.start_server(self.connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = LENGTH.search(head)
            body = await reader.readexactly(int(length[2]) if length else 0)
            line = head.split(b"\r\n")[0]
            is_document = line.startswith(b"GET ") and b"/scheduledevents" in line
            if is_document and self.is_late and line in self.last:
                writer.write(DATE.sub(rb"\g<1>" + formatdate(usegmt=True).encode(), self.last[line]))
                await writer.drain()
                writer.close()
                return
            answer = asyncio.create_task(self.ask(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body))
            gone = asyncio.create_task(reader.read())
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if not answer.done():
                answer.cancel()
            else:
                data, is_whole = answer.result()
                writer.write(self.changed(line, data) if is_document and is_whole else data)
                await writer.drain()
                if is_whole:
                    writer.close()
                    return
        writer.transport.abort()

    async def ask(self, request: bytes) -> tuple[bytes, bool]:
        """The answer to a request, as far as it comes, and whether the connection ended as it should."""
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        data = b""
        try:
            back.write(request)
            while more := await there.read(65536):
                data += more
        except OSError:
            return data, False
        finally:
            back.transport.abort()
        return data, True

    def changed(self, line: bytes, answer: bytes) -> bytes:
        """The answer with the document as it is now. What is no document, such as a damaged one, stays as it is."""
        head, _, body = answer.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if b" 200 " not in head.split(b"\r\n")[0] or not length or int(length[2]) != len(body):
            return answer
        try:
            document = json.loads(body)
            self.change(document)
        except (ValueError, KeyError, TypeError):
            return answer
        body = json.dumps(document).encode()
        answer = LENGTH.sub(rb"\g<1>%d" % len(body), head, count=1) + b"\r\n\r\n" + body
        if not self.is_late:
            self.last[line] = answer
        return answer
