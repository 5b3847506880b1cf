"""The end of a connection: bytes that are still on their way, in both directions.

It works on the transport of one connection and on its socket. It does not know what the bytes are.

Hazard: a transport that is closed sends what waits in it, however long that takes. So a peer that
never reads would keep the socket and its buffer forever, if nothing aborted the transport.

Hazard: a transport that fails to write closes without a last read. The last bytes of the
peer would be lost with the connection, an exit code for example.
"""

import asyncio
import contextlib
import fcntl
import os
import sys
import termios
from collections.abc import Iterator

CLOSE_LINGER_SECONDS = 10.0
"""Time for a closed transport to send what waits in it."""
MAX_REMAINING_BYTES = 256 * 1024
"""Bytes read from a connection that has broken. The peer decides how many there are."""


def close(transport: asyncio.Transport) -> asyncio.TimerHandle:
    """Close after all has been sent. Return the timer that aborts a transport that cannot send."""
    transport.close()
    return asyncio.get_running_loop().call_later(CLOSE_LINGER_SECONDS, transport.abort)


def read_remaining(transport: asyncio.Transport, buffer: memoryview) -> Iterator[int]:
    """Read from a connection that has broken, and yield the size of each read into `buffer`."""
    endpoint, left = transport.get_extra_info("socket"), MAX_REMAINING_BYTES
    with contextlib.suppress(OSError):  # the break itself, behind the last bytes
        while left > 0 and (size := os.readv(endpoint.fileno(), [buffer])):
            left -= size
            yield size


def count_unacknowledged(transport: asyncio.Transport) -> int:
    """Return the bytes in the kernel that the peer's machine has not acknowledged."""
    endpoint = transport.get_extra_info("socket")
    if endpoint is None:
        return 0
    try:
        queued = fcntl.ioctl(endpoint.fileno(), termios.TIOCOUTQ, bytes(4))
    except OSError:  # it is being closed
        return 0
    return int.from_bytes(queued, sys.byteorder)
