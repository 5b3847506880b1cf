"""Answers byte by byte, as one connection reads them."""

from __future__ import annotations

import asyncio

import pytest

from kubeio import errors
from kubeio.errors import RequestDescription
from kubeio.http import transport_protocol
from kubeio.http.connection_pool import ConnectionPool
from kubeio.http.transport_protocol import HttpRequest
from tests.support.kubeio.scripted_servers import (
    ASKED,
    CHUNKED,
    WHOLE,
    ScriptedServer,
    served,
    serving,
    whole,
)

LARGE = HttpRequest(
    "PUT",
    "/x",
    [],
    b"x" * (transport_protocol.SINGLE_WRITE_BYTES * 2 + 1),
    RequestDescription("server", "PUT", "/x"),
)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000, "a head of more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "the server closed it"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhello", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not HTTP"),
        (b"", "the server closed it"),
    ],
    ids=["another-protocol", "switched", "endless-head", "cut", "two-lengths", "chunks", "nothing"],
)
async def test_nonsense_belongs_to_no_request(answer, said):
    async with served(ScriptedServer(answer, ends=True)) as made:
        with pytest.raises(errors.Unavailable, match=f"server: GET /x: .*{said}"):
            await made.exchange(ASKED, timeout_seconds=5)


async def test_a_large_body_goes_out_whole():
    script = ScriptedServer(WHOLE)
    async with served(script) as made:
        await made.exchange(LARGE, timeout_seconds=5)
    assert script.bodies == [len(LARGE.body or b"")]


async def test_what_was_answered_before_it_was_sent_is_the_last_on_its_connection():
    """The rest of the body never goes. What came next would be taken for it."""
    heads = []

    async def early(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n")
        await reader.read(-1)

    async with serving(early) as url:
        made = ConnectionPool(url, context=None, server_name=None, connections=1)
        assert (await made.exchange(LARGE, timeout_seconds=5)).status == 413
        assert (await made.exchange(ASKED, timeout_seconds=5)).status == 413
        await made.close()
    assert [head.split()[0] for head in heads] == [b"PUT", b"GET"]


async def test_an_endless_end_is_refused():
    async def trailing(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED.removesuffix(b"T: u\r\n\r\n") + b"T: ")
        for _ in range(1000):
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with serving(trailing) as url:
        made = ConnectionPool(url, context=None, server_name=None, connections=1)
        with pytest.raises(errors.Unavailable, match="a head of more than"):
            await made.exchange(ASKED, timeout_seconds=5)
        stream = await made.stream(ASKED, connect=5, idle_timeout=5)
        with pytest.raises(errors.Unavailable, match="a head of more than"):
            await whole(stream)
        await made.close()


async def test_a_stream_that_ended_while_no_one_read_has_ended():
    async with served(ScriptedServer(CHUNKED, ends=True)) as made:
        stream = await made.stream(ASKED, connect=5, idle_timeout=5)
        await asyncio.sleep(0.05)
        assert await stream.read() == b"hello!"
        assert await stream.read() == b""
        stream.abort()


async def test_a_stream_that_no_one_reads_is_held_back(monkeypatch):
    monkeypatch.setattr("kubeio.http.http1_connection._MAX_BUFFERED_BYTES", 1000)
    sent = 0

    async def pour(reader, writer):
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(64):
            writer.write(b"%x\r\n%s\r\n" % (2**20, b"x" * 2**20))
            await writer.drain()
            sent += 2**20
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with serving(pour) as url:
        made = ConnectionPool(url, context=None, server_name=None, connections=1)
        stream = await made.stream(ASKED, connect=5, idle_timeout=5)
        await asyncio.sleep(0.3)
        assert sent < 32 * 2**20  # at most the buffers of the sockets
        size = 0
        while piece := await stream.read():
            size += len(piece)
        assert size == 64 * 2**20
        stream.abort()
        await made.close()


@pytest.mark.parametrize("bad", ["/x\r\nHost: y", "/x\ny", "/x\ry"])
async def test_a_line_break_never_goes_out(bad):
    async with served(ScriptedServer()) as made:
        with pytest.raises(ValueError, match="line break"):
            await made.exchange(ASKED._replace(target=bad), timeout_seconds=5)
        with pytest.raises(ValueError, match="line break"):
            await made.exchange(ASKED._replace(headers=[("A", bad)]), timeout_seconds=5)


async def test_pieces_of_an_answer_count_with_the_memory_that_each_takes():
    """An answer of two bytes at a time would take 25 times the limit."""
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"2\r\nab\r\n" * 2_000
    async with serving(ScriptedServer(answer).serve) as url:
        made = ConnectionPool(
            url, context=None, server_name=None, connections=1, max_response_bytes=50_000
        )
        with pytest.raises(errors.ResponseTooLarge, match="an answer of more than 50000 bytes"):
            await made.exchange(ASKED, timeout_seconds=5)
        await made.close()
