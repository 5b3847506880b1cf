"""An HTTP server that misbehaves exactly as a test demands, as no real API server does on demand.

The test's handler gets each request and a `FaultyAnswer` to write through, byte by byte if needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from kubeio.config.endpoint import Endpoint


@dataclass(frozen=True)
class FaultyRequest:
    """Request of the client."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class FaultyAnswer:
    """Speaks to one client."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.keeps_open = False

    async def json(self, body: Any, *, code: int = 200, **headers: str) -> None:
        """A whole answer."""
        encoded = body if isinstance(body, bytes) else orjson.dumps(body)
        lines = [f"HTTP/1.1 {code} Whatever", f"Content-Length: {len(encoded)}"]
        lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + encoded)
        await self._writer.drain()
        self.keeps_open = True

    async def status(self, code: int, reason: str, message: str = "", **headers: str) -> None:
        """A refusal as API servers put it."""
        body = {"kind": "Status", "code": code, "reason": reason, "message": message or reason}
        await self.json(body, code=code, **headers)

    async def begin(self, code: int = 200) -> None:
        """The head of an endless, chunked answer."""
        self._writer.write(b"HTTP/1.1 %d Whatever\r\nTransfer-Encoding: chunked\r\n\r\n" % code)
        await self._writer.drain()

    async def chunk(self, content: bytes) -> None:
        """A piece of the endless answer."""
        self._writer.write(b"%x\r\n%s\r\n" % (len(content), content))
        await self._writer.drain()
        # Under TLS, drain neither waits nor fails while the loss of the connection waits to be
        # reported. Without this turn of the loop, an endless answer would run for ever.
        await asyncio.sleep(0)

    async def event(self, kind: str, body: dict[str, Any]) -> None:
        """An event of a watch."""
        await self.chunk(orjson.dumps({"type": kind, "object": body}) + b"\n")

    async def end(self) -> None:
        """The proper end of the endless answer."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
        self.keeps_open = True

    async def hang(self) -> None:
        """Send nothing until the client gives up."""
        await asyncio.Event().wait()

    def cut(self) -> None:
        """Break the connection in the middle."""
        self._writer.transport.abort()


FaultHandler = Callable[[FaultyRequest, FaultyAnswer], Awaitable[None]]


@dataclass
class FaultyServer:
    """The running server and what it was asked."""

    endpoint: Endpoint
    requests: list[FaultyRequest] = field(default_factory=list)


@contextlib.asynccontextmanager
async def misbehaving(
    handler: FaultHandler, port: int = 0, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FaultyServer]:
    """Serve on loopback while the block runs, without TLS when no context is given."""
    running: set[asyncio.Task[None]] = set()
    problems: list[Exception] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            while True:
                request = await _read(reader)
                found.requests.append(request)
                answer = FaultyAnswer(writer)
                await handler(request, answer)
                if not answer.keeps_open:
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        except Exception as problem:  # noqa: BLE001 - a bug in the test's handler, raised below
            problems.append(problem)
        finally:
            running.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    scheme = "http" if tls is None else "https"
    found = FaultyServer(Endpoint(server=f"{scheme}://127.0.0.1:{port}", name="faulty"))
    try:
        yield found
    finally:
        server.close()
        pending = list(running)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if problems:
            raise problems[0]


async def _read(reader: asyncio.StreamReader) -> FaultyRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers: dict[str, str] = {}
    for key, _, value in (line.partition(":") for line in lines):
        before = headers.get(key.lower())
        headers[key.lower()] = f"{before},{value.strip()}" if before else value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    return FaultyRequest(method, url.path, dict(parse_qsl(url.query)), headers, body)
