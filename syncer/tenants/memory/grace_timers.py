"""Grace periods of objects that no pod needs any longer.

Owns the time since each key is unused. Must not delete. Hazard: the memory must be bounded.
Otherwise a tenant fills it.
"""

from collections import OrderedDict
from collections.abc import Callable

from syncer.model.keys import Key

GRACE_PERIOD_SECONDS = 30.0
"""Grace period in seconds of configuration, tokens and nodes after the last pod that needs them."""
MAX_UNUSED = 16_384


class GraceTimers:
    """The grace periods of one session."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds."""
        self.grace_period_seconds = GRACE_PERIOD_SECONDS
        self._clock = clock
        self._unused_since: OrderedDict[Key, float] = OrderedDict()

    def get_remaining_grace(self, key: Key, seconds: float | None = None) -> float:
        """Return the remaining grace period of an unused object in seconds. 0 or less: delete it.

        The last pod of a rollout or a CronJob often ends a moment before the next one begins.
        `seconds` replaces the usual grace period.
        """
        now = self._clock()
        length = self.grace_period_seconds if seconds is None else seconds
        left = self._unused_since.setdefault(key, now) + length - now
        if left <= 0:
            self._unused_since.pop(key, None)
        elif len(self._unused_since) > MAX_UNUSED:
            self._unused_since.popitem(last=False)  # its period starts again at the next call
        return left

    def clear_unused(self, key: Key) -> None:
        """Forget the period of a needed object. It starts again when the object is unused."""
        self._unused_since.pop(key, None)
