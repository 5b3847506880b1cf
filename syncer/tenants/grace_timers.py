"""Grace periods of objects that no pod needs any longer.

Owns since when each key is not needed. Must not delete. Hazard: the memory must be bounded.
Otherwise a tenant fills it.
"""

from collections import OrderedDict
from collections.abc import Callable

from syncer.model.keys import Key

LINGER_SECONDS = 30.0
"""How long configuration, tokens and nodes are kept after the last pod that needs them."""
MAX_UNUSED = 16_384


class GraceTimers:
    """The grace periods of one session."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """No period runs; `clock` returns seconds."""
        self.linger_seconds = LINGER_SECONDS
        self._clock = clock
        self._unused: OrderedDict[Key, float] = OrderedDict()

    def left_to_linger(self, key: Key, seconds: float | None = None) -> float:
        """Return how long something that nobody needs any more is kept; 0 or less: it may go.

        The last pod of a rollout or a CronJob goes a moment before the next one comes. `seconds`
        stands for another time than the usual one.
        """
        now = self._clock()
        length = self.linger_seconds if seconds is None else seconds
        left = self._unused.setdefault(key, now) + length - now
        if left <= 0:
            self._unused.pop(key, None)
        elif len(self._unused) > MAX_UNUSED:
            self._unused.popitem(last=False)  # it lingers anew when it is looked at
        return left

    def needed(self, key: Key) -> None:
        """Take note that something is needed: its lingering starts anew when it is not."""
        self._unused.pop(key, None)
