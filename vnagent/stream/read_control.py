"""Flow control of reads: a transport is paused without a consumer or while bytes gather.

The module owns the pausing of one transport. It must not know the meaning of the bytes. Hazard:
neither of the two reasons to pause may undo the other. Otherwise the transport reads into a
consumer without room.
"""

import asyncio
import time

from vnagent.stream.read_coalescing import Tempo


class Intake:
    """Read control of one transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_wanted = True
        self._rest: asyncio.TimerHandle | None = None
        self._tempo = Tempo()

    @property
    def is_wanted(self) -> bool:
        """Whether the consumer has room for data."""
        return self._is_wanted

    def want(self, is_wanted: bool) -> None:
        """Pause or resume reading, which passes back-pressure of a slow reader to the writer."""
        if is_wanted != self._is_wanted and not self._transport.is_closing():
            self._is_wanted = is_wanted
            self._apply()

    def read(self, size: int, *, is_all: bool) -> None:
        """Record a read of `size` bytes, of all available ones or not. Rest if it is a flood."""
        rest = self._tempo.read(time.monotonic(), size, is_all=is_all)
        if rest and self._rest is None:
            self._rest = asyncio.get_running_loop().call_later(rest, self._is_over)
            self._apply()

    def spoke(self) -> None:
        """Record a write to the peer. Its answer must not wait."""
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
            return  # a closing transport would refuse
        if self._is_wanted and self._rest is None:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
