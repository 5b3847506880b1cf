"""How a peer that vanished without a word is noticed.

The kernel asks after a peer that is sent nothing. While something waits for its acknowledgement the
kernel sends that again instead, for a quarter of an hour, so somebody has to look.

Hazard: TCP_USER_TIMEOUT looks like the simpler way, but it also ends connections whose reader has
only paused, as a person in a pager does.
"""

import asyncio
import socket
import struct

from kubeio.http.keepalive import ask_after

# A peer that vanished without a word is noticed within a minute: 20 + 4 * 10 seconds.
_KEEPALIVE = (20, 10, 4)
_TCP_INFO = struct.Struct("=8B13I")
"""The beginning of `struct tcp_info` of linux/tcp.h: eight bytes, of which the fourth counts probes
without an answer; the fifth of the numbers counts packets without acknowledgement, and the
thirteenth the milliseconds since the last one came."""
_WINDOW = struct.Struct("=I")
_WINDOW_AT = 228
"""Where the same has what the peer has room for, in bytes; kernels before 5.5 do not tell."""
_PROBES = 3
"""Of a full window, in a row; one may be lost, and one be on its way."""
_FULL_SECONDS = 250.0
"""For a peer that has no room and may have dropped what it was sent: it is sent that again, and
acknowledges, every two minutes at last."""


def keep_alive(endpoint: socket.socket) -> None:
    """Send at once, and have the kernel ask after a silent peer.

    Of a socket that listens, those have it that come of it: so does Linux.
    """
    endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask_after(endpoint, *_KEEPALIVE)


def is_forsaken(transport: asyncio.Transport, seconds: float) -> bool:
    """Tell whether the peer's machine has said nothing for so long to what it was sent.

    A reader that has paused is not meant: its machine acknowledges, if only that it is full.
    """
    endpoint = transport.get_extra_info("socket")
    if endpoint is None or transport.is_closing():
        return False
    size = _WINDOW_AT + _WINDOW.size
    try:
        found = endpoint.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, size)
    except OSError:  # it is being closed
        return False
    told: tuple[int, ...] = _TCP_INFO.unpack_from(found)
    probes, unacknowledged, silent_ms = told[3], told[8 + 4], told[8 + 12]
    if not unacknowledged:
        return probes >= _PROBES and silent_ms >= seconds * 1000
    has_room = len(found) < size or _WINDOW.unpack_from(found, _WINDOW_AT)[0] > 0
    return silent_ms >= (seconds if has_room else max(seconds, _FULL_SECONDS)) * 1000
