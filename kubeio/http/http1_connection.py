"""HTTP/1.1 connection for one request at a time, with a whole or a streamed answer.

Owns a socket and the framing on it, which httptools parses. Knows neither Kubernetes nor the owner
of the connection.

Hazard: heads and bodies must have limits, and unexpected bytes must end the connection. The peer is
not trusted.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import cast

import httptools

from kubeio.http import transport_protocol
from kubeio.http.transport_protocol import Fence

_MAX_HEAD_BYTES = 64 * 1024
_MAX_BUFFERED_BYTES = 2**20
"""Bytes of a stream that are buffered before they are read."""
_PIECE_BYTES = 48
"""Bytes of memory that a piece of a body takes besides its content. A server chooses the pieces."""
_UNEXPECTED_DATA_MESSAGE = "the connection broke: the server sent data that was not requested"
_CLOSED_MESSAGE = "the connection broke: the server closed it"


class ConnectionBrokenError(Exception):
    """The connection ended before the answer did, or the answer was invalid."""


class AnswerTooLargeError(ConnectionBrokenError):
    """The answer has more bytes than the limit, so its connection was closed."""


class Http1Connection(asyncio.Protocol):
    """One connection and its current answer."""

    __slots__ = (
        "_begun",
        "_delimited",
        "_done",
        "_is_aborted",
        "_is_sent",
        "_keeps",
        "_loop",
        "_max_response_bytes",
        "_on_closed",
        "_overhead",
        "_parser",
        "_paused",
        "_pieces",
        "_reader",
        "_size",
        "_streams",
        "_transport",
        "_writable",
        "answered_at",
        "ended",
        "idle_since",
        "is_open",
        "problem",
        "retry_after",
        "status",
    )

    def __init__(
        self,
        on_closed: "Callable[[Http1Connection], None] | None" = None,
        max_response_bytes: int | None = None,
    ) -> None:
        """Set up a connection without an owner. `on_closed` is called once the connection has
        ended.

        `max_response_bytes` limits the bytes of an answer. The default is the limit for any server.
        """
        self._max_response_bytes = max_response_bytes
        self._on_closed = on_closed
        self.is_open = False
        self.idle_since = 0.0
        self.answered_at = 0.0
        """End of the handshake by the monotonic clock, 0 once its session was taken."""
        self.problem: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._is_aborted = False
        self._writable: asyncio.Future[None] | None = None
        self._done: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[None] | None = None
        self._start_response(streams=False)

    def _start_response(self, *, streams: bool) -> None:
        self.status = 0
        self.retry_after = ""
        self.ended = False
        self._keeps = False
        self._streams = streams
        self._begun = False
        self._delimited = False
        self._overhead = 0
        self._size = 0
        self._paused = False
        self._is_sent = False
        self._pieces: list[bytes] = []

    # Requests.

    async def send_request(
        self,
        message: bytes,
        more: bytes,
        *,
        seconds: float,
        streams: bool,
        fence: Fence | None = None,
    ) -> None:
        """Send a request. Returns at the end of its answer, or of the head if `streams`.

        Raises TimeoutError, BrokenError, or the fence's error. The connection is unusable then.
        """
        if not self.is_open:
            raise ConnectionBrokenError(_CLOSED_MESSAGE)
        self._start_response(streams=streams)
        done = self._done = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._abort_transport)
        try:
            if fence is not None:
                fence()
            self._transport.write(message)
            for at in range(0, len(more), transport_protocol.SINGLE_WRITE_BYTES):
                if self._writable is not None:
                    ready = (self._writable, done)
                    await asyncio.wait(ready, return_when=asyncio.FIRST_COMPLETED)
                if done.done():
                    break  # answered early, and the request is not complete
                if fence is not None:
                    fence()
                self._transport.write(more[at : at + transport_protocol.SINGLE_WRITE_BYTES])
                await asyncio.sleep(0)
            else:
                self._is_sent = True
            await done
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()
            self._done = None

    def take_body(self) -> bytes:
        """Return the received body and clear it."""
        pieces = self._pieces
        self._pieces = []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read(self, seconds: float) -> bytes:
        """Return received bytes of a stream, empty at its end.

        Raises TimeoutError or BrokenError.
        """
        while not self._pieces:
            if self.ended:
                return b""
            if self.problem is not None:
                raise self.problem
            reader = self._reader = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._abort_transport)
            try:
                await reader
            finally:
                timer.cancel()
                self._reader = None
        self._size = 0
        if self._paused and self.is_open:
            self._paused = False
            self._transport.resume_reading()
        return self.take_body()

    def get_ssl_object(self) -> ssl.SSLObject | None:
        """Return the TLS object of an open connection, or None."""
        if not self.is_open:
            return None
        found: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object")
        return found

    def can_reuse(self) -> bool:
        """Return whether another request may follow."""
        return self.is_open and self.ended and self._is_sent and self._keeps

    def abort(self) -> None:
        """Close at once. A graceful close would wait for the peer."""
        if self.is_open:
            self.is_open = False
            self._is_aborted = True
            self._transport.abort()

    def _abort_transport(self) -> None:
        self._fail(TimeoutError())

    def _fail(self, problem: BaseException) -> None:
        if self.problem is None:
            self.problem = problem
        for waiter in (self._done, self._reader):
            if waiter is not None and not waiter.done():
                waiter.set_exception(problem)
        self.abort()

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True
        self.answered_at = time.monotonic()

    def data_received(self, data: bytes | memoryview) -> None:
        """Parse received bytes."""
        if self.ended or (self._done is None and not self._streams):
            self._fail(ConnectionBrokenError(_UNEXPECTED_DATA_MESSAGE))
            return
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as problem:
            cause = problem.__context__ or problem
            self._fail(cause)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(ConnectionBrokenError("the connection broke: the answer is not HTTP"))
        else:
            if self._overhead > _MAX_HEAD_BYTES and not self.ended:
                self._fail(
                    ConnectionBrokenError(
                        f"an answer with a head of more than {_MAX_HEAD_BYTES} bytes"
                    )
                )

    def pause_writing(self) -> None:
        """Pause writing a large body."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """Resume writing."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def connection_lost(self, problem: Exception | None) -> None:
        """Notify waiters. An answer without a length ends like this."""
        self.is_open = False
        is_end = problem is None and not self._is_aborted
        if is_end and self._begun and not self._delimited and not self.ended:
            self.on_message_complete()
        else:
            detail = str(problem) or type(problem).__name__
            self._fail(
                ConnectionBrokenError(
                    f"the connection broke: {detail}" if problem else _CLOSED_MESSAGE
                )
            )
        del self._transport  # refers to this object, and the cycle collector runs seldom
        if self._on_closed is not None:
            self._on_closed(self)

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request."""
        if self.ended:
            raise ConnectionBrokenError(_UNEXPECTED_DATA_MESSAGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read the three headers that matter."""
        size = len(name)
        if size == 11 and name.lower() == b"retry-after":
            self.retry_after = value.decode("latin-1").strip()
        elif size in (14, 17) and name.lower() in (b"content-length", b"transfer-encoding"):
            self._delimited = True

    def on_headers_complete(self) -> None:
        """Release the caller of a stream's request."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            return
        self._begun = True
        if self._streams and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def on_body(self, body: bytes) -> None:
        """Store a piece of the body."""
        self._overhead = 0
        self._size += len(body) + _PIECE_BYTES
        self._pieces.append(body)
        if self._streams:
            self._wake()
            if self._size > _MAX_BUFFERED_BYTES and not self._paused:
                self._paused = True
                self._transport.pause_reading()
        elif self._size > (self._max_response_bytes or transport_protocol.MAX_RESPONSE_BYTES):
            raise AnswerTooLargeError(
                transport_protocol.response_too_large(self._max_response_bytes)
            )

    def on_message_complete(self) -> None:
        """Release waiters for the end of the answer."""
        if self.status < 200:  # `100 Continue` and the like precede the answer
            return
        self.ended = True
        self._keeps = bool(self._parser.should_keep_alive())
        if self._streams:
            self._wake()
        elif self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
