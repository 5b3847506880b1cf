"""How late the event loop rings: what everybody on it waits for, besides their own work.

Owns one timer. Knows nothing of what holds the loop up. Hazard: it looks once a second, so a single
stall shorter than that is likely to be missed; the histogram tells of loops that are late often.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from telemetry import metrics

PERIOD = 1.0
"""Seconds between two looks."""


@contextlib.asynccontextmanager
async def measured(period: float = PERIOD) -> AsyncIterator[None]:
    """Measure the running loop for as long as the block runs."""
    task = asyncio.ensure_future(_measure(period))
    try:
        yield
    finally:
        task.cancel()


async def _measure(period: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + period
        await asyncio.sleep(period)
        metrics.LOOP_LATENESS.observe(max(0.0, loop.time() - due))
