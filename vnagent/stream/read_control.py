"""Flow control of reads: a transport is paused without a consumer or while bytes gather.

The module owns the pausing of one transport. It must not know the meaning of the bytes. Hazard:
neither of the two reasons to pause may undo the other. Otherwise the transport reads into a
consumer without room.
"""

import asyncio
import time

from vnagent.stream.read_coalescing import ReadCoalescer


class ReadControl:
    """Read control of one transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_wanted = True
        self._rest_timer: asyncio.TimerHandle | None = None
        self._coalescer = ReadCoalescer()

    @property
    def is_wanted(self) -> bool:
        """Whether the consumer has room for data."""
        return self._is_wanted

    def set_wanted(self, is_wanted: bool) -> None:
        """Pause or resume reading, which passes back-pressure of a slow reader to the writer."""
        if is_wanted != self._is_wanted and not self._transport.is_closing():
            self._is_wanted = is_wanted
            self._apply()

    def record_read(self, size: int, *, is_all: bool) -> None:
        """Record a read of `size` bytes, of all available ones or not. Rest if it is a flood."""
        rest = self._coalescer.record_read(time.monotonic(), size, is_all=is_all)
        if rest and self._rest_timer is None:
            self._rest_timer = asyncio.get_running_loop().call_later(rest, self._end_rest)
            self._apply()

    def record_write(self) -> None:
        """Record a write to the peer. Its answer must not wait."""
        self._coalescer.record_write()
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._resume()

    def _end_rest(self) -> None:
        self._coalescer.record_rest_end(time.monotonic())
        self._resume()

    def _resume(self) -> None:
        self._rest_timer = None
        self._apply()

    def _apply(self) -> None:
        if self._transport.is_closing():
            return  # a closing transport would refuse
        if self._is_wanted and self._rest_timer is None:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
