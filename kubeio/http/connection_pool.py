"""Pool of HTTP/1.1 connections: a limited number for requests, and one for each stream.

Owns the slots, their waiters, and connecting.

Hazard: idle connections must be closed before the server closes them. Otherwise the server may
close a connection just when a request is sent, and it is unknown whether the request was received.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from types import MappingProxyType
from urllib.parse import urlsplit

from kubeio import errors
from kubeio.http import transport_protocol
from kubeio.http.http1_connection import (
    AnswerTooLargeError,
    ConnectionBrokenError,
    Http1Connection,
)
from kubeio.http.keepalive import configure_keepalive
from kubeio.http.tls_sessions import ResumingContext
from kubeio.http.tls_stream import TlsTransport
from kubeio.http.transport_protocol import Fence, HttpRequest, HttpResponse

_PORTS = MappingProxyType({"http": 80, "https": 443})
_KEEPALIVE_SECONDS = (15, 10, 3)
"""TCP keepalive: idle time, interval and count.

The kernel notices a vanished server after 15 + 3 * 10 seconds, before missing bookmarks reveal it.
A proxy on the way answers for itself.
"""


class ConnectionPool:
    """A wire for one server: a limited number of connections for requests, and one per stream."""

    def __init__(
        self,
        server: str,
        *,
        context: ResumingContext | None,
        server_name: str | None,
        connections: int,
        fence: Fence | None = None,
        max_response_bytes: int | None = None,
    ) -> None:
        """Set up without a connection. With a context the server must prove to be `server_name`.

        `max_response_bytes` limits the bytes of an answer, if it is less than the usual limit.
        """
        self._max_response_bytes = max_response_bytes
        url = urlsplit(server)
        self._host = url.hostname or ""
        self._port = url.port or _PORTS[url.scheme]
        self._host_header = url.netloc.rpartition("@")[2]
        self._context = context
        self._server_name = server_name or self._host
        self._fence = fence
        self._closed = False
        self._free = connections
        """Free slots."""
        self._idle: list[Http1Connection] = []
        self._waiters: deque[asyncio.Future[Http1Connection | None]] = deque()
        self._all: set[Http1Connection] = set()
        self._idle_timer: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """Close every connection. Waiters get Unavailable."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        while (waiter := self._pop_waiter()) is not None:
            waiter.set_result(None)
        for connection in tuple(self._all):
            connection.abort()
        await asyncio.sleep(0)  # aborted sockets are closed in the next iteration of the loop

    async def exchange(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Send one request and return its answer, within `left` seconds in total."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_seconds
        message, body = self._build_head(request), request.body or b""
        if len(body) <= transport_protocol.SINGLE_WRITE_BYTES:
            message, body = message + body, b""
        connection = await self._acquire(ends, request.where)
        seconds = ends - loop.time()
        if seconds <= 0:
            self._release_connection(connection)
            raise transport_protocol.no_connection_in_time(request.where)
        try:
            await connection.send_request(
                message,
                body,
                seconds=seconds,
                streams=False,
                fence=None if request.method == "GET" else self._fence,
            )
            self._remember_session(connection)
        except TimeoutError as problem:
            raise transport_protocol.request_timed_out(request.where, timeout_seconds) from problem
        except AnswerTooLargeError as problem:
            raise errors.ResponseTooLarge(str(problem), request=request.where) from problem
        except ConnectionBrokenError as problem:
            raise errors.Unavailable(str(problem), request=request.where) from problem
        finally:
            self._release_connection(connection)
        return HttpResponse(connection.status, connection.retry_after, connection.take_body())

    async def stream(
        self, request: HttpRequest, *, connect: float, idle_timeout: float
    ) -> "_PooledStream":
        """Send a request on a new connection and return after the head of its answer."""
        head = self._build_head(request)
        connection = await self._connect(connect, request.where)
        try:
            await connection.send_request(head, b"", seconds=idle_timeout, streams=True)
        except TimeoutError as problem:
            raise transport_protocol.request_timed_out(request.where, idle_timeout) from problem
        except ConnectionBrokenError as problem:
            raise errors.Unavailable(str(problem), request=request.where) from problem
        self._remember_session(connection)
        return _PooledStream(connection, request.where, idle_timeout)

    def _remove_connection(self, connection: Http1Connection) -> None:
        """Remove a connection that has ended, and free its slot."""
        if connection in self._all:
            self._all.discard(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._hand_over_slot()

    # Slots.

    async def _acquire(self, ends: float, where: errors.RequestDescription) -> Http1Connection:
        """Return a connection for exclusive use. Raises NotSent when that takes too long."""
        loop = asyncio.get_running_loop()
        while True:
            given = await self._take_idle_connection(ends - loop.time(), where)
            if given is None or given.is_open:
                break  # a connection that ended meanwhile has freed its slot itself
        if given is not None:
            return given
        try:
            self._check_open(where)
            connection = await self._connect(
                ends - loop.time(), where, lost=self._remove_connection
            )
        except BaseException:
            self._hand_over_slot()
            raise
        self._all.add(connection)
        if self._closed:  # closed during the connect, when `close` did not see this connection
            self._release_connection(connection)
            self._check_open(where)
        return connection

    async def _take_idle_connection(
        self, left: float, where: errors.RequestDescription
    ) -> Http1Connection | None:
        """Return a kept connection, or None: a slot for a new one."""
        self._check_open(where)
        if self._idle:
            return self._idle.pop()
        if self._free:
            self._free -= 1
            return None
        return await self._wait_for_connection(left, where)

    def _check_open(self, where: errors.RequestDescription) -> None:
        if self._closed:
            raise errors.Unavailable("the client was closed", request=where)

    async def _wait_for_connection(
        self, left: float, where: errors.RequestDescription
    ) -> Http1Connection | None:
        """Wait for a connection, or None: a slot for a new one."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Http1Connection | None] = loop.create_future()
        self._waiters.append(waiter)
        timer = loop.call_later(left, _expire_waiter, waiter)
        try:
            return await waiter
        except TimeoutError as problem:
            raise transport_protocol.no_connection_in_time(where) from problem
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                given = waiter.result()
                if given is None:
                    self._hand_over_slot()
                else:
                    self._release_connection(given)
            raise
        finally:
            timer.cancel()

    def _release_connection(self, connection: Http1Connection) -> None:
        if self._closed or not connection.can_reuse():
            connection.abort()
            self._remove_connection(connection)
            return
        waiter = self._pop_waiter()
        if waiter is not None:
            waiter.set_result(connection)
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._idle_timer is None:
            self._idle_timer = loop.call_later(
                transport_protocol.IDLE_CONNECTION_SECONDS, self._close_idle
            )

    def _hand_over_slot(self) -> None:
        waiter = self._pop_waiter()
        if waiter is not None:
            waiter.set_result(None)
        else:
            self._free += 1

    def _pop_waiter(self) -> "asyncio.Future[Http1Connection | None] | None":
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._idle):
            if now - connection.idle_since >= transport_protocol.IDLE_CONNECTION_SECONDS:
                connection.abort()
                self._remove_connection(connection)
        self._idle_timer = None
        if self._idle:
            oldest = min(connection.idle_since for connection in self._idle)
            self._idle_timer = loop.call_later(
                oldest + transport_protocol.IDLE_CONNECTION_SECONDS - now, self._close_idle
            )

    # Connect.

    async def _connect(
        self,
        seconds: float,
        where: errors.RequestDescription,
        lost: Callable[[Http1Connection], None] | None = None,
    ) -> Http1Connection:
        """Connect to the first address that answers. Each address gets its share of the time."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._resolve_addresses()
                while True:
                    address = addresses.pop(0)
                    try:
                        share = (ends - loop.time()) / (len(addresses) + 1)
                        async with asyncio.timeout(share):
                            return await self._dial(address, lost)
                    except (TimeoutError, ConnectionError):
                        # The server may hang over a resumed session, and work without it.
                        self._forget_session()
                        if not addresses:
                            raise
        except TimeoutError as problem:
            self._forget_session()
            raise transport_protocol.no_connection_in_time(where) from problem
        except ssl.SSLError as problem:
            self._forget_session()
            raise transport_protocol.server_untrusted(where, problem) from problem
        except OSError as problem:
            self._forget_session()
            raise transport_protocol.connect_failed(
                where, self._host, self._port, problem
            ) from problem

    def _remember_session(self, connection: Http1Connection) -> None:
        """Offer this connection's session to later ones, as its first answer has completed it."""
        if self._context is not None and connection.answered_at:
            proved, connection.answered_at = connection.answered_at, 0.0
            self._context.remember_session(connection.get_ssl_object(), self._server_name, proved)

    def _forget_session(self) -> None:
        if self._context is not None:
            self._context.forget_session()

    async def _resolve_addresses(self) -> list[str]:
        """Return the addresses of the server's name."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    async def _dial(
        self, address: str, lost: Callable[[Http1Connection], None] | None
    ) -> Http1Connection:
        loop = asyncio.get_running_loop()
        connection = Http1Connection(lost, self._max_response_bytes)
        if self._context is None:
            _enable_keepalive(await loop.create_connection(lambda: connection, address, self._port))
            return connection
        secured = TlsTransport(connection, self._context, self._server_name)
        _enable_keepalive(await loop.create_connection(lambda: secured, address, self._port))
        await secured.wait_handshake()
        return connection

    def _build_head(self, request: HttpRequest) -> bytes:
        lines = [f"{request.method} {request.target} HTTP/1.1\r\nHost: {self._host_header}"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        if request.body is not None:
            lines.append(f"Content-Length: {len(request.body)}")
        text = "\r\n".join(lines)
        if not text.count("\r") == text.count("\n") == len(lines):
            raise ValueError("the path or a header of a request holds a line break")
        return f"{text}\r\n\r\n".encode()


def _enable_keepalive(connected: tuple[asyncio.Transport, object]) -> None:
    endpoint = connected[0].get_extra_info("socket")
    if endpoint is not None:
        configure_keepalive(endpoint, *_KEEPALIVE_SECONDS)


class _PooledStream:
    """A stream on its own connection."""

    def __init__(
        self, connection: Http1Connection, where: errors.RequestDescription, silence: float
    ) -> None:
        self.status = connection.status
        self.retry_after = connection.retry_after
        self._connection = connection
        self._where = where
        self._silence = silence

    async def read(self) -> bytes:
        """Return received bytes, empty at the end."""
        try:
            return await self._connection.read(self._silence)
        except TimeoutError as problem:
            raise transport_protocol.request_timed_out(self._where, self._silence) from problem
        except ConnectionBrokenError as problem:
            raise errors.Unavailable(str(problem), request=self._where) from problem

    def abort(self) -> None:
        """Close the connection."""
        self._connection.abort()


def _expire_waiter(waiter: "asyncio.Future[Http1Connection | None]") -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
