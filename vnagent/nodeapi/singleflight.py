"""Kubelet reads, shared by callers with equal requests at the same time.

The module owns the rate and the size of reads from the kubelet. It must not know the callers.
Hazard: reads of all tenants together must not exceed those of one tenant alone, and few answers may
be in memory at a time. Otherwise reads exhaust the kubelet or the agent, because an answer is about
the whole node, is costly and may be large. An answer stays in memory until its last reader is done.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from vnagent.limits.rate_limiter import RateLimiter
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.upstream.kubelet import KubeletUpstream

MAX_HELD_RESPONSES = 2
"""Limit of answers in memory, being received or read."""
PLACE_WAIT_SECONDS = 5.0
"""Time in seconds to wait for one of these places."""
RESPONSE_SECONDS = 10.0
"""Limit in seconds for the kubelet's answer. Scrapers wait as long."""
MIN_QUERY_INTERVAL_SECONDS = 0.5
"""Interval in seconds between two equal requests."""
MAX_AGE_SECONDS = 1.0
"""Maximum age in seconds of a request that a new caller may share."""


@dataclass(frozen=True, slots=True)
class KubeletQuery:
    """A request to the kubelet. The set is closed and contains no text of the caller."""

    target: str
    accept: bytes
    limit: int
    """Limit of the answer in bytes."""


class _InFlightQuery:
    """One request in progress, its answer, and the number of its readers."""

    task: asyncio.Task[bytes]

    def __init__(self) -> None:
        self.users = 0
        self.asked_at: float | None = None
        """Time of the request, None before it has a place."""


class SingleFlight:
    """Reader of the kubelet with as few requests at once as possible."""

    def __init__(self, kubelet: KubeletUpstream) -> None:
        self._kubelet = kubelet
        self._queries: dict[KubeletQuery, _InFlightQuery] = {}
        self._rate_limiters: dict[KubeletQuery, RateLimiter] = {}
        self._places = asyncio.Semaphore(MAX_HELD_RESPONSES)

    @asynccontextmanager
    async def share_response(self, question: KubeletQuery) -> AsyncIterator[bytes]:
        """Yield the answer to a request. Raises RefusedError."""
        flight = self._get_or_start_query(question)
        flight.users += 1
        try:
            yield await asyncio.shield(flight.task)
        finally:
            flight.users -= 1
            if not flight.users:
                self._release_query(question, flight)

    def _get_or_start_query(self, question: KubeletQuery) -> _InFlightQuery:
        """Return a flight that is recent enough, or start one."""
        flight = self._queries.get(question)
        oldest = asyncio.get_running_loop().time() - MAX_AGE_SECONDS
        if flight is None or (flight.asked_at is not None and flight.asked_at < oldest):
            flight = self._queries[question] = _InFlightQuery()
            flight.task = asyncio.get_running_loop().create_task(self._run_query(question, flight))
        return flight

    async def _run_query(self, question: KubeletQuery, flight: _InFlightQuery) -> bytes:
        turns = self._rate_limiters.setdefault(question, RateLimiter(1, MIN_QUERY_INTERVAL_SECONDS))
        await turns.wait()
        try:
            async with asyncio.timeout(PLACE_WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError as error:
            raise RequestRefusedError(
                429, RefusalReason.READS_FULL, "the node is busy with other reads. Try again"
            ) from error
        flight.asked_at = turns.take()
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                return await self._kubelet.fetch(
                    question.target, accept=question.accept, limit=question.limit
                )
        except TimeoutError as error:
            raise RequestRefusedError(
                504, RefusalReason.KUBELET_DOWN, "the node's kubelet did not answer in time"
            ) from error

    def _release_query(self, question: KubeletQuery, flight: _InFlightQuery) -> None:
        """Drop an answer without readers."""
        if self._queries.get(question) is flight:
            del self._queries[question]
        flight.task.cancel()
        if flight.asked_at is not None:
            self._places.release()
