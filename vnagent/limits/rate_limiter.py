"""Rate limiter on the event loop's clock.

The module must not know what is done in a turn. Hazard: a wait uses no turn, so the owner must let
only one caller wait at a time. Otherwise two callers that wait at once may both proceed. A caller
that leaves during its wait leaves its turn to others.
"""

import asyncio

from vnagent.limits.token_bucket import TokenBucket


class RateLimiter:
    """Rate limiter with a burst, then one turn at a time."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._bucket = TokenBucket(burst, seconds)

    async def wait(self) -> None:
        """Wait until there is a turn."""
        loop = asyncio.get_running_loop()
        while pause := self._bucket.get_wait(loop.time()):  # noqa: ASYNC110 - a clock
            await asyncio.sleep(pause)

    def take(self) -> float:
        """Use an available turn and return its time."""
        now = asyncio.get_running_loop().time()
        self._bucket.take(now)
        return now
