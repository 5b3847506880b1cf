"""Scheduled deletion: the control plane is stopped, everything is kept, and the end is a DELETE.

Hazard: nothing but the control plane may be stopped here. Pods, volumes and namespaces of the
tenant must be unchanged when the deletion is taken back.
"""

from datetime import datetime

from kubeio import Object, errors
from tenancy import conditions, deletion
from tenancy.resources import VIRTUAL_CLUSTERS
from tenancy.specs import VirtualCluster
from vcmanager.reconcilers.lifetime.control_plane_stop import stop_control_plane
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.observed import ObservedObjects

DELETION_SCHEDULED = "DeletionScheduled"
"""Reason of the condition Ready during the grace period."""
_MIN_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 3600.0


async def hold_scheduled_deletion(
    means: ReconcileContext, cluster: VirtualCluster, body: Object, observed: ObservedObjects
) -> None:
    """Return if no deletion is scheduled. Raises PhaseBlocked during the grace period.

    After the grace period the VirtualCluster is deleted.
    """
    moment = deletion.parse_scheduled_time(cluster.annotations)
    if moment is None:
        return
    # A stopped etcd is no alert. Its members are in the ConfigMap until an undelete.
    means.stores.remove(cluster.tenant.uid)
    if moment <= means.now():
        await _delete(means, body)
        raise PhaseBlocked("Deleting", "The grace period is over. The tenant is being deleted.")
    await stop_control_plane(means, observed)
    raise PhaseBlocked(
        DELETION_SCHEDULED,
        f"The tenant is deleted at {conditions.format_time(moment)}. Its control plane is stopped,"
        " and its pods and volumes are kept until then. `kubectl vc undelete` takes the deletion"
        " back.",
        retry_after=_compute_retry_delay(moment, means.now()),
    )


def _compute_retry_delay(moment: datetime, now: datetime) -> float:
    left = (moment - now).total_seconds()
    return min(max(left, _MIN_RETRY_SECONDS), _MAX_RETRY_SECONDS)


async def _delete(means: ReconcileContext, body: Object) -> None:
    """Delete the VirtualCluster in the version that was read, so that an undelete is not missed."""
    metadata = body["metadata"]
    try:
        await means.super_client.delete(
            VIRTUAL_CLUSTERS,
            metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )
    except errors.NotFound:
        return
