"""What we wrote and the caches have not shown yet.

Owns one small memory per tenant. Must not know what was written. Without it a key that is woken
between a write and its echo would write again from an old picture. Hazard: it only ever delays; an
echo that never comes is given up after `PATIENCE_SECONDS`, and the next write finds out.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, auto

from kubeio.cache.store import Entry
from kubeio.resource_version import revision_of
from syncer.model.keys import Key

PATIENCE_SECONDS = 5.0
BEHIND_SECONDS = 2.0
"""How long a key stands by whose cache is behind, if nothing wakes it before."""
MOST_KEPT = 32
"""Events kept of a key in work: no run writes that often, so with so many some are no echoes."""


class Side(IntEnum):
    """Which of the two clusters; a number, as those are hashed in no time."""

    TENANT = auto()
    SUPER = auto()


class News(IntEnum):
    """What an event says to somebody who knows our writes."""

    FOREIGN = 0
    """Somebody else's change."""
    OURS = auto()
    """Our own, or one that came before it; there may be more behind it."""
    QUIET = auto()
    """Exactly our own, taken as it was sent, with nobody else's in between: nothing follows."""


@dataclass(slots=True)
class _Echo:
    revision: int
    until: float
    may_vanish: bool
    """The write was a delete: absence answers it."""
    is_exact: bool
    """Whether the answer told the version; if not, anything newer may be the echo."""
    owed: int = 1
    """Own events that are still to come, this one with them."""
    wakes: bool = False
    """Whether the echo is waited for, or has more to say than that the write was taken."""


class Expectations:
    """Echoes that are still to come, by side and key."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        answered: Callable[[Side, Key, int], None] = lambda *_: None,
    ) -> None:
        """`answered` hears of each write: its revision, or 0 when it tells none of its own."""
        self._clock = clock
        self._answered = answered
        self._awaited: dict[tuple[Side, Key], _Echo] = {}
        self._early: dict[Key, list[tuple[Side, int]]] = {}

    def wrote(self, side: Side, key: Key, resource_version: str, *, taken: bool = False) -> None:
        """Remember the version that a write produced; `taken`: the answer has all that was sent."""
        revision = revision_of(resource_version)
        self._remember(side, key, revision, taken=taken)
        self._answered(side, key, revision)

    def deleted(
        self,
        side: Side,
        key: Key,
        before: Entry,
        resource_version: str = "",
        *,
        taken: bool = False,
    ) -> None:
        """Remember a delete, with the version of an object that lives on for a while.

        `taken`: there is nothing to do until its end.
        """
        revision = revision_of(resource_version)
        self._remember(
            side,
            key,
            revision or revision_of(before.resource_version) + 1,
            taken=taken,
            may_vanish=True,
            is_exact=bool(revision),
        )
        self._answered(side, key, 0)

    def changed(self, side: Side, key: Key, before: Entry, *, taken: bool = False) -> None:
        """Remember a write whose answer did not tell the version: anything newer will do."""
        revision = revision_of(before.resource_version) + 1
        self._remember(side, key, revision, taken=taken, is_exact=False)
        self._answered(side, key, 0)

    def _remember(
        self,
        side: Side,
        key: Key,
        revision: int,
        *,
        taken: bool,
        may_vanish: bool = False,
        is_exact: bool = True,
    ) -> None:
        if not revision:
            return
        before = self._awaited.get((side, key))
        if taken and before is None and self._came(side, key, revision, is_exact=is_exact):
            return
        echo = _Echo(revision, self._clock() + PATIENCE_SECONDS, may_vanish, is_exact)
        if before is not None:
            echo.owed += before.owed
            echo.wakes = before.wakes
        if not taken:
            echo.wakes = True
        self._awaited[side, key] = echo

    # Echoes that are here before the answer.

    def keep(self, side: Side, key: Key, entry: Entry) -> None:
        """Keep an event of somebody else's for as long as a key is in work.

        The answer to a write that is under way may say that it is the echo of it.
        """
        kept = self._early.setdefault(key, [])
        if len(kept) < MOST_KEPT:
            kept.append((side, revision_of(entry.resource_version)))

    def _came(self, side: Side, key: Key, revision: int, *, is_exact: bool) -> bool:
        """Tell whether an event that was kept is the echo of this write, and keep it no more.

        Where the answer tells no version, one of somebody else's may be taken for the echo, which
        then comes behind it and is owed by nobody.
        """
        for found in self._early.get(key, ()):
            is_newer = found[1] > revision and not is_exact
            if found[0] is side and (found[1] == revision or is_newer):
                self._early[key].remove(found)
                return True
        return False

    def worked_on(self, key: Key) -> bool:
        """Forget the events kept of a key; tells whether one was no echo."""
        return bool(self._early.pop(key, None))

    def seen(self, side: Side, key: Key, entry: Entry | None) -> News:
        """Take in an event of a cache; a deletion answers everything.

        Somebody else's change between two of our writes is taken for the first of them, and then
        one more comes than were owed: that one is not quiet.
        """
        awaited = self._awaited.get((side, key))
        if entry is None and key in self._early:
            self._early[key] = [found for found in self._early[key] if found[0] is not side]
        if awaited is None:
            return News.FOREIGN
        if entry is None:
            del self._awaited[side, key]
            return News.OURS if awaited.may_vanish else News.FOREIGN
        awaited.owed -= 1
        revision = revision_of(entry.resource_version)
        if revision < awaited.revision:
            if awaited.owed < 1:
                awaited.wakes = True
            return News.OURS if awaited.wakes else News.QUIET
        del self._awaited[side, key]
        if awaited.is_exact and revision != awaited.revision:
            return News.FOREIGN
        return News.OURS if awaited.wakes or awaited.owed else News.QUIET

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
        awaited.wakes = True  # whoever asks comes back when it is there
        return True

    def forget(self) -> None:
        """Expect nothing any more."""
        self._awaited.clear()
        self._early.clear()


def _is_shown(awaited: _Echo, entry: Entry | None) -> bool:
    if entry is None:
        return awaited.may_vanish
    return revision_of(entry.resource_version) >= awaited.revision
