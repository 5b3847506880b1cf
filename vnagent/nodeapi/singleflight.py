"""Answers of the kubelet, shared by those who ask the same at the same time.

Owns how often and how much of the kubelet is asked for reads. Must not know who asks. Hazard: an
answer is about the whole node, costs the kubelet much and may be large. So all tenants together can
ask no more than one of them alone, and few answers are in memory until their last reader is done.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from vnagent.limits.rate_limiter import Turns
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.upstream.kubelet import Kubelet

HELD = 2
"""Answers in memory, being received or read."""
PATIENCE_SECONDS = 5.0
"""For one of these places."""
READ_SECONDS = 10.0
"""For the kubelet's answer; scrapers wait as long."""
SPACING_SECONDS = 0.5
"""Between two equal questions."""
FRESH_SECONDS = 1.0
"""An answer that was asked for longer ago is nobody's any more who asks now."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the kubelet; a closed set, without a word of the caller's."""

    target: str
    accept: bytes
    limit: int
    """Bytes of the answer that are taken."""


class _Flight:
    """One question on its way, its answer, and how many wait for it or read it."""

    task: asyncio.Task[bytes]

    def __init__(self) -> None:
        self.users = 0
        self.asked_at: float | None = None
        """When it was asked; until then it has no place."""


class Answers:
    """Asks the kubelet, for as few as possible at once."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._flights: dict[Question, _Flight] = {}
        self._turns: dict[Question, Turns] = {}
        self._places = asyncio.Semaphore(HELD)

    @asynccontextmanager
    async def of(self, question: Question) -> AsyncIterator[bytes]:
        """Lend the answer to a question; raises RefusedError."""
        flight = self._flight(question)
        flight.users += 1
        try:
            yield await asyncio.shield(flight.task)
        finally:
            flight.users -= 1
            if not flight.users:
                self._end(question, flight)

    def _flight(self, question: Question) -> _Flight:
        """Return a flight that is young enough, or start one."""
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
        """Forget an answer that nobody reads any more."""
        if self._flights.get(question) is flight:
            del self._flights[question]
        flight.task.cancel()
        if flight.asked_at is not None:
            self._places.release()
