"""Frames to the streaming code: through live pipes, as TLS records, and as a kubelet's answers.

After a switch the agent knows no frames. The property is that none is changed, held back or
understood, and that nothing which is no TLS or no HTTP makes it fail in any way but the named ones.
FIG-10.
"""

import asyncio
import contextlib
import random
import ssl
import struct
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.support import tls_sockets
from tests.support.vnagent import running_agent
from tests.support.vnagent.running_agent import EXEC, SWITCHED
from vnagent.protocol import http_heads
from vnagent.protocol.errors import RequestRefusedError
from vnagent.protocol.http_heads import InvalidResponseError, LineReader, ResponseReader
from vnagent.server import audit
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_stream import StreamLostError, TlsStream

FULL = 100_000
"""Frames through live pipes. Records and answers come on top."""
RECORD_SHARE = ANSWER_SHARE = 4
"""Frames for each record, and for each answer."""
FRAMES_IN_A_STREAM = 200
RECORDS_IN_A_CONNECTION = 6
LIMIT = 4096
"""Of what the readers of answers take here."""

ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{}\n{}\n\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end\n",
    EXEC,
)
SCRAPS = (
    *(b"\r\n", b"\n", b"\0", b" ", b":", b"0", b"-1", b"99999999999999999999", b"\xff", b"chunked"),
    *(b"HTTP/1.1 ", b"\r\n\r\n", b"Content-Length: 3\r\n", b"Transfer-Encoding: x\r\n", b"1e9\r\n"),
)


def websocket(chance: random.Random) -> bytes:
    """Return a frame, whole or not: any opcode, reserved bits, lengths that lie."""
    first = chance.choice((0x81, 0x82, 0x88, 0x89, 0x8A, 0x00, chance.randrange(256)))
    body = chance.randbytes(chance.choice((0, 1, 5, 125, 126, 600)))
    claimed = chance.choice((len(body), len(body), len(body), 0, 2**63, 65_535))
    masked = chance.choice((0x80, 0x80, 0))
    if claimed < 126:
        head = bytes((first, masked | claimed))
    elif claimed < 2**16:
        head = struct.pack("!BBH", first, masked | 126, claimed)
    else:
        head = struct.pack("!BBQ", first, masked | 127, claimed)
    return head + chance.randbytes(4 if masked else 0) + body


def spdy(chance: random.Random) -> bytes:
    """Return a frame of SPDY/3.1: control or data, of any kind and flag, lengths that lie."""
    body = chance.randbytes(chance.choice((0, 4, 8, 100, 700)))
    size = chance.choice((len(body), len(body), 0, 2**24 - 1)).to_bytes(3, "big")
    if chance.random() < 0.5:
        kind = chance.choice((1, 2, 3, 4, 6, 7, 8, 9, chance.randrange(65_536)))
        return struct.pack("!HHB", 0x8003, kind, chance.randrange(256)) + size + body
    return struct.pack("!IB", chance.getrandbits(31), chance.randrange(256)) + size + body


def noise(chance: random.Random) -> bytes:
    """Return what is no frame at all, a request among it."""
    pods = b"GET /pods HTTP/1.1\r\nHost: a\r\n\r\n"
    return chance.choice((pods, b"\r\n\r\n", chance.randbytes(chance.randint(1, 300))))


KINDS: tuple[Callable[[random.Random], bytes], ...] = (websocket, spdy, noise)


def damage(chance: random.Random, text: bytes) -> bytes:
    """Change a few places."""
    for _ in range(chance.randint(0, 3)):
        at, size = chance.randint(0, len(text)), chance.choice((0, 0, 1, 9))
        scrap = chance.choice(SCRAPS) if chance.random() < 0.7 else chance.randbytes(2)
        text = text[:at] + scrap + text[at + size :]
    return text


def pieces(chance: random.Random, text: bytes) -> list[bytes]:
    """Cut a text anywhere."""
    found = []
    while text:
        size = chance.choice((1, 2, 7, 100, 5000))
        found.append(text[:size])
        text = text[size:]
    return found


def echo(peer: ssl.SSLSocket, head: bytes) -> None:
    """Switch protocols and send back what comes, to the end."""
    peer.sendall(SWITCHED + head.partition(http_heads.HEAD_END)[2])
    while part := peer.recv(65_536):
        peer.sendall(part)


async def through_pipes(chance: random.Random, count: int, folder: Path) -> int:
    """Send frames by way of a whole agent to a kubelet that sends them back."""
    sent = 0
    async with running_agent.staged(folder, running_agent.FakeKubelet(answer=echo)) as set_up:
        context = set_up.context()
        while sent < count:
            number = min(FRAMES_IN_A_STREAM, count - sent)
            frames = b"".join(chance.choice(KINDS)(chance) for _ in range(number))
            got = await asyncio.to_thread(_exchange, set_up.port, context, pieces(chance, frames))
            assert got == frames, "a frame was changed on its way"
            sent += number
        wanted = f"POST /exec/{running_agent.SPACE}/shop/main?output=1&command=id HTTP/1.1"
        assert set(set_up.kubelet.asked) <= {wanted.encode()}
    return sent


def _exchange(port: int, context: ssl.SSLContext, parts: list[bytes]) -> bytes:
    """Send all parts, then read as much as was sent, and what may follow after our goodbye."""
    wanted = sum(map(len, parts))
    with tls_sockets.dial(port, context) as peer:
        peer.sendall(EXEC)
        got = bytearray(
            tls_sockets.read_until(peer, http_heads.HEAD_END).partition(http_heads.HEAD_END)[2]
        )
        for part in parts:
            peer.sendall(part)
        while len(got) < wanted and (part := peer.recv(65_536)):
            got += part
        tls_sockets.half_close(peer)
        return bytes(got) + tls_sockets.read_all(peer)


class FakeSocketTransport(asyncio.Transport):
    """Stands where a socket is."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self._is_closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        del name
        return default

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    resume_reading = write_eof = pause_reading
    abort = close


class RecordingSink:
    """A sink that keeps what comes."""

    def __init__(self) -> None:
        self.plain = bytearray()

    def handle_data(self, *chunks: bytes) -> None:
        self.plain += b"".join(chunks)

    def handle_end(self) -> None: ...

    def handle_lost(self, error: StreamLostError) -> None:
        assert str(error)

    def set_writable(self, is_writable: bool) -> None: ...


class DamagedRecords:
    """TLS records to a channel, at the handshake and after it, most of them damaged."""

    def __init__(self, chance: random.Random) -> None:
        authority = trustme.CA()
        self._chance = chance
        self._server = tls_sockets.server_context(authority, "127.0.0.1")
        self._client = tls_sockets.client_context(authority)
        self._buffer = ReceiveBuffer()

    def connection(self) -> int:
        """Try a few records on one connection. Return how many."""
        chance = self._chance
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self._client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        channel, transport, heard = (
            TlsStream(self._server, self._buffer),
            FakeSocketTransport(),
            RecordingSink(),
        )
        channel.connection_made(transport)
        tried, said, harm_at = 0, bytearray(), chance.choice((0, 1, 9, 9, 9))
        for step in range(4):
            with contextlib.suppress(ssl.SSLError):  # it waits, or was told something odd
                client.do_handshake()
            record = outgoing.read()
            self._feed(channel, damage(chance, record) if step == harm_at else record)
            incoming.write(bytes(transport.sent))
            transport.sent.clear()
            tried += bool(record)
        channel.attach_sink(heard)
        if harm_at > 1 and not channel.is_lost:
            for _ in range(RECORDS_IN_A_CONNECTION):
                plain = chance.randbytes(chance.choice((1, 50, 3000)))
                client.write(plain)
                said += plain
                record = outgoing.read()
                self._feed(channel, chance.choice((record, damage(chance, record), record * 2)))
                tried += 1
        assert said.startswith(heard.plain), "something was heard that nobody has said"
        if chance.random() < 0.5:
            channel.eof_received()
        channel.close_write()
        channel.connection_lost(None)
        return max(tried, 1)

    def _feed(self, channel: TlsStream, record: bytes) -> None:
        for piece in pieces(self._chance, record):
            channel.get_buffer(-1)[: len(piece)] = piece
            channel.buffer_updated(len(piece))


def answer(chance: random.Random) -> str:
    """Read one damaged answer or head in pieces. Return how that ended."""
    text = damage(chance, chance.choice(ANSWERS))
    reader: ResponseReader | LineReader = chance.choice((ResponseReader, LineReader))(LIMIT)
    try:
        for piece in (*pieces(chance, text), b""):
            found = reader.feed(piece)
            if isinstance(reader, LineReader):
                if reader.has_ended:
                    return "read"
            elif found is not None:
                break
        block = text.partition(http_heads.HEAD_END)[0] + http_heads.HEAD_END
        parsed = http_heads.parse_response(block)
        http_heads.write_switching_protocols(parsed, b"SPDY/3.1")
        http_heads.write_stream_head(parsed)
        http_heads.filter_upgrade_headers(http_heads.parse_request(block), b"websocket")
    except (InvalidResponseError, RequestRefusedError) as problem:
        return type(problem).__name__
    return "read"


async def run(count: int, seed: int) -> str:
    """Try `count` frames, and records and answers as well. Return a sentence, or fail."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "write_audit_record", lambda _: None)
        piped = await through_pipes(chance, count, Path(name))
    records, tried = DamagedRecords(chance), 0
    while tried < count // RECORD_SHARE:
        tried += records.connection()
    ends = Counter(answer(chance) for _ in range(count // ANSWER_SHARE))
    assert not troubles, troubles
    return (
        f"{piped:,} frames came back unchanged through live pipes; on top of them {tried:,} TLS"
        f" records, {ends.total():,} answers ({dict(ends)}): no crash, nothing heard that was not"
        " said"
    )
