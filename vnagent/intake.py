"""Whether a connection is read from: while somebody wants it, and not while bytes gather.

Owns the pausing of one transport. Must not know what the bytes are. Hazard: two reasons to pause
that undo each other would read into a consumer that has no room.
"""

import asyncio
import time

from vnagent.tempo import REST_SECONDS, Tempo


class Intake:
    """Pauses and resumes the reading of one transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_wanted = True
        self._is_resting = False
        self._tempo = Tempo()

    def want(self, is_wanted: bool) -> None:
        """Stop or go on reading: how a slow reader is felt by the writer."""
        if is_wanted != self._is_wanted and not self._transport.is_closing():
            self._is_wanted = is_wanted
            self._apply()

    def read(self, *, is_all: bool) -> None:
        """Take in that a stream was read from, of all there was or not; rest if it is a flood."""
        if self._tempo.read(time.monotonic(), is_all=is_all) and not self._is_resting:
            self._is_resting = True
            self._apply()
            asyncio.get_running_loop().call_later(REST_SECONDS, self._go_on)

    def spoke(self) -> None:
        """Take in that something was said to the peer, which may answer."""
        self._tempo.spoke()

    def _go_on(self) -> None:
        self._is_resting = False
        self._tempo.rested(time.monotonic())
        self._apply()

    def _apply(self) -> None:
        if self._transport.is_closing():
            return  # which would refuse
        if self._is_wanted and not self._is_resting:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
