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
from vnagent.authz.client_identity import ClientIdentity, InvalidIdentityError, read_identity
from vnagent.authz.metrics import RejectedConnection
from vnagent.limits.pending_handshakes import PendingHandshake, PendingHandshakes
from vnagent.protocol import http_heads
from vnagent.server.listener import Listener
from vnagent.server.request import RequestHandler
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_stream import StreamLostError, TlsStream

HANDSHAKE_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class AgentServer:
    """Server of the port for tenants."""

    def __init__(self, requests: RequestHandler, buffer: ReceiveBuffer) -> None:
        self._requests = requests
        self._authorities: Sequence[x509.Certificate] = ()
        self.listener = Listener(
            self._serve_connection,
            buffer,
            name="tenants",
            pending=PendingHandshakes(),
            evicts_pending=True,
            on_refused=metrics.count_refused_connection,
        )

    def use_context(self, context: ssl.SSLContext, authorities: Sequence[x509.Certificate]) -> None:
        """Use a context and its client authorities for connections from now on."""
        self._authorities = authorities
        self.listener.use_context(context)

    async def _serve_connection(self, channel: TlsStream, handshake: PendingHandshake) -> None:
        caller = await self._identify_caller(channel, handshake)
        if caller is None:
            self.listener.refuse(handshake)
            return
        self.listener.admit(handshake)
        await self._requests.serve(channel, caller)

    async def _identify_caller(
        self, channel: TlsStream, handshake: PendingHandshake
    ) -> ClientIdentity | None:
        """Return the caller of a connection, or None for a client that is no tenant."""
        # The authorities are read first, because the context may be replaced during the handshake.
        authorities = self._authorities
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await channel.wait_opened()
            return read_identity(channel.peer_certificate, authorities, datetime.now(UTC))
        except (StreamLostError, TimeoutError) as error:
            tell = _log.info if getattr(error, "is_untrusted", False) else _log.debug
            tell("handshake refused", error=str(error) or "too slow")
            if not self.listener.is_released(handshake):
                metrics.count_refused_connection(RejectedConnection.HANDSHAKE)
            if not channel.is_lost:  # a lost channel is closing and sends the alert with the reason
                channel.abort()
        except InvalidIdentityError as problem:
            # The platform's own authority signed the certificate, so the fault is the platform's
            # and must be reported.
            _log.warning("certificate refused", error=str(problem))
            metrics.count_refused_connection(RejectedConnection.CERTIFICATE, problem.vc_uid)
            channel.write(http_heads.write_response(403, f"{problem}\n".encode()))
            channel.close()
        return None
