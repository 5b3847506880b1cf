"""Metrics of one tenant: the lag of its writes, and drift that the syncer undoes.

Owns the suspicion that another writer changed an object. It becomes drift when a write of the
syncer follows, unless the event was the echo of that write. Must not decide: the sync does not
depend on it. Hazard: this code runs for every event and write, so it must be cheap. Every suspicion
must be settled, otherwise it stays in memory.
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
    """State of a connection that the metrics report."""

    is_ready: bool
    problem: str
    refusing: str

    @property
    def holds_deletes(self) -> bool:
        """Whether deletes are held."""


class Held(Protocol):
    """State of a pod loss guard that the metrics report."""

    @property
    def is_held(self) -> bool:
        """Whether conclusions from missing pods are held, for all tenants or for one."""


class Followed(Protocol):
    """State of a target that the metrics report."""

    is_ready: bool
    problem: str
    behind: str

    @property
    def muster(self) -> Held:
        """The pods that are missing in the target."""


class Figures:
    """The metrics of one tenant."""

    def __init__(self, age: Callable[[Key], float | None]) -> None:
        """`age` returns for how many seconds a key in work has been queued."""
        self._age = age
        self._suspected: dict[tuple[Side, Key], int] = {}

    def suspect(self, side: Side, key: Key, revision: int) -> None:
        """Record that an object differs from the syncer's last write.

        It may yet be the write's own echo.
        """
        self._suspected.setdefault((side, key), revision)

    def answered(self, side: Side, key: Key, revision: int) -> None:
        """Record the answer to a write.

        The revision is 0 for a write that repairs nothing, such as a delete.
        """
        age = self._age(key)
        if age is not None:
            _METRICS.lag(_DIRECTIONS[side], key.kind, age)
        if self._suspected:
            suspected = self._suspected.pop((side, key), None)
            if suspected is not None and revision and suspected != revision:
                _METRICS.repaired(_SIDES[side], key.kind)

    def settled(self, key: Key) -> None:
        """Forget the suspicions of a key after its reconcile. Other changes are not drift."""
        if self._suspected:
            self._suspected.pop((Side.SUPER, key), None)
            self._suspected.pop((Side.TENANT, key), None)


class TenantCounts:
    """Number of tenants by state, counted at each scrape."""

    def __init__(self, links: Mapping[str, Engaged], declared: Callable[[], int]) -> None:
        """`declared` returns the number of tenants that should be synced."""
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
        """Count the tenants that are synced."""
        return sum(link.is_ready for link in self._links.values())

    def unreachable(self) -> float:
        """Count the synced tenants whose API has been silent for a while."""
        return sum(bool(link.problem) for link in self._links.values())

    def refusing(self) -> float:
        """Count the tenants that keep refusing writes."""
        return sum(bool(link.refusing) for link in self._links.values())

    def deletes_held(self) -> float:
        """Count the tenants whose deletes wait for a confirmation by a platform administrator."""
        return sum(link.holds_deletes for link in self._links.values())


class TargetCounts:
    """Number of targets by state."""

    def __init__(self, followed: Mapping[str, Followed], declared: Callable[[], int]) -> None:
        """`declared` returns the number of SuperClusters that should be connected."""
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
        """Count the SuperClusters, without the home cluster's."""
        return self._declared()

    def not_followed(self) -> float:
        """Count the targets whose caches are incomplete or out of date."""
        followed = self._followed.values()
        return self._declared() - sum(each.is_ready and not each.behind for each in followed)

    def away(self) -> float:
        """Count the targets that do not answer."""
        return sum(bool(target.problem) for target in self._followed.values())

    def losses_held(self) -> float:
        """Count the targets in which too many pods are missing to draw conclusions."""
        return sum(target.muster.is_held for target in self._followed.values())
