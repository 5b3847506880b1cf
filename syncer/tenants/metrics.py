"""Metrics of one tenant: the lag of its writes, and drift that the syncer undoes.

Owns the suspicion that another writer changed an object. It becomes drift when a write of the
syncer follows, unless the event was the echo of that write. Must not decide: the sync does not
depend on it. Hazard: this code runs for every event and write, so it must be cheap. Every suspicion
must be settled, otherwise it stays in memory.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from kubeio.cache.cache_budget import CacheBudget
from syncer.model.keys import Key
from syncer.safety.expectations import ClusterSide
from telemetry.metrics import (
    SyncMetrics,
    register_target_counts,
    register_tenant_bytes,
    register_tenant_counts,
)
from tenancy.ownership import Tenant

_DIRECTIONS = {ClusterSide.SUPER: "down", ClusterSide.TENANT: "up"}
_SIDES = {ClusterSide.SUPER: "super", ClusterSide.TENANT: "tenant"}
_SYNC_METRICS = SyncMetrics()


class TenantMetricsSource(Protocol):
    """State of a connection that the metrics report."""

    is_ready: bool
    problem: str
    refused_writes_problem: str
    tenant: Tenant
    cache_budget: CacheBudget

    @property
    def is_store_full(self) -> bool:
        """Whether the tenant's etcd refuses writes, because it is full."""

    @property
    def holds_deletes(self) -> bool:
        """Whether deletes are held."""


class LossGuardMetricsSource(Protocol):
    """State of a pod loss guard that the metrics report."""

    @property
    def is_held(self) -> bool:
        """Whether conclusions from missing pods are held, for all tenants or for one."""


class TargetMetricsSource(Protocol):
    """State of a target that the metrics report."""

    is_ready: bool
    problem: str
    watch_problem: str

    @property
    def pod_loss_guard(self) -> LossGuardMetricsSource:
        """The pods that are missing in the target."""


class TenantMetrics:
    """The metrics of one tenant."""

    def __init__(self, get_key_age: Callable[[Key], float | None]) -> None:
        """`age` returns for how many seconds a key in work has been queued."""
        self._get_key_age = get_key_age
        self._suspected_drifts: dict[tuple[ClusterSide, Key], int] = {}

    def suspect_drift(self, side: ClusterSide, key: Key, revision: int) -> None:
        """Record that an object differs from the syncer's last write.

        It may yet be the write's own echo.
        """
        self._suspected_drifts.setdefault((side, key), revision)

    def observe_write(self, side: ClusterSide, key: Key, revision: int) -> None:
        """Record the answer to a write.

        The revision is 0 for a write that repairs nothing, such as a delete.
        """
        age = self._get_key_age(key)
        if age is not None:
            _SYNC_METRICS.observe_lag(_DIRECTIONS[side], key.kind, age)
        if self._suspected_drifts:
            suspected = self._suspected_drifts.pop((side, key), None)
            if suspected is not None and revision and suspected != revision:
                _SYNC_METRICS.count_drift_repaired(_SIDES[side], key.kind)

    def clear_suspicion(self, key: Key) -> None:
        """Forget the suspicions of a key after its reconcile. Other changes are not drift."""
        if self._suspected_drifts:
            self._suspected_drifts.pop((ClusterSide.SUPER, key), None)
            self._suspected_drifts.pop((ClusterSide.TENANT, key), None)


class TenantCounts:
    """Number of tenants by state, counted at each scrape."""

    def __init__(
        self,
        connections: Mapping[str, TenantMetricsSource],
        count_declared: Callable[[], int],
        *,
        count_suspended: Callable[[], int],
        count_too_large: Callable[[], int],
    ) -> None:
        """`count_declared` returns the number of tenants that should be synced.

        `count_too_large` returns the number of tenants that are disconnected because of their size.
        """
        self._connections = connections
        self._count_declared = count_declared
        self._count_suspended = count_suspended
        self._count_too_large = count_too_large
        register_tenant_counts(
            {
                "declared": self.count_declared,
                "connected": self.count_engaged,
                "unreachable": self.count_unreachable,
                "refusing": self.count_refusing,
                "store_full": self.count_full_stores,
                "deletes_held": self.count_deletes_held,
                "suspended": self.count_suspended,
                "too_large": self.count_too_large,
            }
        )
        register_tenant_bytes(self.measure_caches)

    def measure_caches(self) -> Mapping[str, float]:
        """Return the bytes of the caches by tenant, named by its root namespace."""
        return {link.tenant.root: link.cache_budget.size for link in self._connections.values()}

    def count_declared(self) -> float:
        """Count the VirtualClusters that are not being deleted."""
        return self._count_declared()

    def count_engaged(self) -> float:
        """Count the tenants that are synced."""
        return sum(link.is_ready for link in self._connections.values())

    def count_unreachable(self) -> float:
        """Count the synced tenants whose API has been silent for a while."""
        return sum(bool(link.problem) for link in self._connections.values())

    def count_refusing(self) -> float:
        """Count the tenants that keep refusing writes."""
        return sum(bool(link.refused_writes_problem) for link in self._connections.values())

    def count_full_stores(self) -> float:
        """Count the tenants whose etcd is full. It refuses all writes except deletes."""
        return sum(link.is_store_full for link in self._connections.values())

    def count_deletes_held(self) -> float:
        """Count the tenants whose deletes wait for a confirmation by a platform administrator."""
        return sum(link.holds_deletes for link in self._connections.values())

    def count_suspended(self) -> float:
        """Count the tenants with `spec.suspend` or `spec.sleep`."""
        return self._count_suspended()

    def count_too_large(self) -> float:
        """Count the tenants that are disconnected because they use too much memory."""
        return self._count_too_large()


class TargetCounts:
    """Number of targets by state."""

    def __init__(
        self, targets: Mapping[str, TargetMetricsSource], count_declared: Callable[[], int]
    ) -> None:
        """`count_declared` returns the number of SuperClusters that should be connected."""
        self._targets = targets
        self._count_declared = count_declared
        register_target_counts(
            {
                "declared": self.count_declared,
                "not_connected": self.count_not_followed,
                "unreachable": self.count_unreachable,
                "losses_held": self.count_losses_held,
            }
        )

    def count_declared(self) -> float:
        """Count the SuperClusters, without the home cluster's."""
        return self._count_declared()

    def count_not_followed(self) -> float:
        """Count the targets whose caches are incomplete or out of date."""
        followed = self._targets.values()
        return self._count_declared() - sum(
            each.is_ready and not each.watch_problem for each in followed
        )

    def count_unreachable(self) -> float:
        """Count the targets that do not answer."""
        return sum(bool(target.problem) for target in self._targets.values())

    def count_losses_held(self) -> float:
        """Count the targets in which too many pods are missing to draw conclusions."""
        return sum(target.pod_loss_guard.is_held for target in self._targets.values())
