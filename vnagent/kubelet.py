"""This node's kubelet: its list of pods, and one stream at a time.

Owns what is asked of the kubelet and what its refusals become. Must not know tenants. Hazard: the
kubelet's words may hold super-side names, so they pass to the caller only through `explain`.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

import structlog

from vnagent import heads
from vnagent.channel import Channel, ChannelLostError
from vnagent.heads import ResponseHead, ResponseProblemError
from vnagent.origin import Origin
from vnagent.refusals import Reason, RefusedError
from vnagent.tls import TrustProblemError

PORT = 10250
WARM_CHANNELS = 2
WARM_SECONDS = 60.0
"""How long a connection waits for a use; without use none is kept."""
EXPLAIN_SECONDS = 10.0
MAX_EXPLANATION_BYTES = 16 * 1024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """A kubelet's answer to a stream request, as far as its head."""

    channel: Channel
    head: ResponseHead
    block: bytes
    """The head's bytes."""


@dataclass(frozen=True, slots=True)
class _Warm:
    channel: Channel
    since: float


class Kubelet:
    """Opens streams, on connections that are made ahead of their use."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._warm: deque[_Warm] = deque()
        self._used = asyncio.Event()

    async def fetch_pods(self) -> bytes:
        """Return the list of pods as the kubelet has it; raises RefusedError."""
        try:
            answer = await self._origin.ask("GET", "/pods")
        except (OSError, TrustProblemError, ResponseProblemError) as error:
            raise _trouble(error) from error
        if answer.status != 200:
            raise _refusal(answer.status)
        return answer.body

    async def open(self, method: str, target: str, headers: list[tuple[bytes, bytes]]) -> Opened:
        """Send a stream request and return the answer's head; raises RefusedError.

        Waits as long as the kubelet does: a silent container's log has no head before its first
        line.
        """
        try:
            opened = await self._open_once(method, target, headers)
            if opened.head.status == 401 and await self._origin.renew_credential():
                opened.channel.abort()
                opened = await self._open_once(method, target, headers)
        except (OSError, TrustProblemError, ResponseProblemError) as error:
            raise _trouble(error) from error
        if opened.head.status in (401, 403):
            opened.channel.abort()
            raise _refusal(opened.head.status)
        return opened

    async def explain(self, opened: Opened) -> bytes:
        """Return the text of an answer that opens no stream, and close."""
        reader = heads.AnswerReader(MAX_EXPLANATION_BYTES)
        try:
            async with asyncio.timeout(EXPLAIN_SECONDS):
                found = reader.feed(opened.block)
                while found is None:
                    found = reader.feed(await opened.channel.read())
        except (OSError, ResponseProblemError) as error:
            raise _trouble(error) from error
        finally:
            opened.channel.abort()
        return found[1]

    async def keep_warm(self) -> None:
        """After each use make connections for the next ones, and drop those not used, for ever."""
        while True:
            try:
                async with asyncio.timeout(WARM_SECONDS if self._warm else None):
                    await self._used.wait()
            except TimeoutError:
                self._drop_old()
                continue
            self._used.clear()
            try:
                while len(self._warm) < WARM_CHANNELS:
                    channel = await self._origin.dial()
                    self._warm.append(_Warm(channel, asyncio.get_running_loop().time()))
            except (OSError, TrustProblemError) as error:
                # The next request dials for itself and tells its caller.
                _log.debug("no connection made ahead", error=str(error))

    def drop_warm(self) -> None:
        """Close what was made ahead: trust has changed, or the agent ends."""
        while self._warm:
            self._warm.popleft().channel.abort()

    async def _open_once(
        self, method: str, target: str, headers: list[tuple[bytes, bytes]]
    ) -> Opened:
        channel = self._take_warm() or await self._origin.dial()
        self._used.set()
        try:
            channel.write(self._origin.write_request(method, target, headers))
            return await _read_answer(channel)
        except BaseException:
            channel.abort()
            raise

    def _take_warm(self) -> Channel | None:
        self._drop_old()
        return self._warm.popleft().channel if self._warm else None

    def _drop_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - WARM_SECONDS
        for warm in list(self._warm):
            if warm.since < oldest or not warm.channel.is_quiet:
                self._warm.remove(warm)
                warm.channel.abort()


async def _read_answer(channel: Channel) -> Opened:
    block = await channel.read_until(heads.END, heads.MAX_RESPONSE_HEAD_BYTES)
    if block is None:
        raise ResponseProblemError("the response head is too long")
    return Opened(channel, heads.parse_response(block), block)


def _trouble(error: Exception) -> RefusedError:
    """Say what went wrong between the agent and the kubelet, to both sides of it."""
    _log.warning("kubelet call failed", error=str(error), kind=type(error).__name__)
    match error:
        case TrustProblemError() | ChannelLostError(is_untrusted=True):
            sentence = "the certificate of the node's kubelet does not verify"
            return RefusedError(502, Reason.KUBELET_UNTRUSTED, sentence)
        case ResponseProblemError():
            sentence = "the node's kubelet gave no usable answer"
            return RefusedError(502, Reason.KUBELET_ODD, sentence)
        case TimeoutError():
            sentence = "the node's kubelet did not answer in time"
            return RefusedError(504, Reason.KUBELET_DOWN, sentence)
        case _:
            sentence = "the node's kubelet cannot be reached"
            return RefusedError(502, Reason.KUBELET_DOWN, sentence)


def _refusal(status: int) -> RefusedError:
    _log.error("kubelet refuses the agent; it needs nodes/proxy", status=status)
    return RefusedError(
        502, Reason.KUBELET_DENIES, "the node's kubelet does not let the node agent in"
    )
