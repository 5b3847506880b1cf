"""What is said in a tenant of a target that does not answer: its pods are not ready, and no more.

Owns these words. Nothing is deleted there meanwhile, nothing concluded from it, nothing moved from
it. Must not know when it is away. Hazard: nobody else says of these pods that they are not ready,
as no controller of the tenant watches over nodes; left out, Services would lead to them.
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
"""Reason of the Event about a pod that does not go, as with too many others it is not there."""
_IN_DOUBT = (
    "The cluster that runs this pod shows many pods no more, and this one among them; the pod goes"
    " once it is known whether they are gone for good."
)


async def tell_of_doubt(tenant_x: Entry, session: Session) -> None:
    """Tell of a pod that is to go and does not, while its absence is no proof."""
    assert session.target is not None  # noqa: S101 - asked only of a target
    if tenant_x.deleting and session.target.muster.holds(session.tenant.uid):
        await session.notices.tell(PODS, tenant_x, reason=IN_DOUBT, message=_IN_DOUBT)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Say of one pod that is seated there that it is not ready; the return queues every key."""
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
