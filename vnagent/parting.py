"""How the agent parts from a caller that it has answered.

Hazard: closing at once on a caller that still sends would make the kernel drop the answer.
"""

import asyncio
import contextlib

from vnagent.channel import Channel, ChannelLostError

PATIENCE_SECONDS = 2.0


async def part(channel: Channel) -> None:
    """Close, but not before the caller has read what it was written."""
    with contextlib.suppress(ChannelLostError, TimeoutError):
        channel.finish()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await channel.read():
                pass
    channel.close()
