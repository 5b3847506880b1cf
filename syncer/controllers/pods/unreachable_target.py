"""Reconciler of pods in a target that does not answer: they are only set not ready.

Owns these texts. Meanwhile no pod is deleted in the target, moved from it, or concluded lost. Must
not know when the target is away. Hazard: these pods must be set not ready here, because the tenant
has no node controller. Otherwise Services would send traffic to them.
"""

from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.clusters.target_cluster import UNREACHABLE_SECONDS
from syncer.controllers import sync_up
from syncer.controllers.sync_up import ObservedTenantObject
from syncer.model.keys import Key
from syncer.rules.pods import pod_status
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.target_session import TargetSession
from tenancy.resources import PODS

TARGET_UNREACHABLE = "TargetUnreachable"
_READY_MESSAGE = "The cluster that runs this pod does not answer."
_DELETING_MESSAGE = (
    "The cluster that runs this pod does not answer. The pod is deleted when the cluster answers"
    " again."
)

TARGET_IN_DOUBT = "TargetInDoubt"
"""Reason of the Event about a pod whose deletion waits, because many pods are missing at once."""
_IN_DOUBT_MESSAGE = (
    "Many pods, including this one, are missing from the cluster that ran them. Deletion waits"
    " until an administrator confirms that they are lost."
)


async def report_delete_in_doubt(tenant_x: Entry, session: TargetSession) -> None:
    """Report a pod whose deletion waits while its absence is no proof."""
    if tenant_x.deleting and session.target.pod_loss_guard.is_tenant_held(session.tenant.uid):
        await session.event_recorder.record(
            PODS, tenant_x, reason=TARGET_IN_DOUBT, message=_IN_DOUBT_MESSAGE
        )


async def reconcile_unreachable_pod(key: Key, session: TargetSession) -> Result:
    """Set one pod of an unreachable target not ready. The target's return queues every key."""
    if key.kind != PODS.kind or not session.pods.has(key.namespace, key.name):
        return Done()
    tenant_x = session.stores[PODS.kind].get(key.namespace, key.name)
    if tenant_x is None:
        return Done()
    left = UNREACHABLE_SECONDS - session.target.get_unreachable_seconds()
    if left > 0:
        return RequeueAfter(left)
    if session.twins.is_behind(key, tenant_x, None):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    if tenant_x.deleting:
        await session.event_recorder.record(
            PODS, tenant_x, reason=TARGET_UNREACHABLE, message=_DELETING_MESSAGE
        )
    pod = tenant_x.decode()
    body = pod_status.build_not_ready_patch(pod, TARGET_UNREACHABLE, _READY_MESSAGE)
    if body is not None:
        kind, seen = session.kinds[PODS.kind], ObservedTenantObject(tenant_x, pod)
        await sync_up.write_tenant_object(
            kind, key, body, session, subresource="status", observed=seen
        )
    return Done()
