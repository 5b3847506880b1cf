"""A server of HTTP/1.1 that answers by a script, and the transports to it."""

from __future__ import annotations

import asyncio
import contextlib

from kubeio.errors import RequestDescription
from kubeio.http import transport_protocol
from kubeio.http.connection_pool import ConnectionPool
from kubeio.http.proxy_transport import ProxyTransport
from kubeio.http.transport_protocol import HttpRequest

ASKED = HttpRequest(
    "GET", "/x?y=1", [("Accept", "a/b")], None, RequestDescription("server", "GET", "/x")
)
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nT: u\r\n\r\n"
)
TOLD = b"HTTP/1.1 429 X\r\nretry-AFTER: 7\r\nContent-Length: 0\r\n\r\n"
TO_THE_END = b"HTTP/1.0 200 OK\r\n\r\nhello"
NOTHING = b"HTTP/1.1 204 No Content\r\n\r\n"


class ScriptedServer:
    """A server that answers each request with the next of some answers, cut as told."""

    def __init__(self, *answers: bytes, cuts: tuple[int, ...] = (), ends: bool = False) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.bodies: list[int] = []
        self._cuts = sorted(cuts)
        self._ends = ends

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self.answers:
            head = await reader.readuntil(b"\r\n\r\n")
            size = 0
            if b"Content-Length: " in head:
                size = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
            self.bodies.append(len(await reader.readexactly(size)))
            answer = self.answers.pop(0)
            at = 0
            for cut in (*(cut for cut in self._cuts if cut < len(answer)), len(answer)):
                writer.write(answer[at:cut])
                await writer.drain()
                await asyncio.sleep(0)
                at = cut
            if self._ends:
                return
        if not self._ends:
            await reader.read()


@contextlib.asynccontextmanager
async def serving(serve):
    """The URL of a server on loopback. Its connections end with the block."""
    running: set[asyncio.Task] = set()

    async def watched(reader, writer):
        running.add(asyncio.current_task())
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(watched, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def served(script: ScriptedServer, *, lean: bool = True, connections: int = 1):
    """A wire to a scripted server."""
    async with serving(script.serve) as url:
        options = {"context": None, "server_name": None, "connections": connections}
        made = ConnectionPool(url, **options) if lean else ProxyTransport(url, **options, proxy="")
        try:
            yield made
        finally:
            await made.close()


async def whole(stream: transport_protocol.ResponseStream) -> bytes:
    """Read a stream to its end."""
    content = b""
    while piece := await stream.read():
        content += piece
    return content
