"""Detection of the end of a chunked HTTP response by its bytes alone. Pure.

The module must not know connections. Hazard: bytes that only resemble the end are cut off as well.
The sender must therefore send both parts, otherwise bytes are lost.
"""

FINAL_CHUNK = b"0\r\n\r\n"
"""End of a chunked response. The end, and bytes that may begin it, are sent in a TLS record of
their own. Otherwise an API server that relays a log over a WebSocket would drop the bytes that it
reads together with the end. A kubelet sends the two apart. The super API server does not, and bytes
that arrive at once are together, too.
"""


def match_final_chunk(tail: bytes | bytearray) -> int:
    """Return how many of the last bytes are the end of a response, or begin it."""
    return next(
        (size for size in range(len(FINAL_CHUNK), 0, -1) if tail.endswith(FINAL_CHUNK[:size])), 0
    )
