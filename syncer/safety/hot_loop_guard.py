"""A key that is written again and again is slowed down; a difference that comes back is parked.

Owns one count per key, and one per difference. Must not know what is written. Two that put the same
object back and forth, a controller of the super cluster and us, would otherwise load both API
servers as fast as they answer. Hazard: a tenant may really change an object that often, so a key is
slowed and never stopped; and what is parked is the one write that leads nowhere, never its key. And
all of it runs for each write of each tenant, so nothing here goes through everything.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import msgspec
import structlog

from syncer.model.keys import Key

WRITES = 30
"""Writes, on either side, that one key may make in a window."""
WINDOW_SECONDS = 60.0
PAUSE_SECONDS = 10.0
"""How long a key waits after each further write."""
REPEATS = 5
"""Times that the same difference is written before it is parked."""
NEAR_SECONDS = 60.0
"""A write that was taken and is needed again later than this is another occasion."""
PARK_SECONDS = 600.0
"""How long a parked difference is left before it is tried once more."""
_MANY = 4096  # entries of a memory beyond which those that do not count any more go
_MOST = 32_768  # entries beyond which the oldest go, whatever they say

_K = TypeVar("_K")
_V = TypeVar("_V")

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Part(NamedTuple):
    """What of an object one write is about: `super` or `tenant`, and the subresource."""

    key: Key
    side: str
    subresource: str = ""


class Outcome(NamedTuple):
    """What came of a write."""

    paths: str
    """What differs still, or what the write was about."""
    taken: bool
    """Whether the server's answer has what was sent.

    If it has not, nothing but another version or another rule of the server will ever change that.
    """


class _Repeat(msgspec.Struct, gc=False):
    digest: bytes
    count: int
    at: float
    until: float = 0.0
    paths: str = ""


class Fuse:
    """Counts the writes of one tenant's keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: OrderedDict[Key, tuple[float, int]] = OrderedDict()
        self._paused: OrderedDict[Key, float] = OrderedDict()
        self._repeats: OrderedDict[Part, _Repeat] = OrderedDict()
        self._parts: dict[Key, tuple[Part, ...]] = {}

    def wrote(self, key: Key) -> None:
        """Count a write."""
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
        """Return how long a key has to wait; 0: it may go on."""
        until = self._paused.get(key)
        if until is None:
            return 0.0
        left = until - self._clock()
        if left <= 0:
            del self._paused[key]
            return 0.0
        return left

    # The same difference again and again.

    def knows(self, part: Part) -> bool:
        """Tell whether anything is remembered of a part; most are written once."""
        return part in self._repeats

    def is_parked(self, part: Part, digest: bytes) -> bool:
        """Tell whether this very write is left alone for now."""
        found = self._repeats.get(part)
        return found is not None and found.digest == digest and self._clock() < found.until

    def tried(self, part: Part, digest: bytes, outcome: Callable[[], Outcome]) -> bool:
        """Count a write of a difference; tells whether it is parked from now on.

        What came of it is asked only of one that was written before.
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
        """Take note that a part is in step; tells whether that ended its being parked."""
        found = self._repeats.get(part)
        if found is None or self._clock() - found.at < NEAR_SECONDS:
            return False  # whoever fights us agrees for a moment after each of our writes
        del self._repeats[part]
        self._unlist(part)
        return bool(found.until)

    def forget(self, key: Key) -> None:
        """Its tenant has changed the object: whatever was parked is tried anew."""
        for part in self._parts.pop(key, ()):
            del self._repeats[part]

    def parked(self) -> Mapping[Part, str]:
        """Return what is parked, each with the paths that differ."""
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
    """Take away, and return, what a memory is to forget; the oldest stand in front."""
    gone = []
    while len(memory) > _MANY:
        key, value = next(iter(memory.items()))
        if len(memory) <= _MOST and not is_over(value):
            break
        del memory[key]
        gone.append(key)
    return gone
