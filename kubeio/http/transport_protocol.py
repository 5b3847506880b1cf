"""What a transport asks of the wire below it, whichever it is.

Owns the shape of an answer and the limits on it. There are two wires:
`kubeio.http.connection_pool`, lean, for nearly everybody, and `kubeio.http.proxy_transport` for
those that a proxy stands before. Both raise NotSent, Timeout, Untrusted and Unavailable, with the
same words.
"""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kubeio import errors

MAX_ANSWER_BYTES = 128 * 1024 * 1024
"""A page of a list is the largest answer; it holds some hundred objects of any size."""
WHOLE = 2**20
"""Bytes of a body that are handed over in one piece; more of them would hold up the loop."""
KEEP_IDLE = 60.0  # seconds; the server's own limit is 90, and who closes last is surprised

Headers = Sequence[tuple[str, str]]
Fence = Callable[[], None]
"""Raises errors.Fenced when nothing may be written.

A wire asks it at the moment at which the bytes of a write would go: a process can be frozen
anywhere, also while a request waits for its connection, and what is asked earlier is asked too
early.
"""


class Request(NamedTuple):
    """A request as it goes out."""

    method: str
    target: str
    """Path and query."""
    headers: Headers
    body: bytes | None
    where: str
    """Which request it is, for messages."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    retry_after: str
    """The header, empty without one."""
    content: bytes


class Stream(Protocol):
    """An answer that comes piece by piece, on a connection of its own."""

    status: int
    retry_after: str

    async def read(self) -> bytes:
        """Return what has come, empty at the end; raises Timeout after a silence."""

    def abort(self) -> None:
        """Close the connection, without a word: a dead server would never say its part."""


class Wire(Protocol):
    """Connections to one API server."""

    async def close(self) -> None:
        """Close every connection."""

    async def exchange(self, request: Request, *, left: float) -> Answer:
        """Send one request within `left` seconds, all told, and return its answer."""

    async def stream(self, request: Request, *, connect: float, silence: float) -> Stream:
        """Send a request on a new connection and return once the head of its answer is there.

        `connect` and `silence` are seconds: for the connection, and between any two pieces.
        """


def too_large(most: int | None = None) -> str:
    """Return what is wrong with an endless answer."""
    return f"an answer of more than {most or MAX_ANSWER_BYTES} bytes"


def no_connection(where: str) -> errors.NotSent:
    """Return what is wrong when no connection came about within the time for it."""
    return errors.NotSent(f"{where}: no connection came about in time")


def not_connected(where: str, host: str, port: int | None, problem: OSError) -> errors.NotSent:
    """Return what is wrong when a server cannot be reached."""
    number = problem.errno or 0
    # Numbers of name resolution are negative and have words of their own.
    detail = os.strerror(number) if number > 0 else str(problem)
    return errors.NotSent(f"{where}: cannot connect to {host}:{port}: {detail}")


def untrusted(where: str, problem: Exception) -> errors.Untrusted:
    """Return what is wrong when a server does not prove who it is."""
    detail = getattr(problem, "verify_message", "") or str(problem)
    return errors.Untrusted(f"{where}: TLS failed: {detail}")


def too_late(where: str, seconds: float) -> errors.Timeout:
    """Return what is wrong when no answer came within so many seconds."""
    return errors.Timeout(f"{where}: no answer within {seconds:.3g} s")
