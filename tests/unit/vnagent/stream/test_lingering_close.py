"""Bytes that are on their way at the end of a connection: read, counted, and not waited for."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from tests.support.eventually import eventually
from vnagent.stream import lingering_close


@contextlib.asynccontextmanager
async def connection() -> AsyncIterator[tuple[asyncio.Transport, socket.socket]]:
    """A transport that nothing is read from, and the socket of its peer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    transport.pause_reading()
    try:
        with peer:
            yield transport, peer
    finally:
        transport.abort()


async def test_a_transport_that_cannot_send_is_aborted(monkeypatch):
    monkeypatch.setattr(lingering_close, "CLOSE_LINGER_SECONDS", 0.1)
    async with connection() as (transport, _):
        while not transport.get_write_buffer_size():
            transport.write(b"x" * 1_000_000)
            await asyncio.sleep(0)
        timer = lingering_close.close(transport)
        assert transport.is_closing()
        assert transport.get_write_buffer_size()
        await eventually(lambda: not transport.get_write_buffer_size())
        assert timer.when() <= asyncio.get_running_loop().time()


async def test_a_transport_that_can_send_sends_all():
    async with connection() as (transport, peer):
        transport.write(b"the last words")
        lingering_close.close(transport).cancel()
        await asyncio.sleep(0.01)
        assert peer.recv(100) == b"the last words"
        assert peer.recv(100) == b""


async def test_what_came_before_a_break_is_read():
    buffer, found = memoryview(bytearray(4)), bytearray()
    async with connection() as (transport, peer):
        peer.sendall(b"exit code")
        peer.close()
        for size in lingering_close.read_remaining(transport, buffer):
            found += buffer[:size]
    assert found == b"exit code"


async def test_a_break_that_brings_nothing_reads_nothing():
    """There is nothing to read without waiting, which is an error of the socket."""
    async with connection() as (transport, _):
        assert [*lingering_close.read_remaining(transport, memoryview(bytearray(4)))] == []


async def test_the_peer_does_not_decide_how_much_is_read(monkeypatch):
    monkeypatch.setattr(lingering_close, "MAX_REMAINING_BYTES", 10)
    async with connection() as (transport, peer):
        peer.sendall(b"x" * 100)
        sizes = [*lingering_close.read_remaining(transport, memoryview(bytearray(4)))]
    assert sizes == [4, 4, 4]


async def test_bytes_that_the_peer_has_not_acknowledged_are_counted():
    async with connection() as (transport, peer):
        assert lingering_close.count_unacknowledged(transport) == 0
        sent = 0
        while not transport.get_write_buffer_size():
            transport.write(b"x" * 1_000_000)
            sent += 1_000_000
            await asyncio.sleep(0)
        assert lingering_close.count_unacknowledged(transport) > 0
        peer.setblocking(False)
        while sent:
            with contextlib.suppress(BlockingIOError):
                sent -= len(peer.recv(sent))
            await asyncio.sleep(0)
        await eventually(lambda: lingering_close.count_unacknowledged(transport) == 0)
