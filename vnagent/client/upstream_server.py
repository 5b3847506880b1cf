"""Client of an upstream server: whole responses, and one stream at a time.

The module owns the mapping of the server's refusals and timeouts. It must not know tenants, nor
which server it is. Hazard: the server's messages may pass to the caller only through `explain`.
Otherwise super-side names in them would reach a tenant.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

import structlog

from vnagent.client.https_client import MAX_ANSWER_BYTES, NoTokenError, Origin
from vnagent.protocol import http_heads
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.http_heads import ResponseHead, ResponseProblemError, TooLongError
from vnagent.stream.tls_contexts import TrustProblemError
from vnagent.stream.tls_stream import Channel, ChannelLostError

WARM_CHANNELS = 4
"""Number of connections opened in advance. A script starts about as many commands before new ones
are open.
"""
WARM_PAUSE_SECONDS = 0.1
"""Pause in seconds before connections are opened in advance. The stream that has just begun needs
the processor.
"""
WARM_SECONDS = 60.0
"""Time in seconds for which a connection waits for a use. Without any use none is kept."""
EXPLAIN_SECONDS = 10.0
MAX_EXPLANATION_BYTES = 16 * 1024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Name of a server, and the reasons of its failures."""

    name: str
    down: Reason
    untrusted: Reason
    denies: Reason
    odd: Reason
    large: Reason


@dataclass(frozen=True, slots=True)
class Opened:
    """Head of an answer to a stream request."""

    channel: Channel
    head: ResponseHead
    block: bytes
    """The head's bytes."""
    peer: "Peer" = field(repr=False)
    """The server that answered."""


@dataclass(frozen=True, slots=True)
class _Warm:
    channel: Channel
    since: float


class Peer:
    """Opener of streams, on connections that may be opened in advance."""

    def __init__(self, origin: Origin, words: Words) -> None:
        self._origin = origin
        self.words = words
        self._warm: deque[_Warm] = deque()
        self._used = asyncio.Event()

    async def fetch(
        self, target: str, *, accept: bytes = b"application/json", limit: int = MAX_ANSWER_BYTES
    ) -> bytes:
        """Return a whole answer of at most `limit` bytes. Raises RefusedError."""
        try:
            answer = await self._origin.ask("GET", target, accept=accept, limit=limit)
        except (OSError, TrustProblemError, ResponseProblemError) as error:
            raise self._trouble(error) from error
        if (refusal := self._refusal(answer.status)) is not None:
            raise refusal
        if answer.status != 200:
            _log.warning("call failed", by=self.words.name, status=answer.status, target=target)
            raise RefusedError(
                502, self.words.odd, f"{self.words.name} failed to answer; try again"
            )
        return answer.body

    async def open(self, method: str, target: str, headers: list[tuple[bytes, bytes]]) -> Opened:
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
        except (OSError, TrustProblemError, ResponseProblemError) as error:
            raise self._trouble(error) from error
        if (refusal := self._refusal(opened.head.status)) is not None:
            opened.channel.abort()
            raise refusal
        return opened

    async def explain(self, opened: Opened) -> bytes:
        """Return the text of an answer that opens no stream, and close."""
        reader = http_heads.AnswerReader(MAX_EXPLANATION_BYTES)
        try:
            async with asyncio.timeout(EXPLAIN_SECONDS):
                found = reader.feed(opened.block)
                while found is None:
                    found = reader.feed(await opened.channel.read())
        except (OSError, ResponseProblemError) as error:
            raise self._trouble(error) from error
        finally:
            opened.channel.abort()
        return found[1]

    async def keep_warm(self) -> None:
        """Open connections in advance after each use and drop unused ones, for ever."""
        while True:
            try:
                async with asyncio.timeout(WARM_SECONDS if self._warm else None):
                    await self._used.wait()
            except TimeoutError:
                self._drop_old()
                continue
            await asyncio.sleep(WARM_PAUSE_SECONDS)
            self._used.clear()
            try:
                while len(self._warm) < WARM_CHANNELS:
                    channel = await self._origin.dial()
                    self._warm.append(_Warm(channel, asyncio.get_running_loop().time()))
            except (OSError, TrustProblemError) as error:
                # The next request dials for itself and reports the error to its caller.
                _log.debug("no connection made ahead", error=str(error))

    def drop_warm(self) -> None:
        """Close connections opened in advance, because trust has changed or the agent ends."""
        while self._warm:
            self._warm.popleft().channel.abort()

    async def _open_once(
        self, method: str, target: str, headers: list[tuple[bytes, bytes]]
    ) -> Opened:
        channel = self._take_warm() or await self._origin.dial()
        self._used.set()
        try:
            channel.write(self._origin.write_request(method, target, headers))
            return await self._read_answer(channel)
        except BaseException:
            channel.abort()
            raise

    def _take_warm(self) -> Channel | None:
        self._drop_old()
        return self._warm.popleft().channel if self._warm else None

    def _drop_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - WARM_SECONDS
        for warm in list(self._warm):
            # Equal times count as old, because the loop's clock ticks in whole milliseconds.
            if warm.since <= oldest or not warm.channel.is_quiet:
                self._warm.remove(warm)
                warm.channel.abort()

    async def _read_answer(self, channel: Channel) -> Opened:
        block = await channel.read_until(http_heads.END, http_heads.MAX_RESPONSE_HEAD_BYTES)
        if block is None:
            raise ResponseProblemError("the response head is too long")
        self._origin.remember(channel)
        return Opened(channel, http_heads.parse_response(block), block, self)

    def _trouble(self, error: Exception) -> RefusedError:
        """Log an error between the agent and the server. Return the refusal for the caller."""
        words = self.words
        _log.warning("call failed", by=words.name, error=str(error), kind=type(error).__name__)
        match error:
            case NoTokenError():
                sentence = f"the node agent has no credential for {words.name}; try again"
                return RefusedError(502, words.denies, sentence)
            case TrustProblemError() | ChannelLostError(is_untrusted=True):
                sentence = f"the certificate of {words.name} does not verify"
                return RefusedError(502, words.untrusted, sentence)
            case TooLongError():
                sentence = f"{words.name} answers with more than the node agent takes"
                return RefusedError(502, words.large, sentence)
            case ResponseProblemError():
                return RefusedError(502, words.odd, f"{words.name} gave no usable answer")
            case TimeoutError():
                return RefusedError(504, words.down, f"{words.name} did not answer in time")
            case _:
                return RefusedError(502, words.down, f"{words.name} cannot be reached")

    def _refusal(self, status: int) -> RefusedError | None:
        """Return the refusal for a 401 or 403, None for an answer that is meant for the caller."""
        if status not in (401, 403):
            return None
        name = self.words.name
        _log.error("the agent is refused; its ClusterRole lacks a right", by=name, status=status)
        return RefusedError(502, self.words.denies, f"{name} does not let the node agent in")
