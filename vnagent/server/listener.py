"""TLS listener with limits for unidentified connections.

The module owns a listening socket, the places of unidentified connections and the tasks of all
connections. It also remembers the addresses that were refused repeatedly. It must not know what is
served. Hazard: any client that reaches the port can open connections, so unidentified connections
must be few and short-lived. An address with nothing but failures must cost no handshakes, and no
error of one connection may end the process. Otherwise one client ends the streams of all tenants.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import structlog

from vnagent.authz.metrics import Unheard
from vnagent.limits.peer_backoff import REFUSED_AT_ONCE, REFUSED_SECONDS, Rebuffs
from vnagent.limits.pending_handshakes import Stranger, Strangers
from vnagent.stream.keepalive import keep_alive
from vnagent.stream.tls_stream import Channel, ReceiveBuffer

BACKLOG = 512

_log = structlog.get_logger(__name__)


class Door:
    """Listener whose TLS context may be replaced. Open streams keep the old one."""

    def __init__(
        self,
        serve: Callable[[Channel, Stranger], Awaitable[None]],
        buffer: ReceiveBuffer,
        *,
        name: str,
        strangers: Strangers,
        shows_out: bool = False,
        refused: Callable[[Unheard], None] = lambda _: None,
    ) -> None:
        """Pass each connection to `serve`. Its stranger has a place until it is let in.

        With `shows_out` a stranger may lose its place to a newcomer if no place is left.
        """
        self._name = name
        self._shows_out = shows_out
        self._serve = serve
        self._buffer = buffer
        self._refused = refused
        self.strangers = strangers
        self.rebuffs = Rebuffs(REFUSED_AT_ONCE, REFUSED_SECONDS)
        """Backoff by address."""
        self._context: ssl.SSLContext | None = None
        self._listener: asyncio.Server | None = None
        self._waiting: dict[Stranger, Channel] = {}
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        """Whether clients can connect."""
        return self._listener is not None and self._listener.is_serving()

    def use(self, context: ssl.SSLContext) -> None:
        """Use a context for connections from now on."""
        self._context = context

    async def listen(self, host: str, port: int) -> int:
        """Accept connections and return the port. Call `use` before."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._make_channel, host, port, backlog=BACKLOG, reuse_address=True
        )
        for endpoint in self._listener.sockets:
            keep_alive(endpoint)
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self, *, drain_seconds: float = 0.0) -> None:
        """Stop accepting, wait for streams up to `drain_seconds`, then cut them."""
        if self._listener is not None:
            self._listener.close()
        if self._connections and drain_seconds:
            await asyncio.wait(self._connections, timeout=drain_seconds)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for stranger, channel in list(self._waiting.items()):
            self._leave(stranger)  # its task was cancelled before it had begun
            channel.abort()

    def let_in(self, stranger: Stranger) -> None:
        """Release the place of a stranger that has been identified."""
        self._leave(stranger)
        self.rebuffs.welcome(stranger.source, asyncio.get_running_loop().time())

    def turn_away(self, stranger: Stranger) -> None:
        """Record that a stranger is no client of this port."""
        if self.has_left(stranger):
            return  # it lost its place to a newcomer, so it is not at fault
        if self.rebuffs.count(stranger.source, asyncio.get_running_loop().time()):
            _log.warning(
                "connections are refused over and over, now unheard",
                source=stranger.source,
                port=self._name,
            )

    def has_left(self, stranger: Stranger) -> bool:
        """Return whether a stranger has no place, because it was let in or lost its place."""
        return stranger not in self._waiting

    def _make_channel(self) -> Channel:
        if self._context is None:
            raise RuntimeError("a port is listened at before there is a certificate")
        return Channel(self._context, self._buffer, accepted=self._accept)

    def _accept(self, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        stranger = Stranger(channel.source, loop.time())
        if self.rebuffs.is_shut(stranger.source, stranger.since):
            self._refused(Unheard.REPEATED)
            channel.abort()
            return
        if self.strangers.is_full(stranger.source) and not self._make_room(stranger):
            self._refused(Unheard.CROWDED)
            channel.abort()
            return
        self.strangers.add(stranger)
        self._waiting[stranger] = channel
        connection = loop.create_task(self._attend(channel, stranger))
        self._connections.add(connection)
        connection.add_done_callback(self._forget)

    def _make_room(self, newcomer: Stranger) -> bool:
        """Close the stranger that is in the way of a newcomer. Return whether one was closed."""
        if not self._shows_out:
            return False
        found = self.strangers.in_the_way(
            newcomer, lambda source: self.rebuffs.is_welcome(source, newcomer.since)
        )
        if found is None:
            return False
        channel = self._waiting[found]
        self._leave(found)
        self._refused(Unheard.CROWDED)
        channel.abort()  # this ends its task as any lost connection does
        return True

    def _leave(self, stranger: Stranger) -> None:
        self.strangers.remove(stranger)
        self._waiting.pop(stranger, None)

    async def _attend(self, channel: Channel, stranger: Stranger) -> None:
        try:
            await self._serve(channel, stranger)
        except BaseException:
            channel.abort()
            raise
        finally:
            self._leave(stranger)

    def _forget(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        if not connection.cancelled() and (error := connection.exception()) is not None:
            _log.error("connection failed", exc_info=error, port=self._name)
