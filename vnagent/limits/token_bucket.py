"""How often something may be done: some at once, then one at a time. Pure.

Must not know clocks; times are seconds of any one clock. Hazard: looking must not count as doing,
or whoever asks and leaves would use up what others wait for.
"""

from collections import defaultdict


class Bucket:
    """Holds `burst` turns and gets one back each `seconds`."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._slack = (burst - 1) * seconds
        self._seconds = seconds
        self._due = float("-inf")
        """When all turns would be there if none had ever been taken before their time."""

    def pause(self, now: float) -> float:
        """Return the seconds until there is a turn, at least 0."""
        return max(0.0, self._due - self._slack - now)

    def take(self, now: float, turns: int = 1) -> None:
        """Use turns, which have to come again before there is a next one."""
        self._due = max(self._due, now) + turns * self._seconds

    def is_full(self, now: float) -> bool:
        """Tell whether all turns are there."""
        return self._due <= now


class Buckets:
    """One bucket for each tenant that has used one lately."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._found: defaultdict[str, Bucket] = defaultdict(lambda: Bucket(burst, seconds))

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._found)

    def take(self, key: str, now: float) -> bool:
        """Use a turn of one tenant; tell whether it had one."""
        for full in [key for key, bucket in self._found.items() if bucket.is_full(now)]:
            del self._found[full]
        bucket = self._found[key]
        if bucket.pause(now):
            return False
        bucket.take(now)
        return True

    def owe(self, key: str, now: float, turns: int) -> None:
        """Use turns of one tenant that have to come before its next one is."""
        self._found[key].take(now, turns)
