"""The last bytes of a stream: the end of an answer, and bytes before a break."""

import asyncio
import contextlib
import socket
import ssl
import threading

import pytest

from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent.tls_streams import GatheringSink, dialled, send_then_wait
from vnagent.stream import flood_guard
from vnagent.stream.tls_stream import StreamLostError


@pytest.mark.parametrize("joined", [False, True], ids=["as a kubelet", "as an API server"])
async def test_the_end_of_an_answer_is_a_record_of_its_own(authority, joined):
    """It is not joined to the data before it, though all came at once, or in one record."""
    tail = b"b" * 100
    parts = [tail + b"0\r\n\r\n"] if joined else [tail, b"0\r\n\r\n"]
    is_all_sent = threading.Event()

    def behave(peer: ssl.SSLSocket) -> None:
        for part in (b"head", b"a" * 20_000, *parts):
            peer.sendall(part)
        tls_sockets.half_close(peer)
        is_all_sent.set()
        with contextlib.suppress(OSError):
            tls_sockets.read_all(peer)

    async with dialled(authority, behave) as found:
        # The loop does not turn, so that one read brings all.
        assert is_all_sent.wait(tls_sockets.PATIENCE_SECONDS)
        sink = GatheringSink()
        found.attach_sink(sink)
        await sink.has_ended.wait()
    assert sink.pieces[-1] == b"0\r\n\r\n"
    assert b"".join(sink.pieces) == b"head" + b"a" * 20_000 + b"b" * 100 + b"0\r\n\r\n"
    assert len(sink.pieces) <= 3  # not record by record, which costs twice as much


class LossySink(GatheringSink):
    """The same, which takes a loss."""

    def handle_lost(self, error: StreamLostError) -> None:
        del error


@pytest.mark.parametrize("is_wanted", [True, False])
async def test_what_came_before_a_write_failed_is_accepted(authority, is_wanted):
    """REL-87: an exit code, then a reset, as the input was not read. Unless there is no room."""
    is_asked, is_sent = threading.Event(), threading.Event()

    def behave(peer: ssl.SSLSocket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or its kernel keeps it back
        is_asked.wait(tls_sockets.PATIENCE_SECONDS)
        peer.sendall(b"the exit code")
        tls_sockets.reset(peer)
        is_sent.set()

    async with dialled(authority, behave) as found:
        sink = LossySink()
        found.attach_sink(sink)
        found.set_reading(is_wanted)
        is_asked.set()
        assert is_sent.wait(tls_sockets.PATIENCE_SECONDS)  # the loop does not turn meanwhile
        found.write(b"input")
        await eventually(lambda: found.is_lost)
    assert sink.pieces == [b"the exit code"] * is_wanted


async def test_nothing_is_accepted_behind_a_loss(authority, monkeypatch):
    """An error of a read after a failed write may be the cause of the loss."""
    monkeypatch.setattr(flood_guard, "MAX_CIPHERTEXT_PER_BYTE", 0)
    monkeypatch.setattr(flood_guard, "MAX_BARREN_BYTES", 10_000)
    is_asked, is_sent = threading.Event(), threading.Event()

    def behave(peer: ssl.SSLSocket) -> None:
        is_asked.wait(tls_sockets.PATIENCE_SECONDS)
        peer.sendall(b"x" * 150_000)
        tls_sockets.reset(peer)
        is_sent.set()

    class Ordered(LossySink):
        def handle_lost(self, error: StreamLostError) -> None:
            self.pieces.append(str(error).encode())

    async with dialled(authority, behave) as found:
        sink = Ordered()
        found.attach_sink(sink)
        is_asked.set()
        assert is_sent.wait(tls_sockets.PATIENCE_SECONDS)  # the loop does not turn meanwhile
        found.write(b"input")
        await eventually(lambda: found.is_lost)
        await asyncio.sleep(0.05)
    assert b"sends almost no data" in sink.pieces[-1]


@pytest.mark.parametrize("begun", [1, 2, 3, 4])
async def test_so_is_an_end_that_comes_in_two_reads(authority, begun):
    """The first piece of it says that more comes, so a reader waits, and has it with the data."""
    end = b"0\r\n\r\n"
    is_read = threading.Event()

    def behave(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"said" + end[:begun])
        is_read.wait(tls_sockets.PATIENCE_SECONDS)
        peer.sendall(end[begun:])
        tls_sockets.half_close(peer)
        with contextlib.suppress(OSError):
            tls_sockets.read_all(peer)

    async with dialled(authority, behave) as found:
        sink = GatheringSink()
        found.attach_sink(sink)
        await eventually(lambda: sink.pieces)
        is_read.set()
        await sink.has_ended.wait()
    assert sink.pieces == [b"said", end[:begun], end[begun:]]


@pytest.mark.parametrize("rest", [b"said", b"a" * 20_000])
async def test_so_it_does_when_all_has_come_before_anybody_asks(authority, rest):
    """A short log is whole before its head is read, on a busy node above all."""
    end = b"0\r\n\r\n"
    async with dialled(authority, send_then_wait(b"head\n" + rest, end)) as found:
        await eventually(lambda: len(found._inbox) == len(b"head\n" + rest + end))
        assert await found.read_until(b"\n", 1000) == b"head\n"
        sink = GatheringSink()
        found.attach_sink(sink)
    assert sink.pieces == [rest, end]
