"""HTTPS server of the agent's metrics, for callers that RBAC allows to read them.

The module decides which answer a caller gets. It requires a bearer token and no certificate. It
must not know the metrics or how a token is reviewed. Hazard: every pod of the cluster reaches this
port, so an unidentified connection must have bounded cost. Otherwise any pod could exhaust the
agent. The bounds are few connections, little time and one request each.
"""

import asyncio
from collections.abc import Awaitable, Callable

from telemetry.exposition import Exposition
from vnagent.authz import token_review
from vnagent.authz.token_review import ReviewResult
from vnagent.limits.pending_handshakes import PendingHandshake, PendingHandshakes
from vnagent.protocol import http_heads
from vnagent.protocol.errors import RequestRefusedError
from vnagent.protocol.http_heads import RequestHead
from vnagent.server.listener import Listener
from vnagent.stream.graceful_close import close_after_read
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_stream import StreamLostError, TlsStream

CONNECTION_SECONDS = 20.0
"""Limit in seconds for a whole connection, including a token review."""
HANDSHAKE_SECONDS = 5.0
MAX_PENDING_PER_SOURCE = 8
MAX_PENDING = 32
MAX_HEAD_BYTES = 32 * 1024

_BEARER_SCHEME = b"bearer "
_REFUSAL_TEXTS = {
    ReviewResult.UNKNOWN: "a bearer token of the super cluster is needed",
    ReviewResult.FORBIDDEN: "a role must allow get of the nonResourceURL /metrics",
    ReviewResult.BUSY: "too many new tokens. Try again",
    ReviewResult.UNDECIDED: "the super cluster's API server does not answer. Try again",
}


class MetricsServer:
    """Server of the metrics for callers with a valid token."""

    def __init__(
        self,
        review: Callable[[bytes], Awaitable[ReviewResult]],
        exposition: Exposition,
        buffer: ReceiveBuffer,
    ) -> None:
        self._review = review
        self._exposition = exposition
        self.listener = Listener(
            self._serve_connection,
            buffer,
            name="metrics",
            pending=PendingHandshakes(per_source=MAX_PENDING_PER_SOURCE, total=MAX_PENDING),
        )

    async def _serve_connection(self, channel: TlsStream, handshake: PendingHandshake) -> None:
        is_good: bool | None = False
        try:
            async with asyncio.timeout(CONNECTION_SECONDS):
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await channel.wait_opened()
                    block = await channel.read_until(http_heads.HEAD_END, MAX_HEAD_BYTES)
                is_good, answer = await self._build_response(block)
                channel.write(answer)
                await close_after_read(channel)
        except (StreamLostError, TimeoutError):
            channel.abort()
        finally:
            # The place is released only here, so that the number of open connections stays bounded
            # until their end.
            if is_good:
                self.listener.admit(handshake)
            elif is_good is False:
                self.listener.refuse(handshake)

    async def _build_response(self, block: bytes | None) -> tuple[bool | None, bytes]:
        """Return whether the caller has a valid token, None if that is unknown, and the answer."""
        if block is None:
            return False, _write_sentence(431, "the request head is too long")
        try:
            head = http_heads.parse_request(block)
        except RequestRefusedError as refusal:
            return False, _write_sentence(refusal.status, refusal.sentence)
        verdict = await self._review_head(head)
        if verdict is not ReviewResult.ALLOWED:
            is_known = verdict in (ReviewResult.UNKNOWN, ReviewResult.FORBIDDEN)
            return False if is_known else None, _write_sentence(
                verdict.value, _REFUSAL_TEXTS[verdict]
            )
        if head.target.partition(b"?")[0] != token_review.METRICS_PATH.encode():
            return True, _write_sentence(404, f"{token_review.METRICS_PATH} is served here")
        if head.method != b"GET":
            return True, _write_sentence(405, "only GET is allowed")
        accept = b",".join(value for name, value in head.headers if name == b"accept")
        kind, body = self._exposition.render(accept.decode("latin-1"))
        return True, http_heads.write_response_head(200, len(body), kind.encode("ascii")) + body

    async def _review_head(self, head: RequestHead) -> ReviewResult:
        shown = [value for name, value in head.headers if name == b"authorization"]
        if len(shown) != 1 or shown[0][: len(_BEARER_SCHEME)].lower() != _BEARER_SCHEME:
            return ReviewResult.UNKNOWN
        return await self._review(shown[0][len(_BEARER_SCHEME) :])


def _write_sentence(status: int, sentence: str) -> bytes:
    extra = ((b"WWW-Authenticate", b"Bearer"),) if status == ReviewResult.UNKNOWN.value else ()
    return http_heads.write_response(status, f"{sentence}\n".encode(), extra)
