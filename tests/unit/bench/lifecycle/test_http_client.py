"""The lean client against a server that answers in both ways of HTTP/1.1."""

import asyncio
import contextlib
import ssl

import pytest
import trustme

from bench.lifecycle.http_client import LoadRefusedError, LoadTransport
from kubeio.config.endpoint import Endpoint


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await reader.readuntil(b"\r\n\r\n"):
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(size)
        if b"/chunked" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        elif b"/refused" in head:
            writer.write(b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno")
        else:
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % size + body)


async def test_both_ways_of_framing_and_a_refusal():
    async with served(answer) as (endpoint, connections), wired(endpoint) as wire:
        assert await wire.request("POST", "/x", b"body") == (201, b"body")
        assert await wire.do("GET", "/chunked") == b"abcde"
        with pytest.raises(LoadRefusedError, match="GET /refused was answered 409: no"):
            await wire.do("GET", "/refused")
        assert await wire.do("POST", "/x", b"again") == b"again"
        assert len(connections) == 1


async def test_a_connection_that_the_server_has_closed_is_not_used():
    async with served(answer) as (endpoint, connections), wired(endpoint) as wire:
        assert await wire.do("POST", "/x", b"one") == b"one"
        connections[0].close()
        await asyncio.sleep(0.05)
        assert await wire.do("POST", "/x", b"two") == b"two"
        assert len(connections) == 2


async def test_a_connection_that_was_idle_for_long_is_not_used(monkeypatch):
    """Its end may be on its way."""
    async with served(answer) as (endpoint, connections), wired(endpoint) as wire:
        assert await wire.do("POST", "/x", b"one") == b"one"
        monkeypatch.setattr("bench.lifecycle.http_client.IDLE_SECONDS", -1.0)
        assert await wire.do("POST", "/x", b"two") == b"two"
        assert len(connections) == 2


def wired(endpoint: Endpoint) -> LoadTransport:
    return LoadTransport(endpoint, agent="test", connections=1)


@contextlib.asynccontextmanager
async def served(answers):
    """Serve over TLS. Yield where, and the connections as they come."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    connections: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await answers(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    try:
        yield (
            Endpoint(server=f"https://127.0.0.1:{port}", ca=authority.cert_pem.bytes()),
            connections,
        )
    finally:
        server.close()
