"""CPU time of a tenant's pods on the node, as one number that only grows.

Owns the tally behind the node figures that a tenant sees. Must not know where figures come from.
Hazards: whoever reads a counter takes a fall for a restart and counts all of it again, so a pod
that goes leaves its time behind. A pod that is missing from one answer, or from one list, may not
have gone, and is not counted twice when it is back. And two answers may come in another order than
their figures were taken, so only a later figure that is lower tells of a counter that began anew.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from vnagent.nodeapi.json_filters import capped

TENANTS = 256
"""Remembered; a node has fewer pods."""
DEPARTED = 64
"""Pods of a tenant that are remembered one by one after they have left."""
_UNKNOWN = float("-inf")
_NOISE_NANOSECONDS = 1_000_000
"""Two texts of one figure may differ by its rounding."""


@dataclass(frozen=True, slots=True)
class Used:
    """A figure of a pod."""

    nanoseconds: int
    at: float = _UNKNOWN
    """When it was taken, in seconds since the epoch."""


Total = Callable[[Mapping[str, Used]], int]
"""From figures by super UID to the tenant's total in nanoseconds."""


@dataclass(slots=True)
class _Pod:
    before: int = 0
    """What its counter had come to when it began anew."""
    last: int = 0
    at: float = _UNKNOWN

    def take(self, used: Used) -> None:
        if used.at > self.at:
            if used.nanoseconds < self.last - _NOISE_NANOSECONDS:
                self.before += self.last
                self.last = 0
            self.at = used.at
        elif self.at > _UNKNOWN:
            return  # taken before, told after
        self.last = max(self.last, used.nanoseconds)


@dataclass(slots=True)
class _Tally:
    gone: int = 0
    """Of pods that are not remembered one by one any more."""
    pods: OrderedDict[str, _Pod] = field(default_factory=OrderedDict)
    """Those seen last are last."""

    def forget(self, present: Collection[str]) -> None:
        """Keep few of the pods that have left."""
        departed = [uid for uid in self.pods if uid not in present]
        for uid in departed[: max(0, len(departed) - DEPARTED)]:
            pod = self.pods.pop(uid)
            self.gone += pod.before + pod.last


class Totals:
    """Nanoseconds by tenant, for use from any thread; a new agent counts anew, as a new node."""

    def __init__(self) -> None:
        self._tallies: OrderedDict[str, _Tally] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def __len__(self) -> int:
        """How many tenants are remembered: those that have asked last."""
        return len(self._tallies)

    def add(self, vc_uid: str, present: Collection[str], used: Mapping[str, Used]) -> int:
        """Take the figures of a tenant's pods, by UID, and return the total.

        `present` are the tenant's pods on the node, with figures or without.
        """
        with self._one_at_a_time:
            tally = self._tallies.setdefault(vc_uid, _Tally())
            self._tallies.move_to_end(vc_uid)
            if len(self._tallies) > TENANTS:
                self._tallies.popitem(last=False)
            for uid in used.keys() & present:
                tally.pods.setdefault(uid, _Pod()).take(used[uid])
                tally.pods.move_to_end(uid)
            tally.forget(present)
            return capped(tally.gone + sum(pod.before + pod.last for pod in tally.pods.values()))
