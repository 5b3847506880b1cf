"""How a peer that vanished without a word is noticed.

Hazard: TCP_USER_TIMEOUT looks like the simpler way, but it also ends connections whose reader has
only paused, as a person in a pager does.
"""

import asyncio
import socket

# A peer that vanished without a word is noticed within a minute: 20 + 4 * 10 seconds.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 4))


def keep_alive(transport: asyncio.Transport) -> None:
    """Send at once, and have the kernel ask after a silent peer."""
    endpoint = transport.get_extra_info("socket")
    if endpoint is None:
        return
    endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _KEEPALIVE:
        endpoint.setsockopt(socket.IPPROTO_TCP, option, seconds)
