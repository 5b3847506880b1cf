"""Client of an upstream server: whole responses, and one stream at a time.

The module owns the mapping of the server's refusals and timeouts. It must not know tenants, nor
which server it is. Hazard: the server's messages may pass to the caller only through
`read_refusal`. Otherwise super-side names in them would reach a tenant.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

import structlog

from vnagent.client.https_client import MAX_RESPONSE_BYTES, HttpsClient, MissingTokenError
from vnagent.protocol import http_heads
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.http_heads import InvalidResponseError, ResponseHead, ResponseTooLongError
from vnagent.stream.tls_contexts import InvalidTrustError
from vnagent.stream.tls_stream import StreamLostError, TlsStream

WARM_CHANNELS = 4
"""Number of connections opened in advance. A script starts about as many commands before new ones
are open.
"""
WARM_DELAY_SECONDS = 0.1
"""Pause in seconds before connections are opened in advance. The stream that has just begun needs
the processor.
"""
WARM_SECONDS = 60.0
"""Time in seconds for which a connection waits for a use. Without any use none is kept."""
REFUSAL_SECONDS = 10.0
MAX_REFUSAL_BYTES = 16 * 1024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamLabels:
    """Name of a server, and the reasons of its failures."""

    name: str
    unreachable: RefusalReason
    untrusted: RefusalReason
    denied: RefusalReason
    invalid: RefusalReason
    too_large: RefusalReason


@dataclass(frozen=True, slots=True)
class OpenedStream:
    """Head of an answer to a stream request."""

    channel: TlsStream
    head: ResponseHead
    head_bytes: bytes
    """The head's bytes."""
    server: "UpstreamServer" = field(repr=False)
    """The server that answered."""


@dataclass(frozen=True, slots=True)
class _WarmConnection:
    channel: TlsStream
    since: float


class UpstreamServer:
    """Opener of streams, on connections that may be opened in advance."""

    def __init__(self, origin: HttpsClient, labels: UpstreamLabels) -> None:
        self._origin = origin
        self.labels = labels
        self._warm: deque[_WarmConnection] = deque()
        self._used_event = asyncio.Event()

    async def fetch(
        self, target: str, *, accept: bytes = b"application/json", limit: int = MAX_RESPONSE_BYTES
    ) -> bytes:
        """Return a whole answer of at most `limit` bytes. Raises RefusedError."""
        try:
            answer = await self._origin.request("GET", target, accept=accept, limit=limit)
        except (OSError, InvalidTrustError, InvalidResponseError) as error:
            raise self._map_error(error) from error
        if (refusal := self._map_status(answer.status)) is not None:
            raise refusal
        if answer.status != 200:
            _log.warning("call failed", by=self.labels.name, status=answer.status, target=target)
            raise RequestRefusedError(
                502, self.labels.invalid, f"{self.labels.name} failed to answer. Try again"
            )
        return answer.body

    async def open(
        self, method: str, target: str, headers: list[tuple[bytes, bytes]]
    ) -> OpenedStream:
        """Send a stream request and return the answer's head. Raises RefusedError.

        Waits as long as the server waits, because a silent container's log has no head before its
        first line.
        """
        try:
            opened = await self._open_once(method, target, headers)
            if opened.head.status == 401:
                # close before the next await, because the caller may be cancelled there
                opened.channel.abort()
                if await self._origin.renew_credential():
                    opened = await self._open_once(method, target, headers)
        except (OSError, InvalidTrustError, InvalidResponseError) as error:
            raise self._map_error(error) from error
        if (refusal := self._map_status(opened.head.status)) is not None:
            opened.channel.abort()
            raise refusal
        return opened

    async def read_refusal(self, opened: OpenedStream) -> bytes:
        """Return the text of an answer that opens no stream, and close."""
        reader = http_heads.ResponseReader(MAX_REFUSAL_BYTES)
        try:
            async with asyncio.timeout(REFUSAL_SECONDS):
                found = reader.feed(opened.head_bytes)
                while found is None:
                    found = reader.feed(await opened.channel.read())
        except (OSError, InvalidResponseError) as error:
            raise self._map_error(error) from error
        finally:
            opened.channel.abort()
        return found[1]

    async def keep_warm(self) -> None:
        """Open connections in advance after each use and drop unused ones, for ever."""
        while True:
            try:
                async with asyncio.timeout(WARM_SECONDS if self._warm else None):
                    await self._used_event.wait()
            except TimeoutError:
                self._close_old()
                continue
            await asyncio.sleep(WARM_DELAY_SECONDS)
            self._used_event.clear()
            try:
                while len(self._warm) < WARM_CHANNELS:
                    channel = await self._origin.connect()
                    self._warm.append(_WarmConnection(channel, asyncio.get_running_loop().time()))
            except (OSError, InvalidTrustError) as error:
                # The next request dials for itself and reports the error to its caller.
                _log.debug("no connection made in advance", error=str(error))

    def drop_warm(self) -> None:
        """Close connections opened in advance, because trust has changed or the agent ends."""
        while self._warm:
            self._warm.popleft().channel.abort()

    async def _open_once(
        self, method: str, target: str, headers: list[tuple[bytes, bytes]]
    ) -> OpenedStream:
        channel = self._take_warm() or await self._origin.connect()
        self._used_event.set()
        try:
            channel.write(self._origin.write_request(method, target, headers))
            return await self._read_answer(channel)
        except BaseException:
            channel.abort()
            raise

    def _take_warm(self) -> TlsStream | None:
        self._close_old()
        return self._warm.popleft().channel if self._warm else None

    def _close_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - WARM_SECONDS
        for warm in list(self._warm):
            # Equal times count as old, because the loop's clock ticks in whole milliseconds.
            if warm.since <= oldest or not warm.channel.is_idle:
                self._warm.remove(warm)
                warm.channel.abort()

    async def _read_answer(self, channel: TlsStream) -> OpenedStream:
        block = await channel.read_until(http_heads.HEAD_END, http_heads.MAX_RESPONSE_HEAD_BYTES)
        if block is None:
            raise InvalidResponseError("the response head is too long")
        self._origin.remember_session(channel)
        return OpenedStream(channel, http_heads.parse_response(block), block, self)

    def _map_error(self, error: Exception) -> RequestRefusedError:
        """Log an error between the agent and the server. Return the refusal for the caller."""
        words = self.labels
        _log.warning("call failed", by=words.name, error=str(error), kind=type(error).__name__)
        match error:
            case MissingTokenError():
                sentence = f"the node agent has no credential for {words.name}. Try again"
                return RequestRefusedError(502, words.denied, sentence)
            case InvalidTrustError() | StreamLostError(is_untrusted=True):
                sentence = f"the certificate of {words.name} does not verify"
                return RequestRefusedError(502, words.untrusted, sentence)
            case ResponseTooLongError():
                sentence = f"{words.name} answers with more than the node agent accepts"
                return RequestRefusedError(502, words.too_large, sentence)
            case InvalidResponseError():
                return RequestRefusedError(
                    502, words.invalid, f"{words.name} returned no usable answer"
                )
            case TimeoutError():
                return RequestRefusedError(
                    504, words.unreachable, f"{words.name} did not answer in time"
                )
            case _:
                return RequestRefusedError(
                    502, words.unreachable, f"{words.name} cannot be reached"
                )

    def _map_status(self, status: int) -> RequestRefusedError | None:
        """Return the refusal for a 401 or 403, None for an answer that is meant for the caller."""
        if status not in (401, 403):
            return None
        name = self.labels.name
        _log.error(
            "the agent is refused, because its ClusterRole lacks a permission",
            by=name,
            status=status,
        )
        return RequestRefusedError(
            502, self.labels.denied, f"{name} does not accept the node agent"
        )
