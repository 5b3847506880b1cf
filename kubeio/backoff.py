"""Exponential delays with jitter and a ceiling, without an end.

Pure except for the random number.
"""

import random
from collections.abc import Callable


def compute_delay(
    failures: int, *, base: float, ceiling: float, chance: Callable[[], float]
) -> float:
    """Return the delay in seconds after this many failures: doubled each time, at most `ceiling`.

    The result is between half and all of it, so that simultaneous failures are not retried
    together.
    """
    # After days of failures 2**63 and more would overflow a float.
    grown = min(base * 2.0 ** min(failures, 62), ceiling)
    return grown * (0.5 + 0.5 * chance())


class Backoff:
    """Failure counter of one operation."""

    def __init__(
        self, *, base: float, ceiling: float, chance: Callable[[], float] = random.random
    ) -> None:
        """Start without failures."""
        self._base = base
        self._ceiling = ceiling
        self._chance = chance
        self._failures = 0

    def next(self) -> float:
        """Count a failure and return the delay in seconds."""
        found = compute_delay(
            self._failures, base=self._base, ceiling=self._ceiling, chance=self._chance
        )
        self._failures += 1
        return found

    def reset(self) -> None:
        """Reset the count. Call this after progress, not after a mere attempt."""
        self._failures = 0
