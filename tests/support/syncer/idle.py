"""Turns of the event loop until the tasks of a test have nothing left to do at this moment."""

import asyncio

_TURNS = 200
"""More than any chain of tasks here has links: nothing in it waits for a socket or for time."""


async def idle() -> None:
    """Let every task run as far as it comes without the time passing."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
