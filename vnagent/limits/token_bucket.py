"""Token buckets: a burst of turns, then one turn at a time. Pure.

The module must not know clocks. Times are seconds of any one clock. Hazard: a check must not use a
turn. Otherwise callers that check and leave would use up the turns of waiting callers.
"""

from collections import defaultdict


class TokenBucket:
    """Bucket of `burst` turns that regains one each `seconds`."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._slack = (burst - 1) * seconds
        self._seconds = seconds
        self._next_free_at = float("-inf")
        """Time at which all turns are available again if no further turn is used."""

    def get_wait(self, now: float) -> float:
        """Return the seconds until there is a turn, at least 0."""
        return max(0.0, self._next_free_at - self._slack - now)

    def take(self, now: float, turns: int = 1) -> None:
        """Use turns, which must return before the next one is available."""
        self._next_free_at = max(self._next_free_at, now) + turns * self._seconds

    def is_full(self, now: float) -> bool:
        """Return whether all turns are available."""
        return self._next_free_at <= now


class TenantBuckets:
    """One bucket for each tenant that has used one lately."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._buckets: defaultdict[str, TokenBucket] = defaultdict(
            lambda: TokenBucket(burst, seconds)
        )

    def __len__(self) -> int:
        """Return the number of buckets in memory."""
        return len(self._buckets)

    def take(self, key: str, now: float) -> bool:
        """Use a turn of one tenant. Return whether it had one."""
        for full in [key for key, bucket in self._buckets.items() if bucket.is_full(now)]:
            del self._buckets[full]
        bucket = self._buckets[key]
        if bucket.get_wait(now):
            return False
        bucket.take(now)
        return True

    def charge(self, key: str, now: float, turns: int) -> None:
        """Use turns of one tenant, which must return before its next turn."""
        self._buckets[key].take(now, turns)
