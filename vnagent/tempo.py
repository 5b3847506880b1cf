"""When to let bytes gather before they are read; pure.

A kubelet sends each line of a log by itself, and woken for each, the agent would spend fifty times
the work of moving the bytes and take the processor from the kubelet that makes them. Must not know
sockets; times are seconds of any one clock. Hazard: a key that somebody types, the few frames
with which a command begins, and the answers of who is asked one thing after the other must never
wait.
"""

QUICK_SECONDS = 0.002
"""Between two reads that follow each other without a pause."""
QUICK_READS = 8
"""In a row, which nobody types and no handshake makes."""
REST_SECONDS = 0.002
"""Added, at most, to bytes of a stream that has not paused for so many reads."""


class Tempo:
    """Follows the reads of one stream."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._quick = 0

    def read(self, now: float, *, is_all: bool) -> bool:
        """Take in a read, of all there was or not; tell whether to rest before the next."""
        self._quick = self._quick + 1 if now - self._last < QUICK_SECONDS else 0
        self._last = now
        return is_all and self._quick >= QUICK_READS

    def spoke(self) -> None:
        """Take in that the peer was spoken to: who talks in turns makes no flood."""
        self._quick = 0

    def rested(self, now: float) -> None:
        """Take in that a rest is over: what comes right after it came without a pause."""
        self._last = now
