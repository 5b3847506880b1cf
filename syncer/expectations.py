"""What we wrote and the caches have not shown yet.

Owns one small memory per tenant. Must not know what was written. Without it a key that is woken
between a write and its echo would write again from an old picture. Hazard: it only ever delays; an
echo that never comes is given up after `PATIENCE_SECONDS`, and the next write finds out.
"""

import time
from collections.abc import Callable
from enum import Enum, auto

from kubeio.store import Entry
from syncer.keys import Key

PATIENCE_SECONDS = 10.0


class Side(Enum):
    """Which of the two clusters."""

    TENANT = auto()
    SUPER = auto()


def revision_of(resource_version: str) -> int:
    """Return a resourceVersion as the number it is; 0 for servers that use something else."""
    return int(resource_version) if resource_version.isascii() and resource_version.isdigit() else 0


class Expectations:
    """Echoes that are still to come, by side and key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._awaited: dict[tuple[Side, Key], tuple[int, float]] = {}

    def wrote(self, side: Side, key: Key, resource_version: str) -> None:
        """Remember the version that a write produced."""
        self._remember(side, key, revision_of(resource_version))

    def changed(self, side: Side, key: Key, before: Entry | None) -> None:
        """Remember a write whose answer did not tell the version: anything newer will do."""
        self._remember(side, key, revision_of(before.resource_version) + 1 if before else 1)

    def _remember(self, side: Side, key: Key, revision: int) -> None:
        if revision:
            self._awaited[side, key] = (revision, self._clock() + PATIENCE_SECONDS)

    def seen(self, side: Side, key: Key, entry: Entry | None) -> None:
        """Take in what a cache shows now; a deletion answers everything."""
        awaited = self._awaited.get((side, key))
        if awaited is None:
            return
        if entry is None or revision_of(entry.resource_version) >= awaited[0]:
            del self._awaited[side, key]

    def is_behind(self, side: Side, key: Key) -> bool:
        """Tell whether the cache has not shown our last write yet."""
        awaited = self._awaited.get((side, key))
        if awaited is None:
            return False
        if self._clock() < awaited[1]:
            return True
        del self._awaited[side, key]
        return False

    def forget(self) -> None:
        """Expect nothing any more."""
        self._awaited.clear()
