"""Token buckets: a burst of turns, then one turn at a time. Pure.

The module must not know clocks. Times are seconds of any one clock. Hazard: a check must not use a
turn. Otherwise callers that check and leave would use up the turns of waiting callers.
"""

from collections import defaultdict


class Bucket:
    """Bucket of `burst` turns that regains one each `seconds`."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._slack = (burst - 1) * seconds
        self._seconds = seconds
        self._due = float("-inf")
        """Time at which all turns are available again if no further turn is used."""

    def pause(self, now: float) -> float:
        """Return the seconds until there is a turn, at least 0."""
        return max(0.0, self._due - self._slack - now)

    def take(self, now: float, turns: int = 1) -> None:
        """Use turns, which must return before the next one is available."""
        self._due = max(self._due, now) + turns * self._seconds

    def is_full(self, now: float) -> bool:
        """Return whether all turns are available."""
        return self._due <= now


class Buckets:
    """One bucket for each tenant that has used one lately."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._found: defaultdict[str, Bucket] = defaultdict(lambda: Bucket(burst, seconds))

    def __len__(self) -> int:
        """Return the number of buckets in memory."""
        return len(self._found)

    def take(self, key: str, now: float) -> bool:
        """Use a turn of one tenant. Return whether it had one."""
        for full in [key for key, bucket in self._found.items() if bucket.is_full(now)]:
            del self._found[full]
        bucket = self._found[key]
        if bucket.pause(now):
            return False
        bucket.take(now)
        return True

    def owe(self, key: str, now: float, turns: int) -> None:
        """Use turns of one tenant, which must return before its next turn."""
        self._found[key].take(now, turns)
