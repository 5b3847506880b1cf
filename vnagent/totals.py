"""CPU time of a tenant's pods on the node, as one number that only grows.

Owns the tally behind the node figures that a tenant sees. Must not know where figures come from.
Hazard: whoever reads a counter takes a fall for a restart and counts all of it again, so a pod
that goes leaves its time behind; and a pod that is missing from one answer has not gone.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from vnagent.leaves import capped


@dataclass(slots=True)
class _Tally:
    gone: int = 0
    last: dict[str, int] = field(default_factory=dict)


class Totals:
    """Nanoseconds by tenant, for use from any thread; a new agent counts anew, as a new node."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}
        self._one_at_a_time = threading.Lock()

    def __len__(self) -> int:
        """How many tenants are remembered: those that had pods here when they last asked."""
        return len(self._tallies)

    def add(self, vc_uid: str, present: Collection[str], used: Mapping[str, int]) -> int:
        """Take the figures of a tenant's pods, by UID, and return the total.

        `present` are the tenant's pods on the node, with figures or without.
        """
        with self._one_at_a_time:
            if not present:
                self._tallies.pop(vc_uid, None)
                return 0
            tally = self._tallies.setdefault(vc_uid, _Tally())
            for uid in tally.last.keys() - present:
                tally.gone += tally.last.pop(uid)
            for uid in used.keys() & present:
                # Two answers may come in another order than their figures were taken.
                tally.last[uid] = max(used[uid], tally.last.get(uid, 0))
            return capped(tally.gone + sum(tally.last.values()))
