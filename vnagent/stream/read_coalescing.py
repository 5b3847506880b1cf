"""When to let bytes gather before they are read, and how long; pure.

A kubelet sends each line of a log by itself, and woken for each, the agent would spend fifty times
the work of moving the bytes and take the processor from the kubelet that makes them. A kubelet
whose socket is full piles lines up for far less than it sends them for, so a rest grows until one
read brings enough. Must not know sockets; times are seconds of any one clock. Hazard: a key that
somebody types, the few frames with which a command begins, and the answers of who is asked one
thing after the other must never wait.
"""

QUICK_SECONDS = 0.002
"""Between two reads that follow each other without a pause."""
LATE_SECONDS = 0.008
"""Between the end of a rest and the read after it: our own loop may come late, or the peer."""
QUICK_READS = 8
"""In a row, which nobody types and no handshake makes."""
LEAST_SECONDS = 0.002
"""Of the first rest of a stream that has not paused for so many reads."""
MOST_SECONDS = 0.016
"""Added, at most, to bytes of a flood: what nobody sees, a frame of a screen."""
ENOUGH_BYTES = 32 * 1024
"""In the first read after a rest: a longer rest would gain nothing."""


class Tempo:
    """Follows the reads of one stream."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._quick = 0
        self._rest = LEAST_SECONDS
        self._has_rested = False

    def read(self, now: float, size: int, *, is_all: bool) -> float:
        """Take in a read of some bytes, all there were or not; return how long to rest, if so."""
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
        """Take in that the peer was spoken to, in a rest or not: who talks in turns is no flood."""
        self._quick = 0
        self._has_rested = False

    def rested(self, now: float) -> None:
        """Take in that a rest is over: what comes right after it came without a pause."""
        self._last = now
        self._has_rested = True
