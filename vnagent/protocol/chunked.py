"""Where an answer in chunks ends, told from its bytes alone; pure.

Must not know connections. Hazard: what only looks like the end is cut off as well, so who sends the
parts must send both.
"""

END = b"0\r\n\r\n"
"""Ends an answer in chunks. It is sent in a record of its own, and so is what may be its begin: an
API server that relays a log over a WebSocket drops what it reads together with the end. A kubelet
keeps them apart, the super API server does not, and what has come at once is together, too."""


def end_in(tail: bytes | bytearray) -> int:
    """Return how many of the last bytes are the end of an answer, or begin it."""
    return next((size for size in range(len(END), 0, -1) if tail.endswith(END[:size])), 0)
