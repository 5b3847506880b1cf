"""One connection before it is part of a pipe: reading heads, bounded memory, broken peers."""

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterable

import pytest

from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent.tls_streams import GatheringSink, dialled, send_then_wait
from vnagent.limits.pending_handshakes import PendingHandshake, PendingHandshakes
from vnagent.server.listener import Listener
from vnagent.stream import flood_guard, lingering_close
from vnagent.stream.flood_guard import MAX_BARREN_BYTES, SMALL_READ_BYTES
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_stream import MAX_INBOX_BYTES, READ_BYTES, StreamLostError, TlsStream


async def test_a_head_is_read_however_it_is_cut(authority):
    """The mark may be cut in two, and what follows stays for the next reader."""
    parts = [b"GET / HTTP/1.1\r", b"\n\r", b"\n", b"rest"]
    async with dialled(authority, send_then_wait(*parts)) as found:
        assert await found.read_until(b"\r\n\r\n", 1000) == b"GET / HTTP/1.1\r\n\r\n"
        rest = b""
        while rest != b"rest":
            rest += await found.read()


@pytest.mark.parametrize("sent", [b"x" * 50_000, b"x" * 990 + b"\r\n\r\n" + b"x" * 50])
async def test_a_head_has_a_limit(authority, sent):
    """With the mark behind the limit, or none at all."""
    async with dialled(authority, send_then_wait(sent)) as found:
        assert await found.read_until(b"\r\n\r\n", 990) is None


async def test_an_end_in_mid_head_is_no_head(authority):
    """Half a head is not a head."""

    def hang_up(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"GET / HT")
        tls_sockets.half_close(peer)
        with contextlib.suppress(OSError):
            tls_sockets.read_all(peer)

    async with dialled(authority, hang_up) as found:
        with pytest.raises(StreamLostError, match="in mid-message"):
            await found.read_until(b"\r\n\r\n", 1000)
        assert found.has_ended
        assert not found.is_lost  # our direction is still open


async def test_what_no_one_reads_does_not_pile_up(authority):
    """A caller that sends megabytes before it is answered is held back."""
    sent = [0]

    def flood(peer: ssl.SSLSocket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer.sendall(b"x" * 65536)
                sent[0] += 65536

    async with dialled(authority, flood) as found:
        before = -1
        while before != sent[0]:
            before = sent[0]
            await asyncio.sleep(0.3)
        assert len(found._inbox) <= MAX_INBOX_BYTES + READ_BYTES
        assert len(await found.read()) >= MAX_INBOX_BYTES
        while sent[0] == before:  # what the kernel holds comes first
            await found.read()


async def test_a_peer_that_reads_nothing_of_what_it_asks_for_is_lost(authority, monkeypatch):
    """TLS answers key updates by itself, past all back-pressure."""

    def answer(peer: ssl.SSLSocket) -> None:
        peer.sendall(peer.recv(1))
        with contextlib.suppress(OSError):
            tls_sockets.read_all(peer)

    async with dialled(authority, answer) as found:
        monkeypatch.setattr(flood_guard, "MAX_UNSENT_BYTES", -1)
        found.write(b"x")
        await eventually(lambda: found.is_lost)
        with pytest.raises(StreamLostError, match="does not read the answers that it requested"):
            await found.read_until(b"never", 1000)


async def test_a_peer_that_breaks_tls_is_lost(authority):
    """Bytes that are no record end the connection, and the one that waits is told."""

    def break_tls(peer: ssl.SSLSocket) -> None:
        socket.socket.sendall(peer, b"\x17\x03\x03\x00\x20" + b"x" * 32)
        with contextlib.suppress(OSError):
            tls_sockets.read_all(peer)

    async with dialled(authority, break_tls) as found:
        with pytest.raises(StreamLostError, match="TLS failed on a read"):
            await found.read()
        assert found.is_lost
        found.write(b"into the void")
        found.close_write()
        found.close()


async def test_a_peer_that_vanishes_ends_all_waiting(authority):
    """Each of several waiters."""

    def vanish(peer: ssl.SSLSocket) -> None:
        peer.recv(1)
        socket.socket.shutdown(peer, socket.SHUT_RDWR)

    async with dialled(authority, vanish) as found:
        waiting = [asyncio.ensure_future(found.read()) for _ in range(3)]
        gone = []
        with found.on_end(lambda: gone.append("then")):
            await asyncio.sleep(0)
            assert gone == []
            found.write(b"x")
            answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(answer, StreamLostError) for answer in answers)
        assert gone == ["then"]
        with found.on_end(lambda: gone.append("before")):
            assert gone == ["then", "before"]


def is_asked_after(channel: TlsStream) -> bool:
    """Return whether the kernel looks after a silent peer, and gives it up within a minute."""
    assert channel._transport is not None
    endpoint = channel._transport.get_extra_info("socket")
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    first, pause, times = (endpoint.getsockopt(socket.IPPROTO_TCP, each) for each in options)
    is_on = bool(endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
    return is_on and 0 < first + pause * times <= 60


async def test_a_kubelet_that_vanished_without_a_word_is_noticed_within_a_minute(authority):
    """REL-86: the kernel asks after it."""
    async with dialled(authority, send_then_wait()) as found:
        assert is_asked_after(found)


async def test_so_is_a_caller(authority):
    """REL-86: a session whose tenant is gone holds a place, and a process in a pod."""
    accepted: list[TlsStream] = []

    async def serve(channel: TlsStream, _: PendingHandshake) -> None:
        accepted.append(channel)
        await asyncio.sleep(tls_sockets.PATIENCE_SECONDS)

    door = Listener(serve, ReceiveBuffer(), name="test", pending=PendingHandshakes())
    door.use_context(tls_sockets.server_context(authority, "127.0.0.1"))
    port = await door.listen("127.0.0.1", 0)
    try:
        with socket.create_connection(("127.0.0.1", port)):
            await eventually(lambda: accepted)
            assert is_asked_after(accepted[0])
    finally:
        await door.close()


async def test_closing_on_a_peer_that_never_reads_ends_at_last(authority, monkeypatch):
    """A socket and its buffer are not kept for ever."""
    monkeypatch.setattr(lingering_close, "CLOSE_LINGER_SECONDS", 0.2)
    over = threading.Event()

    def never_read(_: ssl.SSLSocket) -> None:
        over.wait(tls_sockets.PATIENCE_SECONDS)

    async with dialled(authority, never_read) as found:
        while not found.unsent_bytes:
            found.write(b"x" * 1_000_000)
            await asyncio.sleep(0)
        found.close()
        assert not found.is_lost
        await eventually(lambda: found.is_lost)
        over.set()


async def test_what_follows_a_goodbye_is_nowhere(authority):
    """TLS reads nothing after it, so no bound would ever be reached."""
    sent = threading.Event()

    def behave(peer: ssl.SSLSocket) -> None:
        tls_sockets.half_close(peer)
        plain = socket.socket(fileno=os.dup(peer.fileno()))
        with contextlib.suppress(OSError), plain:
            for _ in range(40):
                plain.sendall(b"x" * 65_536)
        sent.set()
        with contextlib.suppress(OSError):
            tls_sockets.read_all(peer)

    async with dialled(authority, behave) as found:
        sink = GatheringSink()
        found.attach_sink(sink)
        await sink.has_ended.wait()
        await eventually(sent.is_set)
        assert found._engine._incoming.pending < 2 * READ_BYTES
        assert not found.is_lost


async def test_a_record_cut_by_reads_is_one(authority):
    """Room is for what one read brings, and for a record of which a part had come before."""
    async with dialled(
        authority, send_then_wait(*[bytes([n]) * 16_384 for n in range(60)])
    ) as found:
        sink = GatheringSink()
        found.attach_sink(sink)
        await eventually(lambda: sum(map(len, sink.pieces)) == 60 * 16_384)
    assert b"".join(sink.pieces) == b"".join(bytes([n]) * 16_384 for n in range(60))


class PaddedTls:
    """TLS that makes so many plain bytes of each read: who has keys updated sends none."""

    def __init__(self, plain: int) -> None:
        self._plain = plain
        self._is_fed = False
        self.has_ended, self.error = False, None

    def feed(self, _: memoryview) -> None:
        self._is_fed = True

    def decrypt(self, room: memoryview) -> int:
        size, self._is_fed = self._plain * self._is_fed, False
        room[:size] = b"x" * size
        return size

    def encrypt(self, plain: bytes) -> list[bytes]:
        return [plain]

    def take_output(self) -> bytes:
        return b""


class EndingTransport(asyncio.Transport):
    """A transport that ends, and remembers the calls that write."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[bytes]] = []

    def writelines(self, list_of_data: Iterable[bytes]) -> None:
        self.calls.append(list(list_of_data))

    def resume_reading(self) -> None:
        """Read on."""

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Be dropped."""

    def abort(self) -> None:
        """Be dropped."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Ignore the call."""


def opened_on(tls: PaddedTls) -> TlsStream:
    found = TlsStream(ssl.create_default_context(), ReceiveBuffer())
    found.__dict__.update(_engine=tls, _is_open=True, _transport=EndingTransport())
    return found


async def test_what_is_gathered_goes_out_together_and_in_order():
    found = opened_on(PaddedTls(0))
    with found.cork():
        found.write(b"switched")
        found.write(b"first", b"second")
        assert found.__dict__["_transport"].calls == []
    found.write(b"third")
    assert found.__dict__["_transport"].calls == [[b"switched", b"first", b"second"], [b"third"]]


async def test_a_peer_that_sends_nothing_but_tls_is_let_go():
    """Each update of its keys is work, and no bound of what is read or sent meets them."""
    found = opened_on(PaddedTls(0))
    read = 0
    while not found.is_lost:
        room = found.get_buffer(-1)
        assert len(room) == SMALL_READ_BYTES
        found.buffer_updated(len(room))
        read += len(room)
    assert read == MAX_BARREN_BYTES


async def test_few_plain_bytes_do_not_excuse_much_tls():
    """One byte now and then would, if the last of them were all that counts."""
    found = opened_on(PaddedTls(100))
    for _ in range(10):
        found.buffer_updated(SMALL_READ_BYTES)
    assert found.is_lost


async def test_bytes_that_are_typed_one_by_one_are_enough():
    """Each is a record of 23 bytes, and so is a record that comes in pieces."""
    found = opened_on(PaddedTls(SMALL_READ_BYTES // 23))
    for _ in range(5):
        found.buffer_updated(SMALL_READ_BYTES)
    assert not found.is_lost
    pieces = opened_on(PaddedTls(0))
    pieces.buffer_updated(SMALL_READ_BYTES)
    pieces.buffer_updated(1000)
    assert not pieces.is_lost


async def test_what_is_reported_at_once_is_sent_at_once():
    """Each record by itself would be a system call, and a wake of the one that reads it."""
    found = opened_on(PaddedTls(0))
    found.write(b"much", b"the end")
    assert found.__dict__["_transport"].calls == [[b"much", b"the end"]]
    found.buffer_updated(1)  # nothing to answer is no call
    assert len(found.__dict__["_transport"].calls) == 1


async def test_what_breaks_with_the_last_of_a_handshake_is_reported():
    """The one that goes on would ask a broken connection for its certificate."""
    found = opened_on(PaddedTls(0))
    found.connection_lost(None)
    with pytest.raises(StreamLostError):
        await found.wait_opened()
