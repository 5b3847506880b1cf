"""Server for tenants: identification of a client by certificate before a request is read.

The module owns the trust in client certificates. It must not know routes.
"""

import asyncio
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog
from cryptography import x509

from vnagent.authz import metrics
from vnagent.authz.client_identity import Caller, IdentityProblemError, identify
from vnagent.authz.metrics import Unheard
from vnagent.limits.pending_handshakes import Stranger, Strangers
from vnagent.protocol import http_heads
from vnagent.server.listener import Door
from vnagent.server.request import Requests
from vnagent.stream.tls_stream import Channel, ChannelLostError, ReceiveBuffer

HANDSHAKE_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class Server:
    """Server of the port for tenants."""

    def __init__(self, requests: Requests, buffer: ReceiveBuffer) -> None:
        self._requests = requests
        self._authorities: Sequence[x509.Certificate] = ()
        self.door = Door(
            self._serve,
            buffer,
            name="tenants",
            strangers=Strangers(),
            shows_out=True,
            refused=metrics.refused,
        )

    def trust(self, context: ssl.SSLContext, authorities: Sequence[x509.Certificate]) -> None:
        """Use a context and its client authorities for connections from now on."""
        self._authorities = authorities
        self.door.use(context)

    async def _serve(self, channel: Channel, stranger: Stranger) -> None:
        caller = await self._meet(channel, stranger)
        if caller is None:
            self.door.turn_away(stranger)
            return
        self.door.let_in(stranger)
        await self._requests.serve(channel, caller)

    async def _meet(self, channel: Channel, stranger: Stranger) -> Caller | None:
        """Return the caller of a connection, or None for a client that is no tenant."""
        # The authorities are read first, because the context may be replaced during the handshake.
        authorities = self._authorities
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await channel.opened()
            return identify(channel.peer_certificate, authorities, datetime.now(UTC))
        except (ChannelLostError, TimeoutError) as error:
            tell = _log.info if getattr(error, "is_untrusted", False) else _log.debug
            tell("handshake refused", error=str(error) or "too slow")
            if not self.door.has_left(stranger):
                metrics.refused(Unheard.HANDSHAKE)
            if not channel.is_lost:  # a lost channel is closing and sends the alert with the reason
                channel.abort()
        except IdentityProblemError as problem:
            # The platform's own authority signed the certificate, so the fault is the platform's
            # and must be reported.
            _log.warning("certificate refused", error=str(problem))
            metrics.refused(Unheard.CERTIFICATE, problem.vc_uid)
            channel.write(http_heads.write_answer(403, f"{problem}\n".encode()))
            channel.close()
        return None
