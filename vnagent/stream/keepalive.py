"""Detection of peers that vanished silently.

The kernel probes a peer that is sent nothing. While data waits for its acknowledgement, the kernel
retransmits that data for 15 min instead, so the agent must check the socket itself.

Hazard: TCP_USER_TIMEOUT must not be used. It also ends connections with a reader that has only
paused, such as a person in a pager.
"""

import asyncio
import socket
import struct

from kubeio.http.keepalive import configure_keepalive

# A peer that vanished silently is detected within 1 min: 20 + 4 * 10 s.
_KEEPALIVE_SECONDS = (20, 10, 4)
_TCP_INFO = struct.Struct("=8B13I")
"""Start of `struct tcp_info` of linux/tcp.h. It has eight bytes, of which the fourth is the number
of probes without an answer. Numbers follow. The fifth of them is the number of packets without
acknowledgement, and the thirteenth the milliseconds since the last acknowledgement.
"""
_WINDOW = struct.Struct("=I")
_WINDOW_OFFSET = 228
"""Offset in bytes of the peer's window in the same struct. Kernels before 5.5 do not report it."""
_MAX_UNANSWERED_PROBES = 3
"""Limit of unanswered probes in a row to a peer with a full window. A single probe may be lost and
another in transit.
"""
_ZERO_WINDOW_SECONDS = 250.0
"""Limit in seconds for a peer with a full window that may have dropped data. The kernel sends the
data again, in the end every 2 min, and the peer acknowledges it.
"""


def enable_keepalive(endpoint: socket.socket) -> None:
    """Disable send delays and enable keepalive probes of the kernel.

    On Linux, sockets accepted from a listening socket inherit both.
    """
    endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    configure_keepalive(endpoint, *_KEEPALIVE_SECONDS)


def is_peer_silent(transport: asyncio.Transport, seconds: float) -> bool:
    """Return whether the peer's machine has not answered sent data for `seconds`.

    A reader that has paused is not meant, because its machine still acknowledges, if only with a
    full window.
    """
    endpoint = transport.get_extra_info("socket")
    if endpoint is None or transport.is_closing():
        return False
    size = _WINDOW_OFFSET + _WINDOW.size
    try:
        found = endpoint.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, size)
    except OSError:  # the socket is being closed
        return False
    told: tuple[int, ...] = _TCP_INFO.unpack_from(found)
    probes, unacknowledged, silent_ms = told[3], told[8 + 4], told[8 + 12]
    if not unacknowledged:
        return probes >= _MAX_UNANSWERED_PROBES and silent_ms >= seconds * 1000
    has_room = len(found) < size or _WINDOW.unpack_from(found, _WINDOW_OFFSET)[0] > 0
    return silent_ms >= (seconds if has_room else max(seconds, _ZERO_WINDOW_SECONDS)) * 1000
