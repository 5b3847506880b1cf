"""Exponential delays with jitter and a ceiling, and no end; pure but for chance."""

import random
from collections.abc import Callable


def delay(failures: int, *, base: float, ceiling: float, chance: Callable[[], float]) -> float:
    """Return the delay after this many earlier failures: doubling, at most `ceiling`.

    Between half and the whole of it, so that many who failed together do not return together.
    """
    # 2**63 and more would be a float of its own kind of trouble after days of failing.
    grown = min(base * 2.0 ** min(failures, 62), ceiling)
    return grown * (0.5 + 0.5 * chance())


class Backoff:
    """Counts the failures of one thing."""

    def __init__(
        self, *, base: float, ceiling: float, chance: Callable[[], float] = random.random
    ) -> None:
        """Start without failures."""
        self._base = base
        self._ceiling = ceiling
        self._chance = chance
        self._failures = 0

    def next(self) -> float:
        """Count a failure and return how long to wait."""
        found = delay(self._failures, base=self._base, ceiling=self._ceiling, chance=self._chance)
        self._failures += 1
        return found

    def reset(self) -> None:
        """Call after progress, not after a mere attempt."""
        self._failures = 0
