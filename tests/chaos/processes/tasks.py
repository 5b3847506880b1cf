"""Tasks that work for the length of a block, and end with it.

Owns their end. Hazard: what they use has to be opened before them, or it is closed under them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def ended() -> AsyncIterator[asyncio.TaskGroup]:
    """Give a group whose tasks are cancelled at the end of the block."""
    done = asyncio.Event()

    async def end(group: asyncio.TaskGroup) -> None:
        await done.wait()
        raise _BlockEndedError

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(end(group))
            try:
                yield group
            finally:
                done.set()
    except* _BlockEndedError:
        pass


class _BlockEndedError(Exception):
    """The block has ended, and so do its tasks."""
