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
from vnagent.authz.token_review import Verdict
from vnagent.limits.pending_handshakes import Stranger, Strangers
from vnagent.protocol import http_heads
from vnagent.protocol.errors import RefusedError
from vnagent.protocol.http_heads import RequestHead
from vnagent.server.listener import Door
from vnagent.stream.graceful_close import part
from vnagent.stream.tls_stream import Channel, ChannelLostError, ReceiveBuffer

SECONDS = 20.0
"""Limit in seconds for a whole connection, including a token review."""
HANDSHAKE_SECONDS = 5.0
PER_SOURCE = 8
AT_ONCE = 32
MAX_HEAD_BYTES = 32 * 1024

_SCHEME = b"bearer "
_WORDS = {
    Verdict.UNKNOWN: "a bearer token of the super cluster is needed",
    Verdict.FORBIDDEN: "a role has to let you get the nonResourceURL /metrics",
    Verdict.BUSY: "too many new tokens; try again",
    Verdict.UNDECIDED: "the super cluster's API server does not answer; try again",
}


class MetricsPort:
    """Server of the metrics for callers with a valid token."""

    def __init__(
        self,
        review: Callable[[bytes], Awaitable[Verdict]],
        exposition: Exposition,
        buffer: ReceiveBuffer,
    ) -> None:
        self._review = review
        self._exposition = exposition
        self.door = Door(
            self._serve,
            buffer,
            name="metrics",
            strangers=Strangers(per_source=PER_SOURCE, total=AT_ONCE),
        )

    async def _serve(self, channel: Channel, stranger: Stranger) -> None:
        is_good: bool | None = False
        try:
            async with asyncio.timeout(SECONDS):
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await channel.opened()
                    block = await channel.read_until(http_heads.END, MAX_HEAD_BYTES)
                is_good, answer = await self._answer(block)
                channel.write(answer)
                await part(channel)
        except (ChannelLostError, TimeoutError):
            channel.abort()
        finally:
            # The place is released only here, so that the number of open connections stays bounded
            # until their end.
            if is_good:
                self.door.let_in(stranger)
            elif is_good is False:
                self.door.turn_away(stranger)

    async def _answer(self, block: bytes | None) -> tuple[bool | None, bytes]:
        """Return whether the caller has a valid token, None if that is unknown, and the answer."""
        if block is None:
            return False, _sentence(431, "the request head is too long")
        try:
            head = http_heads.parse_request(block)
        except RefusedError as refusal:
            return False, _sentence(refusal.status, refusal.sentence)
        verdict = await self._verdict(head)
        if verdict is not Verdict.ALLOWED:
            is_known = verdict in (Verdict.UNKNOWN, Verdict.FORBIDDEN)
            return False if is_known else None, _sentence(verdict.value, _WORDS[verdict])
        if head.target.partition(b"?")[0] != token_review.PATH.encode():
            return True, _sentence(404, f"{token_review.PATH} is here")
        if head.method != b"GET":
            return True, _sentence(405, "only GET")
        accept = b",".join(value for name, value in head.headers if name == b"accept")
        kind, body = self._exposition.text(accept.decode("latin-1"))
        return True, http_heads.write_answer_head(200, len(body), kind.encode("ascii")) + body

    async def _verdict(self, head: RequestHead) -> Verdict:
        shown = [value for name, value in head.headers if name == b"authorization"]
        if len(shown) != 1 or shown[0][: len(_SCHEME)].lower() != _SCHEME:
            return Verdict.UNKNOWN
        return await self._review(shown[0][len(_SCHEME) :])


def _sentence(status: int, sentence: str) -> bytes:
    extra = ((b"WWW-Authenticate", b"Bearer"),) if status == Verdict.UNKNOWN.value else ()
    return http_heads.write_answer(status, f"{sentence}\n".encode(), extra)
