"""Commands in containers by WebSocket, as a tenant's API server asks an agent for them.

Owns one command from the connection to its exit, with the moments in between, and the few bits of
RFC 6455 for that. A command that is refused or fails raises.
"""

import asyncio
import base64
import json
import os
import ssl
import time
from typing import NamedTuple

from bench.agents.endpoints import ApiEntry

PROTOCOL = "v5.channel.k8s.io"
_BINARY, _CLOSE = 2, 8
_OUTPUT, _ERROR = 1, 3
_SECONDS = 60.0


class ExecError(Exception):
    """A command did not start, or failed. The message has the details."""


class ExecTimes(NamedTuple):
    """Seconds from before the connection was made, or from the request on one that stood."""

    switched: float
    """Time at which the server accepted the call."""
    first: float | None
    """Time of the command's first byte. None without output."""
    exited: float
    """Time at which the exit status was received."""

    def later_than(self, other: "ExecTimes") -> "ExecTimes":
        """Return by how much each moment is later than that of another command."""
        first = None if self.first is None or other.first is None else self.first - other.first
        return ExecTimes(self.switched - other.switched, first, self.exited - other.exited)


class WebSocketFrames:
    """Takes a server's bytes and gives its frames."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Add bytes. Returns the kind and the content of each complete frame."""
        self._waiting += data
        found: list[tuple[int, bytes]] = []
        while (size := _size(self._waiting)) is not None:
            start, end = size
            if len(self._waiting) < end:
                break
            found.append((self._waiting[0] & 0x0F, bytes(self._waiting[start:end])))
            del self._waiting[:end]
        return found


def _size(data: bytearray) -> tuple[int, int] | None:
    """Return the start and end of the first frame's content. None if it is incomplete."""
    if len(data) < 2:
        return None
    length, start = data[1], 2  # servers do not mask
    extended = {126: 2, 127: 8}.get(length, 0)
    if len(data) < start + extended:
        return None
    if extended:
        length = int.from_bytes(data[start : start + extended])
    return start + extended, start + extended + length


def request(door: ApiEntry, target: str) -> bytes:
    """Return the head that asks for a WebSocket."""
    return (
        f"GET {target} HTTP/1.1\r\nHost: {door.host}:{door.port}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
    ).encode()


async def opened(
    door: ApiEntry, context: ssl.SSLContext, target: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a stream that has switched protocols. Raises ExecError, OSError."""
    reader, writer = await _connected(door, context)
    try:
        await _asked(door, target, reader, writer)
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _connected(
    door: ApiEntry, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        door.host, door.port, ssl=context, server_hostname=door.host
    )


async def _asked(
    door: ApiEntry, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(request(door, target))
    await _switch(reader)


async def _switch(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if head[9:12] != b"101":
        told = head + await reader.read(1000)
        raise ExecError(f"the command was not taken: {told.decode(errors='replace')}")


async def run(
    door: ApiEntry, context: ssl.SSLContext, target: str, *, ahead_seconds: float = 0.0
) -> ExecTimes:
    """Run a command to its end. Raises ExecError, OSError, TimeoutError.

    With `ahead_seconds`, the connection is opened that long before, and is not in the times.
    """
    begun = time.perf_counter()
    async with asyncio.timeout(_SECONDS):
        reader, writer = await _connected(door, context)
        try:
            if ahead_seconds:
                await asyncio.sleep(ahead_seconds)
                begun = time.perf_counter()
            await _asked(door, target, reader, writer)
            switched = time.perf_counter() - begun
            first, exited = await _follow(reader, begun)
        finally:
            writer.transport.abort()
    return ExecTimes(switched, first, exited)


async def _follow(reader: asyncio.StreamReader, begun: float) -> tuple[float | None, float]:
    frames, first = WebSocketFrames(), None
    while data := await reader.read(64 * 1024):
        now = time.perf_counter() - begun
        for kind, content in frames.feed(data):
            # The first frame of a channel is empty and shows that the channel exists.
            if kind == _BINARY and content[:1] == bytes([_OUTPUT]) and len(content) > 1:
                first = first or now
            elif kind == _BINARY and content[:1] == bytes([_ERROR]) and len(content) > 1:
                _check(content[1:])
                return first, now
            elif kind == _CLOSE:
                raise ExecError("the command's stream was closed before its status")
    raise ExecError("the command's stream ended before the command's status")


def _check(status: bytes) -> None:
    told = json.loads(status)
    if told.get("status") != "Success":
        raise ExecError(f"the command failed: {told.get('message')}")
