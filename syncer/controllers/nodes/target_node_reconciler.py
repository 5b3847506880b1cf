"""Reconciler of a target's virtual node in a tenant, kept while the target is granted.

Owns the writes. Must not know which fields are shown. Hazard: the node must stay as long as a pod
names it. Otherwise those pods are deleted with it.
"""

from datetime import UTC, datetime

from kubeio import Object
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.clusters.target_cluster import UNREACHABLE_SECONDS
from syncer.controllers.nodes import node_reconciler as node_flow
from syncer.controllers.nodes import target_lease
from syncer.model.keys import NODE, Key
from syncer.rules.nodes import virtual_nodes
from syncer.rules.placement import target_node
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.session import Session
from syncer.tenants.target_session import TargetSession
from tenancy import wellknown
from tenancy.conditions import format_time


async def ensure_target_node(key: Key, session: Session) -> None:
    """Wait for the node before a pod is bound to it. Raises Wait while it is incomplete."""
    node_key = session.build_key(NODE, "", target_node.build_node_name(session.name))
    shown = session.stores[NODE].get("", node_key.name)
    if shown is not None and virtual_nodes.has_own_status(shown.decode()):
        return
    session.work.add_waiter(node_key, key)
    session.queue.add(node_key, first=True)
    raise NotReadyYet("the virtual node is being created")


async def reconcile_target_node(key: Key, session: TargetSession) -> Result:
    """Show or delete the node."""
    if key.name != target_node.build_node_name(session.name):
        return Done()
    shown = session.stores[NODE].get("", key.name)
    if session.twins.is_behind(key, shown, None):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    if shown is not None and not target_node.is_target_node(shown.decode()):
        return Done()  # the tenant's own node has the name and is not changed
    target = session.target
    if (
        session.name not in session.connection.grants.granted
        and not session.connection.assignments.has_pods_in(session.name)
    ):
        if shown is not None and not target.pod_loss_guard.is_tenant_held(session.tenant.uid):
            await node_flow.delete_node(key, shown, session)
        return Done()
    away = target.get_unreachable_seconds()
    await _write_target_node(key, shown, session, is_away=away >= UNREACHABLE_SECONDS)
    if shown is not None and not away:
        target_lease.enqueue_lease(session)
    return RequeueAfter(UNREACHABLE_SECONDS - away) if 0 < away < UNREACHABLE_SECONDS else Done()


async def _write_target_node(
    key: Key, shown: Entry | None, session: TargetSession, *, is_away: bool
) -> None:
    target = session.target
    whole = session.super_cluster.capacity.node_totals
    labels = target_node.build_labels(session.name, target.spec.labels, whole.topology)
    wanted = target_node.build_node(
        session.name,
        target.registration,
        labels,
        target.spec.taints,
        shut=is_away,
        is_cordoned=session.scope.is_grant_withdrawn,
    )
    virtual = shown.decode() if shown is not None else None
    own_part = {"metadata": {**wanted["metadata"]}, "spec": {**wanted["spec"]}}
    own_part["spec"]["taints"] = list(own_part["spec"]["taints"])
    ours = {(t["key"], t["effect"]) for t in wanted["spec"]["taints"]}
    wanted["metadata"]["annotations"][wellknown.TAINTS] = ",".join(
        sorted(f"{key}:{effect}" for key, effect in ours)
    )
    if virtual is not None:
        kept = [
            t
            for t in virtual_nodes.list_own_taints(virtual)
            if (t.get("key"), t.get("effect")) not in ours
        ]
        wanted["spec"]["taints"] += kept
    if virtual is None or not target_node.is_node_current(virtual, wanted):
        if virtual is not None:
            # Otherwise a taint that the tenant adds at this moment would be overwritten.
            wanted["metadata"]["resourceVersion"] = virtual["metadata"]["resourceVersion"]
        await node_flow.apply_node(key, wanted, shown, session, build_own_part=lambda: own_part)
    else:
        node_flow.record_current(key, lambda: own_part, shown, session)
    status = target_node.build_status(
        whole,
        version=target.version,
        problem=target.problem if is_away else "",
        agent=session.connection.home_cluster.agents.get_target_address(target.registration),
        now=format_time(datetime.now(UTC)),
        virtual_node=virtual,
    )
    if virtual is None or not target_node.is_status_current(virtual, status):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name}}
        await node_flow.apply_node(
            key,
            {**body, "status": status},
            shown,
            session,
            "status",
            build_own_part=lambda: _strip_times(status),
        )
    else:
        node_flow.record_current(key, lambda: _strip_times(status), shown, session, "status")


def _strip_times(status: Object) -> Object:
    """Return a status without transition times, which depend on the node in the tenant."""
    untimed = [
        {field: value for field, value in item.items() if field != "lastTransitionTime"}
        for item in status["conditions"]
    ]
    return {**status, "conditions": untimed}
