"""The TLS listener: who may connect at all, and what becomes of each connection.

Owns connections until a tenant is known, and all of them at the end. Must not know routes. Hazard:
whoever reaches the port can open connections, so those without a tenant are few and short-lived, an
address from which nothing else comes costs no handshakes, and no error of one connection may end
the process with everybody's streams.
"""

import asyncio
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog
from cryptography import x509

from vnagent import heads, metrics
from vnagent.channel import Channel, ChannelLostError, ReceiveBuffer
from vnagent.identity import Caller, IdentityProblemError, identify
from vnagent.limits import Strangers
from vnagent.metrics import Unheard
from vnagent.rebuffs import REFUSED_AT_ONCE, REFUSED_SECONDS, Rebuffs
from vnagent.session import Requests

HANDSHAKE_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class Server:
    """Serves tenants with a context that may be swapped; streams go on with the old one."""

    def __init__(self, requests: Requests, buffer: ReceiveBuffer) -> None:
        self._requests = requests
        self._buffer = buffer
        self._context: ssl.SSLContext | None = None
        self._authorities: Sequence[x509.Certificate] = ()
        self._listener: asyncio.Server | None = None
        self.strangers = Strangers()
        self.rebuffs = Rebuffs(REFUSED_AT_ONCE, REFUSED_SECONDS)
        """Of addresses."""
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def is_listening(self) -> bool:
        """Whether tenants can connect."""
        return self._listener is not None and self._listener.is_serving()

    def trust(self, context: ssl.SSLContext, authorities: Sequence[x509.Certificate]) -> None:
        """Use a context and its client authorities for connections from now on."""
        self._context, self._authorities = context, authorities

    async def listen(self, host: str, port: int) -> int:
        """Accept connections; return the port. Call `trust` before."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._make_channel, host, port, backlog=512, reuse_address=True
        )
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self, *, drain_seconds: float) -> None:
        """Stop accepting, let streams live for a while, then cut them."""
        if self._listener is not None:
            self._listener.close()
        if self._connections:
            await asyncio.wait(self._connections, timeout=drain_seconds)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _make_channel(self) -> Channel:
        if self._context is None:
            raise RuntimeError("the agent listens before it knows whom to trust")
        return Channel(self._context, self._buffer, accepted=self._accept)

    def _accept(self, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        source = channel.source
        if self.rebuffs.is_shut(source, loop.time()):
            metrics.refused(Unheard.REPEATED)
            channel.abort()
            return
        if self.strangers.is_full(source):
            metrics.refused(Unheard.CROWDED)
            channel.abort()
            return
        connection = loop.create_task(self._serve(channel, source))
        self._connections.add(connection)
        connection.add_done_callback(self._forget)

    def _forget(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        if not connection.cancelled() and (error := connection.exception()) is not None:
            _log.error("connection failed", exc_info=error)

    async def _serve(self, channel: Channel, source: str) -> None:
        try:
            caller = await self._meet(channel, source)
            if caller is not None:
                self.rebuffs.welcome(source, asyncio.get_running_loop().time())
                await self._requests.serve(channel, caller)
        except BaseException:
            channel.abort()
            raise

    async def _meet(self, channel: Channel, source: str) -> Caller | None:
        """Return who has connected; None when it is nobody whom we serve."""
        # The context of this handshake may be swapped while it goes on.
        authorities = self._authorities
        try:
            with self.strangers.one(source):
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await channel.opened()
            return identify(channel.peer_certificate, authorities, datetime.now(UTC))
        except (ChannelLostError, TimeoutError) as error:
            tell = _log.info if getattr(error, "is_untrusted", False) else _log.debug
            tell("handshake refused", error=str(error) or "too slow")
            metrics.refused(Unheard.HANDSHAKE)
            if not channel.is_lost:  # a lost one is closing, with the alert that says why
                channel.abort()
        except IdentityProblemError as problem:
            # Our own authority signed it, so this is our own mistake: say so.
            _log.warning("certificate refused", error=str(problem))
            metrics.refused(Unheard.CERTIFICATE, problem.vc_uid)
            channel.write(heads.write_answer(403, f"{problem}\n".encode()))
            channel.close()
        if self.rebuffs.count(source, asyncio.get_running_loop().time()):
            _log.warning("connections are refused over and over, now unheard", source=source)
        return None
