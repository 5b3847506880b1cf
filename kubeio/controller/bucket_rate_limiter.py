"""Rate limiter by a token bucket, which delays keys of a group that takes too much per second.

Owns the tokens and the delays. Knows nothing of what a token stands for.

Hazard: a bucket must outlive the state of its group. Otherwise a group that makes its state start
again gets another burst.
"""

import math
import time
from collections.abc import Callable

import structlog

from kubeio.controller.worker import NotReadyYet

MAX_DELAY_SECONDS = 60.0
"""Longest delay in seconds of a key. Then it tries again."""
_LOG_SECONDS = 60.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class BucketRateLimiter:
    """Tokens of one group. A caller passes while any are left, however many it takes."""

    def __init__(
        self, per_second: float, burst: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with `burst` tokens. `per_second` must be positive."""
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._filled_at = clock()
        self._waits_until = 0.0
        """Time at which the last waiting key tries again."""
        self._logged_at = -math.inf

    def take(self, count: int) -> None:
        """Take tokens. Raises NotReadyYet if none are left.

        Waiting keys try again one after another.
        """
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        if self._tokens > 0:
            self._tokens -= count
            return
        due = max(self._waits_until, now - self._tokens / self._per_second)
        self._waits_until = min(due + count / self._per_second, now + MAX_DELAY_SECONDS)
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            _log.warning("rate.exceeded", per_second=self._per_second, burst=self._burst)
        # Zero would mean that the key is not delayed.
        raise NotReadyYet("the rate of the tokens is exceeded", max(due - now, 0.001))
