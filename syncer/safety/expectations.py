"""Writes of the syncer that the caches do not show yet.

Owns one small memory per session. Must not know what was written. Without it, a key that is woken
between a write and its echo would write again from an old state. Hazard: an expectation may only
delay. An echo that never comes expires after `ECHO_TIMEOUT_SECONDS`, and the next write finds out.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, auto

from kubeio import Object
from kubeio.cache.store import Entry
from kubeio.resource_version import parse_revision
from syncer.model.keys import Key

ECHO_TIMEOUT_SECONDS = 5.0
CACHE_BEHIND_SECONDS = 2.0
"""Time in seconds that a key waits while its cache is behind, if no event wakes it before."""
MAX_EARLY_EVENTS = 32
"""Maximum number of events kept for a key in work. No reconcile writes that often, so with this
many some are no echoes.
"""


class ClusterSide(IntEnum):
    """Side of a sync. An integer, because integers hash fast."""

    TENANT = auto()
    SUPER = auto()


class EventOrigin(IntEnum):
    """Origin of an event, compared with the syncer's writes."""

    FOREIGN = 0
    """A change by another writer."""
    OWN = auto()
    """Echo of a write of the syncer, or an earlier event. More may follow."""
    OWN_UNCHANGED = auto()
    """Exact echo of a write that was stored as sent, without a change by another writer between. No
    event follows.
    """


@dataclass(slots=True)
class _ExpectedEvent:
    revision: int
    until: float
    may_vanish: bool
    """The write was a delete, so absence is its echo."""
    is_exact: bool
    """Whether the answer had a resourceVersion. Otherwise any newer version may be the echo."""
    remaining: int = 1
    """Number of own events that are still to come, including this one."""
    must_requeue: bool = False
    """Whether the echo wakes the key. A reconcile waits for it, or it has more news than the
    success of the write.
    """


class Expectations:
    """Echoes that are still to come, by side and key."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        on_write: Callable[[ClusterSide, Key, int], None] = lambda *_: None,
    ) -> None:
        """`on_write` is called with each write and its revision, or 0 if the answer has none."""
        self._clock = clock
        self._on_write = on_write
        self._expected: dict[tuple[ClusterSide, Key], _ExpectedEvent] = {}
        self._early_events: dict[Key, list[tuple[ClusterSide, int]]] = {}

    def expect_update(
        self, side: ClusterSide, key: Key, resource_version: str, *, taken: bool = False
    ) -> None:
        """Remember the version that a write produced.

        `taken`: the answer contains all that was sent.
        """
        revision = parse_revision(resource_version)
        self._expect(side, key, revision, taken=taken)
        self._on_write(side, key, revision)

    def expect_delete(
        self,
        side: ClusterSide,
        key: Key,
        before: Entry,
        resource_version: str = "",
        *,
        taken: bool = False,
    ) -> None:
        """Remember a delete, with the resourceVersion of an object that still has finalizers.

        `taken`: no work is left until its end.
        """
        revision = parse_revision(resource_version)
        self._expect(
            side,
            key,
            revision or parse_revision(before.resource_version) + 1,
            taken=taken,
            may_vanish=True,
            is_exact=bool(revision),
        )
        self._on_write(side, key, 0)

    def expect_any_update(
        self, side: ClusterSide, key: Key, before: Entry, *, taken: bool = False
    ) -> None:
        """Remember a write whose answer had no version. Any newer version is its echo."""
        revision = parse_revision(before.resource_version) + 1
        self._expect(side, key, revision, taken=taken, is_exact=False)
        self._on_write(side, key, 0)

    def _expect(
        self,
        side: ClusterSide,
        key: Key,
        revision: int,
        *,
        taken: bool,
        may_vanish: bool = False,
        is_exact: bool = True,
    ) -> None:
        if not revision:
            return
        before = self._expected.get((side, key))
        if (
            taken
            and before is None
            and self._match_early_event(side, key, revision, is_exact=is_exact)
        ):
            return
        echo = _ExpectedEvent(revision, self._clock() + ECHO_TIMEOUT_SECONDS, may_vanish, is_exact)
        if before is not None:
            echo.remaining += before.remaining
            echo.must_requeue = before.must_requeue
        if not taken:
            echo.must_requeue = True
        self._expected[side, key] = echo

    # Echoes that arrive before the answer.

    def keep_early_event(self, side: ClusterSide, key: Key, entry: Entry) -> None:
        """Keep a foreign event while a key is in work.

        The answer to a write in flight may show that the event was its echo.
        """
        kept = self._early_events.setdefault(key, [])
        if len(kept) < MAX_EARLY_EVENTS:
            kept.append((side, parse_revision(entry.resource_version)))

    def _match_early_event(
        self, side: ClusterSide, key: Key, revision: int, *, is_exact: bool
    ) -> bool:
        """Return True if a kept event is the echo of this write, and remove the event.

        If the answer has no version, a foreign event may be taken for the echo. The real echo then
        comes later and is not expected.
        """
        for found in self._early_events.get(key, ()):
            is_newer = found[1] > revision and not is_exact
            if found[0] is side and (found[1] == revision or is_newer):
                self._early_events[key].remove(found)
                return True
        return False

    def finish_key(self, key: Key) -> bool:
        """Forget the kept events of a key. Returns True if one was no echo."""
        return bool(self._early_events.pop(key, None))

    def observe_event(self, side: ClusterSide, key: Key, entry: Entry | None) -> EventOrigin:
        """Compare an event of a cache with the expected writes. A deletion fulfils all of them.

        A foreign change between two own writes is taken for the first of them. Then one more event
        comes than was expected, and that event is not quiet.
        """
        awaited = self._expected.get((side, key))
        if entry is None and key in self._early_events:
            self._early_events[key] = [
                found for found in self._early_events[key] if found[0] is not side
            ]
        if awaited is None:
            return EventOrigin.FOREIGN
        if entry is None:
            del self._expected[side, key]
            return EventOrigin.OWN if awaited.may_vanish else EventOrigin.FOREIGN
        awaited.remaining -= 1
        revision = parse_revision(entry.resource_version)
        if revision < awaited.revision:
            if awaited.remaining < 1:
                awaited.must_requeue = True
            return EventOrigin.OWN if awaited.must_requeue else EventOrigin.OWN_UNCHANGED
        del self._expected[side, key]
        if awaited.is_exact and revision != awaited.revision:
            return EventOrigin.FOREIGN
        return (
            EventOrigin.OWN
            if awaited.must_requeue or awaited.remaining
            else EventOrigin.OWN_UNCHANGED
        )

    def is_behind(self, side: ClusterSide, key: Key, entry: Entry | None) -> bool:
        """Return True if the cache, which shows `entry`, does not show the last write yet.

        The entry is checked in addition to the events, because an echo may arrive before the
        answer.
        """
        awaited = self._expected.get((side, key))
        if awaited is None:
            return False
        if _is_observed(awaited, entry) or self._clock() >= awaited.until:
            del self._expected[side, key]
            return False
        awaited.must_requeue = True  # the caller waits for the echo
        return True

    def clear(self) -> None:
        """Forget all expectations."""
        self._expected.clear()
        self._early_events.clear()


def _is_observed(awaited: _ExpectedEvent, entry: Entry | None) -> bool:
    if entry is None:
        return awaited.may_vanish
    return parse_revision(entry.resource_version) >= awaited.revision


def read_kept_version(answer: Object) -> str:
    """Return the resourceVersion of an object that its finalizers keep, or an empty string."""
    if answer.get("kind") == "Status":
        return ""
    return str(answer["metadata"].get("resourceVersion") or "")
