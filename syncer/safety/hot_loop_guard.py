"""Protection against write loops: hot keys are delayed, and a recurring difference is parked.

Owns one count per key and one per difference. Must not know what is written. Without this module, a
controller of the super cluster and the syncer that undo each other's writes would load both API
servers at full speed. Hazard: a tenant may really change an object often, so a key is delayed and
never stopped. Only the futile write is parked, never its key. All of it runs for each write of each
tenant, so no function here may iterate over a whole memory.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import msgspec
import structlog

from syncer.model.keys import Key

WRITES = 30
"""Maximum number of writes of one key on both sides per window."""
WINDOW_SECONDS = 60.0
PAUSE_SECONDS = 10.0
"""Delay in seconds after each further write."""
REPEATS = 5
"""Number of times that the same difference is written before it is parked."""
NEAR_SECONDS = 60.0
"""Time in seconds after which a successful write that is needed again counts as a new occasion."""
PARK_SECONDS = 600.0
"""Time in seconds until a parked difference is tried again."""
_MANY = 4096  # size above which expired entries are dropped
_MOST = 32_768  # size above which the oldest entries are dropped, expired or not

_K = TypeVar("_K")
_V = TypeVar("_V")

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Part(NamedTuple):
    """Subject of one write: side (`super` or `tenant`) and subresource of an object."""

    key: Key
    side: str
    subresource: str = ""


class Outcome(NamedTuple):
    """Result of a write."""

    paths: str
    """Paths that still differ, or that the write contained."""
    taken: bool
    """Whether the server's answer contains what was sent.

    If not, only a different server version or rule can change that.
    """


class _Repeat(msgspec.Struct, gc=False):
    digest: bytes
    count: int
    at: float
    until: float = 0.0
    paths: str = ""


class Fuse:
    """Counts the writes of one session's keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: OrderedDict[Key, tuple[float, int]] = OrderedDict()
        self._paused: OrderedDict[Key, float] = OrderedDict()
        self._repeats: OrderedDict[Part, _Repeat] = OrderedDict()
        self._parts: dict[Key, tuple[Part, ...]] = {}

    def wrote(self, key: Key) -> None:
        """Count a write of a key."""
        now = self._clock()
        began, count = self._windows.get(key, (now, 0))
        if now - began >= WINDOW_SECONDS:
            began, count = now, 0
            self._windows.move_to_end(key)
        self._windows[key] = (began, count + 1)
        if count + 1 > WRITES:
            if key not in self._paused:
                _log.error("key.flaps", writes=count + 1, seconds=WINDOW_SECONDS)
            self._paused[key] = now + PAUSE_SECONDS
            self._paused.move_to_end(key)
        _end(self._windows, lambda window: now - window[0] >= WINDOW_SECONDS)
        _end(self._paused, lambda until: until <= now)

    def pause(self, key: Key) -> float:
        """Return the delay of a key in seconds. 0: no delay."""
        until = self._paused.get(key)
        if until is None:
            return 0.0
        left = until - self._clock()
        if left <= 0:
            del self._paused[key]
            return 0.0
        return left

    # Repeated writes of the same difference.

    def knows(self, part: Part) -> bool:
        """Return True if a part is remembered. Most parts are written once."""
        return part in self._repeats

    def is_parked(self, part: Part, digest: bytes) -> bool:
        """Return True if this write is parked now."""
        found = self._repeats.get(part)
        return found is not None and found.digest == digest and self._clock() < found.until

    def tried(self, part: Part, digest: bytes, outcome: Callable[[], Outcome]) -> bool:
        """Count a write of a difference. Returns True if it is parked from now on.

        `outcome` is called only for a difference that was written before.
        """
        now = self._clock()
        found = self._repeats.get(part)
        if found is None or found.digest != digest:
            self._remember(part, _Repeat(digest, 1, now))
            return False
        paths, taken = outcome()
        if taken and now - found.at > NEAR_SECONDS:
            self._remember(part, _Repeat(digest, 1, now))
            return False
        self._repeats.move_to_end(part)
        found.count, found.at, found.paths = found.count + 1, now, paths
        if found.count < REPEATS:
            return False
        found.until = now + PARK_SECONDS
        return True

    def settled(self, part: Part) -> bool:
        """Record that a part is in sync. Returns True if that ends its being parked."""
        found = self._repeats.get(part)
        if found is None or self._clock() - found.at < NEAR_SECONDS:
            return False  # a rival writer agrees for a moment after each write of the syncer
        del self._repeats[part]
        self._unlist(part)
        return bool(found.until)

    def forget(self, key: Key) -> None:
        """Forget the parts of a key after a tenant's change, so that parked writes are retried."""
        for part in self._parts.pop(key, ()):
            del self._repeats[part]

    def parked(self) -> Mapping[Part, str]:
        """Return the parked writes, each with the paths that differ."""
        now = self._clock()
        return {part: found.paths for part, found in self._repeats.items() if found.until > now}

    def _remember(self, part: Part, repeat: _Repeat) -> None:
        self._repeats[part] = repeat
        self._repeats.move_to_end(part)
        known = self._parts.get(part.key, ())
        if part not in known:
            self._parts[part.key] = (*known, part)
        for gone in _end(self._repeats, lambda found: repeat.at - found.at >= PARK_SECONDS):
            self._unlist(gone)

    def _unlist(self, part: Part) -> None:
        left = tuple(each for each in self._parts.pop(part.key) if each != part)
        if left:
            self._parts[part.key] = left


def _end(memory: OrderedDict[_K, _V], is_over: Callable[[_V], bool]) -> list[_K]:
    """Remove and return the entries that a memory must forget, from the oldest on."""
    gone = []
    while len(memory) > _MANY:
        key, value = next(iter(memory.items()))
        if len(memory) <= _MOST and not is_over(value):
            break
        del memory[key]
        gone.append(key)
    return gone
