"""Read coalescing: when and how long to let bytes gather before a read. Pure.

A kubelet sends each line of a log separately. Without coalescing the agent would spend fifty times
the work of moving the bytes, and it would use the processor that the kubelet needs. A kubelet with
a full socket gathers lines at far lower cost than sending them, so a rest grows until one read
brings enough. The module must not know sockets. Times are seconds of any one clock. Hazard: a typed
key, the first few frames of a command, and answers in a dialogue must never wait. Otherwise
an interactive session feels slow.
"""

QUICK_SECONDS = 0.002
"""Longest interval in seconds between two reads without a pause."""
LATE_SECONDS = 0.008
"""Longest interval in seconds between the end of a rest and the next read. The agent's loop or the
peer may be late.
"""
QUICK_READS = 8
"""Number of quick reads in a row that mark a flood. Neither typing nor a handshake makes as many.
"""
LEAST_SECONDS = 0.002
"""First rest in seconds of a stream that has not paused for so many reads."""
MOST_SECONDS = 0.016
"""Longest rest in seconds, added to bytes of a flood. It is one frame of a screen, which no person
sees.
"""
ENOUGH_BYTES = 32 * 1024
"""Bytes in the first read after a rest that make a longer rest useless."""


class Tempo:
    """State of the reads of one stream."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._quick = 0
        self._rest = LEAST_SECONDS
        self._has_rested = False

    def read(self, now: float, size: int, *, is_all: bool) -> float:
        """Record a read of `size` bytes. Return the seconds to rest, 0 for no rest.

        `is_all` means that the read took all available bytes.
        """
        has_rested, self._has_rested = self._has_rested, False
        if now - self._last >= (LATE_SECONDS if has_rested else QUICK_SECONDS):
            self._quick, self._rest = 0, LEAST_SECONDS
        else:
            self._quick += 1
            if has_rested:
                factor = 2.0 if size < ENOUGH_BYTES else 0.5
                self._rest = min(max(self._rest * factor, LEAST_SECONDS), MOST_SECONDS)
        self._last = now
        return self._rest if is_all and self._quick >= QUICK_READS else 0.0

    def spoke(self) -> None:
        """Record a write to the peer, in a rest or not. A dialogue is no flood."""
        self._quick = 0
        self._has_rested = False

    def rested(self, now: float) -> None:
        """Record the end of a rest. A read right after it counts as one without a pause."""
        self._last = now
        self._has_rested = True
