"""One TLS connection as two directions of bytes, each of which ends on its own.

Theory of operation. A `TlsStream` is the protocol of a plain TCP transport, with a `TlsEngine` that
encrypts and decrypts in memory. The TLS transports of asyncio and uvloop close both directions when
one ends, so a command whose input has ended would lose its output.

A channel has two phases. First, plaintext gathers in an inbox, and `read_until` and `read` remove
it from there. That is how heads are read. Then `attach_sink` makes the channel a part of a relay,
and a sink gets all plaintext.

Receiving: the loop reads into a buffer that all channels of the loop share. `buffer_updated`
decrypts all of it into a second shared buffer, and delivers the plaintext before it returns. So a
channel holds at most one read and what its transport has buffered.

Back-pressure: when HIGH_WATER_BYTES wait for the peer, the transport pauses the channel, and the
sink stops to read from the channel at its other end. `set_reading` and a full inbox pause the
transport, and the window of the kernel stops the peer. `ReadControl` joins that with the short
pauses that let small reads gather.

Ends: the peer's direction ends with its close_notify alert. A FIN without it is an error, because
anybody on the way could have cut the stream. Our own direction ends in five ways:

    finish      close_notify, then FIN: an orderly end. The peer may still send.
    break_off   FIN alone: the peer reads a break. It may still send.
    close       finish, and the connection closes when all has been sent
    cut         the same without close_notify
    abort       the connection closes at once, and what waits is dropped

The first error stays. It wakes every waiter, reaches the sink, and closes the transport. It does
not abort it, because the alert that explains the error may wait there.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol, cast

from kubeio.http.tls_engine import TlsEngine
from kubeio.http.tls_sessions import ResumingContext
from vnagent.protocol.chunked import FINAL_CHUNK, match_final_chunk
from vnagent.stream import lingering_close
from vnagent.stream.flood_guard import SMALL_READ_BYTES, FloodGuard
from vnagent.stream.keepalive import enable_keepalive, is_peer_silent
from vnagent.stream.read_control import ReadControl
from vnagent.stream.receive_buffer import READ_BYTES, ReceiveBuffer

HIGH_WATER_BYTES = 32 * 1024
"""Bytes that wait for a peer in our memory before its writer is paused. The kernel's buffers are
many times as large, so a peer that reads never waits for us. One more read may come on top."""
MAX_INBOX_BYTES = 128 * 1024
"""Bytes of the inbox at which reading pauses."""


class StreamLostError(OSError):
    """The connection broke, or its peer does not speak TLS as we want it. It has the reason."""

    is_untrusted = False
    """Whether the certificate of the peer was refused."""


class StreamSink(Protocol):
    """The receiver of a channel's bytes once it is part of a relay."""

    def handle_data(self, *chunks: bytes | memoryview) -> None:
        """Handle plaintext, each chunk a record of its own. The memory is reused afterwards."""

    def handle_end(self) -> None:
        """Handle the orderly end of the peer's direction. Ours may go on."""

    def handle_lost(self, error: StreamLostError) -> None:
        """Handle the end of the connection, in both directions."""

    def set_writable(self, is_writable: bool) -> None:
        """Pause or resume the writer of this channel."""


class TlsStream(asyncio.BufferedProtocol):
    """The protocol of a plain TCP transport. `vnagent.client.https_client` shows the use."""

    def __init__(
        self,
        context: ssl.SSLContext,
        buffer: ReceiveBuffer,
        *,
        server_name: str | None = None,
        accepted: Callable[["TlsStream"], None] | None = None,
    ) -> None:
        self._context = context
        self._server_name = server_name
        self._buffer = buffer
        self._on_accepted = accepted
        self._transport: asyncio.Transport | None = None
        self._is_open = False
        self._opened_at = 0.0
        self._has_peer_ended = False  # the peer closed its direction
        self._is_finished = False  # we closed ours
        self._error: StreamLostError | None = None
        self._inbox = bytearray()
        self._read_control: ReadControl | None = None
        self._is_writable = True
        self._plaintext_room = SMALL_READ_BYTES
        self._flood_guard = FloodGuard()
        self._sink: StreamSink | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._end_callbacks: Callable[[], None] | None = None
        self._is_corked = False
        self._output: list[bytes] = []
        self._changed = asyncio.Event()

    # Calls of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._read_control = ReadControl(self._transport)
        if self._on_accepted is not None:
            self._on_accepted(self)
            if not self._is_closing():
                _ = self._engine  # created now, while the peer works on its first message
            return
        endpoint = self._transport.get_extra_info("socket")
        if endpoint is not None:
            enable_keepalive(endpoint)
        self._advance_handshake()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the shared buffer for one read."""
        is_stream = self._sink is not None and not self._flood_guard.is_suspect
        self._plaintext_room = READ_BYTES if is_stream else SMALL_READ_BYTES
        return self._buffer.view[: self._plaintext_room]

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt and deliver a read."""
        if self._has_peer_ended:
            return  # OpenSSL reads nothing after a close_notify, so input would pile up
        self._engine.feed(self._buffer.view[:nbytes])
        if not self._is_open:
            self._advance_handshake()
        if self._is_open:
            plain = self._decrypt_received()
            if problem := self._flood_guard.check_read(nbytes, plain, self.unsent_bytes):
                self._handle_tls_error(StreamLostError(problem))
                return
        if self._sink is not None and self._read_control is not None:
            self._read_control.record_read(nbytes, is_all=nbytes < self._plaintext_room)

    def eof_received(self) -> bool:
        """Keep our direction open. An end without close_notify may be a cut, so it is an error."""
        if not self._has_peer_ended:
            self._handle_tls_error(
                StreamLostError("the peer ended the connection without closing TLS")
            )
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to all waiters and to the sink."""
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        if exc is not None and not self.is_lost:
            self._read_remaining()
        reason = f"the connection broke: {exc}" if exc else "the connection is closed"
        self._handle_lost(StreamLostError(reason))

    def pause_writing(self) -> None:
        """Pause the writer."""
        self._set_writable(False)

    def resume_writing(self) -> None:
        """Resume the writer."""
        self._set_writable(True)

    # Calls of the owner.

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self._error is not None

    @property
    def has_ended(self) -> bool:
        """Whether the peer has closed its direction, or the connection has ended."""
        return self.is_lost or self._has_peer_ended

    @property
    def is_idle(self) -> bool:
        """Whether the connection is open and nothing has arrived on it."""
        return not (self.has_ended or self._inbox)

    @property
    def peer_address(self) -> str:
        """The address of the peer, empty after the end."""
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(peer[0]) if peer else ""

    @property
    def peer_certificate(self) -> bytes:
        """The verified certificate of the peer in DER, empty without one."""
        return self._engine.peer_certificate

    @property
    def has_resumed(self) -> bool:
        """Whether the connection resumed a session, so that the peer showed no certificate."""
        return bool(self._engine.ssl_object.session_reused)

    @property
    def unsent_bytes(self) -> int:
        """The bytes in our memory that wait for the peer."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def unacknowledged_bytes(self) -> int:
        """The bytes, also in the kernel, that the peer's machine has not acknowledged."""
        if self._transport is None or self.is_lost:  # a break empties the kernel's queue
            return self.unsent_bytes
        return self.unsent_bytes + lingering_close.count_unacknowledged(self._transport)

    def is_peer_silent(self, seconds: float) -> bool:
        """Return whether the peer's machine has acknowledged nothing for so many seconds."""
        return self._transport is not None and is_peer_silent(self._transport, seconds)

    async def wait_opened(self) -> None:
        """Wait for the end of the handshake. Raises ChannelLostError."""
        await self._wait_until(lambda: self._is_open)
        if self._error is not None:  # caused by input that came behind the handshake
            raise self._error

    def remember_session(self, context: ResumingContext) -> None:
        """Let the next connections of our context resume our session.

        Call it once an answer has begun, because the ticket of the server comes before that.
        """
        context.remember_session(self._engine.ssl_object, self._server_name, self._opened_at)

    async def read_until(self, mark: bytes, limit: int) -> bytes | None:
        """Return the plaintext up to and with `mark`, or None when `limit` bytes hold no mark.

        Raises ChannelLostError when the connection ends before.
        """
        seen = 0
        while (start := self._inbox.find(mark, max(0, seen - len(mark)))) < 0:
            seen = len(self._inbox)
            if seen >= limit:
                return None
            if self._has_peer_ended:
                raise StreamLostError("the peer closed the connection in mid-message")
            await self._wait_for_more_than(seen)
        end = start + len(mark)
        return self._take_inbox(end) if end <= limit else None

    async def read(self) -> bytes:
        """Return the plaintext that has arrived, empty at the end. Raises ChannelLostError."""
        await self._wait_for_more_than(0)
        return self._take_inbox(len(self._inbox))

    @contextlib.contextmanager
    def on_end(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` when the peer's direction or the connection ends, or at once if it has.

        A peer that fills the inbox meanwhile is disconnected, because its end would stay unseen.
        """
        self._end_callbacks = callback
        if self.has_ended:
            callback()
        else:
            self._pause_when_full()
        try:
            yield
        finally:
            self._end_callbacks = None

    async def drain(self) -> None:
        """Wait until writing does not pile up. Raises ChannelLostError."""
        await self._wait_until(lambda: self._is_writable)

    def write(self, *chunks: bytes | memoryview) -> None:
        """Encrypt each chunk in records of its own, and send. After the end, drop the chunks."""
        if self._is_finished or self._is_closing():
            return
        if self._read_control is not None:
            self._read_control.record_write()
        try:
            for chunk in chunks:
                self._output += self._engine.encrypt(chunk)
        except ssl.SSLError as problem:
            self._handle_tls_error(StreamLostError(f"TLS failed on a write: {problem.reason}"))
        if not self._is_corked:
            self._flush()

    @contextlib.contextmanager
    def cork(self) -> Iterator[None]:
        """Send all writes of the block together at its end. Each alone would wake the peer."""
        self._is_corked = True
        try:
            yield
        finally:
            self._is_corked = False
            if not self._is_closing():
                self._flush()

    def close_write(self) -> None:
        """Close our direction. The peer reads an orderly end, and may still send."""
        if self._is_finished or self._transport is None or self._is_closing():
            return
        self._engine.close_notify()
        self._flush()
        self._is_finished = True
        self._transport.write_eof()

    def close(self) -> None:
        """Send what is buffered, end in order, and close."""
        self.close_write()
        self._close_transport()

    def break_write(self) -> None:
        """Close our direction without close_notify. The peer reads a break, and may still send.

        The sink gets none of that. `read` returns it.
        """
        self._sink = None
        self.set_reading(True)
        if self._is_finished or self._transport is None or self._is_closing():
            return
        self._is_finished = True
        self._transport.write_eof()

    def break_connection(self) -> None:
        """Send what is buffered and close without close_notify. The peer reads a break."""
        self._close_transport()

    def abort(self) -> None:
        """Close at once, and drop what is buffered."""
        if self._transport is not None:
            self._transport.abort()

    def attach_sink(self, sink: StreamSink) -> None:
        """Deliver the inbox and all later plaintext to a sink, until the end."""
        self._sink = sink
        sink.set_writable(self._is_writable)
        tail = match_final_chunk(self._inbox)
        chunks = [self._take_inbox(len(self._inbox) - tail), self._take_inbox(tail)]
        if any(chunks):
            sink.handle_data(*filter(None, chunks))
        if self._error is not None:
            sink.handle_lost(self._error)
        elif self._has_peer_ended:
            sink.handle_end()

    def set_reading(self, is_wanted: bool) -> None:
        """Stop or continue to read. That is how a slow reader slows the writer."""
        if self._read_control is not None and not self.is_lost:
            self._read_control.set_wanted(is_wanted)

    # TLS.

    @cached_property
    def _engine(self) -> TlsEngine:
        """The TLS of this connection. A peer that is refused unheard costs none."""
        return TlsEngine(self._context, server_name=self._server_name)

    def _advance_handshake(self) -> None:
        try:
            self._is_open = self._engine.do_handshake()
            self._opened_at = time.monotonic()
        except ssl.SSLError as problem:
            self._flush()  # the alert that explains it to the peer
            reason = getattr(problem, "verify_message", problem.reason)
            error = StreamLostError(f"TLS handshake: {reason}")
            error.is_untrusted = isinstance(problem, ssl.SSLCertVerificationError)
            self._handle_tls_error(error)
            return
        self._flush()
        self._changed.set()

    def _decrypt_received(self) -> int:
        """Deliver the plaintext of a read and return its size."""
        engine, plain, passed = self._engine, self._buffer.plain, 0
        while (size := engine.decrypt(plain)) == len(plain):
            passed += size
            self._deliver(plain)
        if size:
            cut = size - match_final_chunk(plain[max(0, size - len(FINAL_CHUNK)) : size].tobytes())
            self._deliver(*filter(None, (plain[:cut], plain[cut:size])))
        if engine.has_ended:
            self._handle_peer_end()
        if engine.error is not None:
            self._handle_tls_error(StreamLostError(f"TLS failed on a read: {engine.error.reason}"))
        self._flush()  # the answers of TLS itself, to an update of keys for example
        return passed + size

    def _flush(self) -> None:
        if answers := self._engine.take_output():
            self._output.append(answers)
        output, self._output = self._output, []
        # After our end nothing can be sent, not even an answer of TLS itself.
        if output and self._transport is not None and not self._is_finished:
            # At once: each piece by itself would be a system call, and would wake its reader.
            self._transport.writelines(output)

    # The inbox and the sink.

    def _deliver(self, *chunks: memoryview) -> None:
        if self._sink is not None:
            self._sink.handle_data(*chunks)
            return
        for chunk in chunks:
            self._inbox += chunk
        self._pause_when_full()
        self._changed.set()

    def _pause_when_full(self) -> None:
        if len(self._inbox) < MAX_INBOX_BYTES:
            return
        self.set_reading(False)
        if self._end_callbacks is not None:
            self._handle_tls_error(
                StreamLostError("the peer does not wait for an answer to its requests")
            )

    def _take_inbox(self, size: int) -> bytes:
        taken = bytes(self._inbox[:size])
        del self._inbox[:size]
        if len(self._inbox) < MAX_INBOX_BYTES and self._sink is None:
            self.set_reading(True)
        return taken

    def _set_writable(self, is_writable: bool) -> None:
        self._is_writable = is_writable
        self._changed.set()
        if self._sink is not None:
            self._sink.set_writable(is_writable)

    async def _wait_for_more_than(self, size: int) -> None:
        await self._wait_until(lambda: len(self._inbox) > size or self._has_peer_ended)

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()

    def _read_remaining(self) -> None:
        """Deliver what came before a write failed.

        A kubelet sends an exit code, and resets a connection on which we still send. A slow reader
        loses the code. Otherwise a break of many connections at once would fill the memory.
        """
        if (
            self._transport is None
            or self._read_control is None
            or not self._read_control.is_wanted
        ):
            return
        self._is_finished = True  # nothing can be sent any longer
        for size in lingering_close.read_remaining(self._transport, self._buffer.view):
            self.buffer_updated(size)
            if self.is_lost:
                return

    def _handle_peer_end(self) -> None:
        if self._has_peer_ended:
            return
        self._has_peer_ended = True
        self._wake()
        if self._sink is not None:
            self._sink.handle_end()

    def _handle_tls_error(self, error: StreamLostError) -> None:
        self._handle_lost(error)
        self._close_transport()  # not abort, because an alert may have to leave

    def _handle_lost(self, error: StreamLostError) -> None:
        if self.is_lost:
            return
        self._error = error
        self._wake()
        if self._sink is not None:
            self._sink.handle_lost(error)

    def _wake(self) -> None:
        self._changed.set()
        if self._end_callbacks is not None:
            self._end_callbacks()

    def _close_transport(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._linger_timer = lingering_close.close(self._transport)

    def _is_closing(self) -> bool:
        """Return whether the transport would refuse a call."""
        return self.is_lost or self._transport is None or self._transport.is_closing()
