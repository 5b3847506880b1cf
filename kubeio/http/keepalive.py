"""TCP keepalive settings of a socket. It imports nothing, so that the agent can use it too."""

import socket

_OPTIONS = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
"""Linux has all options, other systems lack the first."""


def configure_keepalive(endpoint: socket.socket, idle: int, interval: int, count: int) -> None:
    """Enable keepalive: `count` probes, `interval` seconds apart, after `idle` seconds of silence.

    A peer that has not answered the last probe is considered dead.
    """
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in zip(_OPTIONS, (idle, interval, count), strict=True):
        if hasattr(socket, option):
            endpoint.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
