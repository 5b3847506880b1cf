"""Reconciler of the assigned cluster of a pod: chosen, recorded, and kept.

Owns the writes, in the tenant only. Must not know how a cluster is chosen. Each super cluster's own
key writes the twin, after a check in this module. Hazard: the record must be written, and the
answer received, before any create. A pod with a different record may have an unseen twin elsewhere.
"""

import secrets

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Again, Done, Verdict, Wait
from syncer.controllers import sync_down
from syncer.controllers.pods import candidates, node_selection, reschedule
from syncer.controllers.sync_down import Pair
from syncer.model import decide
from syncer.model.keys import PLACEMENT, Key
from syncer.model.unstructured import mapping
from syncer.placement.assignments import NOWHERE
from syncer.rules import registry
from syncer.rules.placement import cluster_scheduler, target_node
from syncer.rules.placement.cluster_scheduler import Nowhere
from syncer.rules.pods import pod_facts
from syncer.rules.registry import Kind
from syncer.safety.expectations import BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import PODS

LOOK_AGAIN_SECONDS = 30.0
"""Retry interval in seconds for a pod without a suitable cluster."""
OPENING_LOOK_SECONDS = 1.0
"""Retry interval in seconds for a pod that waits for a connecting target."""
_DIGITS = 8  # bytes: 16 hex digits

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


# --- the pod's key in the home cluster ------------------------------------------------------------


async def reconcile(key: Key, session: Session) -> Verdict:
    """Place one pod without an assigned cluster, or whose cluster is no longer granted."""
    seats = session.link.seats
    tenant_x = session.stores[PODS.kind].get(key.namespace, key.name)
    if tenant_x is None or not seats.is_split:
        return Done()
    if tenant_x.deleting:
        return _back(key, tenant_x, session)
    pod = tenant_x.decode()
    if pod_facts.is_held(pod) or pod_facts.is_finished(pod):
        return Done()
    seat = seats.of(tenant_x)
    if seat != NOWHERE:
        return await _seated(key, tenant_x, pod, seat, session)
    return await _unseated(key, tenant_x, pod, session)


async def _unseated(key: Key, tenant_x: Entry, pod: Object, session: Session) -> Verdict:
    seats = session.link.seats
    if seats.unproved(tenant_x):
        return Again(LOOK_AGAIN_SECONDS)  # and at once when that target connects
    if not seats.left(tenant_x):
        seats.doubt(tenant_x)
    if seats.left(tenant_x):
        verdict = await reschedule.leave(key, tenant_x, seats.left(tenant_x), session)
        if verdict is not None:
            return verdict
        if not candidates.is_there(tenant_x, session):
            return Done()
        seats.emptied(tenant_x.uid)
    return await _place(key, tenant_x, pod, session)


def _back(key: Key, tenant_x: Entry, session: Session) -> Verdict:
    """Restore the assignment of a deleted pod that was leaving its cluster, to end there."""
    seat = session.link.seats.left(tenant_x)
    there = candidates.session_at(seat, session) if seat else None
    if seat:
        session.link.seats.move(tenant_x, seat)
    if there is not None:
        there.add(candidates.pod_key(key, there))
    return Done()


async def _seated(key: Key, tenant_x: Entry, pod: Object, seat: str, session: Session) -> Verdict:
    if not session.link.seats.is_recorded(tenant_x, seat):
        await _record(tenant_x, seat, session)  # from before there was a choice, or foreign
        return Done()
    if mapping(pod.get("spec")).get("nodeName"):
        return Done()  # bound pods never move
    return await reschedule.look(key, tenant_x, pod, seat, session)


async def _place(key: Key, tenant_x: Entry, pod: Object, session: Session) -> Verdict:
    seats = session.link.seats
    ask = candidates.ask_of(tenant_x, pod, session)
    offered = candidates.of(tenant_x, session)
    if seats.awaits(candidates.late(offered), session.now()):
        return Again(OPENING_LOOK_SECONDS)
    found = cluster_scheduler.choose(ask, offered, seats.trial(tenant_x.uid).tried)
    if isinstance(found, Nowhere) and seats.trial(tenant_x.uid).tried:
        found = cluster_scheduler.choose(ask, offered)  # all were tried: use the best
    if isinstance(found, Nowhere):
        kind = registry.BY_NAME[PODS.kind]
        pair = sync_down.look(kind, candidates.pod_key(key, session), session)
        await node_selection.hold(kind, pair, pod, found.message, session)
        return Again(LOOK_AGAIN_SECONDS)
    there = candidates.session_at(found.name, session)
    inventory = there.super_cluster.inventory if there is not None else None
    with seats.reserved(tenant_x, found.name, inventory, ask.requests):
        await _record(tenant_x, found.name, session)
    if not candidates.is_there(tenant_x, session):
        return Done()  # deleted meanwhile: its entry would stay forever
    seats.move(tenant_x, found.name)
    there = candidates.session_at(found.name, session)
    if there is not None:
        seats.promise(tenant_x.uid, there.super_cluster.inventory, ask.requests)
        there.add(candidates.pod_key(key, there))
    _log.info("tenant.placed", target=found.name)
    return Done()


async def _record(tenant_x: Entry, name: str, session: Session) -> None:
    """Write the assigned cluster of a pod. Raises Wait if the pod has changed meanwhile."""
    body = {
        "metadata": {
            "uid": tenant_x.uid,
            "resourceVersion": tenant_x.resource_version,
            "annotations": {wellknown.ASSIGNED_CLUSTER: f"{name}/{secrets.token_hex(_DIGITS)}"},
        }
    }
    try:
        await session.tenant_client.patch(
            PODS,
            tenant_x.name,
            body,
            namespace=tenant_x.namespace,
            subresource="status",
            field_manager=wellknown.SYNCER,
        )
    except errors.Conflict as problem:
        raise Wait("the pod has changed meanwhile", BEHIND_SECONDS) from problem


# --- checks for the keys of each super cluster ----------------------------------------------------


async def elsewhere(kind: Kind, pair: Pair, session: Session) -> Verdict | None:
    """Handle a pod that is not assigned to this super cluster. Returns None if it is."""
    tenant_x, seats = pair.tenant_x, session.link.seats
    assert tenant_x is not None  # noqa: S101 - asked only then
    seat = seats.of(tenant_x)
    if seat == session.name:
        return None
    if seats.left(tenant_x) and tenant_x.deleting and session.target is None:
        session.add(session.key(PLACEMENT, pair.key.namespace, pair.key.name))
    elif seat == NOWHERE and session.target is None and not seats.left(tenant_x):
        if tenant_x.deleting and seats.unproved(tenant_x):
            return Again(LOOK_AGAIN_SECONDS)
        if tenant_x.deleting:
            return None  # it has no twin, and it must be deleted
        session.add(session.key(PLACEMENT, pair.key.namespace, pair.key.name))
    decision = decide.decide(
        decide.tenant_side(tenant_x),
        session.super_side(pair.super_x, pair.key.namespace),
        vc_uid=session.tenant.uid,
        wanted=False,
    )
    if decision.grounds is None:
        return Done()
    is_leaving = seats.left(tenant_x) == session.name
    if is_leaving and _is_bound(pair):
        return Done()  # the pod's own key detects that, and it stays
    _log.warning("super.stale", seat=seat or "none", leaving=is_leaving)
    # The twin of a leaving pod may be bound at this moment. It is deleted in the version seen, or
    # not.
    await session.deletions.delete(
        sync_down.target(kind, pair, decision.grounds), as_seen=is_leaving
    )
    return Done()


def _is_bound(pair: Pair) -> bool:
    twin = pair.super_x.decode() if pair.super_x is not None else {}
    return bool(mapping(twin.get("spec")).get("nodeName"))


def check(tenant_x: Entry, session: Session) -> None:
    """Raise Wait unless a twin may be created here.

    The cluster must be granted, the only one, and recorded.
    """
    seats = session.link.seats
    if not seats.is_split:
        return
    if not seats.offers(session.name):
        candidates.place_soon(tenant_x, session)
        raise Wait("this cluster is not granted any more", LOOK_AGAIN_SECONDS)
    unseen, found = seats.unproved(tenant_x), seats.twin_at(tenant_x)
    if unseen:
        raise Wait(f"{unseen} may have a twin of it, and is not reached yet", LOOK_AGAIN_SECONDS)
    if found and found != session.name:
        raise Wait(f"its twin in {found} has to go first", LOOK_AGAIN_SECONDS)
    if not seats.is_recorded(tenant_x, session.name):
        candidates.place_soon(tenant_x, session)
        raise Wait("the record of the pod's seat is on its way")


def consumed(pod: Object, session: Session) -> Object:
    """Return a tenant pod as its assigned cluster must see it."""
    if session.target is None:
        return pod
    return target_node.consumed(
        pod, session.name, candidates.labels_there(session), session.target.spec.taints
    )
