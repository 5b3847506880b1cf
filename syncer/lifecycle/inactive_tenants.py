"""Tenants that their spec keeps from being synced: suspended, or asleep.

Owns the reason and message of the condition, and the end of the pods of a sleeping tenant. Hazard:
pods may be deleted only after the tenant's connection has ended. Otherwise the tenant would see the
end of its pods, and a pod of the tenant would be deleted or created again at once.
"""

from dataclasses import dataclass

import structlog

from kubeio import errors
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.super_cluster import BY_TENANT_INDEX
from syncer.tenants import conditions
from tenancy.resources import PODS
from tenancy.specs import VirtualClusterSpec

RECHECK_SECONDS = 15.0
"""Interval in seconds between two deletes of a sleeping tenant's pods. The cache may not have shown
a pod that was created just before the connection ended.
"""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inactivity:
    """Reason why a tenant is not synced."""

    reason: str
    message: str
    stops_pods: bool = False
    """Whether the tenant's pods in the super cluster are deleted."""


_SUSPENDED = Inactivity(
    reason=conditions.SUSPENDED,
    message="spec.suspend is true, so nothing is synced. The control plane and running pods stay."
    " Set spec.suspend to false to sync the tenant again.",
)
_ASLEEP = Inactivity(
    reason=conditions.ASLEEP,
    message="The tenant is asleep, so nothing is synced. Its running pods stay. Remove spec.sleep"
    " to wake it.",
)
_ASLEEP_WITHOUT_PODS = Inactivity(
    reason=conditions.ASLEEP,
    message="The tenant is asleep, so nothing is synced. Its pods are stopped. Remove spec.sleep"
    " to wake it.",
    stops_pods=True,
)


def find_inactivity(spec: VirtualClusterSpec) -> Inactivity | None:
    """Return why a tenant is not synced, or None if it is to be synced.

    A suspended tenant keeps its pods, because the suspension is for emergencies.
    """
    if spec.suspend:
        return _SUSPENDED
    if spec.sleep is None:
        return None
    return _ASLEEP if spec.sleep.workloads == "Keep" else _ASLEEP_WITHOUT_PODS


async def stop_pods(home: HomeCluster, uid: str) -> float | None:
    """Delete the super pods of a tenant. Each has its own grace period.

    Returns the seconds until the next check, or None if a request failed. Another super cluster
    has no pods of the tenant, because the API refuses such a sleep for a tenant with targets.
    """
    is_complete = True
    for found in home.stores[PODS.kind].index(BY_TENANT_INDEX, uid):
        if found.deleting:
            continue
        try:
            await home.client.delete(PODS, found.name, namespace=found.namespace, uid=found.uid)
        except (errors.NotFound, errors.Conflict):
            continue  # it has ended, or another pod has its name
        except errors.KubeError as problem:
            _log.warning("tenant.pods_not_stopped", uid=uid, problem=str(problem))
            is_complete = False
    return RECHECK_SECONDS if is_complete else None
