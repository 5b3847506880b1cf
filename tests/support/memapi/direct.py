"""A client's wire that ends in a cluster of this process: no socket, and control of every request.

Owns the form that `kubeio.http.transport_protocol` needs, and the effects of a network on a
request: loss on the way there or back, delay, or another answer. Must not know the reasons. A
`DirectNetwork` decides about each request, and about the lines of each watch. Hazard: a request
with a delay longer than its client waits still takes effect when it arrives, as in reality. It has
no effect at a server that was stopped meanwhile.
"""

import asyncio
import contextvars
import functools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kubeio import errors
from kubeio.http import transport_protocol
from kubeio.http.transport_protocol import Fence, HttpRequest, HttpResponse
from tests.support.memapi.api import ApiRequest as Asked
from tests.support.memapi.api import MemoryApi
from tests.support.memapi.lists import RequestedWatch
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import CollectionWatch

BOOKMARK_SECONDS = 60.0
_SERVER = contextvars.Context()
"""Work of a server. The client may be frozen meanwhile, so none of it is the client's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFate:
    """Fate of one request."""

    before: float = 0.0
    """Seconds on the way there."""
    after: float = 0.0
    """Seconds on the way back."""
    is_lost: bool = False
    """It never arrives, and its client sees the connection break."""
    is_unanswered: bool = False
    """It takes effect, and its client sees the connection break."""
    is_swallowed: bool = False
    """It never arrives, and its client gets no answer."""
    refusal: StatusError | None = None
    """The answer instead."""
    takes_effect: bool = False
    """Whether it is executed although something else is answered, as with a 504."""
    retry_after: str = ""
    behind: int = 0
    """How many revisions the list is behind that a watch begins with."""


class DirectNetwork(Protocol):
    """Between one client and one cluster."""

    def fate(self, request: HttpRequest) -> RequestFate:
        """Return the fate of a request that its client is about to send."""

    def opened(self, tap: "WatchTap") -> None:
        """Take note of a watch that has begun."""


class WatchTap:
    """One watch as its client reads it. A test may cut, delay or garble it."""

    def __init__(
        self, asked: RequestedWatch, silence: float, where: errors.RequestDescription
    ) -> None:
        self.status = 200
        self.retry_after = ""
        self.asked = asked
        self.is_open = True
        self._silence = silence
        self._where = where
        self._pieces: deque[bytes] = deque()
        self._held: list[bytes] | None = None
        self._problem: Exception | None = None
        self._ended = False
        self._moved: asyncio.Future[None] | None = None
        self._watch: CollectionWatch | None = None
        self._timers: list[asyncio.TimerHandle] = []

    def begin(self, behind: int = 0) -> None:
        """Start the server's notifications."""
        loop = asyncio.get_running_loop()
        self._watch = self.asked.begin(self.hear, self.end, behind=behind)
        if self._watch is None:
            self.end()
            return
        self._timers = [
            loop.call_later(self.asked.seconds, self.end),
            loop.call_later(BOOKMARK_SECONDS, self._bookmark),
        ]

    def hear(self, lines: bytes) -> None:
        """Read the server's data. On a broken connection no data follows a loss."""
        if self._problem is not None:
            return
        if self._held is not None:
            self._held.append(lines)
        elif lines and self.is_open:
            self._pieces.append(lines)
            self._wake()

    def hold(self) -> None:
        """Keep what comes from the client until `release`."""
        if self._held is None:
            self._held = []

    def release(self, order: Callable[[list[bytes]], Sequence[bytes]] = list) -> None:
        """Release the kept data, in the given order."""
        held, self._held = self._held, None
        for lines in order([line + b"\n" for piece in held or () for line in piece.splitlines()]):
            self.hear(lines)

    def end(self) -> None:
        """End it as a server does whose time for it is up."""
        self._ended = True
        self._leave()
        self._wake()

    def cut(self) -> None:
        """Break the connection. Data that the client has not read is lost, kept or not."""
        if self.is_open:
            self._problem = errors.Unavailable("the connection broke", request=self._where)
            self._pieces.clear()
            self._held = None
            self._leave()
            self._wake()

    async def read(self) -> bytes:
        """Return what has come, empty at the end."""
        while not self._pieces:
            if self._problem is not None:
                raise self._problem
            if self._ended:
                return b""
            self._moved = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(self._silence):
                    await self._moved
            except TimeoutError as problem:
                raise transport_protocol.request_timed_out(self._where, self._silence) from problem
            finally:
                self._moved = None
        found = b"".join(self._pieces)
        self._pieces.clear()
        return found

    def abort(self) -> None:
        """Close from the client's side."""
        self.is_open = False
        self._leave()

    def _bookmark(self) -> None:
        if self._watch is not None:
            collection = self.asked.collection
            self._watch.say(collection.cluster.bookmark(collection.resource))
            loop = asyncio.get_running_loop()
            self._timers[1] = loop.call_later(BOOKMARK_SECONDS, self._bookmark)

    def _leave(self) -> None:
        if self._watch is not None:
            self.asked.collection.leave(self._watch)
            self._watch = None
        for timer in self._timers:
            timer.cancel()

    def _wake(self) -> None:
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)


class DirectTransport:
    """Connections of one client to one cluster. Implements `HttpTransport`."""

    def __init__(self, api: MemoryApi, network: DirectNetwork, fence: Fence | None = None) -> None:
        self._api = api
        self._network = network
        self._fence = fence
        self._taps: list[WatchTap] = []

    async def close(self) -> None:
        """Close every watch."""
        for tap in self._taps:
            tap.abort()

    async def exchange(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Send one request within `timeout_seconds` and return its answer."""
        if self._fence is not None and request.method != "GET":
            self._fence()
        fate = self._network.fate(request)
        answered: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
        arrive = functools.partial(self._arrive, request, fate, answered, self._process)
        asyncio.get_running_loop().call_later(fate.before, arrive, context=_SERVER)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await answered
        except TimeoutError as problem:
            raise transport_protocol.request_timed_out(request.where, timeout_seconds) from problem

    @property
    def _process(self) -> int:
        """Number of the server's process. A restore starts another one."""
        return self._api.cluster.restores

    def _arrive(
        self,
        request: HttpRequest,
        fate: RequestFate,
        answered: "asyncio.Future[HttpResponse]",
        process: int,
    ) -> None:
        """Carry a request out, whether its client still waits or not."""
        broken = errors.Unavailable("the connection broke", request=request.where)
        if fate.is_swallowed:
            return
        if fate.is_lost or process != self._process:
            self._settle(answered, broken, fate.after)
            return
        outcome: HttpResponse | Exception | None = None
        if fate.refusal is not None:
            content = fate.refusal.encoded()
            outcome = HttpResponse(fate.refusal.code, fate.retry_after, content)
        if fate.refusal is None or fate.takes_effect:
            answer = self._api.answer(asked(request))
            assert not isinstance(answer, RequestedWatch), "a watch is no exchange"
            outcome = outcome or HttpResponse(answer[0], "", answer[1])
        self._settle(answered, broken if fate.is_unanswered else outcome, fate.after)

    def _settle(
        self,
        answered: "asyncio.Future[HttpResponse]",
        outcome: HttpResponse | Exception | None,
        seconds: float,
    ) -> None:
        def settle() -> None:
            if answered.done():
                return
            if isinstance(outcome, HttpResponse):
                answered.set_result(outcome)
            elif outcome is not None:
                answered.set_exception(outcome)

        asyncio.get_running_loop().call_later(seconds, settle)

    async def stream(
        self, request: HttpRequest, *, connect: float, idle_timeout: float
    ) -> "WatchTap | _RefusedWatch":
        """Open a watch."""
        fate, process = self._network.fate(request), self._process
        if fate.is_swallowed or fate.before > connect:
            await asyncio.sleep(connect)
            raise transport_protocol.no_connection_in_time(request.where)
        await asyncio.sleep(fate.before)
        if fate.is_lost or fate.is_unanswered or process != self._process:
            raise errors.Unavailable("the connection broke", request=request.where)
        if fate.refusal is not None:
            return _RefusedWatch(fate.refusal.code, fate.retry_after, fate.refusal.encoded())
        answer = self._api.answer(asked(request))
        if not isinstance(answer, RequestedWatch):
            return _RefusedWatch(answer[0], "", answer[1])
        tap = WatchTap(answer, idle_timeout, request.where)
        self._taps = [each for each in self._taps if each.is_open]
        self._taps.append(tap)
        tap.begin(fate.behind)
        self._network.opened(tap)
        return tap


class _RefusedWatch:
    """A watch that was not begun."""

    def __init__(self, status: int, retry_after: str, content: bytes) -> None:
        self.status = status
        self.retry_after = retry_after
        self._content = content

    async def read(self) -> bytes:
        """Return the reason, once."""
        found, self._content = self._content, b""
        return found

    def abort(self) -> None:
        """Have nothing to close."""


def asked(request: HttpRequest) -> Asked:
    """Return what a client's request asks of a cluster."""
    headers = {name.lower(): value for name, value in request.headers}
    return Asked(
        method=request.method,
        target=request.target,
        body=request.body or b"",
        accept=headers.get("accept", ""),
        content=headers.get("content-type", ""),
        agent=headers.get("user-agent", ""),
    )
