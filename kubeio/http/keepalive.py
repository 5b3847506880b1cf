"""How the kernel asks after a silent peer. It imports nothing, so that the agent has it, too."""

import socket

_OPTIONS = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
"""Linux has them all, others lack the first."""


def ask_after(endpoint: socket.socket, idle: int, interval: int, count: int) -> None:
    """Have a peer that is silent for `idle` seconds asked `count` times, `interval` seconds apart.

    One that has not answered the last of them is taken to be gone.
    """
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in zip(_OPTIONS, (idle, interval, count), strict=True):
        if hasattr(socket, option):
            endpoint.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
