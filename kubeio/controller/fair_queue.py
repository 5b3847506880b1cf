"""Which key is worked on next: each once, never by two workers, groups in turn.

Owns dedup, delays, backoff and fairness: groups have their turns in rounds, and one that was idle
may catch up on some, so that what it needs now and then does not wait for those who always want
something. Knows nothing of what a key means beyond its group.
`take` and the other plain methods are the whole logic and run without a loop; `get` only waits.
Hazard: every key that `take` or `get` gave out must come back through `done`, or it is never given
out again and its group loses a place.
"""

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from kubeio import backoff
from kubeio.controller.round_robin import Group, Ring
from kubeio.loop_budget import Turns
from telemetry import metrics

K = TypeVar("K", bound=Hashable)

LOW_SHARE = 16
"""One key of the low lane is given out after at most this many of the high lane."""
_SLACK = 1024  # stale heap entries that are not worth a sweep


class QueueClosed(Exception):  # noqa: N818 - says what is so, not what went wrong
    """Nothing will be given out any more."""


class FairQueue(Generic[K]):
    """A work queue for one process. Not for threads: everything happens on one event loop."""

    def __init__(
        self,
        *,
        group: Callable[[K], str],
        name: str = "",
        weight: Callable[[str], int] = lambda _: 1,
        in_flight: int = 8,
        base_delay: float = 0.1,
        max_delay: float = 300.0,
        turns: Turns | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Take the group of a key, how many keys a group gets in a row, and its places at once.

        `weight` is asked at each turn, so that another one counts from the next turn on.

        `turns` are the loop's: `get` gives out what there is time for in each.
        """
        self.name = name
        self._group_of = group
        self._weight_of = weight
        self._limit = in_flight
        self.turns = turns or Turns()
        self._base, self._ceiling = base_delay, max_delay
        self._clock, self._chance = clock, chance
        self._groups: dict[str, Group[K]] = {}
        self._high: Ring[K] = Ring()
        self._low: Ring[K] = Ring()
        self._highs_in_a_row = 0
        self._processing: dict[K, float] = {}
        self._arrived: dict[K, float] = {}  # since when a key in work, or failing, is wanted
        self._again: dict[K, bool] = {}  # dirty while processing -> low lane?
        self._due: dict[K, tuple[float, int, bool]] = {}  # when, which heap entry, low lane?
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._failures: dict[K, int] = {}
        self._until: dict[K, float] = {}  # when the last delay of a failing key ends, or would have
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._closed = False
        self._metrics = metrics.QueueMetrics(
            name,
            depth=self.__len__,
            unfinished=self.unfinished_seconds,
            longest=self.longest_seconds,
        )

    # Putting keys in.

    def add(self, key: K, *, low: bool = False, first: bool = False) -> None:
        """Want a key worked on as soon as its turn comes; a pending delay of it is over.

        `first`: others of its group wait for it, so it goes before them; no other group is passed.
        """
        self._due.pop(key, None)
        self._ready(key, low=low)
        group = self._groups.get(self._group_of(key)) if first else None
        if group is not None and key in group.high:
            group.high.move_to_end(key, last=False)

    def add_after(self, key: K, seconds: float, *, low: bool = False) -> None:
        """Want a key worked on in a while; an earlier wish stays."""
        if not seconds > 0:
            self.add(key, low=low)
            return
        if self._is_waiting(key):
            return
        due = self._clock() + seconds
        known = self._due.get(key)
        if known is not None and known[0] <= due:
            return
        self._sequence += 1
        self._due[key] = (due, self._sequence, low)
        heapq.heappush(self._heap, (due, self._sequence, key))
        if len(self._heap) > 2 * len(self._due) + _SLACK:
            self._compact()
        self._arm()

    def retry(
        self, key: K, *, low: bool = False, times: float = 1.0, patient: bool = False
    ) -> float:
        """Want a key worked on after its own growing delay, which is returned.

        `times` makes the delay longer than others', up to the same ceiling. A `patient` key waits
        for something else: a try that somebody woke it for before its delay was over does not make
        the next one longer, or ten events in a second would have it wait for minutes.
        """
        failures = self._failures.get(key, 0)
        if patient and failures and self._clock() < self._until[key]:
            failures -= 1
        self._failures[key] = failures + 1
        seconds = backoff.delay(
            failures, base=self._base * times, ceiling=self._ceiling, chance=self._chance
        )
        self._until[key] = self._clock() + seconds
        self._metrics.retries.inc()
        self.add_after(key, seconds, low=low)
        return seconds

    def failures(self, key: K) -> int:
        """Return how often in a row a key was retried."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Let the next delay of a key be the smallest again."""
        self._failures.pop(key, None)
        self._until.pop(key, None)
        if key not in self._processing:
            self._arrived.pop(key, None)

    def hurry(self, name: str, *, limit: int | None = None, forget: bool = False) -> int:
        """Have keys of a group that wait for another try tried now; returns how many.

        `forget` lets their next delays begin anew: what made them fail is over.
        """
        waiting = [k for k in self._failures if k in self._due and self._group_of(k) == name]
        for key in waiting[:limit]:
            failures = self._failures.pop(key)
            if forget:
                del self._until[key]
            else:
                self._failures[key] = failures  # at the end: the next time it is others' turn
            self.add(key, low=True)
        return len(waiting[:limit])

    def drop_group(self, name: str) -> None:
        """Forget everything of a group; keys in the hands of workers end with their `done`."""
        group = self._groups.get(name)
        if group is not None:
            group.high.clear()
            group.low.clear()
            if not group.in_flight:
                del self._groups[name]
        for ring in (self._high, self._low):
            ring.forget(name)
        for table in (self._again, self._due, self._failures, self._until):
            for key in [key for key in table if self._group_of(key) == name]:
                del table[key]
        for key in [key for key in self._arrived if self._group_of(key) == name]:
            if key not in self._processing:
                del self._arrived[key]

    # Taking keys out.

    def take(self) -> K | None:
        """Return the key whose turn it is, or None; the caller owes a `done`."""
        self._promote()
        low_is_due = bool(self._low) and self._highs_in_a_row >= LOW_SHARE
        if self._high and not low_is_due:
            self._highs_in_a_row += 1
            return self._next(self._high, low=False)
        if self._low:
            self._highs_in_a_row = 0
            return self._next(self._low, low=True)
        return None

    def done(self, key: K) -> None:
        """Give a key back; if it was wanted meanwhile, it queues again."""
        started = self._processing.pop(key)
        self._metrics.worked(self._clock() - started)
        if key not in self._failures:
            del self._arrived[key]
        group = self._groups[self._group_of(key)]
        group.in_flight -= 1
        low = self._again.pop(key, None)
        if low is not None:
            self._ready(key, low=low)
        if group.in_flight == self._limit - 1:
            self._join(group)
        if not group.in_flight and not group.high and not group.low:
            del self._groups[group.name]

    async def get(self) -> K:
        """Wait for the key whose turn it is. Raises QueueClosed after `close`."""
        while True:
            if self._closed:
                raise QueueClosed
            if (self._high or self._low) and self.turns.is_over():
                await self._another_turn()
                continue
            key = self.take()
            if key is not None:
                return key
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._arm()
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # the wake-up was meant for whoever can use it
                raise

    async def _another_turn(self) -> None:
        """Wait while the loop looks around; what it finds may be more urgent than what is here."""
        try:
            await self.turns.another()
        except asyncio.CancelledError:
            self._wake()  # a key may have been left to this one
            raise

    def close(self) -> None:
        """Give out nothing more; everyone who waits gets QueueClosed."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters:
            self._wake()

    # Looking.

    def __len__(self) -> int:
        """Count the keys that wait for a turn; not the delayed, nor those being worked on."""
        return sum(len(group.high) + len(group.low) for group in self._groups.values())

    def in_hand(self) -> int:
        """Count the keys being worked on."""
        return len(self._processing)

    def has_in_hand(self, key: K) -> bool:
        """Tell whether a key is being worked on."""
        return key in self._processing

    def snapshot(self) -> dict[str, Any]:
        """Return what is going on, for the debug endpoint."""
        now = self._clock()
        return {
            "name": self.name,
            "closed": self._closed,
            "groups": {
                group.name: {
                    "high": [str(key) for key in group.high],
                    "low": [str(key) for key in group.low],
                    "in_flight": group.in_flight,
                    "weight": self._weight(group.name),
                }
                for group in self._groups.values()
            },
            "processing": {str(key): round(now - at, 3) for key, at in self._processing.items()},
            "dirty": [str(key) for key in self._again],
            "delayed": {str(key): round(due - now, 3) for key, (due, _, _) in self._due.items()},
            "failures": {str(key): count for key, count in self._failures.items()},
        }

    def unfinished_seconds(self) -> float:
        """Return how long the keys in work have been there, added up."""
        now = self._clock()
        return sum(now - started for started in self._processing.values())

    def longest_seconds(self) -> float:
        """Return how long the key has been in work that has been there for longest."""
        return self._clock() - min(self._processing.values(), default=self._clock())

    def age(self, key: K) -> float | None:
        """Return for how many seconds a key in work has been wanted, its failed tries included."""
        arrived = self._arrived.get(key)
        return None if arrived is None else self._clock() - arrived

    # Inside.

    def _ready(self, key: K, *, low: bool) -> None:
        if key in self._processing:
            self._again[key] = low and self._again.get(key, True)
            return
        group = self._group(self._group_of(key))
        if key in group.high or (low and key in group.low):
            return
        joined = group.low.pop(key, None)
        if joined is None:
            joined = self._clock()
            self._metrics.adds.inc()
        elif not group.low:
            self._low.leave(group.name)
        (group.low if low else group.high)[key] = joined
        self._join(group)

    def _group(self, name: str) -> Group[K]:
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = Group(name)
        return found

    def _weight(self, name: str) -> int:
        return max(1, self._weight_of(name))

    def _next(self, ring: Ring[K], *, low: bool) -> K:
        group = ring.first()
        lane = group.low if low else group.high
        key, joined = lane.popitem(last=False)
        group.in_flight += 1
        group.row += 1
        if not lane:
            ring.leave(group.name)
        if group.in_flight >= self._limit:
            self._high.leave(group.name)
            self._low.leave(group.name)
            ring.ended(group, len(lane))
        elif low or not lane or group.row >= self._weight(group.name):
            ring.ended(group, len(lane))
        now = self._clock()
        self._processing[key] = now
        self._arrived.setdefault(key, joined)
        self._metrics.waited(now - joined)
        return key

    def _join(self, group: Group[K]) -> None:
        """Put a group that may have a key taken into its rings, and say so."""
        if group.in_flight >= self._limit or not (group.high or group.low):
            return
        if group.high:
            self._high.join(group)
        if group.low:
            self._low.join(group)
        self._wake()

    def _is_waiting(self, key: K) -> bool:
        group = self._groups.get(self._group_of(key))
        return key in self._again or (group is not None and (key in group.high or key in group.low))

    def _promote(self) -> None:
        """Move the keys whose delay is over into their lanes."""
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            _, sequence, key = heapq.heappop(self._heap)
            known = self._due.get(key)
            if known is not None and known[1] == sequence:  # else replaced or dropped meanwhile
                del self._due[key]
                self._ready(key, low=known[2])

    def _compact(self) -> None:
        """Drop stale heap entries: a key that is woken often before a far delay leaves many."""
        self._heap = [(due, number, key) for key, (due, number, _) in self._due.items()]
        heapq.heapify(self._heap)

    def _wake(self) -> None:
        """Let one who waits look; each key that becomes free to take calls this once."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _arm(self) -> None:
        """While someone waits, have the next delay's end wake them; others look for themselves."""
        if not self._heap or not self._waiters or self._closed:
            return
        due = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        seconds = max(0.0, due - self._clock())
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._promote()
        self._arm()
