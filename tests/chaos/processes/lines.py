"""Faults in the lines of one watch: each function gets a line and returns the lines to send.

Owns the faults of open watches. `faults` chooses the fault of each watch.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.chaos.processes.relay import WatchRelay


async def late(relay: WatchRelay, line: bytes, *, seconds: float) -> None:
    """It comes later."""
    await asyncio.sleep(min(seconds, 0.2))
    await relay.say(line)


async def torn(relay: WatchRelay, line: bytes, *, at: int) -> None:
    """The connection breaks in the middle of a line."""
    if relay.lines != at:
        await relay.say(line)
        return
    await relay.say(line[: len(line) // 2], ended=False)
    await asyncio.sleep(0.01)
    relay.cut()


async def garbled(relay: WatchRelay, line: bytes, *, at: int) -> None:
    """One line is half of itself."""
    await relay.say(line[: len(line) // 2] if relay.lines == at else line)


async def swallowed(relay: WatchRelay, line: bytes, *, after: int) -> None:
    """After some nothing comes any longer, and no one is told."""
    relay.is_silent |= relay.lines > after
    await relay.say(line)


async def dripped(relay: WatchRelay, line: bytes, *, seconds: float) -> None:
    """It comes in pieces."""
    size = max(1, len(line) // 4)
    for at in range(0, len(line), size):
        await relay.say(line[at : at + size], ended=False)
        await asyncio.sleep(min(seconds, 0.5) / 4)
    await relay.say(b"")


async def expired(relay: WatchRelay, line: bytes, *, at: int) -> None:
    """In place of one it is said that the watch is too old."""
    if relay.lines != at:
        await relay.say(line)
        return
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "injected: too old"}
    await relay.say(json.dumps({"type": "ERROR", "object": status}).encode())
    await relay.end()
    relay.is_silent = True


async def rolled_back(relay: WatchRelay, line: bytes, *, at: int, behind: int) -> None:
    """After one the server says that it stands where it stood long ago."""
    await relay.say(line)
    if relay.lines != at:
        return
    found: dict[str, Any] = json.loads(line)
    body = found["object"]
    told = str((body.get("metadata") or {}).get("resourceVersion", ""))
    if told.isdigit():
        metadata = {"resourceVersion": str(max(1, int(told) - behind))}
        mark = {"kind": body.get("kind"), "apiVersion": body.get("apiVersion")}
        bookmark = {"type": "BOOKMARK", "object": {**mark, "metadata": metadata}}
        await relay.say(json.dumps(bookmark).encode())
