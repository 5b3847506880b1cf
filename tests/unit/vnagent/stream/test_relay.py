"""Streams between real TLS sockets: ends and back-pressure."""

import asyncio
import contextlib
import queue
import socket
import ssl
import threading
import time

import pytest

from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent.relays import echo, relay, wait_for_end
from vnagent.stream import graceful_close, lingering_close, read_coalescing
from vnagent.stream import relay as pumps
from vnagent.stream.read_coalescing import ReadCoalescer
from vnagent.stream.relay import RelayDeadlines
from vnagent.stream.stream_states import StreamEnd
from vnagent.stream.tls_stream import HIGH_WATER_BYTES, READ_BYTES

MOST_UNSENT = HIGH_WATER_BYTES + READ_BYTES + 20 * 1024
"""In one direction: the mark, a read that was under way, and a record that had come in part."""


async def test_bytes_pass_both_ways_and_are_counted(authority):
    """A stream moves bytes unchanged and counts them per direction."""
    async with relay(authority, echo) as found:

        def talk() -> bytes:
            with found.dial() as peer:
                peer.sendall(b"hello")
                heard = tls_sockets.read_until(peer, b"hello")
                tls_sockets.half_close(peer)
                return heard + tls_sockets.read_all(peer)

        assert await asyncio.to_thread(talk) == b"hello"
        assert await found.end() is StreamEnd.COMPLETE
        assert (found.pumps[0].bytes_up, found.pumps[0].bytes_down) == (5, 5)


async def test_output_goes_on_after_input_has_ended(authority):
    """REL-87: half a connection closes alone. What follows arrives whole and in order."""
    answer = bytes(range(256)) * 40_000  # 10 MB: many reads after the goodbye

    def answer_after_the_end(peer: ssl.SSLSocket) -> None:
        assert tls_sockets.read_all(peer) == b"input" * 1000
        peer.sendall(answer)
        tls_sockets.half_close(peer)

    async with relay(authority, answer_after_the_end) as found:

        def talk() -> bytes:
            with found.dial() as peer:
                peer.sendall(b"input" * 1000)
                tls_sockets.half_close(peer)
                return tls_sockets.read_all(peer)

        assert await asyncio.to_thread(talk) == answer
        assert await found.end() is StreamEnd.COMPLETE


@pytest.mark.parametrize("is_two_way", [True, False])
async def test_a_flood_of_lines_arrives_whole_with_its_end(authority, monkeypatch, is_two_way):
    """Bytes are let gather, the reader stops in between, and the end comes in the midst of it."""
    rests: list[float] = []
    read = ReadCoalescer.record_read

    def noted(self: ReadCoalescer, now: float, size: int, *, is_all: bool) -> float:
        rest = read(self, now, size, is_all=is_all)
        rests.append(rest)
        return rest

    monkeypatch.setattr(ReadCoalescer, "record_read", noted)
    monkeypatch.setattr(
        read_coalescing, "MAX_FLOOD_GAP_SECONDS", 1.0
    )  # so that a slow machine sees no pause
    monkeypatch.setattr(read_coalescing, "MAX_GAP_AFTER_REST_SECONDS", 1.0)
    lines = [b"%06d %s\n" % (number, b"x" * 120) for number in range(10_000)]

    def flood(peer: ssl.SSLSocket) -> None:
        for number, line in enumerate(lines):  # each a record of its own
            peer.sendall(line)
            if number % 50 == 0:
                time.sleep(0.001)  # so that all there is has been read
        tls_sockets.half_close(peer)

    async with relay(authority, flood, is_two_way=is_two_way) as found:

        def talk() -> bytes:
            with found.dial() as peer:
                heard = peer.recv(1000)
                time.sleep(0.1)
                heard += tls_sockets.read_all(peer)
                tls_sockets.half_close(peer)
                return heard

        assert await asyncio.to_thread(talk) == b"".join(lines)
        assert await found.end() is StreamEnd.COMPLETE
    assert any(rests)


async def test_input_goes_on_after_output_has_ended(authority):
    """The other half closes alone, too."""
    heard: queue.Queue[bytes] = queue.Queue()

    def end_first(peer: ssl.SSLSocket) -> None:
        tls_sockets.half_close(peer)
        heard.put(tls_sockets.read_all(peer))

    async with relay(authority, end_first) as found:

        def talk() -> None:
            with found.dial() as peer:
                assert tls_sockets.read_all(peer) == b""
                peer.sendall(b"late input" * 200_000)
                tls_sockets.half_close(peer)
                with contextlib.suppress(OSError):
                    peer.recv(1)

        await asyncio.to_thread(talk)
        assert await found.end() is StreamEnd.COMPLETE
        late = await asyncio.to_thread(heard.get, timeout=tls_sockets.PATIENCE_SECONDS)
        assert late == b"late input" * 200_000


@pytest.mark.parametrize("is_two_way", [True, False])
async def test_a_reader_that_stops_holds_back_the_writer(authority, is_two_way):
    """REL-88: what a stream holds is bounded, and nothing is lost when the reader goes on."""
    total = 64 * 1024 * 1024
    sent = [0]

    def flood(peer: ssl.SSLSocket) -> None:
        block = b"x" * 65536
        while sent[0] < total:
            peer.sendall(block)
            sent[0] += len(block)
        tls_sockets.half_close(peer)

    async with relay(authority, flood, is_two_way=is_two_way) as found:
        peer = await asyncio.to_thread(found.dial, receive_buffer=65536)
        with peer:
            before = -1
            while before != sent[0]:  # until the writer stands still
                before = sent[0]
                await asyncio.sleep(0.5)
            assert 0 < before < total // 2
            assert found.callers[0].unsent_bytes <= MOST_UNSENT
            assert len(await asyncio.to_thread(tls_sockets.read_all, peer)) == total
        assert await found.end() is StreamEnd.COMPLETE


async def test_two_that_do_not_read_hold_each_other_back(authority):
    """REL-88: what waits in both directions of a stream stays within a quarter of a MiB."""
    sent = [0, 0]

    def flood(peer: ssl.SSLSocket, way: int) -> None:
        with contextlib.suppress(OSError):  # the end of the test
            while True:
                peer.sendall(b"x" * 65536)
                sent[way] += 65536

    async with relay(authority, lambda peer: flood(peer, 0), ignores_troubles=True) as found:
        peer = await asyncio.to_thread(found.dial, receive_buffer=65536)
        with peer:
            writer = threading.Thread(target=flood, args=(peer, 1), daemon=True)
            writer.start()
            before = [-1, -1]
            while before != sent or not all(sent):
                before = list(sent)
                await asyncio.sleep(0.5)
            caller, kubelet = found.callers[0], found.kubelets[0]
            assert 0 < caller.unsent_bytes + kubelet.unsent_bytes <= 256 * 1024
            socket.socket.shutdown(peer, socket.SHUT_RDWR)
            await asyncio.to_thread(writer.join)
        await found.end()


async def test_who_ends_a_log_unread_leaves_nothing(authority, monkeypatch):
    """Its place is free then, so what it has not read must not stay for as long as it likes."""
    monkeypatch.setattr(lingering_close, "CLOSE_LINGER_SECONDS", 300.0)

    def flood(peer: ssl.SSLSocket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer.sendall(b"x" * 65536)

    async with relay(authority, flood, is_two_way=False, ignores_troubles=True) as found:
        peer = await asyncio.to_thread(found.dial, receive_buffer=65536)
        with peer:
            await eventually(lambda: found.callers and found.callers[0].unsent_bytes > 0)
            with contextlib.suppress(ssl.SSLError):  # of what comes in behind the goodbye
                await asyncio.to_thread(tls_sockets.half_close, peer)
            assert await found.end() is StreamEnd.CALLER_GONE
            await eventually(lambda: found.callers[0].is_lost)
            await eventually(lambda: found.callers[0].unsent_bytes == 0)


async def test_who_talks_behind_a_request_for_a_log_is_let_go(authority):
    """No one does, and it would all be decrypted for nothing."""

    def stay_silent(peer: ssl.SSLSocket) -> None:
        with contextlib.suppress(OSError):
            tls_sockets.read_all(peer)

    async with relay(authority, stay_silent, is_two_way=False, ignores_troubles=True) as found:

        def talk() -> None:
            context = tls_sockets.client_context(authority)
            with tls_sockets.dial(found.port, context) as peer, contextlib.suppress(OSError):
                peer.sendall(b"x" * pumps.MAX_DROPPED_CALLER_BYTES + b"x")
                tls_sockets.read_all(peer)

        await asyncio.to_thread(talk)
        assert await found.end() is StreamEnd.CALLER_GONE


async def test_a_log_ends_at_once_when_its_reader_has_gone(authority):
    """A silent container would never tell that no one listens."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stay_silent(peer: ssl.SSLSocket) -> None:
        with contextlib.suppress(OSError):
            peer.recv(1)
        loop.call_soon_threadsafe(ended.set)

    async with relay(authority, stay_silent, is_two_way=False, ignores_troubles=True) as found:

        def leave() -> None:
            with found.dial() as peer:
                peer.sendall(b"not for the kubelet")
                tls_sockets.half_close(peer)

        await asyncio.to_thread(leave)
        assert await found.end() is StreamEnd.CALLER_GONE
        assert found.pumps[0].bytes_up == 0
        async with asyncio.timeout(tls_sockets.PATIENCE_SECONDS):
            await ended.wait()


async def test_a_log_is_over_with_its_last_byte(authority):
    """Whether or not the reader closes: no one waits for the next look at the deadlines."""

    def speak(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"all of it" * 30_000)
        tls_sockets.half_close(peer)
        wait_for_end(peer)

    async with relay(
        authority, speak, is_two_way=False, deadlines=RelayDeadlines(), ignores_troubles=True
    ) as found:
        peer = await asyncio.to_thread(found.dial)
        with peer:
            heard = await asyncio.to_thread(tls_sockets.read_all, peer)
            assert heard == b"all of it" * 30_000
            async with asyncio.timeout(5):
                assert await found.end() is StreamEnd.COMPLETE


async def test_a_kubelet_that_breaks_off_is_not_an_orderly_end(authority):
    """REL-89: the caller gets what came, and no TLS goodbye after it."""

    def break_off(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"half a li")
        time.sleep(0.2)
        tls_sockets.reset(peer)

    async with relay(authority, break_off, ignores_troubles=True) as found:

        def talk() -> bytes:
            with found.dial() as peer:
                heard = tls_sockets.read_until(peer, b"half a li")
                peer.suppress_ragged_eofs = False
                with pytest.raises(ssl.SSLEOFError):
                    peer.recv(1)
                return heard

        assert await asyncio.to_thread(talk) == b"half a li"
        assert await found.end() is StreamEnd.KUBELET_LOST


async def test_who_still_sends_is_not_reset_under_the_last_words_of_a_kubelet(authority):
    """REL-87: an exit code comes, and then a reset, as the input was not read to its end."""
    last = b"the exit code"

    def break_off(peer: ssl.SSLSocket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or its kernel keeps it back
        assert peer.recv(1) == b"x"
        peer.sendall(last)
        tls_sockets.reset(peer)

    async with relay(authority, break_off, ignores_troubles=True) as found:
        is_over = threading.Event()

        def talk() -> bytes:
            with found.dial() as peer:
                peer.sendall(b"x")
                assert is_over.wait(tls_sockets.PATIENCE_SECONDS)
                for _ in range(100):
                    peer.sendall(b"more" * 4096)
                    time.sleep(0.001)
                return tls_sockets.read_until(peer, last)

        heard = asyncio.create_task(asyncio.to_thread(talk))
        await eventually(lambda: found.kubelets and found.kubelets[0].is_lost)
        is_over.set()
        assert await heard == last
        assert await found.end() is StreamEnd.KUBELET_LOST


async def test_one_who_is_cut_off_and_goes_on_is_let_go_at_last(authority, monkeypatch):
    """It keeps a place."""
    monkeypatch.setattr(graceful_close, "CLOSE_SECONDS", 0.2)

    def go_on(port: int) -> None:
        with tls_sockets.dial(port, tls_sockets.client_context(authority)) as peer:
            while True:
                peer.sendall(b"more" * 4096)

    async with relay(authority, tls_sockets.reset, ignores_troubles=True) as found:
        with pytest.raises(OSError, match=r"(?i)reset|pipe|eof"):
            await asyncio.to_thread(go_on, found.port)
        assert await found.end() is StreamEnd.KUBELET_LOST


@pytest.mark.parametrize(
    ("closing_seconds", "end"), [(60.0, StreamEnd.COMPLETE), (0.0, StreamEnd.KUBELET_LOST)]
)
async def test_a_reset_may_answer_a_close(authority, monkeypatch, closing_seconds, end):
    """A kubelet resets the connection of a caller that has closed first. Later it is a loss."""
    monkeypatch.setattr(pumps, "CLOSE_ANSWER_SECONDS", closing_seconds)

    def reset_at_the_end(peer: ssl.SSLSocket) -> None:
        assert tls_sockets.read_all(peer) == b"exit"
        tls_sockets.reset(peer)

    async with relay(authority, reset_at_the_end) as found:

        def talk() -> None:
            with found.dial() as peer:
                peer.sendall(b"exit")
                tls_sockets.half_close(peer)
                peer.suppress_ragged_eofs = False
                with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
                    peer.recv(1)

        await asyncio.to_thread(talk)
        assert await found.end() is end


async def test_who_pings_and_reads_late_gets_all_of_it(authority):
    """REL-87: a kubelet that is gone is no reason to close on someone who has not read yet."""
    answer = bytes(range(256)) * 4_000  # 1 MB: sockets hold it

    def say_it_and_go(peer: ssl.SSLSocket) -> None:
        peer.sendall(answer)
        tls_sockets.half_close(peer)

    async with relay(authority, say_it_and_go, ignores_troubles=True) as found:

        def ping_and_read() -> bytes:
            context = tls_sockets.client_context(authority)
            with tls_sockets.dial(found.port, context, receive_buffer=65536) as peer:
                for _ in range(10):
                    time.sleep(0.1)
                    peer.sendall(b"ping")
                heard = tls_sockets.read_all(peer)
                tls_sockets.half_close(peer)
                return heard

        assert await asyncio.to_thread(ping_and_read) == answer
        assert await found.end() is StreamEnd.COMPLETE
        assert found.kubelets[0].is_lost


async def test_a_reader_of_the_whole_answer_may_close_first(authority):
    """An API server closes as soon as its user is gone, which may be before the kubelet ends."""

    def end_a_moment_later(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"exit code 0")
        time.sleep(0.1)
        tls_sockets.half_close(peer)

    async with relay(authority, end_a_moment_later) as found:

        def hear_and_break_off() -> None:
            with found.dial() as peer:
                tls_sockets.read_until(peer, b"exit code 0")
                tls_sockets.reset(peer)

        await asyncio.to_thread(hear_and_break_off)
        assert await found.end() is StreamEnd.COMPLETE
