"""Order of groups in a work queue: rounds, with a credit for groups that were idle.

Owns the order of groups. Knows only how many keys of a group wait.

Hazard: each turn must be reported to `finish_turn`. Otherwise the group gets another turn at once.
"""

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

CREDIT = 8
"""Turns that a group with few keys may have before other groups: enough to make a pod Ready.

Any other group overtakes a waiting group at most `CREDIT + 2` times.
"""


@dataclass(slots=True, eq=False)
class QueueGroup(Generic[K]):
    """One tenant's keys: two lanes of waiting keys, each with the time it joined."""

    name: str
    high: OrderedDict[K, float] = field(default_factory=OrderedDict)
    low: OrderedDict[K, float] = field(default_factory=OrderedDict)
    in_flight: int = 0
    streak: int = 0
    """Number of keys taken in a row."""


class GroupRing(Generic[K]):
    """The groups with waiting keys in one lane. The group with the fewest turns comes first.

    Turns are counted in rounds. A group that was idle for long begins `CREDIT` rounds behind the
    others. It catches up at once when more than `CREDIT` of its keys wait. While other groups wait,
    the last round of an idle group is remembered. Otherwise it would get the full credit each time
    it returns.
    """

    def __init__(self) -> None:
        self._idle_rounds: dict[str, int] = {}
        self._round = 0
        self._members: dict[str, tuple[int, int, QueueGroup[K]]] = {}
        self._heap: list[tuple[int, int, QueueGroup[K]]] = []  # with entries of former members
        self._number = 0

    def __bool__(self) -> bool:
        """Return whether a group waits."""
        return bool(self._members)

    def add(self, group: QueueGroup[K]) -> None:
        """Add a group unless it waits already."""
        if group.name in self._members:
            return
        if not self._members:
            self._idle_rounds.clear()  # turns while no group waited cost no other group anything
        behind = self._round - CREDIT
        self._number += 1
        entry = (max(self._idle_rounds.get(group.name, behind), behind), self._number, group)
        self._idle_rounds[group.name] = entry[0]
        self._members[group.name] = entry
        heapq.heappush(self._heap, entry)

    def remove(self, name: str) -> None:
        """Remove a group until it joins again."""
        self._members.pop(name, None)

    def forget(self, name: str) -> None:
        """Remove a group and forget its round."""
        self.remove(name)
        self._idle_rounds.pop(name, None)

    def peek(self) -> QueueGroup[K]:
        """Return the group whose turn is next. The ring must not be empty."""
        while self._members.get(self._heap[0][2].name) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][2]

    def finish_turn(self, group: QueueGroup[K], waiting: int) -> None:
        """Record the end of a group's turn. `waiting` is the number of its waiting keys."""
        this = self._idle_rounds[group.name]
        self._round = max(self._round, this)
        self._idle_rounds[group.name] = (
            this + 1 if waiting <= CREDIT else max(this + 1, self._round)
        )
        group.streak = 0
        if self._members.pop(group.name, None) is not None:
            self.add(group)
