"""CPU time of a tenant's pods on the node, as a counter that never decreases.

The module owns the tally behind the node metrics that a tenant sees. It must not know the source of
the metrics. Hazard: the total must never fall. Otherwise a scraper takes the fall for a restart and
counts the whole total again. The time of a deleted pod therefore stays in the total. A pod that is
missing from one answer or list may still exist, and it is not counted twice when it returns. Two
answers may arrive in another order than their samples were taken. Only a later sample that is lower
therefore means a restarted counter.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from vnagent.nodeapi.json_filters import cap_count

MAX_TENANTS = 256
"""Limit of tenants in memory. A node has fewer pods."""
MAX_DEPARTED_PODS = 64
"""Limit of deleted pods of a tenant that are kept one by one."""
_UNKNOWN = float("-inf")
_NOISE_NANOSECONDS = 1_000_000
"""Tolerance in nanoseconds, because two texts of one sample may differ by rounding."""


@dataclass(frozen=True, slots=True)
class PodUsage:
    """CPU time of a pod."""

    nanoseconds: int
    taken_at: float = _UNKNOWN
    """Time of the sample, in seconds since the epoch."""


TotalFunction = Callable[[Mapping[str, PodUsage]], int]
"""Function from samples by super UID to the tenant's total in nanoseconds."""


@dataclass(slots=True)
class _PodCounter:
    base: int = 0
    """Sum of its counter before the last restart."""
    last: int = 0
    taken_at: float = _UNKNOWN

    def update(self, used: PodUsage) -> None:
        if used.taken_at > self.taken_at:
            if used.nanoseconds < self.last - _NOISE_NANOSECONDS:
                self.base += self.last
                self.last = 0
            self.taken_at = used.taken_at
        elif self.taken_at > _UNKNOWN:
            return  # the sample is older than the last one
        self.last = max(self.last, used.nanoseconds)


@dataclass(slots=True)
class _TenantCounter:
    departed_total: int = 0
    """CPU time of deleted pods that are no longer kept one by one."""
    pods: OrderedDict[str, _PodCounter] = field(default_factory=OrderedDict)
    """Pods in the order of their last sample, the latest last."""

    def forget_departed(self, present: Collection[str]) -> None:
        """Keep only the latest deleted pods and add the rest to the sum."""
        departed = [uid for uid in self.pods if uid not in present]
        for uid in departed[: max(0, len(departed) - MAX_DEPARTED_PODS)]:
            pod = self.pods.pop(uid)
            self.departed_total += pod.base + pod.last


class CpuCounters:
    """Nanoseconds by tenant, safe in any thread. A new agent starts at 0, like a new node."""

    def __init__(self) -> None:
        self._counters: OrderedDict[str, _TenantCounter] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of tenants in memory. They are those of the latest requests."""
        return len(self._counters)

    def update_total(
        self, vc_uid: str, present: Collection[str], used: Mapping[str, PodUsage]
    ) -> int:
        """Add the samples of a tenant's pods, by UID, and return the total.

        `present` are the tenant's pods on the node, with samples or without.
        """
        with self._lock:
            tally = self._counters.setdefault(vc_uid, _TenantCounter())
            self._counters.move_to_end(vc_uid)
            if len(self._counters) > MAX_TENANTS:
                self._counters.popitem(last=False)
            for uid in used.keys() & present:
                tally.pods.setdefault(uid, _PodCounter()).update(used[uid])
                tally.pods.move_to_end(uid)
            tally.forget_departed(present)
            return cap_count(
                tally.departed_total + sum(pod.base + pod.last for pod in tally.pods.values())
            )
