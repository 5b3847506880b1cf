"""Fair work queue: each key once, never at two workers at once, groups in turn.

Owns deduplication, delays, backoff and fairness. Groups have their turns in rounds. An idle group
may catch up on some, so that a rare need does not wait for groups with constant work. Knows only
the group of a key.

`take` and the other plain methods are the whole logic and run without a loop. `get` only waits.

Hazard: every key from `take` or `get` must be returned through `done`. Otherwise it is never handed
out again, and its group loses a place.
"""

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kubeio import backoff
from kubeio.controller.round_robin import GroupRing, QueueGroup
from kubeio.loop_budget import LoopBudget
from telemetry import metrics

K = TypeVar("K", bound=Hashable)

LOW_LANE_SHARE = 16
"""Longest run of keys from the high lane before a waiting key of the low lane."""
_STALE_HEAP_ENTRIES = 1024  # stale heap entries that are not worth a sweep


class QueueClosed(Exception):  # noqa: N818 - says what is so, not what went wrong
    """The queue is closed and hands out no keys."""


def _weigh_equally(_: str) -> int:
    """Return the weight of a group in a queue without weights."""
    return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Options of a queue: the shares of its groups, and the delays of failing keys."""

    name: str = ""
    """Metric label of the queue."""
    weight: Callable[[str], int] = _weigh_equally
    """Returns the number of keys that a group may have in each of its turns.

    It is called at each turn, so a new value takes effect from the next turn on.
    """
    max_in_flight: int = 8
    """Maximum number of keys of one group that are in work."""
    base_delay: float = 0.1
    """First retry delay in seconds of a failing key. Each further delay is longer."""
    max_delay: float = 300.0
    """Longest retry delay in seconds."""


DEFAULT_QUEUE_OPTIONS = QueueOptions()


class FairQueue(Generic[K]):
    """A work queue for one process. Not thread-safe: everything happens on one event loop."""

    def __init__(
        self,
        options: QueueOptions = DEFAULT_QUEUE_OPTIONS,
        *,
        group: Callable[[K], str],
        loop_budget: LoopBudget | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Create an empty queue. `group` returns the name of a key's group.

        `get` hands out only as many keys in one iteration of the event loop as `loop_budget` has
        time for.
        """
        self.name = options.name
        self._group_of = group
        self._weight_of = options.weight
        self._limit = options.max_in_flight
        self.loop_budget = loop_budget or LoopBudget()
        self._base, self._ceiling = options.base_delay, options.max_delay
        self._clock, self._chance = clock, chance
        self._groups: dict[str, QueueGroup[K]] = {}
        self._high: GroupRing[K] = GroupRing()
        self._low: GroupRing[K] = GroupRing()
        self._high_streak = 0
        self._processing: dict[K, float] = {}
        self._added_at: dict[K, float] = {}  # since when a key in work, or failing, is wanted
        self._dirty: dict[K, bool] = {}  # dirty while processing -> low lane?
        self._due: dict[K, tuple[float, int, bool]] = {}  # when, which heap entry, low lane?
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._failures: dict[K, int] = {}
        self._delayed_until: dict[
            K, float
        ] = {}  # end of a failing key's last delay, even if it was woken
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._closed = False
        self._metrics = metrics.QueueMetrics(
            options.name,
            depth=self.__len__,
            unfinished=self.unfinished_work_seconds,
            longest=self.longest_running_seconds,
        )

    # Add keys.

    def add(self, key: K, *, low: bool = False, first: bool = False) -> None:
        """Queue a key for its next turn. A pending delay of it is over.

        `first` puts it before the other keys of its group, which wait for it. No other group is
        overtaken.
        """
        self._due.pop(key, None)
        self._push_ready(key, low=low)
        group = self._groups.get(self._group_of(key)) if first else None
        if group is not None and key in group.high:
            group.high.move_to_end(key, last=False)

    def add_after(self, key: K, seconds: float, *, low: bool = False) -> None:
        """Queue a key after a delay in seconds. An earlier time stays."""
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
        if len(self._heap) > 2 * len(self._due) + _STALE_HEAP_ENTRIES:
            self._compact_heap()
        self._arm_timer()

    def add_rate_limited(
        self, key: K, *, low: bool = False, times: float = 1.0, patient: bool = False
    ) -> float:
        """Queue a key after its own growing delay, and return that delay in seconds.

        `times` makes the delay longer than that of other keys, up to the same ceiling. A `patient`
        key waits for another object. If an event wakes it before its delay is over, that attempt
        does not make the next delay longer. Otherwise ten events in a second would make the key
        wait for minutes.
        """
        failures = self._failures.get(key, 0)
        if patient and failures and self._clock() < self._delayed_until[key]:
            failures -= 1
        self._failures[key] = failures + 1
        seconds = backoff.compute_delay(
            failures, base=self._base * times, ceiling=self._ceiling, chance=self._chance
        )
        self._delayed_until[key] = self._clock() + seconds
        self._metrics.retries.inc()
        self.add_after(key, seconds, low=low)
        return seconds

    def count_requeues(self, key: K) -> int:
        """Return how often in a row a key was retried."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Reset the delay of a key to the smallest."""
        self._failures.pop(key, None)
        self._delayed_until.pop(key, None)
        if key not in self._processing:
            self._added_at.pop(key, None)

    def retry_group_now(self, group: str, *, limit: int | None = None, forget: bool = False) -> int:
        """Retry delayed keys of a group now. Returns how many.

        `forget` resets their delays, because the reason of their failures has ended.
        """
        waiting = [k for k in self._failures if k in self._due and self._group_of(k) == group]
        for key in waiting[:limit]:
            failures = self._failures.pop(key)
            if forget:
                del self._delayed_until[key]
            else:
                self._failures[key] = failures  # at the end, so that others come first next time
            self.add(key, low=True)
        return len(waiting[:limit])

    def drop_group(self, name: str) -> None:
        """Remove all keys of a group. Keys in work end with their `done`."""
        group = self._groups.get(name)
        if group is not None:
            group.high.clear()
            group.low.clear()
            if not group.in_flight:
                del self._groups[name]
        for ring in (self._high, self._low):
            ring.forget(name)
        for table in (self._dirty, self._due, self._failures, self._delayed_until):
            for key in [key for key in table if self._group_of(key) == name]:
                del table[key]
        for key in [key for key in self._added_at if self._group_of(key) == name]:
            if key not in self._processing:
                del self._added_at[key]

    # Take keys.

    def take(self) -> K | None:
        """Return the next key, or None. The caller must call `done`."""
        self._promote_due()
        low_is_due = bool(self._low) and self._high_streak >= LOW_LANE_SHARE
        if self._high and not low_is_due:
            self._high_streak += 1
            return self._pop_next(self._high, low=False)
        if self._low:
            self._high_streak = 0
            return self._pop_next(self._low, low=True)
        return None

    def done(self, key: K) -> None:
        """Mark a key as finished. If it was added meanwhile, it is queued again."""
        started = self._processing.pop(key)
        self._metrics.work_seconds(self._clock() - started)
        if key not in self._failures:
            del self._added_at[key]
        group = self._groups[self._group_of(key)]
        group.in_flight -= 1
        low = self._dirty.pop(key, None)
        if low is not None:
            self._push_ready(key, low=low)
        if group.in_flight == self._limit - 1:
            self._join_rings(group)
        if not group.in_flight and not group.high and not group.low:
            del self._groups[group.name]

    async def get(self) -> K:
        """Wait for the next key. Raises QueueClosed after `close`."""
        while True:
            if self._closed:
                raise QueueClosed
            if (self._high or self._low) and self.loop_budget.is_spent():
                await self._yield_to_loop()
                continue
            key = self.take()
            if key is not None:
                return key
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._arm_timer()
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_waiter()  # pass the wake-up on to another waiter
                raise

    async def _yield_to_loop(self) -> None:
        """Wait until the loop has run other callbacks, because new events may be more urgent."""
        try:
            await self.loop_budget.wait_for_iteration()
        except asyncio.CancelledError:
            self._wake_waiter()  # a key may have been left for this waiter
            raise

    def close(self) -> None:
        """Stop handing out keys. All waiters get QueueClosed."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters:
            self._wake_waiter()

    # Inspect.

    def __len__(self) -> int:
        """Return the number of waiting keys, without delayed keys and keys in work."""
        return sum(len(group.high) + len(group.low) for group in self._groups.values())

    def count_processing(self) -> int:
        """Return the number of keys in work."""
        return len(self._processing)

    def is_processing(self, key: K) -> bool:
        """Return whether a key is in work."""
        return key in self._processing

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the queue for the debug endpoint."""
        now = self._clock()
        return {
            "name": self.name,
            "closed": self._closed,
            "groups": {
                group.name: {
                    "high": [str(key) for key in group.high],
                    "low": [str(key) for key in group.low],
                    "in_flight": group.in_flight,
                    "weight": self._get_weight(group.name),
                }
                for group in self._groups.values()
            },
            "processing": {str(key): round(now - at, 3) for key, at in self._processing.items()},
            "dirty": [str(key) for key in self._dirty],
            "delayed": {str(key): round(due - now, 3) for key, (due, _, _) in self._due.items()},
            "failures": {str(key): count for key, count in self._failures.items()},
        }

    def unfinished_work_seconds(self) -> float:
        """Return the sum of the seconds that the keys in work have taken so far."""
        now = self._clock()
        return sum(now - started for started in self._processing.values())

    def longest_running_seconds(self) -> float:
        """Return the seconds that the longest-running key has been in work."""
        return self._clock() - min(self._processing.values(), default=self._clock())

    def get_age(self, key: K) -> float | None:
        """Return how many seconds ago a key in work was first wanted, failed attempts included."""
        arrived = self._added_at.get(key)
        return None if arrived is None else self._clock() - arrived

    # Internals.

    def _push_ready(self, key: K, *, low: bool) -> None:
        if key in self._processing:
            self._dirty[key] = low and self._dirty.get(key, True)
            return
        group = self._get_group(self._group_of(key))
        if key in group.high or (low and key in group.low):
            return
        joined = group.low.pop(key, None)
        if joined is None:
            joined = self._clock()
            self._metrics.adds.inc()
        elif not group.low:
            self._low.remove(group.name)
        (group.low if low else group.high)[key] = joined
        self._join_rings(group)

    def _get_group(self, name: str) -> QueueGroup[K]:
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = QueueGroup(name)
        return found

    def _get_weight(self, name: str) -> int:
        return max(1, self._weight_of(name))

    def _pop_next(self, ring: GroupRing[K], *, low: bool) -> K:
        group = ring.peek()
        lane = group.low if low else group.high
        key, joined = lane.popitem(last=False)
        group.in_flight += 1
        group.streak += 1
        if not lane:
            ring.remove(group.name)
        if group.in_flight >= self._limit:
            self._high.remove(group.name)
            self._low.remove(group.name)
            ring.finish_turn(group, len(lane))
        elif low or not lane or group.streak >= self._get_weight(group.name):
            ring.finish_turn(group, len(lane))
        now = self._clock()
        self._processing[key] = now
        self._added_at.setdefault(key, joined)
        self._metrics.wait_seconds(now - joined)
        return key

    def _join_rings(self, group: QueueGroup[K]) -> None:
        """Add a group with an available key to its rings, and wake a waiter."""
        if group.in_flight >= self._limit or not (group.high or group.low):
            return
        if group.high:
            self._high.add(group)
        if group.low:
            self._low.add(group)
        self._wake_waiter()

    def _is_waiting(self, key: K) -> bool:
        group = self._groups.get(self._group_of(key))
        return key in self._dirty or (group is not None and (key in group.high or key in group.low))

    def _promote_due(self) -> None:
        """Move the keys with an expired delay into their lanes."""
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            _, sequence, key = heapq.heappop(self._heap)
            known = self._due.get(key)
            if known is not None and known[1] == sequence:  # else replaced or dropped meanwhile
                del self._due[key]
                self._push_ready(key, low=known[2])

    def _compact_heap(self) -> None:
        """Drop stale heap entries: a key with a far delay that is woken often leaves many."""
        self._heap = [(due, number, key) for key, (due, number, _) in self._due.items()]
        heapq.heapify(self._heap)

    def _wake_waiter(self) -> None:
        """Wake one waiter. Each key that becomes available calls this once."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _arm_timer(self) -> None:
        """Start a timer for the next expired delay while a `get` waits.

        Other calls check by themselves.
        """
        if not self._heap or not self._waiters or self._closed:
            return
        due = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        seconds = max(0.0, due - self._clock())
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._promote_due()
        self._arm_timer()
