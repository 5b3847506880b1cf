"""Run a reflector, or anything else that runs until it is cancelled, for the length of a block."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def following(runs: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Cancel it at the end. Its own errors are raised."""
    task = asyncio.ensure_future(runs)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
