"""Limits for a peer that makes TLS work and sends no data.

It counts what one peer sends and leaves unread. It knows no socket and no TLS.

Hazard: TLS answers some records by itself, and such a record brings no plaintext. So neither the
limits of heads and streams nor the back-pressure of the transport stop a peer that sends nothing
else. An update of keys costs some ten microseconds, and the loop handles no other peer while more
of them are read.
"""

SMALL_READ_BYTES = 16 * 1024
"""Bytes of one read from a peer that is in no stream, or whose last read brought next to nothing.
A flood holds up the loop only for that long."""
MAX_BARREN_BYTES = 32 * 1024
"""Ciphertext read in a row without enough plaintext. The longest record is half of that."""
MAX_CIPHERTEXT_PER_BYTE = 32
"""Ciphertext read for each byte of plaintext. One byte typed by itself needs 23."""
MAX_UNSENT_BYTES = 4 * 1024 * 1024
"""Bytes that wait for the peer. Everything but TLS itself stops to write long before."""


class FloodGuard:
    """The limits of one peer."""

    __slots__ = ("_barren_bytes",)

    def __init__(self) -> None:
        self._barren_bytes = 0

    @property
    def is_suspect(self) -> bool:
        """Whether the last reads brought next to no plaintext."""
        return self._barren_bytes > 0

    def check_read(self, ciphertext: int, plaintext: int, unsent: int) -> str:
        """Count the bytes of a read, and return why the peer must be disconnected, if it must."""
        barren = self._barren_bytes + ciphertext - MAX_CIPHERTEXT_PER_BYTE * plaintext
        self._barren_bytes = max(0, barren)
        if unsent > MAX_UNSENT_BYTES:
            return "the peer does not read the answers that it requested"
        if barren >= MAX_BARREN_BYTES:
            return "the peer sends almost no data in many TLS records"
        return ""
