"""TLS in memory, for both TLS streams: ciphertext in, plaintext out, and the reverse.

It owns the OpenSSL state of one connection and the two memory BIOs between which OpenSSL works. It
knows no socket, no event loop and no protocol. The caller brings the ciphertext, lends the buffer
for the plaintext, and sends the output:

    engine.feed(ciphertext)         what a read of the socket brought
    engine.do_handshake()           until it returns True
    engine.decrypt(buffer)          until it returns less than the buffer holds
    engine.take_output()            after each of these calls
    engine.encrypt(plaintext)       returns its output

The module imports nothing of this project, so that vn-agent may use it without the API client.

Hazard: a memory BIO keeps the room of the largest input that it ever got, and a third more, for as
long as the connection lives. So both BIOs get one chunk at a time.

Hazard: OpenSSL closes one direction alone only while no input waits to be decrypted. So the caller
decrypts all input before it calls `close_notify`.
"""

import contextlib
import ssl
from typing import Any

CHUNK_BYTES = 16 * 1024
"""Bytes that OpenSSL gets at once, in either direction. A record's plaintext is never longer."""
_EMPTY = memoryview(b"")


class TlsEngine:
    """One end of a TLS connection."""

    __slots__ = (
        "_incoming",
        "_outgoing",
        "_pending_input",
        "_tls",
        "error",
        "has_ended",
    )

    def __init__(self, context: ssl.SSLContext, *, server_name: str | None) -> None:
        """Act as a client of `server_name`, or as a server without a name."""
        self.has_ended = False
        """Whether the peer has closed its direction with a close_notify alert."""
        self.error: ssl.SSLError | None = None
        """The reason why `decrypt` cannot go on, if there is one."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._pending_input = _EMPTY
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )

    @property
    def ssl_object(self) -> ssl.SSLObject:
        """Return OpenSSL's state of the connection, with its session."""
        return self._tls

    @property
    def peer_certificate(self) -> bytes:
        """Return the verified certificate of the peer in DER, empty without one."""
        return self._tls.getpeercert(binary_form=True) or b""

    def feed(self, ciphertext: memoryview) -> None:
        """Add input. Its memory must not change until `decrypt` has used it all."""
        if len(ciphertext) <= CHUNK_BYTES:
            self._incoming.write(ciphertext)
            self._pending_input = _EMPTY
        else:
            self._incoming.write(ciphertext[:CHUNK_BYTES])
            self._pending_input = ciphertext[CHUNK_BYTES:]

    def do_handshake(self) -> bool:
        """Continue the handshake and return whether it has ended. Raises ssl.SSLError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._feed_bio():
                    return False
            else:
                return True

    def decrypt(self, buffer: memoryview) -> int:
        """Decrypt input into `buffer` and return the number of plaintext bytes.

        A full buffer means that more may follow. After the last bytes, `has_ended` and `error` are
        set when the input ended there.
        """
        tls, incoming = self._tls, self._incoming
        filled, size = 0, len(buffer)
        while filled < size and (
            incoming.pending
            or (self._pending_input and self._feed_bio())
            # OpenSSL has the rest of a record only if the last buffer was too small for it.
            or (not filled and tls.pending())
        ):
            try:
                # A call returns at most one record. Into a buffer, its result is a count.
                count: Any = tls.read(size - filled, buffer[filled:] if filled else buffer)
            except ssl.SSLWantReadError:
                if not self._feed_bio():
                    break
                continue
            except ssl.SSLZeroReturnError:
                count = 0
            except ssl.SSLError as error:
                # A traceback would hold this engine in a cycle.
                self.error = error.with_traceback(None)
                break
            if not count:
                self.has_ended = True
                break
            filled += count
        return filled

    def encrypt(self, plaintext: bytes | bytearray | memoryview) -> list[bytes]:
        """Encrypt into records of their own and return all output. Raises ssl.SSLError."""
        write, outgoing = self._tls.write, self._outgoing
        sent, size = 0, len(plaintext)
        if 0 < size <= CHUNK_BYTES:
            sent = write(plaintext)
            if sent == size:  # in one record, like nearly all requests
                return [outgoing.read()]
        view, output = memoryview(plaintext), []
        while sent < size:
            # OpenSSL writes less than a chunk to a peer that negotiated short records.
            sent += write(view[sent : sent + CHUNK_BYTES])
            output.append(outgoing.read())
        return output

    def take_output(self) -> bytes:
        """Remove and return the output of TLS itself: of handshakes, answers and alerts."""
        return self._outgoing.read()

    def close_notify(self) -> None:
        """Close our direction. The direction of the peer stays open."""
        # OpenSSL raises WANT_READ as a rule: our alert is in the output, the peer's has not come.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()

    def _feed_bio(self) -> bool:
        """Move a chunk of input into the BIO and return whether there was any."""
        if not self._pending_input:
            return False
        self.feed(self._pending_input)
        return True
