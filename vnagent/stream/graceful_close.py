"""Orderly close of a connection after its answer.

Hazard: a connection must stay open until the caller has read the answer. Otherwise the kernel drops
the answer if the caller still sends. The caller may also drop data that it has not passed on,
because an API server stops reading when its writes fail.
"""

import asyncio
import contextlib

from vnagent.stream.tls_stream import StreamLostError, TlsStream

CLOSE_SECONDS = 2.0


async def close_after_read(channel: TlsStream, *, is_whole: bool = True) -> None:
    """Close after the caller has read all data, or 2 s. Without `is_whole` the answer was cut."""
    with contextlib.suppress(StreamLostError, TimeoutError):
        if is_whole:
            channel.close_write()
        else:
            channel.break_write()
        async with asyncio.timeout(CLOSE_SECONDS):
            while await channel.read():
                pass
    channel.close()
