"""HTTP/1.1 client for one API server at minimal cost, for load generators.

Owns a few keep-alive connections. Must not repeat a request, because a failed request fails the
measurement. Hazard: this client must stay cheap, so it is not the product's client. Its time is
taken from the measured servers, which share the machine's cores.
"""

import asyncio
import time
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from kubeio.config.endpoint import Endpoint
from kubeio.http import tls_contexts

JSON = "application/json"
MERGE = "application/merge-patch+json"

IDLE_SECONDS = 30.0
"""Seconds after which an idle connection is not used again. API servers close an idle one after 90
s, and a request that is on its way then fails."""

StreamPair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class LoadRefusedError(Exception):
    """The server refused a request of the load."""


class LoadTransport:
    """Connections to one API server. Use as `async with`."""

    def __init__(self, endpoint: Endpoint, *, agent: str, connections: int = 20) -> None:
        """Create a client with a limit of connections, which are opened when needed."""
        url = urlsplit(endpoint.server)
        self._host, self._port = str(url.hostname), url.port or 443
        self._tls = tls_contexts.create_context(endpoint)
        self._head = f"Host: {url.netloc}\r\nUser-Agent: {agent}\r\nAccept: {JSON}\r\n"
        self._idle: asyncio.LifoQueue[tuple[StreamPair | None, float]] = asyncio.LifoQueue()
        for _ in range(connections):
            self._idle.put_nowait((None, 0.0))

    async def __aenter__(self) -> Self:
        """Return the client. A connection is opened at the first request."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Drop the connections."""
        while not self._idle.empty():
            connection, _ = self._idle.get_nowait()
            if connection is not None:
                connection[1].transport.abort()

    async def request(
        self, method: str, path: str, body: bytes = b"", *, content: str = JSON
    ) -> tuple[int, bytes]:
        """Send one request. Returns the status and the body of the answer."""
        message = (
            f"{method} {path} HTTP/1.1\r\n{self._head}Content-Type: {content}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        connection, since = await self._idle.get()
        is_old = time.monotonic() - since > IDLE_SECONDS
        if connection is not None and (is_old or connection[0].at_eof()):
            connection[1].transport.abort()
            connection = None
        try:
            if connection is None:
                connection = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
            reader, writer = connection
            writer.write(message)
            status, answer = await _answer(reader)
        except BaseException:
            if connection is not None:
                connection[1].transport.abort()
            self._idle.put_nowait((None, 0.0))
            raise
        self._idle.put_nowait((connection, time.monotonic()))
        return status, answer

    async def do(self, method: str, path: str, body: bytes = b"", *, content: str = JSON) -> bytes:
        """Send one request that must succeed. Raises RefusedError."""
        status, answer = await self.request(method, path, body, content=content)
        if status >= 300:
            told = answer.decode(errors="replace")[:400]
            raise LoadRefusedError(f"{method} {path} was answered {status}: {told}")
        return answer


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    lowered = head.lower()
    at = lowered.find(b"\r\ncontent-length:")
    if at >= 0:
        size = int(lowered[at + 17 : lowered.index(b"\r\n", at + 17)])
        return status, await reader.readexactly(size)
    if b"\r\ntransfer-encoding: chunked" not in lowered:
        return status, b""
    parts: list[bytes] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return status, b"".join(parts)
