"""What we wrote and the caches have not shown yet.

Owns one small memory per tenant. Must not know what was written. Without it a key that is woken
between a write and its echo would write again from an old picture. Hazard: it only ever delays; an
echo that never comes is given up after `PATIENCE_SECONDS`, and the next write finds out.
"""

import time
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from kubeio.store import Entry
from syncer.keys import Key

PATIENCE_SECONDS = 5.0
_MAX_DIGITS = 19  # of 64 bits; a tenant may say anything, and Python refuses to read endless ones


class Side(Enum):
    """Which of the two clusters."""

    TENANT = auto()
    SUPER = auto()


def revision_of(resource_version: str) -> int:
    """Return a resourceVersion as the number it is; 0 for servers that use something else."""
    text = resource_version
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else 0


class _Echo(NamedTuple):
    revision: int
    until: float
    may_vanish: bool
    """The write was a delete: absence answers it."""


class Expectations:
    """Echoes that are still to come, by side and key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._awaited: dict[tuple[Side, Key], _Echo] = {}

    def wrote(self, side: Side, key: Key, resource_version: str) -> None:
        """Remember the version that a write produced."""
        self._remember(side, key, revision_of(resource_version))

    def deleted(self, side: Side, key: Key, before: Entry, resource_version: str = "") -> None:
        """Remember a delete, with the version of an object that lives on for a while."""
        revision = revision_of(resource_version) or revision_of(before.resource_version) + 1
        self._remember(side, key, revision, may_vanish=True)

    def changed(self, side: Side, key: Key, before: Entry) -> None:
        """Remember a write whose answer did not tell the version: anything newer will do."""
        self._remember(side, key, revision_of(before.resource_version) + 1)

    def _remember(self, side: Side, key: Key, revision: int, *, may_vanish: bool = False) -> None:
        if revision:
            until = self._clock() + PATIENCE_SECONDS
            self._awaited[side, key] = _Echo(revision, until, may_vanish)

    def seen(self, side: Side, key: Key, entry: Entry | None) -> None:
        """Take in an event of a cache; a deletion answers everything."""
        awaited = self._awaited.get((side, key))
        if awaited is not None and (entry is None or _is_shown(awaited, entry)):
            del self._awaited[side, key]

    def is_behind(self, side: Side, key: Key, entry: Entry | None) -> bool:
        """Tell whether the cache, which shows `entry`, has yet to show our last write.

        The entry is asked as well as the events: an echo may arrive before the answer.
        """
        awaited = self._awaited.get((side, key))
        if awaited is None:
            return False
        if _is_shown(awaited, entry) or self._clock() >= awaited.until:
            del self._awaited[side, key]
            return False
        return True

    def forget(self) -> None:
        """Expect nothing any more."""
        self._awaited.clear()


def _is_shown(awaited: _Echo, entry: Entry | None) -> bool:
    if entry is None:
        return awaited.may_vanish
    return revision_of(entry.resource_version) >= awaited.revision
