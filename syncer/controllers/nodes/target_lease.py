"""The lease of the node that stands for a target: renewed only after the target has answered.

Owns when it is written, in the tenant's namespace `kube-node-lease`, where kubelets keep theirs. No
controller of the tenant acts on it, as none there watches over nodes: the node's own key says that
it is not ready. It is for whoever wants to know since when nobody looks any more, and goes on to
tell when the syncer itself is down. Hazard: a lease that is renewed by the clock says nothing, so
the time in it is that of the answer.
"""

import time
from datetime import UTC, datetime, timedelta

from kubeio.cache.store import Entry
from kubeio.controller.worker import Again, Done, Verdict
from syncer.clusters.target_cluster import AWAY_SECONDS
from syncer.model.keys import LEASE, NODE, Key
from syncer.rules.placement import target_node
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import LEASES

RENEW_SECONDS = 10.0
"""How often it is written, one write for each tenant and target."""
NAMESPACE = "kube-node-lease"


def demand(session: Session) -> None:
    """Have the lease kept from now on, if it is not; the node is there."""
    if session.reminders.left_to_renew(RENEW_SECONDS) <= 0:
        session.add(session.key(LEASE, NAMESPACE, target_node.name_of(session.name)), low=True)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Renew the lease as of the target's last answer; one that is away is not asked for it."""
    target = session.target
    assert target is not None  # noqa: S101 - such keys are of targets
    shown = session.stores[NODE].get("", key.name)
    if shown is None or wellknown.SUPER_CLUSTER not in shown.annotations or shown.deleting:
        return Done()  # its node demands it again
    left = session.reminders.left_to_renew(RENEW_SECONDS)
    if left > 0:
        return Again(left)
    session.reminders.renewed()
    answered = datetime.now(UTC) - timedelta(seconds=time.monotonic() - target.answered_at)
    await session.tenant_client.apply(
        LEASES, _lease(key.name, shown, answered), field_manager=wellknown.SYNCER
    )
    return Again(RENEW_SECONDS)


def _lease(name: str, node: Entry, answered: datetime) -> dict[str, object]:
    """Return the lease; it goes with its node."""
    owner = {"apiVersion": "v1", "kind": NODE, "name": node.name, "uid": node.uid}
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": int(AWAY_SECONDS),
            "renewTime": answered.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
