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

from vnagent.limits.rate_limiter import Turns
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.upstream.kubelet import Kubelet

HELD = 2
"""Limit of answers in memory, being received or read."""
PATIENCE_SECONDS = 5.0
"""Time in seconds to wait for one of these places."""
READ_SECONDS = 10.0
"""Limit in seconds for the kubelet's answer. Scrapers wait as long."""
SPACING_SECONDS = 0.5
"""Interval in seconds between two equal requests."""
FRESH_SECONDS = 1.0
"""Maximum age in seconds of a request that a new caller may share."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request to the kubelet. The set is closed and contains no text of the caller."""

    target: str
    accept: bytes
    limit: int
    """Limit of the answer in bytes."""


class _Flight:
    """One request in progress, its answer, and the number of its readers."""

    task: asyncio.Task[bytes]

    def __init__(self) -> None:
        self.users = 0
        self.asked_at: float | None = None
        """Time of the request, None before it has a place."""


class Answers:
    """Reader of the kubelet with as few requests at once as possible."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._flights: dict[Question, _Flight] = {}
        self._turns: dict[Question, Turns] = {}
        self._places = asyncio.Semaphore(HELD)

    @asynccontextmanager
    async def of(self, question: Question) -> AsyncIterator[bytes]:
        """Yield the answer to a request. Raises RefusedError."""
        flight = self._flight(question)
        flight.users += 1
        try:
            yield await asyncio.shield(flight.task)
        finally:
            flight.users -= 1
            if not flight.users:
                self._end(question, flight)

    def _flight(self, question: Question) -> _Flight:
        """Return a flight that is recent enough, or start one."""
        flight = self._flights.get(question)
        oldest = asyncio.get_running_loop().time() - FRESH_SECONDS
        if flight is None or (flight.asked_at is not None and flight.asked_at < oldest):
            flight = self._flights[question] = _Flight()
            flight.task = asyncio.get_running_loop().create_task(self._ask(question, flight))
        return flight

    async def _ask(self, question: Question, flight: _Flight) -> bytes:
        turns = self._turns.setdefault(question, Turns(1, SPACING_SECONDS))
        await turns.wait()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._places.acquire()
        except TimeoutError as error:
            raise RefusedError(
                429, Reason.READS_FULL, "the node is busy with other reads; try again"
            ) from error
        flight.asked_at = turns.take()
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await self._kubelet.fetch(
                    question.target, accept=question.accept, limit=question.limit
                )
        except TimeoutError as error:
            raise RefusedError(
                504, Reason.KUBELET_DOWN, "the node's kubelet did not answer in time"
            ) from error

    def _end(self, question: Question, flight: _Flight) -> None:
        """Drop an answer without readers."""
        if self._flights.get(question) is flight:
            del self._flights[question]
        flight.task.cancel()
        if flight.asked_at is not None:
            self._places.release()
