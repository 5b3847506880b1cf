"""Waiting for one's turn: a bucket of turns on the loop's clock.

Must not know what is done in a turn. Hazard: waiting takes nothing, so whoever leaves while it
waits leaves its turn to others; two that wait at once may both go, so their owner has one at a time
wait.
"""

import asyncio

from vnagent.limits.token_bucket import Bucket


class Turns:
    """Some at once, then one at a time."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._bucket = Bucket(burst, seconds)

    async def wait(self) -> None:
        """Wait until there is a turn."""
        loop = asyncio.get_running_loop()
        while pause := self._bucket.pause(loop.time()):  # noqa: ASYNC110 - a clock
            await asyncio.sleep(pause)

    def take(self) -> float:
        """Use a turn that is there; return when."""
        now = asyncio.get_running_loop().time()
        self._bucket.take(now)
        return now
