"""How a peer that vanished without a word is noticed.

The kernel asks after a peer that is sent nothing. While something waits for its acknowledgement the
kernel sends that again instead, for a quarter of an hour, so somebody has to look.

Hazard: TCP_USER_TIMEOUT looks like the simpler way, but it also ends connections whose reader has
only paused, as a person in a pager does.
"""

import asyncio
import socket
import struct

# A peer that vanished without a word is noticed within a minute: 20 + 4 * 10 seconds.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 4))
_TCP_INFO = struct.Struct("=8B13I")
"""The beginning of `struct tcp_info` of linux/tcp.h: eight bytes, of which the fourth counts probes
without an answer; the fifth of the numbers counts packets without acknowledgement, and the
thirteenth the milliseconds since the last one came."""
_PROBES = 3
"""Of a full window, in a row; one may be lost, and one be on its way."""


def keep_alive(transport: asyncio.Transport) -> None:
    """Send at once, and have the kernel ask after a silent peer."""
    endpoint = transport.get_extra_info("socket")
    if endpoint is None:
        return
    endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _KEEPALIVE:
        endpoint.setsockopt(socket.IPPROTO_TCP, option, seconds)


def is_forsaken(transport: asyncio.Transport, seconds: float) -> bool:
    """Tell whether the peer's machine has said nothing for so long to what it was sent.

    A reader that has paused is not meant: its machine acknowledges, if only that it is full.
    """
    endpoint = transport.get_extra_info("socket")
    if endpoint is None or transport.is_closing():
        return False
    try:
        found = endpoint.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:  # it is being closed
        return False
    told: tuple[int, ...] = _TCP_INFO.unpack(found)
    probes, unacknowledged, silent_ms = told[3], told[8 + 4], told[8 + 12]
    return (unacknowledged > 0 or probes >= _PROBES) and silent_ms >= seconds * 1000
