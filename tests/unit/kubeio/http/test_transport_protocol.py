"""Answers byte by byte: what each wire makes of them, and that it is the same."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeio import errors
from kubeio.errors import RequestDescription
from kubeio.http import connection_pool, transport_protocol
from kubeio.http.connection_pool import ConnectionPool
from kubeio.http.proxy_transport import ProxyTransport
from kubeio.http.rest import WATCH_IDLE_SECONDS
from kubeio.http.transport_protocol import HttpRequest

ASKED = HttpRequest(
    "GET", "/x?y=1", [("Accept", "a/b")], None, RequestDescription("server", "GET", "/x")
)
LARGE = HttpRequest(
    "PUT",
    "/x",
    [],
    b"x" * (transport_protocol.SINGLE_WRITE_BYTES * 2 + 1),
    RequestDescription("server", "PUT", "/x"),
)
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nT: u\r\n\r\n"
)
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE
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


async def outcome(script: ScriptedServer, *, lean: bool, streams: bool) -> object:
    """The result of one request: the answer, or the kind of the problem."""
    async with served(script, lean=lean) as made:
        try:
            if not streams:
                return await made.exchange(ASKED, timeout_seconds=5)
            stream = await made.stream(ASKED, connect=5, idle_timeout=5)
            try:
                content = await whole(stream)
            finally:
                stream.abort()
        except errors.KubeError as problem:
            return type(problem)
        return transport_protocol.HttpResponse(stream.status, stream.retry_after, content)


@pytest.mark.parametrize("streams", [False, True])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    answer=st.sampled_from([WHOLE, CHUNKED, CONTINUED, TOLD, TO_THE_END, NOTHING]),
    cuts=st.sets(st.integers(1, 80), max_size=8),
    length=st.integers(0, 120),
)
def test_both_wires_make_the_same_of_an_answer(streams, answer, cuts, length):
    """Whole or ended somewhere in the middle, and in whatever pieces it comes."""

    async def both():
        return [
            await outcome(
                ScriptedServer(answer[:length], cuts=tuple(cuts), ends=True),
                lean=lean,
                streams=streams,
            )
            for lean in (True, False)
        ]

    lean, other = asyncio.run(both())
    assert lean == other


async def test_a_connection_is_used_again():
    script = ScriptedServer(*[WHOLE, CHUNKED, NOTHING, TOLD] * 3)
    async with served(script) as made:
        for _ in range(12):
            await made.exchange(ASKED, timeout_seconds=5)
    assert script.connections == 1


async def test_a_connection_that_the_server_lets_go_of_is_not():
    closing = WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    script = ScriptedServer(closing, WHOLE)
    async with served(script) as made:
        for _ in range(2):
            assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
    assert script.connections == 2


async def test_one_that_was_closed_meanwhile_is_replaced():
    script = ScriptedServer(WHOLE, WHOLE, ends=True)
    async with served(script) as made:
        await made.exchange(ASKED, timeout_seconds=5)
        await asyncio.sleep(0.05)
        await made.exchange(ASKED._replace(method="POST"), timeout_seconds=5)
    assert script.connections == 2


async def test_an_idle_connection_is_closed(monkeypatch):
    monkeypatch.setattr(transport_protocol, "IDLE_CONNECTION_SECONDS", 0.05)
    script = ScriptedServer(WHOLE, WHOLE)
    async with served(script) as made:
        await made.exchange(ASKED, timeout_seconds=5)
        await asyncio.sleep(0.2)
        await made.exchange(ASKED, timeout_seconds=5)
    assert script.connections == 2


async def test_a_second_answer_is_not_used():
    script = ScriptedServer(WHOLE + WHOLE, CHUNKED)
    async with served(script) as made:
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello!"
    assert script.connections == 2


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


async def test_nothing_is_sent_after_the_end():
    asked = []

    async def silent(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(TO_THE_END)
        await reader.read(-1)

    async with serving(silent) as url:
        made = ConnectionPool(url, context=None, server_name=None, connections=1)
        tasks = [asyncio.create_task(made.exchange(ASKED, timeout_seconds=5)) for _ in range(2)]
        await asyncio.sleep(0.05)
        await made.close()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in found] == [errors.Unavailable] * 2
        with pytest.raises(errors.Unavailable, match="was closed"):
            await made.exchange(ASKED, timeout_seconds=5)
    assert len(asked) == 1


async def test_the_next_address_is_tried_when_one_is_dead(monkeypatch):
    async with served(ScriptedServer(WHOLE)) as made:

        async def addresses():
            return ["127.0.0.2", "127.0.0.1"]

        monkeypatch.setattr(made, "_resolve_addresses", addresses)
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"


@pytest.mark.parametrize(
    ("where", "problem", "told"),
    [
        ("getaddrinfo", socket.gaierror(socket.EAI_AGAIN, "no name server"), "no name server"),
        ("create_connection", OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
    ],
    ids=["names", "descriptors"],
)
@pytest.mark.parametrize("streams", [False, True])
async def test_what_a_connection_lacked_is_had_again(monkeypatch, where, problem, told, streams):
    """REL-52, REL-53: no name or no descriptor: what is kept goes on, no place is lost by it."""

    async def lacking(*_, **__):
        raise problem

    async def ask():
        if not streams:
            return (await made.exchange(ASKED, timeout_seconds=5)).content
        stream = await made.stream(ASKED, connect=5, idle_timeout=5)
        stream.abort()
        return b"hello"

    loop = asyncio.get_running_loop()
    async with served(ScriptedServer(WHOLE, WHOLE, WHOLE)) as made:
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
        with monkeypatch.context() as patch:
            patch.setattr(loop, where, lacking)
            assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
            for connection in tuple(made._all):
                connection.abort()
            await asyncio.sleep(0)
            for _ in range(3):
                with pytest.raises(errors.NotSent, match=told):
                    await ask()
        assert await ask() == b"hello"


async def test_a_place_is_given_on_by_those_who_give_up():
    script = ScriptedServer(b"", WHOLE, WHOLE, WHOLE)  # the first gets nothing
    async with served(script) as made:
        first = asyncio.create_task(made.exchange(ASKED, timeout_seconds=5))
        await asyncio.sleep(0.02)
        second, third, fourth = (
            asyncio.create_task(made.exchange(ASKED, timeout_seconds=5)) for _ in range(3)
        )
        with pytest.raises(errors.NotSent, match="no connection was made in time"):
            await made.exchange(ASKED, timeout_seconds=0.01)
        second.cancel()
        first.cancel()
        assert (await third).content == (await fourth).content == b"hello"
        await asyncio.gather(first, second, return_exceptions=True)


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


def test_a_server_that_vanished_is_noticed_before_its_bookmarks_tell():
    idle, interval, count = connection_pool._KEEPALIVE_SECONDS
    assert idle + interval * count == 45 < WATCH_IDLE_SECONDS
