"""Measurement of the event loop's lateness, the extra delay of all work on it.

Owns one timer. Knows nothing of the causes.

Hazard: the metric must not be used to find single short stalls. It measures once a second and is
likely to miss them, but it shows loops that are often late.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from telemetry import metrics

PERIOD_SECONDS = 1.0
"""Interval of measurements in seconds."""


@contextlib.asynccontextmanager
async def measure_lag(period: float = PERIOD_SECONDS) -> AsyncIterator[None]:
    """Measure the running loop while the block runs."""
    task = asyncio.ensure_future(_measure_forever(period))
    try:
        yield
    finally:
        task.cancel()


async def _measure_forever(period: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + period
        await asyncio.sleep(period)
        metrics.LOOP_LAG.observe(max(0.0, loop.time() - due))
