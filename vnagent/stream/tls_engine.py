"""TLS in memory: cipher text in, plain text out, and back; no sockets, no loop.

Owns the TLS state of one connection. Hazard: OpenSSL can close one direction alone, but only while
nothing waits to be decrypted; so whatever has arrived is decrypted before anything else is done.
"""

import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

PIECE_BYTES = 16 * 1024
"""Given to TLS at once, in either direction: a record, more or less. Its buffers keep the room that
they have ever needed, and a third more, for as long as the connection stands."""
_NOTHING = memoryview(b"")


class TlsProblemError(Exception):
    """The peer does not speak TLS as we want it; says how."""

    def __init__(self, sentence: str, *, is_untrusted: bool = False) -> None:
        super().__init__(sentence)
        self.is_untrusted = is_untrusted
        """Whether its certificate is the trouble."""


@dataclass(slots=True)
class Received:
    """What had arrived."""

    size: int
    """Bytes of plain text."""
    has_ended: bool
    """The peer has said goodbye: nothing more will come."""
    trouble: str
    """What broke behind the plain text, empty when nothing did."""


class Engine:
    """One end of a TLS connection."""

    def __init__(self, context: ssl.SSLContext, *, server_name: str | None) -> None:
        """Be the client of `server_name`, or a server when there is none."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._arrived = _NOTHING
        self._made: list[bytes] = []
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )

    @property
    def connection(self) -> ssl.SSLObject:
        """What OpenSSL knows of the connection: how it was made, and its session."""
        return self._tls

    @property
    def peer_certificate(self) -> bytes:
        """The peer's verified certificate in DER, empty when it gave none."""
        return self._tls.getpeercert(binary_form=True) or b""

    def feed(self, cipher_text: memoryview) -> None:
        """Take what arrived; it has to stay until it is decrypted, or the handshake goes on."""
        self._arrived = cipher_text
        self._take_in()

    def take(self) -> list[bytes]:
        """Return what has to be sent, in order."""
        if self._outgoing.pending:
            self._made.append(self._outgoing.read())
        made, self._made = self._made, []
        return made

    def shake_hands(self) -> bool:
        """Go on with the handshake; tell whether it is over. Raises TlsProblemError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._take_in():
                    return False
            except ssl.SSLCertVerificationError as error:
                raise TlsProblemError(
                    f"TLS handshake: {error.verify_message}", is_untrusted=True
                ) from error
            except ssl.SSLError as error:
                raise TlsProblemError(f"TLS handshake: {error.reason}") from error
            else:
                return True

    def decrypt(self, room: memoryview) -> Received:
        """Put plain text that is there into `room`; there may be more when it is full."""
        received = Received(0, False, "")
        # Into a buffer it returns a count, which its types do not say.
        read, pending = cast("Callable[[int, memoryview], int]", self._tls.read), self._incoming
        filled, size = 0, len(room)
        while filled < size and (pending.pending or self._tls.pending() or self._take_in()):
            try:
                # A call returns one record at most, and makes nothing when it is given its room.
                got = read(size - filled, room[filled:])
            except ssl.SSLWantReadError:
                if not self._take_in():
                    break
                continue
            except ssl.SSLZeroReturnError:
                got = 0
            except ssl.SSLError as error:
                received.trouble = f"TLS broke in reading: {error.reason}"
                break
            if not got:
                received.has_ended = True
                break
            filled += got
        received.size = filled
        return received

    def encrypt(self, plain: bytes | memoryview) -> None:
        """Make cipher text to be sent. Raises TlsProblemError."""
        sent, view = 0, memoryview(plain)
        try:
            while sent < len(view):
                sent += self._tls.write(view[sent : sent + PIECE_BYTES])
                self._made.append(self._outgoing.read())
        except ssl.SSLError as error:
            raise TlsProblemError(f"TLS broke in writing: {error.reason}") from error

    def say_goodbye(self) -> None:
        """Close our direction; the peer's stays open."""
        # WANT_READ is the rule: our goodbye is made, the peer's has not come.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()

    def _take_in(self) -> bool:
        """Give TLS more of what arrived; tell whether there was any."""
        piece, self._arrived = self._arrived[:PIECE_BYTES], self._arrived[PIECE_BYTES:]
        self._incoming.write(piece)
        return bool(piece)
