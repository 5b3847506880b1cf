"""Clock that the test advances."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta


class FakeTime:
    """A clock and a sleep that belong together."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = 0

    def clock(self) -> float:
        """Stands in for time.monotonic."""
        return self.seconds

    def now(self) -> datetime:
        """Stands in for the wall clock."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        """Stands in for asyncio.sleep."""
        waiter = asyncio.get_running_loop().create_future()
        self._number += 1
        heapq.heappush(self._sleepers, (self.seconds + seconds, self._number, waiter))
        await waiter

    @property
    def asleep(self) -> int:
        """How many are waiting for time to pass."""
        return sum(not waiter.done() for _, _, waiter in self._sleepers)

    def pass_to_next(self) -> float:
        """Let time pass until the next sleeper wakes, and return how much that was."""
        while self._sleepers:
            due, _, waiter = heapq.heappop(self._sleepers)
            if not waiter.done():
                passed = max(0.0, due - self.seconds)
                self.seconds += passed
                waiter.set_result(None)
                return passed
        raise AssertionError("nobody is asleep")
