"""Relay of bytes between two channels, with back-pressure, ends and deadlines.

The module owns a stream from the moment at which its heads have passed. It must not know HTTP,
tenants or the meaning of the bytes. SPDY, WebSocket and a log are the same here. Hazard: the end of
one direction must not end the other, because a command's input ends long before its output.
Otherwise output is lost. Hazard: a log must end at once when its reader has closed. Otherwise it
would stay open, because a silent container causes no write that fails. A socket that is closed
under a peer that still sends, even a ping, is reset. Data that the kernel had buffered for the peer
is then lost.
"""

import asyncio
import contextlib
from dataclasses import dataclass

from vnagent.stream.graceful_close import part
from vnagent.stream.stream_states import (
    CLOSING_SECONDS,
    PARTING_SECONDS,
    End,
    Event,
    Stage,
    end_of,
)
from vnagent.stream.tls_stream import Channel, ChannelLostError

MOST_UNHEARD_BYTES = 64 * 1024
"""Limit in bytes for data that the caller of a log sends behind its request. No known caller sends
any, so the connection is then closed.
"""
MOST_FAREWELL_BYTES = 4 * 1024
"""Limit in bytes for data that a kubelet may send to a caller that has read everything: frames that
close its streams. A command with less output that breaks off at its very end counts as complete.
"""
_LAST_BYTES_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Deadlines of a stream. The kubelet's own limit is 4 h."""

    idle_seconds: float = 4 * 3600.0
    """Limit in seconds without a byte in either direction."""
    linger_seconds: float = 300.0
    """Limit in seconds without a byte after one direction has ended."""
    total_seconds: float = 48 * 3600.0
    silence_seconds: float = 30.0
    """Limit in seconds without an acknowledgement of sent data. If two checks find it, the machine
    or its network has failed. The second check is needed because a machine that wakes from
    suspension has not received anything either.
    """
    check_seconds: float = 15.0
    """Interval in seconds between two checks of these limits."""


class _Flow:
    """One direction, fed by its source channel as that channel's sink."""

    def __init__(self, pump: "Pump", source: Channel, target: Channel, broken: Event) -> None:
        self.count = 0
        self.dropped = 0
        """Bytes that arrived after the connection of its target had broken."""
        self.ended_at: float | None = None
        """Time at which its source has closed it in order."""
        self.broke_at: float | None = None
        """Time at which the connection of its source has broken."""
        self._pump = pump
        self._source = source
        self._target = target
        self._broken = broken

    def data(self, *chunks: bytes | memoryview) -> None:
        size = sum(map(len, chunks))
        if self._target.is_lost:
            self.dropped += size  # dropped bytes are no progress and must not keep the stream alive
            return
        self.count += size
        self._target.write(*chunks)

    @property
    def has_ended(self) -> bool:
        """Whether the direction has ended in order."""
        return self.ended_at is not None

    def ended(self) -> None:
        self.ended_at = asyncio.get_running_loop().time()
        self._target.finish()
        self._pump.stir()

    def lost(self, error: ChannelLostError) -> None:
        del error
        self._pump.stop(self._broken)
        self.broke_at = asyncio.get_running_loop().time()
        # Reading may be paused for the lost peer, which would hide the end of the target.
        self._target.set_reading(True)
        self._pump.stir()

    def writable(self, is_writable: bool) -> None:
        # The source of this flow is the target of the other, so its reader is slow.
        self._target.set_reading(is_writable)


class _Up(_Flow):
    """The direction to the kubelet of a two-way stream."""

    def lost(self, error: ChannelLostError) -> None:
        if self._source.unsent_bytes:  # the transport drops the unsent bytes in a moment
            self._pump.stop(Event.CALLER_LEFT)
        super().lost(error)


class _Down(_Flow):
    """The direction to the caller."""

    def data(self, *chunks: bytes | memoryview) -> None:
        super().data(*chunks)
        if self.dropped > MOST_FAREWELL_BYTES:
            self._pump.stop(Event.CALLER_LEFT)


class _Watch(_Flow):
    """The direction of a one-way stream in which no data may flow. Only its end matters."""

    _heard = 0

    def data(self, *chunks: bytes | memoryview) -> None:
        """Drop data that a caller sends after its request. The data is no part of the stream."""
        self._heard += sum(map(len, chunks))
        if self._heard > MOST_UNHEARD_BYTES:
            self._pump.stop(self._broken)

    def ended(self) -> None:
        self._pump.stop(self._broken)


class Deaf:
    """Sink for a caller's data while its log is opened, so that the caller's end is seen."""

    def __init__(self, caller: Channel) -> None:
        self._caller = caller
        self._heard = 0

    def data(self, *chunks: bytes | memoryview) -> None:
        """Drop the data, and abort the caller if it sends too much."""
        self._heard += sum(map(len, chunks))
        if self._heard > MOST_UNHEARD_BYTES:
            self._caller.abort()

    def ended(self) -> None:
        """Do nothing, because the waiter for the channel's end handles it."""

    def lost(self, error: ChannelLostError) -> None:
        """Do nothing, because the waiter for the channel's end handles it."""

    def writable(self, is_writable: bool) -> None:
        """Do nothing, because nothing is written yet."""


class Pump:
    """One stream between a caller and the kubelet."""

    def __init__(
        self,
        caller: Channel,
        kubelet: Channel,
        *,
        is_two_way: bool,
        deadlines: Deadlines,
        greeting: bytes = b"",
    ) -> None:
        """Store the channels. `greeting` is sent to the caller before any other data."""
        self._greeting = greeting
        self._caller = caller
        self._kubelet = kubelet
        self._deadlines = deadlines
        self._is_two_way = is_two_way
        if is_two_way:
            self._up: _Flow = _Up(self, caller, kubelet, Event.CALLER_BROKE)
        else:
            self._up = _Watch(self, caller, kubelet, Event.CALLER_LEFT)
        self._down = _Down(self, kubelet, caller, Event.KUBELET_BROKE)
        self._end: End | None = None
        self._silent_since: dict[Channel, float] = {}
        self._stirred = asyncio.Event()

    @property
    def end(self) -> End:
        """The end of the stream. It is meaningful after the stream has ended."""
        return self._end or End.DRAINED

    @property
    def bytes_up(self) -> int:
        """Bytes from the caller to the kubelet."""
        return self._up.count

    @property
    def bytes_down(self) -> int:
        """Bytes from the kubelet to the caller."""
        return self._down.count

    async def run(self) -> End:
        """Move bytes until the stream has ended, and leave both channels closing."""
        loop = asyncio.get_running_loop()
        started = moved_at = loop.time()
        seen = self._progress()
        with self._caller.gathering():
            self._caller.write(self._greeting)
            self._caller.pour_into(self._up)
            self._kubelet.pour_into(self._down)
        try:
            while not await self._has_stopped():
                now = loop.time()
                if self._up.broke_at is not None and now - self._up.broke_at >= PARTING_SECONDS:
                    self.stop(Event.CALLER_LEFT)
                if (progress := self._progress()) != seen:
                    seen, moved_at = progress, now
                if now - started >= self._deadlines.total_seconds:
                    self.stop(Event.GREW_OLD)
                elif now - moved_at >= self._patience():
                    self.stop(Event.WENT_IDLE)
                elif self._is_gone(self._caller, now):
                    self.stop(Event.CALLER_LEFT)
                elif not self._down.has_ended and self._is_gone(self._kubelet, now):
                    self.stop(Event.KUBELET_BROKE)
            if self.end not in (End.COMPLETE, End.CALLER_GONE):
                self._kubelet.abort()
                await part(self._caller, is_whole=False)
        finally:
            self.stop(Event.WAS_CUT)
            self._close()
        return self.end

    def stir(self) -> None:
        """Request a check of the ends soon, because data just written is not sent yet."""
        self._stirred.set()

    def stop(self, event: Event) -> None:
        """Record an event that may end the stream. The first reason stays."""
        if self._end is None:
            self._end = end_of(self._stage(), event)
        if self._end is not None:  # otherwise the check would trigger itself without a pause
            self._stirred.set()

    def _is_gone(self, channel: Channel, now: float) -> bool:
        """Return whether a channel's peer was silent at this check and at an earlier one."""
        if not channel.is_forsaken(self._deadlines.silence_seconds):
            self._silent_since.pop(channel, None)
            return False
        since = self._silent_since.setdefault(channel, now)
        return now - since >= self._deadlines.check_seconds

    async def _has_stopped(self) -> bool:
        """Wait for an interval or a stir. Return whether the stream is over."""
        # While the last bytes are sent to the caller, only a check shows when they are out.
        unsent = self._caller.unsent_bytes or self._kubelet.unsent_bytes
        is_soon = (self._down.has_ended and unsent) or self._up.broke_at is not None
        pause = _LAST_BYTES_SECONDS if is_soon else self._deadlines.check_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(pause, self._deadlines.check_seconds)):
                await self._stirred.wait()
        self._stirred.clear()
        # The stream is complete when no direction is open and all data of both sides is sent.
        up_has_broken = self._up.broke_at is not None
        way_up_is_over = self._up.has_ended or up_has_broken or not self._is_two_way
        has_ended = self._down.has_ended and way_up_is_over
        if has_ended and not (self._caller.unsent_bytes or self._kubelet.unsent_bytes):
            self._end = self._end or End.COMPLETE
        return self._end is not None

    def _stage(self) -> Stage:
        if self._down.has_ended:
            return Stage.SAYING if self._caller.unheard_bytes else Stage.SAID
        if self._up.broke_at is not None:
            return Stage.LEAVING
        if self._up.ended_at is None:
            return Stage.OPEN
        since = asyncio.get_running_loop().time() - self._up.ended_at
        return Stage.CLOSING if since < CLOSING_SECONDS else Stage.HALF_OPEN

    def _patience(self) -> float:
        is_half_open = self._up.has_ended or self._down.has_ended
        return self._deadlines.linger_seconds if is_half_open else self._deadlines.idle_seconds

    def _progress(self) -> tuple[int, ...]:
        waiting = (self._caller.unheard_bytes, self._kubelet.unsent_bytes)
        return (self.bytes_up, self.bytes_down, *waiting)

    def _close(self) -> None:
        # A TLS close marks the data as complete, which only the kubelet knows.
        if self.end is End.COMPLETE and self._down.has_ended:
            self._kubelet.close()
            self._caller.close()
        elif self.end is End.CALLER_GONE:
            # Data that the caller no longer reads would stay for as long as it keeps the socket.
            self._kubelet.abort()
            self._caller.abort()
        else:
            self._kubelet.abort()
            self._caller.cut()
