"""Servers that a tenant's API server must not reach, by the way in which they answer."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import trustme

from tests.support.own_address import OWN


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer once a whole head came. A TLS client never sends one, and times out."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
    writer.close()


async def _close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@contextlib.asynccontextmanager
async def listening(kind: str) -> AsyncIterator[int]:
    """Listen on the machine's own address for the length of a block. Yields the port."""
    context = None
    if kind in ("tls", "mtls"):
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("hole.example").configure_cert(context)
        if kind == "mtls":
            authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
    answer = _close if kind == "closing" else _answer
    server = await asyncio.start_server(answer, OWN, 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
