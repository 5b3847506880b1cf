"""Streams that last too long, that rest, or of which half is left: deadlines end them."""

import asyncio
import ssl
import threading
import time

import pytest

from tests.support import tls_sockets
from tests.support.vnagent.relays import echo, relay, wait_for_end
from vnagent.stream.relay import RelayDeadlines
from vnagent.stream.stream_states import StreamEnd


@pytest.mark.parametrize(
    ("deadlines", "end"),
    [
        (RelayDeadlines(idle_seconds=0.2, check_seconds=0.05), StreamEnd.IDLE),
        (RelayDeadlines(total_seconds=0.2, check_seconds=0.05), StreamEnd.TOO_LONG),
    ],
)
async def test_deadlines_end_a_stream(authority, deadlines, end):
    """A stream on which nothing moves, or that is too old, is ended on both sides."""
    async with relay(authority, wait_for_end, deadlines=deadlines, ignores_troubles=True) as found:

        def wait() -> None:
            with found.dial() as peer:
                wait_for_end(peer)

        await asyncio.to_thread(wait)
        assert await found.end() is end


async def test_a_moving_stream_is_not_idle(authority):
    """REL-95: the idle deadline counts from the last byte, and a log may be followed for a day."""
    assert RelayDeadlines().total_seconds >= 24 * 3600
    deadlines = RelayDeadlines(idle_seconds=0.5, check_seconds=0.05)
    async with relay(authority, echo, deadlines=deadlines) as found:

        def talk() -> None:
            with found.dial() as peer:
                for _ in range(8):
                    peer.sendall(b".")
                    assert peer.recv(1) == b"."
                    time.sleep(0.15)
                tls_sockets.half_close(peer)
                tls_sockets.read_all(peer)

        await asyncio.to_thread(talk)
        assert await found.end() is StreamEnd.COMPLETE


async def test_half_a_connection_does_not_stay_for_hours(authority):
    """After one direction has ended, the short deadline counts."""
    deadlines = RelayDeadlines(idle_seconds=60, linger_seconds=0.2, check_seconds=0.05)
    over = threading.Event()

    def never_end(peer: ssl.SSLSocket) -> None:
        tls_sockets.read_all(peer)
        over.wait(tls_sockets.PATIENCE_SECONDS)

    async with relay(authority, never_end, deadlines=deadlines, ignores_troubles=True) as found:

        def talk() -> None:
            with found.dial() as peer:
                tls_sockets.half_close(peer)
                wait_for_end(peer)

        await asyncio.to_thread(talk)
        assert await found.end() is StreamEnd.IDLE
        over.set()
