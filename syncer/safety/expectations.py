"""Writes of the syncer that the caches do not show yet.

Owns one small memory per session. Must not know what was written. Without it, a key that is woken
between a write and its echo would write again from an old state. Hazard: an expectation may only
delay. An echo that never comes expires after `PATIENCE_SECONDS`, and the next write finds out.
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
"""Time in seconds that a key waits while its cache is behind, if no event wakes it before."""
MOST_KEPT = 32
"""Maximum number of events kept for a key in work. No reconcile writes that often, so with this
many some are no echoes.
"""


class Side(IntEnum):
    """Side of a sync. An integer, because integers hash fast."""

    TENANT = auto()
    SUPER = auto()


class News(IntEnum):
    """Origin of an event, compared with the syncer's writes."""

    FOREIGN = 0
    """A change by another writer."""
    OURS = auto()
    """Echo of a write of the syncer, or an earlier event. More may follow."""
    QUIET = auto()
    """Exact echo of a write that was stored as sent, without a change by another writer between. No
    event follows.
    """


@dataclass(slots=True)
class _Echo:
    revision: int
    until: float
    may_vanish: bool
    """The write was a delete, so absence is its echo."""
    is_exact: bool
    """Whether the answer had a resourceVersion. Otherwise any newer version may be the echo."""
    owed: int = 1
    """Number of own events that are still to come, including this one."""
    wakes: bool = False
    """Whether the echo wakes the key. A reconcile waits for it, or it has more news than the
    success of the write.
    """


class Expectations:
    """Echoes that are still to come, by side and key."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        answered: Callable[[Side, Key, int], None] = lambda *_: None,
    ) -> None:
        """`answered` is called with each write and its revision, or 0 if the answer has none."""
        self._clock = clock
        self._answered = answered
        self._awaited: dict[tuple[Side, Key], _Echo] = {}
        self._early: dict[Key, list[tuple[Side, int]]] = {}

    def wrote(self, side: Side, key: Key, resource_version: str, *, taken: bool = False) -> None:
        """Remember the version that a write produced.

        `taken`: the answer contains all that was sent.
        """
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
        """Remember a delete, with the resourceVersion of an object that still has finalizers.

        `taken`: no work is left until its end.
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
        """Remember a write whose answer had no version. Any newer version is its echo."""
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

    # Echoes that arrive before the answer.

    def keep(self, side: Side, key: Key, entry: Entry) -> None:
        """Keep a foreign event while a key is in work.

        The answer to a write in flight may show that the event was its echo.
        """
        kept = self._early.setdefault(key, [])
        if len(kept) < MOST_KEPT:
            kept.append((side, revision_of(entry.resource_version)))

    def _came(self, side: Side, key: Key, revision: int, *, is_exact: bool) -> bool:
        """Return True if a kept event is the echo of this write, and remove the event.

        If the answer has no version, a foreign event may be taken for the echo. The real echo then
        comes later and is not expected.
        """
        for found in self._early.get(key, ()):
            is_newer = found[1] > revision and not is_exact
            if found[0] is side and (found[1] == revision or is_newer):
                self._early[key].remove(found)
                return True
        return False

    def worked_on(self, key: Key) -> bool:
        """Forget the kept events of a key. Returns True if one was no echo."""
        return bool(self._early.pop(key, None))

    def seen(self, side: Side, key: Key, entry: Entry | None) -> News:
        """Compare an event of a cache with the expected writes. A deletion fulfils all of them.

        A foreign change between two own writes is taken for the first of them. Then one more event
        comes than was expected, and that event is not quiet.
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
        """Return True if the cache, which shows `entry`, does not show the last write yet.

        The entry is checked in addition to the events, because an echo may arrive before the
        answer.
        """
        awaited = self._awaited.get((side, key))
        if awaited is None:
            return False
        if _is_shown(awaited, entry) or self._clock() >= awaited.until:
            del self._awaited[side, key]
            return False
        awaited.wakes = True  # the caller waits for the echo
        return True

    def forget(self) -> None:
        """Forget all expectations."""
        self._awaited.clear()
        self._early.clear()


def _is_shown(awaited: _Echo, entry: Entry | None) -> bool:
    if entry is None:
        return awaited.may_vanish
    return revision_of(entry.resource_version) >= awaited.revision
