"""Read coalescing: when and how long to let bytes gather before a read. Pure.

A kubelet sends each line of a log separately. Without coalescing the agent would spend fifty times
the work of moving the bytes, and it would use the processor that the kubelet needs. A kubelet with
a full socket gathers lines at far lower cost than sending them, so a rest grows until one read
brings enough. The module must not know sockets. Times are seconds of any one clock. Hazard: a typed
key, the first few frames of a command, and answers in a dialogue must never wait. Otherwise
an interactive session feels slow.
"""

MAX_FLOOD_GAP_SECONDS = 0.002
"""Longest interval in seconds between two reads without a pause."""
MAX_GAP_AFTER_REST_SECONDS = 0.008
"""Longest interval in seconds between the end of a rest and the next read. The agent's loop or the
peer may be late.
"""
MIN_FLOOD_READS = 8
"""Number of quick reads in a row that mark a flood. Neither typing nor a handshake makes as many.
"""
MIN_REST_SECONDS = 0.002
"""First rest in seconds of a stream that has not paused for so many reads."""
MAX_REST_SECONDS = 0.016
"""Longest rest in seconds, added to bytes of a flood. It is one frame of a screen, which no person
sees.
"""
FULL_READ_BYTES = 32 * 1024
"""Bytes in the first read after a rest that make a longer rest useless."""


class ReadCoalescer:
    """State of the reads of one stream."""

    def __init__(self) -> None:
        self._last_read_at = float("-inf")
        self._quick_reads = 0
        self._rest = MIN_REST_SECONDS
        self._has_rested = False

    def record_read(self, now: float, size: int, *, is_all: bool) -> float:
        """Record a read of `size` bytes. Return the seconds to rest, 0 for no rest.

        `is_all` means that the read took all available bytes.
        """
        has_rested, self._has_rested = self._has_rested, False
        if now - self._last_read_at >= (
            MAX_GAP_AFTER_REST_SECONDS if has_rested else MAX_FLOOD_GAP_SECONDS
        ):
            self._quick_reads, self._rest = 0, MIN_REST_SECONDS
        else:
            self._quick_reads += 1
            if has_rested:
                factor = 2.0 if size < FULL_READ_BYTES else 0.5
                self._rest = min(max(self._rest * factor, MIN_REST_SECONDS), MAX_REST_SECONDS)
        self._last_read_at = now
        return self._rest if is_all and self._quick_reads >= MIN_FLOOD_READS else 0.0

    def record_write(self) -> None:
        """Record a write to the peer, in a rest or not. A dialogue is no flood."""
        self._quick_reads = 0
        self._has_rested = False

    def record_rest_end(self, now: float) -> None:
        """Record the end of a rest. A read right after it counts as one without a pause."""
        self._last_read_at = now
        self._has_rested = True
