"""Interface between the REST transport and its wires.

Owns the shape of an answer and its limits. There are two wires. `kubeio.http.connection_pool` is
the lean default, and `kubeio.http.proxy_transport` serves clients behind a proxy. Both raise
NotSent, Timeout, Untrusted and Unavailable with the same messages.
"""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kubeio import errors

MAX_RESPONSE_BYTES = 128 * 1024 * 1024
"""Largest answer in bytes.

A page of a list is the largest, with some hundred objects of any size.
"""
SINGLE_WRITE_BYTES = 2**20
"""Largest body in bytes that is written in one piece. Larger pieces would block the event loop."""
IDLE_CONNECTION_SECONDS = (
    60.0  # seconds, below the server's own limit of 90 s, so that the client closes first
)

HttpHeaders = Sequence[tuple[str, str]]
Fence = Callable[[], None]
"""Raises errors.Fenced when writes are forbidden.

A wire calls it immediately before the bytes of a write are sent. A process can be suspended between
an earlier check and the write, also while a request waits for its connection.
"""


class HttpRequest(NamedTuple):
    """One request."""

    method: str
    target: str
    """Path and query."""
    headers: HttpHeaders
    body: bytes | None
    where: errors.RequestDescription
    """Description of the request for messages."""


class HttpResponse(NamedTuple):
    """A whole answer."""

    status: int
    retry_after: str
    """Value of the header, empty without one."""
    content: bytes


class ResponseStream(Protocol):
    """An answer in pieces, on a connection of its own."""

    status: int
    retry_after: str

    async def read(self) -> bytes:
        """Return received bytes, empty at the end. Raises Timeout after a silence."""

    def abort(self) -> None:
        """Close the connection without a TLS shutdown, as a dead server would never answer it."""


class HttpTransport(Protocol):
    """Connections to one API server."""

    async def close(self) -> None:
        """Close every connection."""

    async def exchange(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Send one request and return its answer, within `timeout_seconds` seconds in total."""

    async def stream(
        self, request: HttpRequest, *, connect: float, idle_timeout: float
    ) -> ResponseStream:
        """Send a request on a new connection and return after the head of its answer.

        `connect` limits the seconds for the connection, `idle_timeout` the seconds between any two
        pieces.
        """


def response_too_large(most: int | None = None) -> str:
    """Return the message for an endless answer."""
    return f"an answer of more than {most or MAX_RESPONSE_BYTES} bytes"


def no_connection_in_time(where: errors.RequestDescription) -> errors.NotSent:
    """Return the error for a connection that was not made in time."""
    return errors.NotSent("no connection was made in time", request=where)


def connect_failed(
    where: errors.RequestDescription, host: str, port: int | None, problem: OSError
) -> errors.NotConnected:
    """Return the error for a server that cannot be reached."""
    number = problem.errno or 0
    # Errors of name resolution are negative and have messages of their own.
    detail = os.strerror(number) if number > 0 else problem.strerror or str(problem)
    return errors.NotConnected(f"cannot connect to {host}:{port}: {detail}", request=where)


def server_untrusted(where: errors.RequestDescription, problem: Exception) -> errors.Untrusted:
    """Return the error for a server that fails TLS verification."""
    detail = getattr(problem, "verify_message", "") or str(problem)
    return errors.Untrusted(f"TLS failed: {detail}", request=where)


def request_timed_out(where: errors.RequestDescription, seconds: float) -> errors.Timeout:
    """Return the error for an answer that did not arrive within `seconds`."""
    return errors.Timeout(f"no answer within {seconds:.3g} s", request=where)
