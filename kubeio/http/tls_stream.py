"""TLS between a socket and a connection: the `ssl` module's, fed and emptied here.

Owns the buffers, one pair for all connections of a thread: the TLS of the event loops keeps some
hundred KiB for each that once had a long list to read, and watches are many. Must not know HTTP,
nor decide whom to trust, which is the context's. Hazards: nothing goes up or down before the
handshake has ended well; and the end of a socket is the end of an answer only when the server said
so within TLS, or anybody on the way could cut it short.
"""

import asyncio
import ssl
import threading
from typing import Any, Protocol, cast

_RAW = 64 * 1024
"""Bytes that are taken from a socket at once."""
_RECORD = 16 * 1024
"""Bytes of plain text in one record of TLS, at most."""
_MAX_UNREAD = 16 * 1024 * 1024
"""Bytes that wait to go when something comes: more than the largest request."""
_FAREWELL_SECONDS = 1.0
"""For the alert to leave; a server that does not read it would keep the socket."""
_CUT = "the server ended the connection without a word"


class Above(Protocol):
    """The protocol that is secured, as the loop's would be."""

    def connection_made(self, transport: asyncio.BaseTransport, /) -> None:
        """The handshake has ended well."""

    def data_received(self, data: memoryview, /) -> None:
        """Plain text came; its memory is another's as soon as this returns."""

    def connection_lost(self, problem: Exception | None, /) -> None:
        """Nothing comes any more; there is no problem when the server ended it in order."""

    def pause_writing(self) -> None:
        """Much waits to go."""

    def resume_writing(self) -> None:
        """It has gone."""


class _Buffers(threading.local):
    """What a thread's loop reads into: it fills and empties them in one go."""

    def __init__(self) -> None:
        self.raw = memoryview(bytearray(_RAW))
        self.plain = memoryview(bytearray(_RECORD))


_BUFFERS = _Buffers()


class Secured(asyncio.BufferedProtocol, asyncio.Transport):
    """The protocol of a socket, and the transport of the protocol above."""

    __slots__ = (
        "_above",
        "_end",
        "_incoming",
        "_is_made",
        "_outgoing",
        "_plain",
        "_raw",
        "_ready",
        "_socket",
        "_tls",
    )

    def __init__(self, above: Above, context: ssl.SSLContext, server_name: str | None) -> None:
        """Shake hands as soon as there is a socket, with a server that must be `server_name`."""
        super().__init__()
        self._above = above
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._raw, self._plain = _BUFFERS.raw, _BUFFERS.plain
        self._socket: asyncio.Transport
        self._is_made = False
        self._end: Exception | None = ConnectionResetError(_CUT)
        """What it means when the socket ends now."""
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def shaken(self) -> None:
        """Return when the handshake has ended well. Raises ssl.SSLError or ConnectionError."""
        try:
            await self._ready
        except BaseException:
            self._socket.abort()
            raise

    # What the loop says of the socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._socket = cast("asyncio.Transport", transport)
        self._advance()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - there is one for all
        """Return where the loop is to read into."""
        return self._raw

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what came, by pieces: a BIO keeps as much room as it was ever given at once."""
        for at in range(0, nbytes, _RECORD):
            self._incoming.write(self._raw[at : min(at + _RECORD, nbytes)])
            self._advance()
            if self._socket.is_closing():
                return

    def pause_writing(self) -> None:
        """Pass it on."""
        self._above.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._above.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the protocol above, or whoever waits for the handshake."""
        if self._is_made:
            self._above.connection_lost(exc or self._end)
        else:
            self._refuse(exc or self._end or ConnectionResetError(_CUT))

    # TLS.

    def _advance(self) -> None:
        """Go on with the handshake, or with reading, as far as what came reaches."""
        try:
            if not self._is_made:
                self._tls.do_handshake()
                self._flush()
                self._is_made = True
                self._above.connection_made(self)
                if not self._ready.done():
                    self._ready.set_result(None)
            self._read()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as problem:
            self._break(problem)
            return
        self._flush()
        # A server that asks for TLS' own answers and reads none has no other bound.
        if self._socket.get_write_buffer_size() > _MAX_UNREAD:
            self._break(ConnectionResetError("the server does not read what it has asked for"))

    def _read(self) -> None:
        """Hand on every whole record. Raises ssl.SSLError, for a part of one as well.

        OpenSSL takes one record at a time, and none has more text than there is room for here; so
        what is not in the BIO has not come.
        """
        incoming, tls, plain = self._incoming, self._tls, self._plain
        while incoming.pending:
            size: Any = tls.read(_RECORD, plain)  # into a buffer, so a number
            if not size:
                self._end = None
                self._socket.abort()
                return
            self._above.data_received(plain[:size])
            if self._socket.is_closing():
                return

    def _break(self, problem: Exception) -> None:
        """End it; the server hears why, as far as TLS says that."""
        self._end = problem
        self._flush()
        self._socket.close()
        loop = asyncio.get_running_loop()
        loop.call_later(_FAREWELL_SECONDS, self._socket.abort)
        if self._is_made:  # nobody may take it for a connection in the meantime
            self._is_made = False
            loop.call_soon(self._above.connection_lost, problem)
        self._refuse(problem)

    def _refuse(self, problem: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(problem)
            self._ready.exception()  # heard, also when nobody waits for it any more

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    # What the protocol above does.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, a record at a time."""
        try:
            if len(data) <= _RECORD:
                self._tls.write(data)
            else:
                view = memoryview(data)
                for at in range(0, len(view), _RECORD):
                    self._tls.write(view[at : at + _RECORD])
        except ssl.SSLError as problem:
            self._break(problem)
        else:
            self._flush()

    def abort(self) -> None:
        """End it at once, and by our will."""
        self._end = None
        self._socket.abort()

    def pause_reading(self) -> None:
        """Let the socket wait."""
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Let it go on."""
        self._socket.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection by the names that asyncio has for it."""
        return self._tls if name == "ssl_object" else self._socket.get_extra_info(name, default)
