"""A key that is written again and again is slowed down.

Owns one count per key. Must not know what is written. Two that put the same object back and forth,
a controller of the super cluster and us, would otherwise load both API servers as fast as they
answer. Hazard: a tenant may really change an object that often, so a key is slowed and never
stopped.
"""

import time
from collections.abc import Callable

import structlog

from syncer.keys import Key

WRITES = 30
"""Writes, on either side, that one key may make in a window."""
WINDOW_SECONDS = 60.0
PAUSE_SECONDS = 10.0
"""How long a key waits after each further write."""
_MANY = 4096  # keys remembered before the old ones are swept

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Fuse:
    """Counts the writes of one tenant's keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[Key, tuple[float, int]] = {}
        self._paused: dict[Key, float] = {}

    def wrote(self, key: Key) -> None:
        """Count a write."""
        now = self._clock()
        began, count = self._windows.get(key, (now, 0))
        if now - began >= WINDOW_SECONDS:
            began, count = now, 0
        self._windows[key] = (began, count + 1)
        if count + 1 > WRITES:
            if key not in self._paused:
                _log.error("key.flaps", writes=count + 1, seconds=WINDOW_SECONDS)
            self._paused[key] = now + PAUSE_SECONDS
        if len(self._windows) > _MANY:
            self._sweep(now)

    def pause(self, key: Key) -> float:
        """Return how long a key has to wait; 0: it may go on."""
        until = self._paused.get(key)
        if until is None:
            return 0.0
        left = until - self._clock()
        if left <= 0:
            del self._paused[key]
            return 0.0
        return left

    def _sweep(self, now: float) -> None:
        self._windows = {
            key: window for key, window in self._windows.items() if now - window[0] < WINDOW_SECONDS
        }
