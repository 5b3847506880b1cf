"""TLS between the socket of an API server and the protocol that uses it.

Theory of operation. `TlsEngine` encrypts and decrypts in memory, and this module moves the bytes.
One class stands in two places: the event loop sees a protocol, and the protocol that is secured
sees a transport. A read takes this way:

    socket -> shared raw buffer -> engine -> shared plaintext buffer -> data_received

and everything on it happens within one callback of the loop. So all connections of a thread share
one pair of buffers. The TLS of asyncio and of uvloop keeps buffers for each connection, some
hundred KiB after one long list, and the syncer has twenty watches for each tenant.

The module does not know HTTP. It does not decide which servers to trust, because the SSL context
verifies the chain and the host name.

Hazard: nothing is delivered or sent before the handshake has ended well. Otherwise a server that
proved nothing would get a token, or have its answer believed.

Hazard: the end of the socket is the end of an answer only after a close_notify alert of the server.
Otherwise anybody on the way could cut an answer short.
"""

import asyncio
import ssl
import threading
from typing import Any, Protocol, cast

from kubeio.http.tls_engine import CHUNK_BYTES, TlsEngine

_RAW_READ_BYTES = 64 * 1024
"""Bytes of one read of a socket."""
_MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""Bytes that wait for a server that does not read. The largest request is smaller."""
_CLOSE_ALERT_SECONDS = 1.0
"""Time for the alert to leave. A server that does not read it would keep the socket."""
_TRUNCATED_MESSAGE = "the server ended the connection without an answer"


class InnerProtocol(Protocol):
    """The protocol that is secured. It gets the same calls as from the transport of a loop."""

    def connection_made(self, transport: asyncio.BaseTransport, /) -> None:
        """Start, because the handshake has ended well."""

    def data_received(self, data: memoryview, /) -> None:
        """Handle plaintext. Its memory is reused when this returns."""

    def connection_lost(self, problem: Exception | None, /) -> None:
        """Handle the end. Without a problem, the server ended the connection in order."""

    def pause_writing(self) -> None:
        """Stop writing, because much waits to be sent."""

    def resume_writing(self) -> None:
        """Write again, because it has been sent."""


class _ReadBuffers(threading.local):
    """The buffers that a thread's loop fills and empties within one callback."""

    def __init__(self) -> None:
        self.raw = memoryview(bytearray(_RAW_READ_BYTES))
        self.plain = memoryview(bytearray(CHUNK_BYTES))


_READ_BUFFERS = _ReadBuffers()


class TlsTransport(asyncio.BufferedProtocol, asyncio.Transport):
    """The protocol of a socket, and the transport of the protocol that is secured."""

    __slots__ = (
        "_end",
        "_engine",
        "_is_connected",
        "_plain",
        "_protocol",
        "_raw",
        "_ready",
        "_socket",
    )

    def __init__(self, protocol: InnerProtocol, context: ssl.SSLContext, server_name: str) -> None:
        """Start the handshake when connected, with a server that must prove `server_name`."""
        super().__init__()
        self._protocol = protocol
        self._engine = TlsEngine(context, server_name=server_name)
        self._raw, self._plain = _READ_BUFFERS.raw, _READ_BUFFERS.plain
        self._socket: asyncio.Transport
        self._is_connected = False
        self._end: Exception | None = ConnectionResetError(_TRUNCATED_MESSAGE)
        """The problem that the end of the socket means at this moment."""
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait_handshake(self) -> None:
        """Wait until the handshake has ended well. Raises ssl.SSLError or ConnectionError."""
        try:
            await self._ready
        except BaseException:
            self._socket.abort()
            raise

    # Calls of the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        self._socket = cast("asyncio.Transport", transport)
        self._advance_handshake()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - there is one for all
        """Return the buffer that the loop reads into."""
        return self._raw

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt and deliver a read."""
        self._engine.feed(self._raw[:nbytes])
        if self._is_connected:
            self._deliver()
        else:
            self._advance_handshake()

    def pause_writing(self) -> None:
        """Pause the protocol that is secured."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Resume the protocol that is secured."""
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to the protocol that is secured, or to `wait_handshake`."""
        if self._is_connected:
            self._protocol.connection_lost(exc or self._end)
        else:
            self._fail_handshake(exc or self._end or ConnectionResetError(_TRUNCATED_MESSAGE))

    # TLS.

    def _advance_handshake(self) -> None:
        """Continue the handshake, and deliver what came behind its end."""
        try:
            has_ended = self._engine.do_handshake()
        except ssl.SSLError as problem:
            self._close_with_error(problem)
            return
        self._send_answers()
        if has_ended and not self._socket.is_closing():
            self._is_connected = True
            self._protocol.connection_made(self)
            if not self._ready.done():
                self._ready.set_result(None)
            self._deliver()

    def _deliver(self) -> None:
        """Deliver the plaintext of the input."""
        engine, plain, connection = self._engine, self._plain, self._socket
        size = CHUNK_BYTES
        while size == CHUNK_BYTES:  # the buffer was full, so more may follow
            size = engine.decrypt(plain)
            if size:
                self._protocol.data_received(plain[:size])
                if connection.is_closing():
                    return
        if engine.has_ended:
            self._end = None
            connection.abort()
        elif engine.error is not None:
            self._close_with_error(engine.error)
        else:
            self._send_answers()

    def _send_answers(self) -> None:
        """Send the answers of TLS itself, for example to an update of keys.

        A server that asks for answers and reads none has no other bound.
        """
        if output := self._engine.take_output():
            self._socket.write(output)
            if self._socket.get_write_buffer_size() > _MAX_UNREAD_BYTES:
                self._close_with_error(
                    ConnectionResetError("the server does not read the answers that it requested")
                )

    def _close_with_error(self, problem: Exception) -> None:
        """Close with a problem. The server gets the alert of TLS, if there is one."""
        self._end = problem
        if output := self._engine.take_output():
            self._socket.write(output)
        self._socket.close()
        loop = asyncio.get_running_loop()
        loop.call_later(_CLOSE_ALERT_SECONDS, self._socket.abort)
        if self._is_connected:  # until then, nothing may use the connection
            self._is_connected = False
            loop.call_soon(self._protocol.connection_lost, problem)
        self._fail_handshake(problem)

    def _fail_handshake(self, problem: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(problem)
            self._ready.exception()  # or asyncio logs it, when `wait_handshake` was cancelled

    # Calls of the protocol that is secured.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        try:
            output = self._engine.encrypt(data)
        except ssl.SSLError as problem:
            self._close_with_error(problem)
        else:
            self._socket.writelines(output)

    def abort(self) -> None:
        """Close at once, without a problem."""
        self._end = None
        self._socket.abort()

    def pause_reading(self) -> None:
        """Stop reading the socket."""
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read the socket again."""
        self._socket.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact about the connection, by the names that asyncio uses."""
        if name == "ssl_object":
            return self._engine.ssl_object
        return self._socket.get_extra_info(name, default)
