"""One watch on its way to its client. The one that holds it may cut it, hold it up or garble it.

Owns what becomes of the lines of an open watch. Must not know why. Hazard: a line goes on as a
whole, or what is held and put into another order would be no lines any longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.chaos.processes import http

ReorderFunction = Callable[[list[bytes]], Sequence[bytes]]
RelayFunction = Callable[["WatchRelay", bytes], Awaitable[None]]
"""What is done with a line in place of passing it on."""


class WatchRelay:
    """An open watch."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.is_open = True
        self.is_silent = False
        """Whether nothing is passed on any longer, and no one is told."""
        self.lines = 0
        """How many came."""
        self.treat: RelayFunction | None = None
        self._writer = writer
        self._rest = b""
        self._held: list[bytes] | None = None

    async def hear(self, content: bytes) -> None:
        """Take in what the server says."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            if not line:
                continue
            self.lines += 1
            if self._held is not None:
                self._held.append(line)
            elif self.treat is not None:
                await self.treat(self, line)
            else:
                await self.say(line)

    async def say(self, line: bytes, *, ended: bool = True) -> None:
        """Pass a line on, or a part of one."""
        if self.is_open and not self.is_silent:
            self._writer.write(http.chunk(line + b"\n" if ended else line))
            await self._writer.drain()

    async def end(self) -> None:
        """End it as a server does whose time for it is up."""
        if self.is_open and not self.is_silent:
            self._writer.write(http.LAST)
            await self._writer.drain()

    def hold(self) -> None:
        """Keep what comes from the client until `release`."""
        if self._held is None:
            self._held = []

    async def release(self, order: ReorderFunction = list) -> None:
        """Let what was kept go on, in whatever order is said."""
        held, self._held = self._held, None
        for line in order([line + b"\n" for line in held or ()]):
            await self.say(line.rstrip(b"\n"))

    def cut(self) -> None:
        """Break the connection in the middle."""
        self.is_open = False
        self._writer.transport.abort()
