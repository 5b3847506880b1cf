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

from vnagent.authz.metrics import RejectedConnection
from vnagent.limits.peer_backoff import REFUSAL_BURST, REFUSAL_INTERVAL_SECONDS, PeerBackoff
from vnagent.limits.pending_handshakes import PendingHandshake, PendingHandshakes
from vnagent.stream.keepalive import enable_keepalive
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_stream import TlsStream

LISTEN_BACKLOG = 512

_log = structlog.get_logger(__name__)


class Listener:
    """Listener whose TLS context may be replaced. Open streams keep the old one."""

    def __init__(
        self,
        serve: Callable[[TlsStream, PendingHandshake], Awaitable[None]],
        buffer: ReceiveBuffer,
        *,
        name: str,
        pending: PendingHandshakes,
        evicts_pending: bool = False,
        on_refused: Callable[[RejectedConnection], None] = lambda _: None,
    ) -> None:
        """Pass each connection to `serve`. Its handshake has a place until it is admitted.

        With `evicts_pending` a handshake may lose its place to a newcomer if no place is left.
        """
        self._name = name
        self._evicts_pending = evicts_pending
        self._serve = serve
        self._buffer = buffer
        self._on_refused = on_refused
        self.pending = pending
        self.peer_backoff = PeerBackoff(REFUSAL_BURST, REFUSAL_INTERVAL_SECONDS)
        """Backoff by address."""
        self._context: ssl.SSLContext | None = None
        self._listener: asyncio.Server | None = None
        self._pending_tasks: dict[PendingHandshake, TlsStream] = {}
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        """Whether clients can connect."""
        return self._listener is not None and self._listener.is_serving()

    def use_context(self, context: ssl.SSLContext) -> None:
        """Use a context for connections from now on."""
        self._context = context

    async def listen(self, host: str, port: int) -> int:
        """Accept connections and return the port. Call `use_context` before."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._make_channel, host, port, backlog=LISTEN_BACKLOG, reuse_address=True
        )
        for endpoint in self._listener.sockets:
            enable_keepalive(endpoint)
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
        for handshake, channel in list(self._pending_tasks.items()):
            self._release_pending(handshake)  # its task was cancelled before it had begun
            channel.abort()

    def admit(self, handshake: PendingHandshake) -> None:
        """Release the place of a caller that has been identified."""
        self._release_pending(handshake)
        self.peer_backoff.trust(handshake.source, asyncio.get_running_loop().time())

    def refuse(self, handshake: PendingHandshake) -> None:
        """Record that a caller is no client of this port."""
        if self.is_released(handshake):
            return  # it lost its place to a newcomer, so it is not at fault
        if self.peer_backoff.count_refusal(handshake.source, asyncio.get_running_loop().time()):
            _log.warning(
                "connections are refused repeatedly, now without an answer",
                source=handshake.source,
                port=self._name,
            )

    def is_released(self, handshake: PendingHandshake) -> bool:
        """Return whether a handshake has no place, because it ended or lost its place."""
        return handshake not in self._pending_tasks

    def _make_channel(self) -> TlsStream:
        if self._context is None:
            raise RuntimeError("a port is open before there is a certificate")
        return TlsStream(self._context, self._buffer, accepted=self._handle_connection)

    def _handle_connection(self, channel: TlsStream) -> None:
        loop = asyncio.get_running_loop()
        handshake = PendingHandshake(channel.peer_address, loop.time())
        if self.peer_backoff.is_banned(handshake.source, handshake.since):
            self._on_refused(RejectedConnection.REPEATED)
            channel.abort()
            return
        if self.pending.is_full(handshake.source) and not self._evict_pending(handshake):
            self._on_refused(RejectedConnection.TOO_MANY)
            channel.abort()
            return
        self.pending.add(handshake)
        self._pending_tasks[handshake] = channel
        connection = loop.create_task(self._serve_connection(channel, handshake))
        self._connections.add(connection)
        connection.add_done_callback(self._forget_connection)

    def _evict_pending(self, newcomer: PendingHandshake) -> bool:
        """Close the handshake that must make room for a newcomer. Return whether one was closed."""
        if not self._evicts_pending:
            return False
        found = self.pending.choose_victim(
            newcomer, lambda source: self.peer_backoff.is_trusted(source, newcomer.since)
        )
        if found is None:
            return False
        channel = self._pending_tasks[found]
        self._release_pending(found)
        self._on_refused(RejectedConnection.TOO_MANY)
        channel.abort()  # this ends its task as any lost connection does
        return True

    def _release_pending(self, handshake: PendingHandshake) -> None:
        self.pending.remove(handshake)
        self._pending_tasks.pop(handshake, None)

    async def _serve_connection(self, channel: TlsStream, handshake: PendingHandshake) -> None:
        try:
            await self._serve(channel, handshake)
        except BaseException:
            channel.abort()
            raise
        finally:
            self._release_pending(handshake)

    def _forget_connection(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        if not connection.cancelled() and (error := connection.exception()) is not None:
            _log.error("connection failed", exc_info=error, port=self._name)
