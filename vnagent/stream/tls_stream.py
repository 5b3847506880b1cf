"""One TLS connection as two directions of bytes, each of which ends on its own.

Owns the flow of one connection: a plain transport with a TLS engine on it. Must not know HTTP or
who talks. Hazard: the TLS transports of asyncio and uvloop close both directions when one ends,
which would cut the output of a command whose input has ended; hence our own. Everything that
arrives is passed on within the callback that brought it, so that no stream holds more than one read
and what its transport has buffered.
"""

import asyncio
import contextlib
import fcntl
import os
import ssl
import sys
import termios
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol, cast

from kubeio.http.tls_engine import TlsEngine
from kubeio.http.tls_sessions import Context
from vnagent.protocol.chunked import END, end_in
from vnagent.stream.keepalive import is_forsaken, keep_alive
from vnagent.stream.read_control import Intake

READ_BYTES = 64 * 1024
FIRST_BYTES = 16 * 1024
"""Of one read of somebody who is no part of a stream, or whose last read brought nothing."""
BARREN_BYTES = 32 * 1024
"""Read in a row without enough plain text; the longest record is half of that. Who has updates of
keys made, some ten microseconds each, would hold the loop up for as long as more are read."""
PER_BYTE = 32
"""Of what is read, for each byte of plain text: one typed by itself takes 23."""
PLAIN_BYTES = READ_BYTES + 32 * 1024
"""Of one read, and of a record that had come in part before it."""
HIGH_WATER_BYTES = 32 * 1024
"""Of what waits for a peer in our memory, after which its writer is held back. The kernel's buffers
are many times as large, so nobody who reads waits for us; one more read may come on top."""
MAX_UNREAD = 4 * 1024 * 1024
"""Bytes of ours that wait for the peer: whoever writes stops long before."""
MAX_REST = 256 * 1024
"""Read of a connection that has broken."""
INBOX_BYTES = 128 * 1024
LINGER_SECONDS = 10.0


class ChannelLostError(OSError):
    """The connection broke, or its peer does not speak TLS as we want it; says which."""

    is_untrusted = False
    """Whether the peer's certificate was the trouble."""


class Sink(Protocol):
    """What takes the bytes of a channel once it is part of a pipe."""

    def data(self, *chunks: bytes | memoryview) -> None:
        """Take bytes that arrived, records of their own; they are gone when it returns."""

    def ended(self) -> None:
        """The peer has closed its direction in order; ours may go on."""

    def lost(self, error: ChannelLostError) -> None:
        """The connection is gone, in both directions."""

    def writable(self, is_writable: bool) -> None:
        """Whether the channel takes more without piling it up."""


class ReceiveBuffer:
    """The room that all channels of a loop read into: its content never outlives a read."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))
        self.plain = memoryview(bytearray(PLAIN_BYTES))


class Channel(asyncio.BufferedProtocol):
    """Use as the protocol of a plain TCP transport; see `vnagent.client.https_client`."""

    def __init__(
        self,
        context: ssl.SSLContext,
        buffer: ReceiveBuffer,
        *,
        server_name: str | None = None,
        accepted: Callable[["Channel"], None] | None = None,
    ) -> None:
        self._context = context
        self._server_name = server_name
        self._buffer = buffer
        self._accepted = accepted
        self._transport: asyncio.Transport | None = None
        self._is_open = False
        self._opened_at = 0.0
        self._has_ended = False  # the peer closed its direction
        self._is_finished = False  # we closed ours
        self._error: ChannelLostError | None = None
        self._inbox = bytearray()
        self._intake: Intake | None = None
        self._is_writable = True
        self._room = FIRST_BYTES
        self._barren = 0
        self._sink: Sink | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._at_end: Callable[[], None] | None = None
        self._is_gathering = False
        self._output: list[bytes] = []
        self._changed = asyncio.Event()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._intake = Intake(self._transport)
        if self._accepted is not None:
            self._accepted(self)
            if not self._is_closing():
                _ = self._engine  # now, while the peer is busy with its first words
            return
        endpoint = self._transport.get_extra_info("socket")
        if endpoint is not None:
            keep_alive(endpoint)
        self._shake_hands()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Lend the loop's buffer for one read."""
        is_stream = self._sink is not None and not self._barren
        self._room = READ_BYTES if is_stream else FIRST_BYTES
        return self._buffer.view[: self._room]

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt and pass on what was read."""
        if self._has_ended:
            return  # TLS reads nothing after a goodbye: what is fed to it would pile up
        self._engine.feed(self._buffer.view[:nbytes])
        if not self._is_open:
            self._shake_hands()
        if self._is_open:
            plain = self._receive()
            self._barren = max(0, self._barren + nbytes - PER_BYTE * plain)
            if self._barren >= BARREN_BYTES:
                self._fail(ChannelLostError("the peer sends next to nothing, and much TLS with it"))
                return
        if self._sink is not None and self._intake is not None:
            self._intake.read(nbytes, is_all=nbytes < self._room)

    def eof_received(self) -> bool:
        """Keep our direction open; an end without a TLS goodbye may be a cut, so it is an error."""
        if not self._has_ended:
            self._fail(ChannelLostError("the peer ended the connection without closing TLS"))
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        if self._linger is not None:
            self._linger.cancel()
        if exc is not None and not self.is_lost:
            self._read_rest()
        reason = f"the connection broke: {exc}" if exc else "the connection is closed"
        self._lose(ChannelLostError(reason))

    def pause_writing(self) -> None:
        """Hold back whoever writes."""
        self._set_writable(False)

    def resume_writing(self) -> None:
        """Let whoever writes go on."""
        self._set_writable(True)

    # What the owner calls.

    @property
    def is_lost(self) -> bool:
        """Whether the connection is gone."""
        return self._error is not None

    @property
    def has_ended(self) -> bool:
        """Whether the peer has closed its direction, or is lost."""
        return self.is_lost or self._has_ended

    @property
    def is_quiet(self) -> bool:
        """Whether the connection stands and nothing has arrived on it."""
        return not (self.has_ended or self._inbox)

    @property
    def source(self) -> str:
        """The peer's address, empty when it is gone already."""
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(peer[0]) if peer else ""

    @property
    def peer_certificate(self) -> bytes:
        """The peer's verified certificate in DER, empty when it gave none."""
        return self._engine.peer_certificate

    @property
    def has_resumed(self) -> bool:
        """Whether it went on with the session of another, and saw no certificate."""
        return bool(self._engine.ssl_object.session_reused)

    @property
    def unsent_bytes(self) -> int:
        """How much waits for a peer that does not read."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def unheard_bytes(self) -> int:
        """How much the peer's machine has not said to have, in the kernel and before it.

        Once the connection has broken, only what was before the kernel: a reset empties its queue.
        """
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is None or self.is_lost:
            return self.unsent_bytes
        try:
            queued = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:  # it is being closed
            return self.unsent_bytes
        return self.unsent_bytes + int.from_bytes(queued, sys.byteorder)

    def is_forsaken(self, seconds: float) -> bool:
        """Tell whether what the peer was sent has been answered by silence for so long."""
        return self._transport is not None and is_forsaken(self._transport, seconds)

    async def opened(self) -> None:
        """Wait for the end of the handshake; raises ChannelLostError."""
        await self._until(lambda: self._is_open)
        if self._error is not None:  # what came with the last of the handshake broke it
            raise self._error

    def leave_session(self, context: Context) -> None:
        """Have the next connections of our context go on with our session.

        Once an answer has begun: what a server sends for it comes before.
        """
        context.remember(self._engine.ssl_object, self._server_name, self._opened_at)

    async def read_until(self, mark: bytes, limit: int) -> bytes | None:
        """Return what arrived up to and with `mark`; None when `limit` bytes hold no mark.

        Raises ChannelLostError when the connection ends before.
        """
        seen = 0
        while (start := self._inbox.find(mark, max(0, seen - len(mark)))) < 0:
            seen = len(self._inbox)
            if seen >= limit:
                return None
            if self._has_ended:
                raise ChannelLostError("the peer closed the connection in mid-message")
            await self._more_than(seen)
        end = start + len(mark)
        return self._take(end) if end <= limit else None

    async def read(self) -> bytes:
        """Return what has arrived, empty at the end."""
        await self._more_than(0)
        return self._take(len(self._inbox))

    @contextlib.contextmanager
    def told_of_end(self, tell: Callable[[], None]) -> Iterator[None]:
        """Tell somebody when the peer closes its direction or is lost; at once if it has been.

        One who sends so much meanwhile that its end could not be seen is lost by it.
        """
        self._at_end = tell
        if self.has_ended:
            tell()
        else:
            self._hold_back()
        try:
            yield
        finally:
            self._at_end = None

    async def drained(self) -> None:
        """Wait until writing does not pile up; raises ChannelLostError."""
        await self._until(lambda: self._is_writable)

    def write(self, *chunks: bytes | memoryview) -> None:
        """Encrypt, each in records of its own, and send; what a lost connection got is dropped."""
        if self._is_finished or self._is_closing():
            return
        if self._intake is not None:
            self._intake.spoke()
        try:
            for chunk in chunks:
                self._output += self._engine.encrypt(chunk)
        except ssl.SSLError as problem:
            self._fail(ChannelLostError(f"TLS broke in writing: {problem.reason}"))
        if not self._is_gathering:
            self._flush()

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Send what is written meanwhile at its end, together: each piece would wake the peer."""
        self._is_gathering = True
        try:
            yield
        finally:
            self._is_gathering = False
            if not self._is_closing():
                self._flush()

    def finish(self) -> None:
        """Close our direction: the peer reads the end, and may go on sending."""
        if self._is_finished or self._transport is None or self._is_closing():
            return
        self._engine.close_notify()
        self._flush()
        self._is_finished = True
        self._transport.write_eof()

    def close(self) -> None:
        """Send what is buffered, say goodbye, and close."""
        self.finish()
        self._close_transport()

    def break_off(self) -> None:
        """Close our direction without a TLS goodbye: the peer learns of a break.

        What it still sends is nobody's but who reads it.
        """
        self._sink = None
        self.set_reading(True)
        if self._is_finished or self._transport is None or self._is_closing():
            return
        self._is_finished = True
        self._transport.write_eof()

    def cut(self) -> None:
        """Send what is buffered and close without a TLS goodbye: the peer learns of a break."""
        self._close_transport()

    def abort(self) -> None:
        """Drop the connection and what is buffered at once."""
        if self._transport is not None:
            self._transport.abort()

    def pour_into(self, sink: Sink) -> None:
        """Give what has arrived and will arrive to a sink, at once and until the end."""
        self._sink = sink
        sink.writable(self._is_writable)
        tail = end_in(self._inbox)
        chunks = [self._take(len(self._inbox) - tail), self._take(tail)]
        if any(chunks):
            sink.data(*filter(None, chunks))
        if self._error is not None:
            sink.lost(self._error)
        elif self._has_ended:
            sink.ended()

    def set_reading(self, is_wanted: bool) -> None:
        """Stop or go on reading: how a slow reader is felt by the writer."""
        if self._intake is not None and not self.is_lost:
            self._intake.want(is_wanted)

    # What happens inside.

    @cached_property
    def _engine(self) -> TlsEngine:
        """The TLS of this connection; one that is turned away unheard never has any."""
        return TlsEngine(self._context, server_name=self._server_name)

    def _shake_hands(self) -> None:
        try:
            self._is_open = self._engine.do_handshake()
            self._opened_at = time.monotonic()
        except ssl.SSLError as problem:
            self._flush()  # the alert that tells the peer why
            self._fail(_handshake_problem(problem))
            return
        self._flush()
        self._changed.set()

    def _read_rest(self) -> None:
        """Pass on what had come before a write failed, which ends a transport without a look.

        A kubelet sends an exit code and resets what it is still sent. One who is slow to read loses
        it, as he would with the connection; else a break of many would fill the memory.
        """
        if self._transport is None or self._intake is None or not self._intake.is_wanted:
            return
        self._is_finished = True  # nothing can be sent any more
        endpoint, left = self._transport.get_extra_info("socket"), MAX_REST
        with contextlib.suppress(OSError):  # that it has broken, at last
            while left > 0 and (size := os.readv(endpoint.fileno(), [self._buffer.view])):
                self.buffer_updated(size)
                left = 0 if self.is_lost else left - size

    def _receive(self) -> int:
        """Pass on what was read; return how much it was."""
        engine, plain, passed = self._engine, self._buffer.plain, 0
        while (size := engine.decrypt(plain)) == len(plain):
            passed += size
            self._pass_on(plain)
        if size:
            cut = size - end_in(plain[max(0, size - len(END)) : size].tobytes())
            self._pass_on(*filter(None, (plain[:cut], plain[cut:size])))
        if engine.has_ended:
            self._end()
        if engine.error is not None:
            self._fail(ChannelLostError(f"TLS broke in reading: {engine.error.reason}"))
        self._flush()  # answers to key updates and the like
        # Whoever asks for those without reading them has no other bound.
        if self._transport is not None and self._transport.get_write_buffer_size() > MAX_UNREAD:
            self._fail(ChannelLostError("the peer does not read what it has asked for"))
        return passed + size

    def _pass_on(self, *chunks: memoryview) -> None:
        if self._sink is not None:
            self._sink.data(*chunks)
            return
        for chunk in chunks:
            self._inbox += chunk
        self._hold_back()
        self._changed.set()

    def _hold_back(self) -> None:
        if len(self._inbox) < INBOX_BYTES:
            return
        self.set_reading(False)
        if self._at_end is not None:
            self._fail(ChannelLostError("the peer does not wait for an answer to what it sends"))

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._wake()
        if self._sink is not None:
            self._sink.ended()

    def _take(self, size: int) -> bytes:
        taken = bytes(self._inbox[:size])
        del self._inbox[:size]
        if len(self._inbox) < INBOX_BYTES and self._sink is None:
            self.set_reading(True)
        return taken

    def _is_closing(self) -> bool:
        """Whether the transport would refuse to be used."""
        return self.is_lost or self._transport is None or self._transport.is_closing()

    def _flush(self) -> None:
        if answers := self._engine.take_output():
            self._output.append(answers)
        output, self._output = self._output, []
        # After our end nothing can be sent, not even what TLS itself would like to say.
        if output and self._transport is not None and not self._is_finished:
            # At once: each piece by itself would be a system call, and a wake of its reader.
            self._transport.writelines(output)

    def _set_writable(self, is_writable: bool) -> None:
        self._is_writable = is_writable
        self._changed.set()
        if self._sink is not None:
            self._sink.writable(is_writable)

    def _fail(self, error: ChannelLostError) -> None:
        self._lose(error)
        self._close_transport()  # not abort: an alert may have to leave

    def _close_transport(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.close()
        # A peer that never reads would keep the socket and its buffer for ever.
        loop = asyncio.get_running_loop()
        self._linger = loop.call_later(LINGER_SECONDS, self._transport.abort)

    def _lose(self, error: ChannelLostError) -> None:
        if self.is_lost:
            return
        self._error = error
        self._wake()
        if self._sink is not None:
            self._sink.lost(error)

    def _wake(self) -> None:
        self._changed.set()
        if self._at_end is not None:
            self._at_end()

    async def _more_than(self, size: int) -> None:
        await self._until(lambda: len(self._inbox) > size or self._has_ended)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()


def _handshake_problem(problem: ssl.SSLError) -> ChannelLostError:
    if not isinstance(problem, ssl.SSLCertVerificationError):
        return ChannelLostError(f"TLS handshake: {problem.reason}")
    lost = ChannelLostError(f"TLS handshake: {problem.verify_message}")
    lost.is_untrusted = True
    return lost
