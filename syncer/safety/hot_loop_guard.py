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

WRITES_PER_WINDOW = 30
"""Maximum number of writes of one key on both sides per window."""
WINDOW_SECONDS = 60.0
PAUSE_SECONDS = 10.0
"""Delay in seconds after each further write."""
REPEATS_TO_PARK = 5
"""Number of times that the same difference is written before it is parked."""
REPEAT_WINDOW_SECONDS = 60.0
"""Time in seconds after which a successful write that is needed again counts as a new occasion."""
PARK_SECONDS = 600.0
"""Time in seconds until a parked difference is tried again."""
_MAX_WINDOWS = 4096  # size above which expired entries are dropped
_MAX_REPEATS = 32_768  # size above which the oldest entries are dropped, expired or not

_K = TypeVar("_K")
_V = TypeVar("_V")

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class WriteScope(NamedTuple):
    """Subject of one write: side (`super` or `tenant`) and subresource of an object."""

    key: Key
    side: str
    subresource: str = ""


class WriteOutcome(NamedTuple):
    """Result of a write."""

    paths: str
    """Paths that still differ, or that the write contained."""
    is_accepted: bool
    """Whether the server's answer contains what was sent.

    If not, only a different server version or rule can change that.
    """


class _RepeatedWrite(msgspec.Struct, gc=False):
    digest: bytes
    count: int
    written_at: float
    parked_until: float = 0.0
    paths: str = ""


class HotLoopGuard:
    """Counts the writes of one session's keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._write_times: OrderedDict[Key, tuple[float, int]] = OrderedDict()
        self._paused: OrderedDict[Key, float] = OrderedDict()
        self._repeats: OrderedDict[WriteScope, _RepeatedWrite] = OrderedDict()
        self._scopes_by_key: dict[Key, tuple[WriteScope, ...]] = {}

    def count_write(self, key: Key) -> None:
        """Count a write of a key."""
        now = self._clock()
        began, count = self._write_times.get(key, (now, 0))
        if now - began >= WINDOW_SECONDS:
            began, count = now, 0
            self._write_times.move_to_end(key)
        self._write_times[key] = (began, count + 1)
        if count + 1 > WRITES_PER_WINDOW:
            if key not in self._paused:
                _log.error("key.hot_loop", writes=count + 1, seconds=WINDOW_SECONDS)
            self._paused[key] = now + PAUSE_SECONDS
            self._paused.move_to_end(key)
        _pop_expired(self._write_times, lambda window: now - window[0] >= WINDOW_SECONDS)
        _pop_expired(self._paused, lambda until: until <= now)

    def get_pause(self, key: Key) -> float:
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

    def has_history(self, part: WriteScope) -> bool:
        """Return True if a part is remembered. Most parts are written once."""
        return part in self._repeats

    def is_parked(self, part: WriteScope, digest: bytes) -> bool:
        """Return True if this write is parked now."""
        found = self._repeats.get(part)
        return found is not None and found.digest == digest and self._clock() < found.parked_until

    def count_attempt(
        self, part: WriteScope, digest: bytes, outcome: Callable[[], WriteOutcome]
    ) -> bool:
        """Count a write of a difference. Returns True if it is parked from now on.

        `outcome` is called only for a difference that was written before.
        """
        now = self._clock()
        found = self._repeats.get(part)
        if found is None or found.digest != digest:
            self._store_repeat(part, _RepeatedWrite(digest, 1, now))
            return False
        paths, taken = outcome()
        if taken and now - found.written_at > REPEAT_WINDOW_SECONDS:
            self._store_repeat(part, _RepeatedWrite(digest, 1, now))
            return False
        self._repeats.move_to_end(part)
        found.count, found.written_at, found.paths = found.count + 1, now, paths
        if found.count < REPEATS_TO_PARK:
            return False
        found.parked_until = now + PARK_SECONDS
        return True

    def clear_if_converged(self, part: WriteScope) -> bool:
        """Record that a part is in sync. Returns True if that ends its being parked."""
        found = self._repeats.get(part)
        if found is None or self._clock() - found.written_at < REPEAT_WINDOW_SECONDS:
            return False  # a rival writer agrees for a moment after each write of the syncer
        del self._repeats[part]
        self._remove_scope(part)
        return bool(found.parked_until)

    def forget_key(self, key: Key) -> None:
        """Forget the parts of a key after a tenant's change, so that parked writes are retried."""
        for part in self._scopes_by_key.pop(key, ()):
            del self._repeats[part]

    def list_parked(self) -> Mapping[WriteScope, str]:
        """Return the parked writes, each with the paths that differ."""
        now = self._clock()
        return {
            part: found.paths for part, found in self._repeats.items() if found.parked_until > now
        }

    def _store_repeat(self, part: WriteScope, repeat: _RepeatedWrite) -> None:
        self._repeats[part] = repeat
        self._repeats.move_to_end(part)
        known = self._scopes_by_key.get(part.key, ())
        if part not in known:
            self._scopes_by_key[part.key] = (*known, part)
        for gone in _pop_expired(
            self._repeats, lambda found: repeat.written_at - found.written_at >= PARK_SECONDS
        ):
            self._remove_scope(gone)

    def _remove_scope(self, part: WriteScope) -> None:
        left = tuple(each for each in self._scopes_by_key.pop(part.key) if each != part)
        if left:
            self._scopes_by_key[part.key] = left


def _pop_expired(memory: OrderedDict[_K, _V], is_over: Callable[[_V], bool]) -> list[_K]:
    """Remove and return the entries that a memory must forget, from the oldest on."""
    gone = []
    while len(memory) > _MAX_WINDOWS:
        key, value = next(iter(memory.items()))
        if len(memory) <= _MAX_REPEATS and not is_over(value):
            break
        del memory[key]
        gone.append(key)
    return gone
