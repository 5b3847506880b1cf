"""The agent's metrics over TLS, for those who may read them.

Owns a listener that asks for a bearer token and no certificate. Must not know what the metrics are,
nor how a token is judged. Hazard: every pod of the cluster reaches this port, so what it costs
before somebody is known is bounded: few connections, little time, one request each.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import structlog

from telemetry.exposition import Exposition
from vnagent import heads, reviews
from vnagent.channel import Channel, ChannelLostError, ReceiveBuffer
from vnagent.heads import RequestHead
from vnagent.limits import Strangers
from vnagent.parting import part
from vnagent.rebuffs import REFUSED_AT_ONCE, REFUSED_SECONDS, Rebuffs
from vnagent.refusals import RefusedError
from vnagent.reviews import Verdict

SECONDS = 20.0
"""For all of a connection, a review included."""
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
_log = structlog.get_logger(__name__)


class MetricsPort:
    """Shows the metrics with a context that may be swapped."""

    def __init__(
        self,
        review: Callable[[bytes], Awaitable[Verdict]],
        exposition: Exposition,
        buffer: ReceiveBuffer,
    ) -> None:
        self._review = review
        self._exposition = exposition
        self._buffer = buffer
        self._context: ssl.SSLContext | None = None
        self._listener: asyncio.Server | None = None
        self._open = Strangers(per_source=PER_SOURCE, total=AT_ONCE)
        self.rebuffs = Rebuffs(REFUSED_AT_ONCE, REFUSED_SECONDS)
        self._connections: set[asyncio.Task[None]] = set()

    def serve_with(self, context: ssl.SSLContext) -> None:
        """Use a context for connections from now on."""
        self._context = context

    async def listen(self, host: str, port: int) -> int:
        """Accept connections; return the port. Call `serve_with` before."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._make_channel, host, port)
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop, and cut whoever is reading."""
        if self._listener is not None:
            self._listener.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _make_channel(self) -> Channel:
        if self._context is None:
            raise RuntimeError("the metrics are listened for before there is a certificate")
        return Channel(self._context, self._buffer, accepted=self._accept)

    def _accept(self, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        source = channel.source
        if self.rebuffs.is_shut(source, loop.time()) or self._open.is_full(source):
            channel.abort()
            return
        connection = loop.create_task(self._serve(channel, source))
        self._connections.add(connection)
        connection.add_done_callback(self._forget)

    def _forget(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        if not connection.cancelled() and (error := connection.exception()) is not None:
            _log.error("metrics could not be shown", exc_info=error)

    async def _serve(self, channel: Channel, source: str) -> None:
        is_good: bool | None = False
        try:
            with self._open.one(source):
                async with asyncio.timeout(SECONDS):
                    async with asyncio.timeout(HANDSHAKE_SECONDS):
                        await channel.opened()
                        block = await channel.read_until(heads.END, MAX_HEAD_BYTES)
                    is_good, answer = await self._answer(block)
                    channel.write(answer)
                    await part(channel)
        except (ChannelLostError, TimeoutError):
            channel.abort()
        except BaseException:
            channel.abort()
            raise
        finally:
            now = asyncio.get_running_loop().time()
            if is_good:
                self.rebuffs.welcome(source, now)
            elif is_good is False:
                self.rebuffs.count(source, now)

    async def _answer(self, block: bytes | None) -> tuple[bool | None, bytes]:
        """Return whether the caller has shown a good token, if that is known, and the answer."""
        if block is None:
            return False, _sentence(431, "the request head is too long")
        try:
            head = heads.parse_request(block)
        except RefusedError as refusal:
            return False, _sentence(refusal.status, refusal.sentence)
        verdict = await self._verdict(head)
        if verdict is not Verdict.ALLOWED:
            is_known = verdict in (Verdict.UNKNOWN, Verdict.FORBIDDEN)
            return False if is_known else None, _sentence(verdict.value, _WORDS[verdict])
        if head.target.partition(b"?")[0] != reviews.PATH.encode():
            return True, _sentence(404, f"{reviews.PATH} is here")
        if head.method != b"GET":
            return True, _sentence(405, "only GET")
        accept = b",".join(value for name, value in head.headers if name == b"accept")
        kind, body = self._exposition.text(accept.decode("latin-1"))
        return True, heads.write_answer_head(200, len(body), kind.encode("ascii")) + body

    async def _verdict(self, head: RequestHead) -> Verdict:
        shown = [value for name, value in head.headers if name == b"authorization"]
        if len(shown) != 1 or shown[0][: len(_SCHEME)].lower() != _SCHEME:
            return Verdict.UNKNOWN
        return await self._review(shown[0][len(_SCHEME) :])


def _sentence(status: int, sentence: str) -> bytes:
    extra = ((b"WWW-Authenticate", b"Bearer"),) if status == Verdict.UNKNOWN.value else ()
    return heads.write_answer(status, f"{sentence}\n".encode(), extra)
