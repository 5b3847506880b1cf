"""One tenant pod and the super cluster that it is to run in: chosen, recorded, and kept to.

Owns the effects; it writes in the tenant only. Must not know how a seat is chosen. What is written
below is the matter of each super cluster's own key, which asks here first. Hazard: the record is
written, and the answer is in, before anything is made: a pod whose record is elsewhere may have a
twin there that nobody has seen yet.
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
"""How often a pod that goes nowhere is looked at."""
OPENING_LOOK_SECONDS = 1.0
"""How often one is that waits for a target which is about to be reached."""
_DIGITS = 8  # bytes: sixteen hex digits

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


# --- the pod's own key, at home -------------------------------------------------------------------


async def reconcile(key: Key, session: Session) -> Verdict:
    """Place one pod that has no seat, or whose seat is offered no more."""
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
        return Again(LOOK_AGAIN_SECONDS)  # and at once when that one is seen
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
    """Give a pod that is deleted the seat back that it was on its way out of, to end there."""
    seat = session.link.seats.left(tenant_x)
    there = candidates.session_at(seat, session) if seat else None
    if seat:
        session.link.seats.move(tenant_x, seat)
    if there is not None:
        there.add(candidates.pod_key(key, there))
    return Done()


async def _seated(key: Key, tenant_x: Entry, pod: Object, seat: str, session: Session) -> Verdict:
    if not session.link.seats.is_recorded(tenant_x, seat):
        await _record(tenant_x, seat, session)  # of before there was a choice, or somebody wrote it
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
        found = cluster_scheduler.choose(ask, offered)  # all were tried: the best has to do
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
        return Done()  # it went meanwhile, and nobody would take its seat from it any more
    seats.move(tenant_x, found.name)
    there = candidates.session_at(found.name, session)
    if there is not None:
        seats.promise(tenant_x.uid, there.super_cluster.inventory, ask.requests)
        there.add(candidates.pod_key(key, there))
    _log.info("tenant.placed", target=found.name)
    return Done()


async def _record(tenant_x: Entry, name: str, session: Session) -> None:
    """Write where a pod goes; a pod that has changed meanwhile is looked at once more."""
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


# --- what each super cluster's key asks -----------------------------------------------------------


async def elsewhere(kind: Kind, pair: Pair, session: Session) -> Verdict | None:
    """Do what is to be done for a pod that is not seated here; None: it is."""
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
            return None  # nothing of it is anywhere, and somebody has to let it go
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
        return Done()  # the pod's own key finds that out, and it stays
    _log.warning("super.stale", seat=seat or "none", leaving=is_leaving)
    # One that leaves may be bound in this very moment: it goes as it was seen, or not at all.
    await session.deletions.delete(
        sync_down.target(kind, pair, decision.grounds), as_seen=is_leaving
    )
    return Done()


def _is_bound(pair: Pair) -> bool:
    twin = pair.super_x.decode() if pair.super_x is not None else {}
    return bool(mapping(twin.get("spec")).get("nodeName"))


def check(tenant_x: Entry, session: Session) -> None:
    """Raise Wait unless a twin may be made here: granted, the only one, and the record is in."""
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
    """Return a tenant pod as the cluster that it is seated in is to see it."""
    if session.target is None:
        return pod
    return target_node.consumed(
        pod, session.name, candidates.labels_there(session), session.target.spec.taints
    )
