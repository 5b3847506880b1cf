"""TLS streams: whole answers in any pieces, and no data from an untrusted server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl

import pytest
import trustme

from kubeio import errors
from kubeio.config.endpoint import Endpoint
from kubeio.http import tls_contexts, tls_sessions, tls_stream, transport_protocol
from kubeio.http.connection_pool import ConnectionPool
from kubeio.http.tls_stream import TlsTransport
from kubeio.http.transport_protocol import HttpRequest

CA = trustme.CA()
SERVER = CA.issue_cert("127.0.0.1")
CLIENT = CA.issue_cert("client.invalid", common_name="me")
ASKED = HttpRequest("GET", "/x", [], None, errors.RequestDescription("server", "GET", "/x"))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CLOSING = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
TO_THE_END = b"HTTP/1.0 200 OK\r\n\r\nhello"


def _server_context(issued=SERVER, *, newest=ssl.TLSVersion.TLSv1_3):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    CA.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.maximum_version = newest
    return context


class TlsServer:
    """Answers each request, over TLS, and remembers how the connections came about."""

    def __init__(self, answer=OK, *, cut=0, ends=False, rudely=False) -> None:
        self.answer, self.cut, self.ends, self.rudely = answer, cut, ends, rudely
        self.resumed: list[bool] = []
        self.received: list[int] = []
        self.known: list[bool] = []
        self.answered = asyncio.Event()

    async def serve(self, reader, writer):
        secured = writer.get_extra_info("ssl_object")
        self.resumed.append(bool(secured.session_reused))
        self.known.append(bool(secured.getpeercert()))
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = 0
            if b"Content-Length: " in head:
                size = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
            self.received.append(len(await reader.readexactly(size)))
            step = self.cut or len(self.answer)
            for at in range(0, len(self.answer), step):
                writer.write(self.answer[at : at + step])
                await writer.drain()
                await asyncio.sleep(0)
            self.answered.set()
            if self.rudely:
                writer.transport.abort()
            if self.ends or self.rudely:
                return


@contextlib.asynccontextmanager
async def listening(serve, context=None):
    """The port of a server. Its connections end with the block."""
    running: set[asyncio.Task] = set()

    async def watched(reader, writer):
        running.add(asyncio.current_task())
        try:
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(watched, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0.01)


def _context(ca=CA, **fields):
    known = {
        "client_cert": CLIENT.cert_chain_pems[0].bytes(),
        "client_key": CLIENT.private_key_pem.bytes(),
    }
    endpoint = Endpoint(server="https://127.0.0.1", ca=ca.cert_pem.bytes(), **known, **fields)
    return tls_contexts.create_context(endpoint)


@contextlib.asynccontextmanager
async def pooled(port, context=None, *, name=None, connections=4):
    """A wire to a port."""
    made = ConnectionPool(
        f"https://127.0.0.1:{port}",
        context=context or _context(),
        server_name=name,
        connections=connections,
    )
    try:
        yield made
    finally:
        await made.close()


async def _streamed(made):
    stream = await made.stream(ASKED, connect=5, idle_timeout=5)
    content = b""
    try:
        while piece := await stream.read():
            content += piece
    finally:
        stream.abort()
    return content


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("cut", [1, 7, 16_384, 16_385, 100_000])
async def test_an_answer_arrives_whole_in_whatever_records(cut, newest):
    body = bytes(range(256)) * (2 if cut < 10 else 2000)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    server = TlsServer(answer, cut=cut)
    async with (
        listening(server.serve, _server_context(newest=newest)) as port,
        pooled(port, connections=1) as made,
    ):
        for _ in range(2):
            assert (await made.exchange(ASKED, timeout_seconds=5)).content == body
        assert await _streamed(made) == body
    assert len(server.resumed) == 2


def test_so_it_does_on_the_loop_of_the_standard_library():
    async def ask():
        server = TlsServer(cut=3)
        async with listening(server.serve, _server_context()) as port, pooled(port) as made:
            assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
            assert await _streamed(made) == b"hello"

    asyncio.run(ask())


@pytest.mark.parametrize("size", [5_000, 16_385, transport_protocol.SINGLE_WRITE_BYTES * 2 + 1])
async def test_a_body_goes_out_whole(size):
    server = TlsServer()
    async with listening(server.serve, _server_context()) as port, pooled(port) as made:
        await made.exchange(ASKED._replace(method="PUT", body=b"x" * size), timeout_seconds=10)
    assert server.received == [size]


async def test_answers_that_come_at_the_same_time_do_not_mix():
    """All connections read into the same memory."""
    bodies = [bytes([number]) * 300_000 for number in range(8)]
    turn = iter(bodies)

    async def serve(reader, writer):
        body = next(turn)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 9_999):
            writer.write(body[at : at + 9_999])
            await writer.drain()
            await asyncio.sleep(0)
        await reader.read()

    async with listening(serve, _server_context()) as port, pooled(port, connections=8) as made:
        found = await asyncio.gather(*(made.exchange(ASKED, timeout_seconds=10) for _ in bodies))
    assert sorted(answer.content for answer in found) == bodies


async def test_a_stream_that_no_one_reads_is_held_back(monkeypatch):
    monkeypatch.setattr("kubeio.http.http1_connection._MAX_BUFFERED_BYTES", 1000)
    sent = 0

    async def pour(reader, writer):
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (32 * 2**20))
        for _ in range(32):
            writer.write(b"x" * 2**20)
            await writer.drain()
            sent += 2**20

    async with listening(pour, _server_context()) as port, pooled(port) as made:
        stream = await made.stream(ASKED, connect=5, idle_timeout=5)
        await asyncio.sleep(0.3)
        assert sent < 24 * 2**20  # at most the buffers of the sockets and the server
        size = 0
        while piece := await stream.read():
            size += len(piece)
        assert size == 32 * 2**20
        stream.abort()


# Trust in the server.


@pytest.mark.parametrize("case", ["authority", "name", "asked-name"])
async def test_nothing_is_reported_to_a_server_that_does_not_prove_itself(case):
    issued = CA.issue_cert("other.invalid") if case == "name" else SERVER
    context = _context(trustme.CA()) if case == "authority" else None
    server = TlsServer()
    async with (
        listening(server.serve, _server_context(issued)) as port,
        pooled(port, context, name="asked.invalid" if case == "asked-name" else None) as made,
    ):
        with pytest.raises(errors.Untrusted, match="server: GET /x: TLS failed"):
            await made.exchange(ASKED, timeout_seconds=5)
        with pytest.raises(errors.Untrusted):
            await made.stream(ASKED, connect=5, idle_timeout=5)
    assert server.received == []


async def test_a_server_that_speaks_no_tls_is_not_believed():
    async def plain(reader, writer):
        await reader.read(1)
        writer.write(OK)
        await writer.drain()
        await reader.read()

    async with listening(plain) as port, pooled(port) as made:
        with pytest.raises(errors.Untrusted):
            await made.exchange(ASKED, timeout_seconds=5)


async def test_a_server_that_ends_the_handshake_was_never_asked():
    async def closing(reader, writer):
        await reader.read(1)
        writer.transport.abort()

    async with listening(closing) as port, pooled(port) as made:
        with pytest.raises(errors.NotSent):
            await made.exchange(ASKED, timeout_seconds=5)


async def test_a_server_that_hangs_over_a_session_is_met_without_one(monkeypatch):
    """It may be well with whole handshakes: after one try it gets one."""
    context, forgotten = _context(), []
    monkeypatch.setattr(context, "forget_session", lambda: forgotten.append(True))

    async def silent(reader, writer):
        await reader.read()

    async with listening(silent) as port, pooled(port, context) as made:
        with pytest.raises(errors.NotSent):
            await made.exchange(ASKED, timeout_seconds=0.2)
    assert forgotten


async def test_a_server_that_reads_nothing_of_what_it_asks_for_is_given_up(monkeypatch):
    """TLS answers key updates by itself, past all back-pressure."""
    monkeypatch.setattr(tls_stream, "_MAX_UNREAD_BYTES", -1)
    async with listening(TlsServer().serve, _server_context()) as port, pooled(port) as made:
        with pytest.raises(errors.NotSent, match="does not read the answers that it requested"):
            await made.exchange(ASKED, timeout_seconds=5)


async def test_a_handshake_that_never_ends_is_given_up_with_its_socket():
    ended = asyncio.Event()

    async def silent(reader, writer):
        with contextlib.suppress(ConnectionError):
            await reader.read(-1)
        ended.set()

    async with listening(silent) as port, pooled(port) as made:
        with pytest.raises(errors.NotSent, match="no connection was made in time"):
            await made.exchange(ASKED, timeout_seconds=0.05)
        async with asyncio.timeout(5):
            await ended.wait()


async def test_an_answer_ends_with_its_connection_only_when_the_server_reports_it():
    async with (
        listening(TlsServer(TO_THE_END, ends=True).serve, _server_context()) as port,
        pooled(port) as made,
    ):
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"
    async with (
        listening(TlsServer(TO_THE_END, rudely=True).serve, _server_context()) as port,
        pooled(port) as made,
    ):
        with pytest.raises(errors.Unavailable):
            await made.exchange(ASKED, timeout_seconds=5)


@pytest.mark.parametrize(
    ("last", "said"),
    [(b"", "without an answer"), (b"\x17\x03\x03\x00\x05junk!", "SSL")],
    ids=["end", "junk"],
)
async def test_a_middleman_neither_ends_an_answer_nor_adds_to_it(last, said):
    """It may end a connection in order, as far as TCP goes."""
    server = TlsServer(TO_THE_END)
    async with listening(server.serve, _server_context()) as port:

        async def middle(reader, writer):
            far, near = await asyncio.open_connection("127.0.0.1", port)
            passing = [
                asyncio.ensure_future(_pass(*ends)) for ends in ((reader, near), (far, writer))
            ]
            await server.answered.wait()
            await asyncio.sleep(0.05)
            for task in passing:
                task.cancel()
            await asyncio.wait(passing)
            near.close()
            writer.write(last)
            if last:
                await reader.read()  # until the client ends it
            writer.close()

        async with listening(middle) as between, pooled(between) as made:
            with pytest.raises(errors.Unavailable, match=said):
                await made.exchange(ASKED, timeout_seconds=5)


async def _pass(reader, writer):
    while piece := await reader.read(65_536):
        writer.write(piece)
        await writer.drain()


async def test_a_connection_that_cannot_encrypt_is_broken():
    class Failing:
        def write(self, _):
            raise ssl.SSLError("no more")

    async with listening(TlsServer().serve, _server_context()) as port, pooled(port) as made:
        await made.exchange(ASKED, timeout_seconds=5)
        (connection,) = made._idle
        connection._transport._engine._tls = Failing()
        with pytest.raises(errors.Unavailable, match=r"the connection broke: .*no more"):
            await made.exchange(ASKED, timeout_seconds=5)
        assert (await made.exchange(ASKED, timeout_seconds=5)).content == b"hello"


# Sessions that are gone on with.


async def test_the_second_connection_resumes_the_first_ones_session_and_identity():
    server = TlsServer(CLOSING)
    async with listening(server.serve, _server_context()) as port, pooled(port) as made:
        for _ in range(2):
            await made.exchange(ASKED, timeout_seconds=5)
            assert await _streamed(made) == b"hello"
    assert server.resumed == [False, True, True, True]
    assert server.known == [True] * 4


async def test_a_session_is_offered_for_a_while_only_and_never_prolonged(monkeypatch):
    now = 1.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    server = TlsServer(CLOSING)
    async with listening(server.serve, _server_context()) as port, pooled(port) as made:
        for now in (1.0, 200.0, 300.0, 301.0, 302.0):  # noqa: B007 - read by the clock
            await made.exchange(ASKED, timeout_seconds=5)
    assert server.resumed == [False, True, True, False, True]


async def test_sessions_without_fresh_keys_are_not_kept():
    server = TlsServer(CLOSING)
    old = _server_context(newest=ssl.TLSVersion.TLSv1_2)
    async with listening(server.serve, old) as port, pooled(port) as made:
        for _ in range(3):
            await made.exchange(ASKED, timeout_seconds=5)
    assert server.resumed == [False] * 3


async def test_another_context_proves_again():
    """Another kubeconfig has other authorities, or another certificate of ours."""
    server = TlsServer(CLOSING)
    async with listening(server.serve, _server_context()) as port:
        for context in (_context(), _context()):
            async with pooled(port, context) as made:
                await made.exchange(ASKED, timeout_seconds=5)
        async with pooled(port, _context(trustme.CA())) as made:
            with pytest.raises(errors.Untrusted):
                await made.exchange(ASKED, timeout_seconds=5)
    assert server.resumed == [False, False]


async def test_another_name_proves_again():
    server, context = TlsServer(CLOSING), _context()
    async with listening(server.serve, _server_context()) as port:
        async with pooled(port, context) as made:
            await made.exchange(ASKED, timeout_seconds=5)
        async with pooled(port, context, name="other.invalid") as made:
            with pytest.raises(errors.Untrusted):
                await made.exchange(ASKED, timeout_seconds=5)
    assert server.resumed == [False]


async def test_a_server_that_does_not_know_the_session_proves_itself_again():
    server, context = TlsServer(CLOSING), _context()
    for _ in range(2):  # the second has other ticket keys
        async with (
            listening(server.serve, _server_context()) as port,
            pooled(port, context) as made,
        ):
            await made.exchange(ASKED, timeout_seconds=5)
    stranger = trustme.CA().issue_cert("127.0.0.1")
    async with (
        listening(server.serve, _server_context(stranger)) as port,
        pooled(port, context) as made,
    ):
        with pytest.raises(errors.Untrusted):
            await made.exchange(ASKED, timeout_seconds=5)
        assert context._session_entry is None
    assert server.resumed == [False, False]


async def test_a_failure_to_connect_forgets_the_session():
    server, context = TlsServer(CLOSING), _context()
    async with listening(server.serve, _server_context()) as port, pooled(port, context) as made:
        await made.exchange(ASKED, timeout_seconds=5)
        assert context._session_entry is not None

        async def closing(reader, writer):
            await reader.read(1)
            writer.transport.abort()

        async with listening(closing) as other, pooled(other, context) as broken:
            with pytest.raises(errors.NotSent):
                await broken.exchange(ASKED, timeout_seconds=5)
        assert context._session_entry is None
        await made.exchange(ASKED, timeout_seconds=5)
    assert server.resumed == [False, False]


async def test_a_session_of_another_context_is_not_taken():
    mine, other = _context(), _context()
    server = TlsServer()
    async with listening(server.serve, _server_context()) as port, pooled(port, other) as made:
        await made.exchange(ASKED, timeout_seconds=5)
        (connection,) = made._idle
        mine.remember_session(connection.get_ssl_object(), "127.0.0.1", 1e12)
        assert mine._session_entry is None
        assert other._session_entry is not None
        mine.remember_session(None, "127.0.0.1", 1e12)
    assert isinstance(mine, tls_sessions.ResumingContext)


async def test_a_lost_connection_holds_nothing(monkeypatch):
    """Its TLS would wait for the collector of cycles, which comes seldom."""
    gc.collect()  # what other tests have left is not counted here
    gone: list[bool] = []
    monkeypatch.setattr(TlsTransport, "__del__", lambda _: gone.append(True), raising=False)
    server = TlsServer(CLOSING)
    async with listening(server.serve, _server_context()) as port, pooled(port) as made:
        await made.exchange(ASKED, timeout_seconds=5)
        await asyncio.sleep(0.05)
        assert gone == [True]
