"""Whether a connection is read from: while somebody wants it, and not while bytes gather.

Owns the pausing of one transport. Must not know what the bytes are. Hazard: two reasons to pause
that undo each other would read into a consumer that has no room.
"""

import asyncio
import time

from vnagent.stream.read_coalescing import Tempo


class Intake:
    """Pauses and resumes the reading of one transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_wanted = True
        self._rest: asyncio.TimerHandle | None = None
        self._tempo = Tempo()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody has room for what is read."""
        return self._is_wanted

    def want(self, is_wanted: bool) -> None:
        """Stop or go on reading: how a slow reader is felt by the writer."""
        if is_wanted != self._is_wanted and not self._transport.is_closing():
            self._is_wanted = is_wanted
            self._apply()

    def read(self, size: int, *, is_all: bool) -> None:
        """Take in a read of some bytes, of all there were or not; rest if it is a flood."""
        rest = self._tempo.read(time.monotonic(), size, is_all=is_all)
        if rest and self._rest is None:
            self._rest = asyncio.get_running_loop().call_later(rest, self._is_over)
            self._apply()

    def spoke(self) -> None:
        """Take in that something was said to the peer, whose answer must not wait."""
        self._tempo.spoke()
        if self._rest is not None:
            self._rest.cancel()
            self._go_on()

    def _is_over(self) -> None:
        self._tempo.rested(time.monotonic())
        self._go_on()

    def _go_on(self) -> None:
        self._rest = None
        self._apply()

    def _apply(self) -> None:
        if self._transport.is_closing():
            return  # which would refuse
        if self._is_wanted and self._rest is None:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
