"""Records of the etcd of each tenant: its desired members, and what the last check found.

Owns the records, in memory and by the UID of the tenant. Must not decide anything. Hazard: a report
describes etcd as this process last saw it. Without a report nothing is known, and no member may be
added, removed or scaled because of that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeio.config.endpoint import Endpoint
from telemetry import metrics
from vcmanager.runtime.keys import ReconcileKey

CONDITIONS = ("observed", "unreachable", "degraded", "filling", "no_space")
"""Labels of the metric `vc_stores`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member in etcd's own list."""

    id: str
    peer_url: str
    ordinal: int | None
    """Ordinal of its pod. None: the URL is that of no pod of the StatefulSet."""
    is_learner: bool = False
    is_started: bool = True
    """Whether it has ever published its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """Answer of one member. Sizes are in bytes."""

    has_leader: bool
    is_leader: bool = False
    size: int = 0
    """Size of the database file, which the limit applies to."""
    used: int = 0
    """Size of the data. The rest of the file is free pages."""
    limit: int = 0
    """0: etcd did not report it."""

    @property
    def free(self) -> int:
        """Return the bytes that a defragmentation returns."""
        return max(0, self.size - self.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdObservation:
    """One check of an etcd. Statuses are by member ID, of the members that answered."""

    members: tuple[Member, ...] = ()
    """Empty: no member with a quorum answered."""
    statuses: Mapping[str, MemberStatus] = field(default_factory=dict)
    alarmed: frozenset[str] = frozenset()
    """IDs of the members with the alarm NOSPACE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredStore:
    """Input of the checks of one tenant's etcd, from the last reconcile of its VirtualCluster."""

    owner: ReconcileKey
    """Key of the VirtualCluster."""
    endpoints: Mapping[int, Endpoint]
    """Client endpoints of the running pods, by ordinal."""
    peer_urls: tuple[str, ...]
    """Peer URL of each possible ordinal."""
    replicas: int
    lost: frozenset[int] = frozenset()
    """Ordinals of the pods that report that their data is missing."""
    occupied: frozenset[int] = frozenset()
    """Ordinals without a member that still have a volume with old data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """Conclusion from one check, for the status of the VirtualCluster and its StatefulSet."""

    members: tuple[Member, ...] = ()
    answered: frozenset[int] = frozenset()
    """Ordinals of the members that answered."""
    reason: str
    """Reason of the condition EtcdMembersReady."""
    message: str
    is_ready: bool | None
    """None: unknown."""
    is_filling: bool | None = None
    filling_reason: str = ""
    filling_message: str = ""
    used_ratio: float = field(default=0.0, compare=False)
    """Data of the fullest member as a share of its limit. It is for metrics only."""


class StoreRecords:
    """Desired stores and reports of all tenants."""

    def __init__(self) -> None:
        """Start without tenants."""
        self._desired: dict[str, DesiredStore] = {}
        self._reports: dict[str, StoreReport] = {}

    def set_desired(self, uid: str, desired: DesiredStore) -> bool:
        """Record the desired store of a tenant. Return whether it has changed."""
        is_new = self._desired.get(uid) != desired
        self._desired[uid] = desired
        return is_new

    def get_desired(self, uid: str) -> DesiredStore | None:
        """Return the desired store of a tenant."""
        return self._desired.get(uid)

    def set_report(self, uid: str, report: StoreReport) -> bool:
        """Record a report. Return whether it has changed. A deleted tenant gets none."""
        if uid not in self._desired:
            return False
        is_new = self._reports.get(uid) != report
        self._reports[uid] = report
        self._update_metrics()
        return is_new

    def get_report(self, uid: str) -> StoreReport | None:
        """Return the last report, or None before the first check."""
        return self._reports.get(uid)

    def remove(self, uid: str) -> None:
        """Delete the records of a tenant."""
        self._desired.pop(uid, None)
        self._reports.pop(uid, None)
        self._update_metrics()

    def _update_metrics(self) -> None:
        found = self._reports.values()
        counts = {
            "observed": sum(1 for each in found if each.members),
            "unreachable": sum(1 for each in found if not each.members),
            "degraded": sum(1 for each in found if each.members and each.is_ready is False),
            "filling": sum(1 for each in found if each.is_filling),
            "no_space": sum(1 for each in found if each.filling_reason == "NoSpace"),
        }
        metrics.set_store_used_ratio(max((each.used_ratio for each in found), default=0.0))
        for condition in CONDITIONS:
            metrics.set_store_count(condition, counts[condition])
