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
from kubeio.http.http1_connection import BrokenError, Connection
from kubeio.http.keepalive import ask_after
from kubeio.http.tls_sessions import Context
from kubeio.http.tls_stream import Secured
from kubeio.http.transport_protocol import Answer, Fence, Request

_PORTS = MappingProxyType({"http": 80, "https": 443})
_KEEPALIVE = (15, 10, 3)
"""TCP keepalive: idle time, interval and count.

The kernel notices a vanished server after 15 + 3 * 10 seconds, before missing bookmarks reveal it.
A proxy on the way answers for itself.
"""


class Pool:
    """A wire for one server: a limited number of connections for requests, and one per stream."""

    def __init__(
        self,
        server: str,
        *,
        context: Context | None,
        server_name: str | None,
        connections: int,
        fence: Fence | None = None,
        most: int | None = None,
    ) -> None:
        """Set up without a connection. With a context the server must prove to be `server_name`.

        `most` limits the bytes of an answer, if it is less than the usual limit.
        """
        self._most = most
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
        self._idle: list[Connection] = []
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._all: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """Close every connection. Waiters get Unavailable."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        while (waiter := self._next_waiter()) is not None:
            waiter.set_result(None)
        for connection in tuple(self._all):
            connection.abort()
        await asyncio.sleep(0)  # aborted sockets are closed in the next iteration of the loop

    async def exchange(self, request: Request, *, left: float) -> Answer:
        """Send one request and return its answer, within `left` seconds in total."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + left
        message, body = self._head(request), request.body or b""
        if len(body) <= transport_protocol.WHOLE:
            message, body = message + body, b""
        connection = await self._acquire(ends, request.where)
        seconds = ends - loop.time()
        if seconds <= 0:
            self._release(connection)
            raise transport_protocol.no_connection(request.where)
        try:
            await connection.ask(
                message,
                body,
                seconds=seconds,
                streams=False,
                fence=None if request.method == "GET" else self._fence,
            )
            self._remember(connection)
        except TimeoutError as problem:
            raise transport_protocol.too_late(request.where, left) from problem
        except BrokenError as problem:
            raise errors.Unavailable(f"{request.where}: {problem}") from problem
        finally:
            self._release(connection)
        return Answer(connection.status, connection.retry_after, connection.content())

    async def stream(self, request: Request, *, connect: float, silence: float) -> "_Stream":
        """Send a request on a new connection and return after the head of its answer."""
        head = self._head(request)
        connection = await self._connect(connect, request.where)
        try:
            await connection.ask(head, b"", seconds=silence, streams=True)
        except TimeoutError as problem:
            raise transport_protocol.too_late(request.where, silence) from problem
        except BrokenError as problem:
            raise errors.Unavailable(f"{request.where}: {problem}") from problem
        self._remember(connection)
        return _Stream(connection, request.where, silence)

    def _forget(self, connection: Connection) -> None:
        """Remove a connection that has ended, and free its slot."""
        if connection in self._all:
            self._all.discard(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._give_place()

    # Slots.

    async def _acquire(self, ends: float, where: str) -> Connection:
        """Return a connection for exclusive use. Raises NotSent when that takes too long."""
        loop = asyncio.get_running_loop()
        while True:
            given = await self._place(ends - loop.time(), where)
            if given is None or given.is_open:
                break  # a connection that ended meanwhile has freed its slot itself
        if given is not None:
            return given
        try:
            self._check_open(where)
            connection = await self._connect(ends - loop.time(), where, lost=self._forget)
        except BaseException:
            self._give_place()
            raise
        self._all.add(connection)
        if self._closed:  # closed during the connect, when `close` did not see this connection
            self._release(connection)
            self._check_open(where)
        return connection

    async def _place(self, left: float, where: str) -> Connection | None:
        """Return a kept connection, or None: a slot for a new one."""
        self._check_open(where)
        if self._idle:
            return self._idle.pop()
        if self._free:
            self._free -= 1
            return None
        return await self._wait(left, where)

    def _check_open(self, where: str) -> None:
        if self._closed:
            raise errors.Unavailable(f"{where}: the client was closed")

    async def _wait(self, left: float, where: str) -> Connection | None:
        """Wait for a connection, or None: a slot for a new one."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Connection | None] = loop.create_future()
        self._waiters.append(waiter)
        timer = loop.call_later(left, _expire, waiter)
        try:
            return await waiter
        except TimeoutError as problem:
            raise transport_protocol.no_connection(where) from problem
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                given = waiter.result()
                if given is None:
                    self._give_place()
                else:
                    self._release(given)
            raise
        finally:
            timer.cancel()

    def _release(self, connection: Connection) -> None:
        if self._closed or not connection.keeps():
            connection.abort()
            self._forget(connection)
            return
        waiter = self._next_waiter()
        if waiter is not None:
            waiter.set_result(connection)
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(transport_protocol.KEEP_IDLE, self._sweep)

    def _give_place(self) -> None:
        waiter = self._next_waiter()
        if waiter is not None:
            waiter.set_result(None)
        else:
            self._free += 1

    def _next_waiter(self) -> "asyncio.Future[Connection | None] | None":
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._idle):
            if now - connection.idle_since >= transport_protocol.KEEP_IDLE:
                connection.abort()
                self._forget(connection)
        self._sweeper = None
        if self._idle:
            oldest = min(connection.idle_since for connection in self._idle)
            self._sweeper = loop.call_later(
                oldest + transport_protocol.KEEP_IDLE - now, self._sweep
            )

    # Connect.

    async def _connect(
        self, seconds: float, where: str, lost: Callable[[Connection], None] | None = None
    ) -> Connection:
        """Connect to the first address that answers. Each address gets its share of the time."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._addresses()
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
            raise transport_protocol.no_connection(where) from problem
        except ssl.SSLError as problem:
            self._forget_session()
            raise transport_protocol.untrusted(where, problem) from problem
        except OSError as problem:
            self._forget_session()
            raise transport_protocol.not_connected(
                where, self._host, self._port, problem
            ) from problem

    def _remember(self, connection: Connection) -> None:
        """Offer this connection's session to later ones, as its first answer has completed it."""
        if self._context is not None and connection.proved_at:
            proved, connection.proved_at = connection.proved_at, 0.0
            self._context.remember(connection.secured(), self._server_name, proved)

    def _forget_session(self) -> None:
        if self._context is not None:
            self._context.forget()

    async def _addresses(self) -> list[str]:
        """Return the addresses of the server's name."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    async def _dial(self, address: str, lost: Callable[[Connection], None] | None) -> Connection:
        loop = asyncio.get_running_loop()
        connection = Connection(lost, self._most)
        if self._context is None:
            _keep_alive(await loop.create_connection(lambda: connection, address, self._port))
            return connection
        secured = Secured(connection, self._context, self._server_name)
        _keep_alive(await loop.create_connection(lambda: secured, address, self._port))
        await secured.shaken()
        return connection

    def _head(self, request: Request) -> bytes:
        lines = [f"{request.method} {request.target} HTTP/1.1\r\nHost: {self._host_header}"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        if request.body is not None:
            lines.append(f"Content-Length: {len(request.body)}")
        text = "\r\n".join(lines)
        if not text.count("\r") == text.count("\n") == len(lines):
            raise ValueError("the path or a header of a request holds a line break")
        return f"{text}\r\n\r\n".encode()


def _keep_alive(connected: tuple[asyncio.Transport, object]) -> None:
    endpoint = connected[0].get_extra_info("socket")
    if endpoint is not None:
        ask_after(endpoint, *_KEEPALIVE)


class _Stream:
    """A stream on its own connection."""

    def __init__(self, connection: Connection, where: str, silence: float) -> None:
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
            raise transport_protocol.too_late(self._where, self._silence) from problem
        except BrokenError as problem:
            raise errors.Unavailable(f"{self._where}: {problem}") from problem

    def abort(self) -> None:
        """Close the connection."""
        self._connection.abort()


def _expire(waiter: "asyncio.Future[Connection | None]") -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
