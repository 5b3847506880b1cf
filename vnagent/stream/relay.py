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

from vnagent.stream.graceful_close import close_after_read
from vnagent.stream.stream_states import (
    CLOSE_ANSWER_SECONDS,
    EXIT_CODE_SECONDS,
    StreamEnd,
    StreamEvent,
    StreamStage,
    decide_end,
)
from vnagent.stream.tls_stream import StreamLostError, TlsStream

MAX_DROPPED_CALLER_BYTES = 64 * 1024
"""Limit in bytes for data that the caller of a log sends behind its request. No known caller sends
any, so the connection is then closed.
"""
MAX_CLOSING_KUBELET_BYTES = 4 * 1024
"""Limit in bytes for data that a kubelet may send to a caller that has read everything: frames that
close its streams. A command with less output that breaks off at its very end counts as complete.
"""
_LAST_BYTES_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayDeadlines:
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


class _RelayDirection:
    """One direction, fed by its source channel as that channel's sink."""

    def __init__(
        self, relay: "StreamRelay", source: TlsStream, target: TlsStream, broken: StreamEvent
    ) -> None:
        self.count = 0
        self.dropped = 0
        """Bytes that arrived after the connection of its target had broken."""
        self.ended_at: float | None = None
        """Time at which its source has closed it in order."""
        self.broke_at: float | None = None
        """Time at which the connection of its source has broken."""
        self._relay = relay
        self._source = source
        self._target = target
        self._broken = broken

    def handle_data(self, *chunks: bytes | memoryview) -> None:
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

    def handle_end(self) -> None:
        self.ended_at = asyncio.get_running_loop().time()
        self._target.close_write()
        self._relay.wake()

    def handle_lost(self, error: StreamLostError) -> None:
        del error
        self._relay.handle_event(self._broken)
        self.broke_at = asyncio.get_running_loop().time()
        # Reading may be paused for the lost peer, which would hide the end of the target.
        self._target.set_reading(True)
        self._relay.wake()

    def set_writable(self, is_writable: bool) -> None:
        # The source of this flow is the target of the other, so its reader is slow.
        self._target.set_reading(is_writable)


class _ToKubelet(_RelayDirection):
    """The direction to the kubelet of a two-way stream."""

    def handle_lost(self, error: StreamLostError) -> None:
        if self._source.unsent_bytes:  # the transport drops the unsent bytes in a moment
            self._relay.handle_event(StreamEvent.CALLER_LEFT)
        super().handle_lost(error)


class _ToCaller(_RelayDirection):
    """The direction to the caller."""

    def handle_data(self, *chunks: bytes | memoryview) -> None:
        super().handle_data(*chunks)
        if self.dropped > MAX_CLOSING_KUBELET_BYTES:
            self._relay.handle_event(StreamEvent.CALLER_LEFT)


class _EndDetector(_RelayDirection):
    """The direction of a one-way stream in which no data may flow. Only its end matters."""

    _dropped_bytes = 0

    def handle_data(self, *chunks: bytes | memoryview) -> None:
        """Drop data that a caller sends after its request. The data is no part of the stream."""
        self._dropped_bytes += sum(map(len, chunks))
        if self._dropped_bytes > MAX_DROPPED_CALLER_BYTES:
            self._relay.handle_event(self._broken)

    def handle_end(self) -> None:
        self._relay.handle_event(self._broken)


class DiscardingSink:
    """Sink for a caller's data while its log is opened, so that the caller's end is seen."""

    def __init__(self, caller: TlsStream) -> None:
        self._caller = caller
        self._dropped_bytes = 0

    def handle_data(self, *chunks: bytes | memoryview) -> None:
        """Drop the data, and abort the caller if it sends too much."""
        self._dropped_bytes += sum(map(len, chunks))
        if self._dropped_bytes > MAX_DROPPED_CALLER_BYTES:
            self._caller.abort()

    def handle_end(self) -> None:
        """Do nothing, because the waiter for the channel's end handles it."""

    def handle_lost(self, error: StreamLostError) -> None:
        """Do nothing, because the waiter for the channel's end handles it."""

    def set_writable(self, is_writable: bool) -> None:
        """Do nothing, because nothing is written yet."""


class StreamRelay:
    """One stream between a caller and the kubelet."""

    def __init__(
        self,
        caller: TlsStream,
        kubelet: TlsStream,
        *,
        is_two_way: bool,
        deadlines: RelayDeadlines,
        first_bytes: bytes = b"",
    ) -> None:
        """Store the channels. `first_bytes` is sent to the caller before any other data."""
        self._first_bytes = first_bytes
        self._caller = caller
        self._kubelet = kubelet
        self._deadlines = deadlines
        self._is_two_way = is_two_way
        if is_two_way:
            self._up: _RelayDirection = _ToKubelet(self, caller, kubelet, StreamEvent.CALLER_BROKE)
        else:
            self._up = _EndDetector(self, caller, kubelet, StreamEvent.CALLER_LEFT)
        self._down = _ToCaller(self, kubelet, caller, StreamEvent.KUBELET_BROKE)
        self._end: StreamEnd | None = None
        self._silent_since: dict[TlsStream, float] = {}
        self._wake_event = asyncio.Event()

    @property
    def end(self) -> StreamEnd:
        """The end of the stream. It is meaningful after the stream has ended."""
        return self._end or StreamEnd.DRAINED

    @property
    def bytes_up(self) -> int:
        """Bytes from the caller to the kubelet."""
        return self._up.count

    @property
    def bytes_down(self) -> int:
        """Bytes from the kubelet to the caller."""
        return self._down.count

    async def run(self) -> StreamEnd:
        """Move bytes until the stream has ended, and leave both channels closing."""
        loop = asyncio.get_running_loop()
        started = moved_at = loop.time()
        seen = self._get_progress()
        with self._caller.cork():
            self._caller.write(self._first_bytes)
            self._caller.attach_sink(self._up)
            self._kubelet.attach_sink(self._down)
        try:
            while not await self._wait_for_change():
                now = loop.time()
                if self._up.broke_at is not None and now - self._up.broke_at >= EXIT_CODE_SECONDS:
                    self.handle_event(StreamEvent.CALLER_LEFT)
                if (progress := self._get_progress()) != seen:
                    seen, moved_at = progress, now
                if now - started >= self._deadlines.total_seconds:
                    self.handle_event(StreamEvent.MAX_AGE_REACHED)
                elif now - moved_at >= self._get_wait():
                    self.handle_event(StreamEvent.WENT_IDLE)
                elif self._is_peer_silent(self._caller, now):
                    self.handle_event(StreamEvent.CALLER_LEFT)
                elif not self._down.has_ended and self._is_peer_silent(self._kubelet, now):
                    self.handle_event(StreamEvent.KUBELET_BROKE)
            if self.end not in (StreamEnd.COMPLETE, StreamEnd.CALLER_GONE):
                self._kubelet.abort()
                await close_after_read(self._caller, is_whole=False)
        finally:
            self.handle_event(StreamEvent.WAS_CUT)
            self._close_channels()
        return self.end

    def wake(self) -> None:
        """Request a check of the ends soon, because data just written is not sent yet."""
        self._wake_event.set()

    def handle_event(self, event: StreamEvent) -> None:
        """Record an event that may end the stream. The first reason stays."""
        if self._end is None:
            self._end = decide_end(self._get_stage(), event)
        if self._end is not None:  # otherwise the check would trigger itself without a pause
            self._wake_event.set()

    def _is_peer_silent(self, channel: TlsStream, now: float) -> bool:
        """Return whether a channel's peer was silent at this check and at an earlier one."""
        if not channel.is_peer_silent(self._deadlines.silence_seconds):
            self._silent_since.pop(channel, None)
            return False
        since = self._silent_since.setdefault(channel, now)
        return now - since >= self._deadlines.check_seconds

    async def _wait_for_change(self) -> bool:
        """Wait for an interval or a stir. Return whether the stream is over."""
        # While the last bytes are sent to the caller, only a check shows when they are out.
        unsent = self._caller.unsent_bytes or self._kubelet.unsent_bytes
        is_soon = (self._down.has_ended and unsent) or self._up.broke_at is not None
        pause = _LAST_BYTES_SECONDS if is_soon else self._deadlines.check_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(pause, self._deadlines.check_seconds)):
                await self._wake_event.wait()
        self._wake_event.clear()
        # The stream is complete when no direction is open and all data of both sides is sent.
        up_has_broken = self._up.broke_at is not None
        way_up_is_over = self._up.has_ended or up_has_broken or not self._is_two_way
        has_ended = self._down.has_ended and way_up_is_over
        if has_ended and not (self._caller.unsent_bytes or self._kubelet.unsent_bytes):
            self._end = self._end or StreamEnd.COMPLETE
        return self._end is not None

    def _get_stage(self) -> StreamStage:
        if self._down.has_ended:
            return (
                StreamStage.KUBELET_ENDING
                if self._caller.unacknowledged_bytes
                else StreamStage.KUBELET_ENDED
            )
        if self._up.broke_at is not None:
            return StreamStage.CALLER_BROKEN
        if self._up.ended_at is None:
            return StreamStage.OPEN
        since = asyncio.get_running_loop().time() - self._up.ended_at
        return StreamStage.CLOSING if since < CLOSE_ANSWER_SECONDS else StreamStage.HALF_OPEN

    def _get_wait(self) -> float:
        is_half_open = self._up.has_ended or self._down.has_ended
        return self._deadlines.linger_seconds if is_half_open else self._deadlines.idle_seconds

    def _get_progress(self) -> tuple[int, ...]:
        waiting = (self._caller.unacknowledged_bytes, self._kubelet.unsent_bytes)
        return (self.bytes_up, self.bytes_down, *waiting)

    def _close_channels(self) -> None:
        # A TLS close marks the data as complete, which only the kubelet knows.
        if self.end is StreamEnd.COMPLETE and self._down.has_ended:
            self._kubelet.close()
            self._caller.close()
        elif self.end is StreamEnd.CALLER_GONE:
            # Data that the caller no longer reads would stay for as long as it keeps the socket.
            self._kubelet.abort()
            self._caller.abort()
        else:
            self._kubelet.abort()
            self._caller.break_connection()
