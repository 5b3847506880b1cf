"""Reconciler of a target's virtual node in a tenant, kept while the target is granted.

Owns the writes. Must not know which fields are shown. Hazard: the node must stay as long as a pod
names it. Otherwise those pods are deleted with it.
"""

from datetime import UTC, datetime

from kubeio.cache.store import Entry
from kubeio.controller.worker import Again, Done, Verdict, Wait
from syncer.clusters.target_cluster import AWAY_SECONDS
from syncer.controllers import parked_writes
from syncer.controllers.nodes import drain, target_lease
from syncer.controllers.nodes import node_reconciler as node_flow
from syncer.model.keys import NODE, Key
from syncer.rules.nodes import virtual_nodes
from syncer.rules.placement import target_node
from syncer.safety.expectations import BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy import wellknown


async def present(key: Key, session: Session) -> None:
    """Wait for the node before a pod is bound to it. Raises Wait while it is incomplete."""
    node_key = session.key(NODE, "", target_node.name_of(session.name))
    shown = session.stores[NODE].get("", node_key.name)
    if shown is not None and virtual_nodes.is_complete(shown.decode()):
        return
    session.wait_for(node_key, key)
    session.queue.add(node_key, first=True)
    raise Wait("the virtual node is on its way")


async def reconcile(key: Key, session: Session) -> Verdict:
    """Show or delete the node."""
    if key.name != target_node.name_of(session.name):
        return Done()
    shown = session.stores[NODE].get("", key.name)
    if session.is_behind(key, shown, None):
        return Again(BEHIND_SECONDS)
    if shown is not None and not target_node.is_of_a_target(shown.decode()):
        return Done()  # the tenant's own node has the name and is not changed
    target = session.target
    assert target is not None  # noqa: S101 - such keys are of targets
    if session.name not in session.link.seats.granted and not session.link.seats.is_any_at(
        session.name
    ):
        if shown is not None and not target.muster.holds(session.tenant.uid):
            await node_flow.remove(key, shown, session)
        return Done()
    away = target.away_seconds()
    await _show(key, shown, session, is_away=away >= AWAY_SECONDS)
    if shown is not None and not away:
        target_lease.demand(session)
    return Again(AWAY_SECONDS - away) if 0 < away < AWAY_SECONDS else Done()


async def _show(key: Key, shown: Entry | None, session: Session, *, is_away: bool) -> None:
    target = session.target
    assert target is not None  # noqa: S101 - such keys are of targets
    whole = session.super_cluster.inventory.whole
    labels = target_node.labels_of(session.name, target.spec.labels, whole.places)
    wanted = target_node.node(
        session.name,
        target.registration,
        labels,
        target.spec.taints,
        shut=is_away,
        is_cordoned=drain.is_withdrawn(session),
    )
    virtual = shown.decode() if shown is not None else None
    ours = {(t["key"], t["effect"]) for t in wanted["spec"]["taints"]}
    wanted["metadata"]["annotations"][wellknown.TAINTS] = ",".join(
        sorted(f"{key}:{effect}" for key, effect in ours)
    )
    if virtual is not None:
        kept = [
            t
            for t in virtual_nodes.own_taints(virtual)
            if (t.get("key"), t.get("effect")) not in ours
        ]
        wanted["spec"]["taints"] += kept
    if virtual is None or not target_node.is_shown(virtual, wanted):
        if virtual is not None:
            # Otherwise a taint that the tenant adds at this moment would be overwritten.
            wanted["metadata"]["resourceVersion"] = virtual["metadata"]["resourceVersion"]
        await node_flow.apply(key, wanted, shown, session)
    else:
        parked_writes.settled(key, parked_writes.TENANT, session)
    status = target_node.status(
        whole,
        version=target.version,
        problem=target.problem if is_away else "",
        agent=session.link.home.agents.of_target(target.registration),
        now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        virtual_node=virtual,
    )
    if virtual is None or not target_node.is_status_shown(virtual, status):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name}}
        await node_flow.apply(key, {**body, "status": status}, shown, session, "status")
    else:
        parked_writes.settled(key, parked_writes.TENANT, session, "status")
