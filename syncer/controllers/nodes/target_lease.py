"""Reconciler of the Lease of a target's virtual node, renewed after answers of the target.

Owns the time of the writes. The Lease is in the tenant's namespace `kube-node-lease`, like those of
kubelets. No controller of the tenant acts on it, because tenants have no node controller. The
node's own key sets it not ready. The Lease is for clients that need the time of the last check, and
it also shows when the syncer is down. Hazard: the time in the Lease must be that of the target's
answer. A Lease renewed by the clock has no meaning.
"""

import time
from datetime import UTC, datetime, timedelta

from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.clusters.target_cluster import UNREACHABLE_SECONDS
from syncer.model.keys import LEASE, NODE, Key
from syncer.rules.placement import target_node
from syncer.tenants.session import Session
from syncer.tenants.target_session import TargetSession
from tenancy import wellknown
from tenancy.resources import LEASES

RENEW_SECONDS = 10.0
"""Write interval in seconds, for each tenant and target."""
LEASE_NAMESPACE = "kube-node-lease"


def enqueue_lease(session: Session) -> None:
    """Start to renew the Lease, if that is not running. The node must exist."""
    if session.node_memory.get_seconds_to_renewal(RENEW_SECONDS) <= 0:
        session.work.enqueue(
            session.build_key(LEASE, LEASE_NAMESPACE, target_node.build_node_name(session.name)),
            low=True,
        )


async def reconcile_lease(key: Key, session: TargetSession) -> Result:
    """Renew the Lease with the time of the target's last answer, without a request to it."""
    target = session.target
    shown = session.stores[NODE].get("", key.name)
    if shown is None or wellknown.SUPER_CLUSTER not in shown.annotations or shown.deleting:
        return Done()  # its node requests it again
    left = session.node_memory.get_seconds_to_renewal(RENEW_SECONDS)
    if left > 0:
        return RequeueAfter(left)
    session.node_memory.record_lease_renewal()
    answered = datetime.now(UTC) - timedelta(seconds=time.monotonic() - target.answered_at)
    await session.writer.apply_unguarded(LEASES, _build_lease(key.name, shown, answered))
    return RequeueAfter(RENEW_SECONDS)


def _build_lease(name: str, node: Entry, answered: datetime) -> dict[str, object]:
    """Return the Lease. It is deleted with its node."""
    owner = {"apiVersion": "v1", "kind": NODE, "name": node.name, "uid": node.uid}
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": int(UNREACHABLE_SECONDS),
            "renewTime": answered.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
