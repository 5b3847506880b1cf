"""Growth of an agent's memory with each open stream.

Owns the kinds of streams. Each kind has its own agent, because memory freed by an earlier kind
would hide the use of a later one. Hazard: resident memory must be read as the process's own. The
kernel's socket buffers of a stalled stream are not in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bench.agents.endpoints import ApiEntry
from bench.agents.execs import opened
from bench.agents.open_streams import POD
from bench.agents.stage import TICKER, AgentStage
from bench.programs import process_usage
from tests.support import node_objects

RESOLUTION_MIB = 1.0
"""The interpreter takes its memory by as much: a growth of less may be any part of it."""
WARM_STREAMS = 2
"""Number of streams before the measurement. The code and data loaded by them are not a stream's."""
STALLED_BUFFER = 64 * 1024
"""Receive buffer in bytes of a caller that stops to read. The kernel would take megabytes for
each."""
_TICKER = "ticker"
_REST_SECONDS = 2.0
_STILL_CPU_S = 0.02
"""Used in a rest by an agent whose streams stand still."""
_FLOOD = 32 * 1024 * 1024
"""Bytes of a log that flows: more than all buffers on the way take."""


@dataclass(frozen=True, slots=True)
class StreamKind:
    """The request, the first answer, and whether the caller continues to read."""

    method: str
    """Empty for a command."""
    target: str
    first: bytes
    reads_on: bool = True


async def memory(
    stage: AgentStage, *, follows: int, commands: int, stalled: int
) -> dict[str, dict[str, float]]:
    """Return by how much an agent grows with each open stream, in KiB of resident memory."""
    # Not before: what starts processes is beside all that is timed.
    stage.place(node_objects.pod(_TICKER, TICKER))
    flood = stage.write_log("log-flood", _FLOOD, 16 * 1024)
    door = stage.agent
    waits = door.execs(POD, "sh", "-c", "echo ready; cat", input=1, output=1)
    silent = StreamKind("GET", door.logs(POD, follow="true"), b"ready")
    ticks = StreamKind("GET", door.logs(_TICKER, follow="true"), b"tick")
    flows = StreamKind("GET", door.logs(flood), b"xxxx", reads_on=False)
    return {
        "a log without news": await _held(stage, silent, follows),
        "a log with five lines a second": await _held(stage, ticks, follows),
        "a log that flows, and is not read": await _held(stage, flows, stalled),
        "a command that waits for input": await _held(
            stage, StreamKind("", waits, b"ready"), commands
        ),
    }


async def _held(stage: AgentStage, kind: StreamKind, count: int) -> dict[str, float]:
    """Open streams, wait for the first bytes of each, and see what the agent holds for them."""
    context = stage.agent.context()
    async with stage.another() as (door, pid):
        async with contextlib.AsyncExitStack() as warm:
            for _ in range(WARM_STREAMS):
                await warm.enter_async_context(_stream(door, context, kind))
        await asyncio.sleep(_REST_SECONDS)
        before = process_usage.memory(pid).rss
        async with contextlib.AsyncExitStack() as streams:
            for _ in range(count):
                await streams.enter_async_context(_stream(door, context, kind))
            await _until_still(pid, kind)
            after = process_usage.memory(pid).rss
        await asyncio.sleep(_REST_SECONDS)
        return {
            "streams": count,
            "before_mib": before,
            "open_mib": after,
            "closed_mib": process_usage.memory(pid).rss,
            "kib_each": (after - before) * 1024 / count,
            "resolution_kib": RESOLUTION_MIB * 1024 / count,
        }


async def _until_still(pid: int, kind: StreamKind) -> None:
    """Wait until no data flows to stalled callers. For other callers, wait a while."""
    used = process_usage.cpu_seconds(pid)
    while True:
        await asyncio.sleep(_REST_SECONDS)
        before, used = used, process_usage.cpu_seconds(pid)
        if kind.reads_on or used - before <= _STILL_CPU_S:
            return


@contextlib.asynccontextmanager
async def _stream(door: ApiEntry, context: ssl.SSLContext, kind: StreamKind) -> AsyncIterator[None]:
    """Keep one stream open from its first bytes on. Data of a stream that is read is dropped."""
    if kind.method:
        plain = socket.socket()
        if not kind.reads_on:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STALLED_BUFFER)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, (door.host, door.port))
        reader, writer = await asyncio.open_connection(
            sock=plain, ssl=context, server_hostname=door.host
        )
        writer.write(f"{kind.method} {kind.target} HTTP/1.1\r\nHost: {door.host}\r\n\r\n".encode())
    else:
        reader, writer = await opened(door, context, kind.target)
    await reader.readuntil(kind.first)

    async def drop() -> None:
        while await reader.read(64 * 1024):
            pass

    # A reader without a consumer stops its transport by itself.
    dropping = asyncio.ensure_future(drop()) if kind.reads_on else None
    try:
        yield
    finally:
        if dropping is not None:
            dropping.cancel()
        writer.transport.abort()
