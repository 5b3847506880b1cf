"""How late a tenant's writes come, and which of them undo what somebody else did; for the metrics.

Owns the suspicion that an object was changed behind our back: it becomes drift when a write of ours
follows that is not itself what was seen. Must not decide anything: nothing of the sync depends on
it. Hazard: what is noted for every event and write is on the hot path, and a suspicion that nobody
settles stays.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from syncer.model.keys import Key
from syncer.safety.expectations import Side
from telemetry.metrics import SyncMetrics, watch_targets, watch_tenants

_DIRECTIONS = {Side.SUPER: "down", Side.TENANT: "up"}
_SIDES = {Side.SUPER: "super", Side.TENANT: "tenant"}
_METRICS = SyncMetrics()


class Engaged(Protocol):
    """What of a link is told in numbers."""

    is_ready: bool
    problem: str
    refusing: str

    @property
    def holds_deletes(self) -> bool:
        """Whether the brake is on."""


class Held(Protocol):
    """What of a muster is told in numbers."""

    @property
    def is_held(self) -> bool:
        """Whether nothing is concluded from what is missing, of all tenants or of one."""


class Followed(Protocol):
    """What of a target is told in numbers."""

    is_ready: bool
    problem: str
    behind: str

    @property
    def muster(self) -> Held:
        """What is missing there."""


class Figures:
    """Those of one tenant."""

    def __init__(self, age: Callable[[Key], float | None]) -> None:
        """`age` tells for how many seconds a key in work has been wanted."""
        self._age = age
        self._suspected: dict[tuple[Side, Key], int] = {}

    def suspect(self, side: Side, key: Key, revision: int) -> None:
        """Note that an object is not as we wrote it; the event may yet prove to be our own."""
        self._suspected.setdefault((side, key), revision)

    def answered(self, side: Side, key: Key, revision: int) -> None:
        """Note a write that was answered; 0 for one that puts nothing right, such as a delete."""
        age = self._age(key)
        if age is not None:
            _METRICS.lag(_DIRECTIONS[side], key.kind, age)
        if self._suspected:
            suspected = self._suspected.pop((side, key), None)
            if suspected is not None and revision and suspected != revision:
                _METRICS.repaired(_SIDES[side], key.kind)

    def settled(self, key: Key) -> None:
        """Note that a key was worked on: what else was changed behind our back is none of ours."""
        if self._suspected:
            self._suspected.pop((Side.SUPER, key), None)
            self._suspected.pop((Side.TENANT, key), None)


class TenantCounts:
    """How many tenants there are, and of how many something is true; counted at each scrape."""

    def __init__(self, links: Mapping[str, Engaged], declared: Callable[[], int]) -> None:
        """`declared` counts the tenants that should be engaged or become so."""
        self._links = links
        self._declared = declared
        watch_tenants(
            {
                "declared": self.declared,
                "engaged": self.engaged,
                "unreachable": self.unreachable,
                "refusing": self.refusing,
                "deletes_held": self.deletes_held,
            }
        )

    def declared(self) -> float:
        """Count the VirtualClusters that are not being deleted."""
        return self._declared()

    def engaged(self) -> float:
        """Count the tenants that are followed."""
        return sum(link.is_ready for link in self._links.values())

    def unreachable(self) -> float:
        """Count the followed tenants whose API has been silent for a while."""
        return sum(bool(link.problem) for link in self._links.values())

    def refusing(self) -> float:
        """Count the tenants that keep refusing writes."""
        return sum(bool(link.refusing) for link in self._links.values())

    def deletes_held(self) -> float:
        """Count the tenants whose deletes wait for a word of the super admin."""
        return sum(link.holds_deletes for link in self._links.values())


class TargetCounts:
    """How many other super clusters there are, and of how many something is true."""

    def __init__(self, followed: Mapping[str, Followed], declared: Callable[[], int]) -> None:
        """`declared` counts the SuperClusters that should be followed."""
        self._followed = followed
        self._declared = declared
        watch_targets(
            {
                "declared": self.declared,
                "not_followed": self.not_followed,
                "away": self.away,
                "losses_held": self.losses_held,
            }
        )

    def declared(self) -> float:
        """Count the SuperClusters but the home cluster's."""
        return self._declared()

    def not_followed(self) -> float:
        """Count those whose caches are not complete, or not kept up."""
        followed = self._followed.values()
        return self._declared() - sum(each.is_ready and not each.behind for each in followed)

    def away(self) -> float:
        """Count those that do not answer."""
        return sum(bool(target.problem) for target in self._followed.values())

    def losses_held(self) -> float:
        """Count those of which too much is missing to conclude anything."""
        return sum(target.muster.is_held for target in self._followed.values())
