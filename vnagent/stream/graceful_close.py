"""How the agent parts from a caller that it has answered.

Hazard: closing at once on a caller that still sends would make the kernel drop the answer, or a
caller of its own drop what it has not passed on: an API server whose writing breaks reads no more.
"""

import asyncio
import contextlib

from vnagent.stream.tls_stream import Channel, ChannelLostError

PATIENCE_SECONDS = 2.0


async def part(channel: Channel, *, is_whole: bool = True) -> None:
    """Close, but not before the caller has read what it was written; that was all, or a break."""
    with contextlib.suppress(ChannelLostError, TimeoutError):
        if is_whole:
            channel.finish()
        else:
            channel.break_off()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await channel.read():
                pass
    channel.close()
