"""How much is done in one turn of the event loop, so that nobody's few events wait for many runs.

Owns the time of a turn. What comes in is always taken in before more is begun: then what cannot be
done at once waits in the queue, where it is sorted by tenant, and not in a watch or in a server,
where who comes first is served first. Knows nothing of what is done. Hazard: what is in one piece
takes as long as it takes; a turn ends between two pieces.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

TURN_SECONDS = 0.0005
"""A turn that is older begins nothing more: one or two runs of keys, or some events."""
PATIENCE = 100
"""Turns after which something is begun all the same: others may have the time of each."""
_AT_ONCE = 4
"""How many of those who wait for a turn look at each; more than it has time for."""


class Turns:
    """The turns of one event loop. Whoever has much to do asks between two pieces of it."""

    def __init__(
        self, seconds: float = TURN_SECONDS, *, clock: Callable[[], float] = time.thread_time
    ) -> None:
        """Take the seconds of a turn that are for what can wait: of work, as the clock counts.

        Time in which others have the core is nobody's fault here; a watch that were left for it
        would fall behind on a busy machine.
        """
        self._seconds = seconds
        self._clock = clock
        self._number = 0
        self._ends = 0.0
        self._is_marked = False
        self._waiters: deque[asyncio.Future[None]] = deque()

    def portion(self, seconds: float) -> Callable[[], bool]:
        """Return what tells whether so much of the turn is over since it was first asked in it."""
        number, ends = -1, 0.0

        def is_over() -> bool:
            nonlocal number, ends
            if not self._is_marked:
                self._begin()
            if number == self._number:
                return self._clock() >= ends
            number, ends = self._number, self._clock() + seconds
            return False

        return is_over

    def is_over(self) -> bool:
        """Tell whether the loop is to look around before anything else is done."""
        if self._is_marked:
            return self._clock() >= self._ends
        self._begin()
        return False

    async def fresh(self) -> None:
        """Wait until there is a turn that is not over, but not for long where there is none."""
        for _ in range(PATIENCE):
            if not self.is_over():
                return
            await self.another()

    async def another(self) -> None:
        """Wait for another turn; not all who wait get the same one, and those first who came first.

        One wakes up in a fresh turn, of which others may have had the time before it: it asks.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if not self._is_marked:
            self._begin()
        await waiter

    def _begin(self) -> None:
        self._is_marked = True
        self._number += 1
        self._ends = self._clock() + self._seconds
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """A turn begins. Those who wait are heard in the next one, after this was called for it."""
        self._is_marked = False
        if not self._waiters:
            return
        self._begin()
        for _ in range(min(_AT_ONCE, len(self._waiters))):
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
