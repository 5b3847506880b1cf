"""Time limit of the work per event-loop iteration, so that watch events are read before more work.

Owns the time of an iteration ("turn"). Watch events are always read before more work starts. Work
that must wait then waits in the queue, which is fair among tenants. In a watch or in a server the
first to come would be served first. Knows nothing of the work itself.

Hazard: long work must be divided into pieces, because a turn ends only between two pieces. A single
long piece delays all other work for its whole duration.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

ITERATION_SECONDS = 0.0005
"""Length of a turn in seconds: one or two reconciles, or some events. Later, no new work starts."""
MAX_ITERATIONS_WAITED = 100
"""Turns after which work starts in any case, because other work may fill every turn."""
_WOKEN_PER_ITERATION = 4
"""Waiters that are woken per turn: more than a turn has time for."""


class LoopBudget:
    """The turns of one event loop. Callers with much work ask between two pieces of it."""

    def __init__(
        self, seconds: float = ITERATION_SECONDS, *, clock: Callable[[], float] = time.thread_time
    ) -> None:
        """Set the seconds of work per turn that deferrable work may use, measured by `clock`.

        The default clock counts CPU time of the thread. Time in which other processes use the core
        does not count, otherwise a watch would fall behind on a busy machine.
        """
        self._seconds = seconds
        self._clock = clock
        self._number = 0
        self._ends_at = 0.0
        self._is_marked = False
        self._waiters: deque[asyncio.Future[None]] = deque()

    def create_portion(self, seconds: float) -> Callable[[], bool]:
        """Return a function that reports whether `seconds` have passed in the current turn.

        The time is counted from the first call within the turn.
        """
        number, ends = -1, 0.0

        def is_spent() -> bool:
            nonlocal number, ends
            if not self._is_marked:
                self._begin_iteration()
            if number == self._number:
                return self._clock() >= ends
            number, ends = self._number, self._clock() + seconds
            return False

        return is_spent

    def is_spent(self) -> bool:
        """Return whether the loop must run other callbacks before more work starts."""
        if self._is_marked:
            return self._clock() >= self._ends_at
        self._begin_iteration()
        return False

    async def wait_for_budget(self) -> None:
        """Wait for a turn that is not over, but for at most `MAX_ITERATIONS_WAITED` turns."""
        for _ in range(MAX_ITERATIONS_WAITED):
            if not self.is_spent():
                return
            await self.wait_for_iteration()

    async def wait_for_iteration(self) -> None:
        """Wait for another turn. Waiters are woken in the order of arrival, a few in each turn.

        The caller wakes in a new turn. Its time may already be spent, so the caller must check
        `is_spent`.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if not self._is_marked:
            self._begin_iteration()
        await waiter

    def _begin_iteration(self) -> None:
        self._is_marked = True
        self._number += 1
        self._ends_at = self._clock() + self._seconds
        asyncio.get_running_loop().call_soon(self._on_next_iteration)

    def _on_next_iteration(self) -> None:
        """Begin a turn and wake waiters. They run in the next iteration, for which it was begun."""
        self._is_marked = False
        if not self._waiters:
            return
        self._begin_iteration()
        for _ in range(min(_WOKEN_PER_ITERATION, len(self._waiters))):
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
