"""The one node that stands for a target in a tenant: there while the tenant is granted the target.

Owns the effects. Must not know which leaves are shown. Hazard: a node that goes while pods name it
takes their objects along, so it stays as long as any does.
"""

from datetime import UTC, datetime

import structlog

from kubeio import Object, errors
from kubeio.store import Entry
from kubeio.worker import Again, Done, Verdict, Wait
from syncer import parking
from syncer.expectations import BEHIND_SECONDS, Side
from syncer.fuse import Part
from syncer.keys import NODE, Key
from syncer.session import Session
from syncer.special import nodes, target_nodes
from syncer.targets import AWAY_SECONDS
from tenancy import marks
from tenancy.resources import NODES

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def present(key: Key, session: Session) -> None:
    """See that the node is there before a pod is bound to it; raises Wait while it is not."""
    node_key = session.key(NODE, "", target_nodes.name_of(session.name))
    shown = session.stores[NODE].get("", node_key.name)
    if shown is not None and nodes.is_complete(shown.decode()):
        return
    session.wait_for(node_key, key)
    session.queue.add(node_key, first=True)
    raise Wait("the virtual node is on its way")


async def reconcile(key: Key, session: Session) -> Verdict:
    """Show the node as it is, or take it away."""
    if key.name != target_nodes.name_of(session.name):
        return Done()
    shown = session.stores[NODE].get("", key.name)
    if session.is_behind(key, shown, None):
        return Again(BEHIND_SECONDS)
    if shown is not None and not target_nodes.is_of_a_target(shown.decode()):
        return Done()  # the tenant's own has the name; nothing of others is touched
    if session.name not in session.link.seats.granted and not session.link.seats.is_any_at(
        session.name
    ):
        if shown is not None:
            await _remove(key, shown, session)
        return Done()
    assert session.target is not None  # noqa: S101 - such keys are of targets
    away = session.target.away_seconds()
    await _show(key, shown, session, is_away=away >= AWAY_SECONDS)
    return Again(AWAY_SECONDS - away) if 0 < away < AWAY_SECONDS else Done()


async def _show(key: Key, shown: Entry | None, session: Session, *, is_away: bool) -> None:
    target = session.target
    assert target is not None  # noqa: S101 - such keys are of targets
    own = target.spec.labels
    below = session.super_cluster.inventory.bodies()
    labels = target_nodes.labels_of(
        session.name, own, [node["metadata"].get("labels") or {} for node in below]
    )
    wanted = target_nodes.node(
        session.name, target.registration, labels, target.spec.taints, shut=is_away
    )
    virtual = shown.decode() if shown is not None else None
    ours = {(t["key"], t["effect"]) for t in wanted["spec"]["taints"]}
    wanted["metadata"]["annotations"][marks.TAINTS] = ",".join(
        sorted(f"{key}:{effect}" for key, effect in ours)
    )
    if virtual is not None:
        kept = [t for t in nodes.own_taints(virtual) if (t.get("key"), t.get("effect")) not in ours]
        wanted["spec"]["taints"] += kept
    if virtual is None or not target_nodes.is_shown(virtual, wanted):
        await _apply(key, wanted, shown, session)
    status = target_nodes.status(
        below,
        version=target.version,
        problem=target.problem if is_away else "",
        since=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    if virtual is None or not target_nodes.is_status_shown(virtual, status):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name}}
        await _apply(key, {**body, "status": status}, shown, session, "status")


async def _apply(
    key: Key, body: Object, shown: Entry | None, session: Session, subresource: str = ""
) -> None:
    part, before = Part(key, parking.TENANT, subresource), shown.decode() if shown else {}
    if parking.is_parked(part, body, before, session):
        return
    written: Object = await session.tenant_client.apply(
        NODES, body, field_manager=marks.SYNCER, subresource=subresource
    )
    session.expectations.wrote(Side.TENANT, key, written["metadata"]["resourceVersion"])
    session.fuse.wrote(key)
    if shown is not None:
        await parking.tried(
            part,
            body,
            before=before,
            answer=written,
            resource=NODES,
            tenant_x=shown,
            session=session,
        )


async def _remove(key: Key, shown: Entry, session: Session) -> None:
    try:
        await session.tenant_client.delete(NODES, key.name, uid=shown.uid)
    except errors.NotFound:
        return
    session.expectations.deleted(Side.TENANT, key, shown)
    _log.info("node.removed", node=key.name)
