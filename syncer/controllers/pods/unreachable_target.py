"""Reconciler of pods in a target that does not answer: they are only set not ready.

Owns these texts. Meanwhile no pod is deleted in the target, moved from it, or concluded lost. Must
not know when the target is away. Hazard: these pods must be set not ready here, because the tenant
has no node controller. Otherwise Services would send traffic to them.
"""

from kubeio.cache.store import Entry
from kubeio.controller.worker import Again, Done, Verdict
from syncer.clusters.target_cluster import AWAY_SECONDS
from syncer.controllers import sync_up
from syncer.controllers.sync_up import Seen
from syncer.model.keys import Key
from syncer.rules import registry
from syncer.rules.pods import pod_status
from syncer.safety.expectations import BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy.resources import PODS

REASON = "TargetUnreachable"
_READY = "The cluster that runs this pod does not answer."
_GOING = "The cluster that runs this pod does not answer; the pod goes once that is back."

IN_DOUBT = "TargetInDoubt"
"""Reason of the Event about a pod whose deletion waits, because many pods are missing at once."""
_IN_DOUBT = (
    "The cluster that runs this pod shows many pods no more, and this one among them; the pod goes"
    " once it is known whether they are gone for good."
)


async def tell_of_doubt(tenant_x: Entry, session: Session) -> None:
    """Report a pod whose deletion waits while its absence is no proof."""
    assert session.target is not None  # noqa: S101 - asked only of a target
    if tenant_x.deleting and session.target.muster.holds(session.tenant.uid):
        await session.notices.tell(PODS, tenant_x, reason=IN_DOUBT, message=_IN_DOUBT)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Set one pod of an unreachable target not ready. The target's return queues every key."""
    assert session.target is not None  # noqa: S101 - asked only of a target
    if key.kind != PODS.kind or not session.pods.has(key.namespace, key.name):
        return Done()
    tenant_x = session.stores[PODS.kind].get(key.namespace, key.name)
    if tenant_x is None:
        return Done()
    left = AWAY_SECONDS - session.target.away_seconds()
    if left > 0:
        return Again(left)
    if session.is_behind(key, tenant_x, None):
        return Again(BEHIND_SECONDS)
    if tenant_x.deleting:
        await session.notices.tell(PODS, tenant_x, reason=REASON, message=_GOING)
    pod = tenant_x.decode()
    body = pod_status.not_ready(pod, REASON, _READY)
    if body is not None:
        kind, seen = registry.BY_NAME[PODS.kind], Seen(tenant_x, pod)
        await sync_up.write(kind, key, body, session, subresource="status", seen=seen)
    return Done()
