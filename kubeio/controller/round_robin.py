"""Whose turn it is: groups in rounds, and those that were idle some rounds behind the others.

Owns the order of groups. Knows nothing of keys but how many wait. Hazard: who is given a turn has
to be told of by `ended`, or it has another one at once.
"""

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

CREDIT = 8
"""Turns that a group with few keys may have before the others: what a pod needs to be Ready.

A group that waits is passed over by each other one at most so often and twice.
"""


@dataclass(slots=True, eq=False)
class Group(Generic[K]):
    """One tenant's keys: two lanes of waiting keys, each with the time it joined."""

    name: str
    high: OrderedDict[K, float] = field(default_factory=OrderedDict)
    low: OrderedDict[K, float] = field(default_factory=OrderedDict)
    in_flight: int = 0
    row: int = 0
    """How many keys it has had in a row."""


class Ring(Generic[K]):
    """The groups that can be served in one lane: the one that had the fewest turns comes first.

    They are counted in rounds; a group that was idle for long begins CREDIT rounds behind the
    others, and catches up at once when more of its keys wait than that is good for. Of one that is
    idle the last round is kept while others wait, or it would begin there each time.
    """

    def __init__(self) -> None:
        self._rounds: dict[str, int] = {}
        self._round = 0
        self._members: dict[str, tuple[int, int, Group[K]]] = {}
        self._heap: list[tuple[int, int, Group[K]]] = []  # with what was a member's once
        self._number = 0

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return bool(self._members)

    def join(self, group: Group[K]) -> None:
        """Let a group have its turn, if it does not wait for one already."""
        if group.name in self._members:
            return
        if not self._members:
            self._rounds.clear()  # who had turns while nobody waited took them from nobody
        behind = self._round - CREDIT
        self._number += 1
        entry = (max(self._rounds.get(group.name, behind), behind), self._number, group)
        self._rounds[group.name] = entry[0]
        self._members[group.name] = entry
        heapq.heappush(self._heap, entry)

    def leave(self, name: str) -> None:
        """Let a group have no turn for now."""
        self._members.pop(name, None)

    def forget(self, name: str) -> None:
        """Know nothing of a group any more."""
        self.leave(name)
        self._rounds.pop(name, None)

    def first(self) -> Group[K]:
        """Return the group whose turn it is; there is one."""
        while self._members.get(self._heap[0][2].name) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][2]

    def ended(self, group: Group[K], waiting: int) -> None:
        """The turn of a group is over; so many of its keys wait."""
        this = self._rounds[group.name]
        self._round = max(self._round, this)
        self._rounds[group.name] = this + 1 if waiting <= CREDIT else max(this + 1, self._round)
        group.row = 0
        if self._members.pop(group.name, None) is not None:
            self.join(group)
