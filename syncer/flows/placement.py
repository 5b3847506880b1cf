"""One tenant pod and the super cluster that it is to run in: chosen, recorded, and kept to.

Owns the effects; it writes in the tenant only. Must not know how a seat is chosen. What is written
below is the matter of each super cluster's own key, which asks here first. Hazard: the record is
written, and the answer is in, before anything is made: a pod whose record is elsewhere may have a
twin there that nobody has seen yet.
"""

import secrets

import structlog

from kubeio import Object, errors
from kubeio.store import Entry
from kubeio.worker import Again, Done, Verdict, Wait
from syncer import decide, downward, kinds
from syncer.downward import Pair
from syncer.expectations import BEHIND_SECONDS
from syncer.flows import pod_placement
from syncer.keys import HOME, PLACEMENT, Key
from syncer.kinds import Kind
from syncer.seats import NOWHERE
from syncer.session import Session
from syncer.special import placement, pods, target_nodes
from syncer.special.placement import Candidate, Nowhere
from syncer.special.shapes import mapping, mappings
from tenancy import marks
from tenancy.resources import PODS
from tenancy.specs import TargetGrant

LOOK_AGAIN_SECONDS = 30.0
"""How often a pod that goes nowhere is looked at."""
_DIGITS = 8  # bytes: sixteen hex digits
_EVERYWHERE = TargetGrant(name=HOME)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


# --- the pod's own key, at home -------------------------------------------------------------------


async def reconcile(key: Key, session: Session) -> Verdict:
    """Place one pod that has no seat, or whose seat is offered no more."""
    seats = session.link.seats
    tenant_x = session.stores[PODS.kind].get(key.namespace, key.name)
    if tenant_x is None or tenant_x.deleting or not seats.is_split:
        return Done()
    pod = tenant_x.decode()
    if pods.is_held(pod) or pods.is_finished(pod):
        return Done()
    seat = seats.of(tenant_x)
    if seat != NOWHERE:
        if seats.is_recorded(tenant_x, seat) or mapping(pod.get("spec")).get("nodeName"):
            return Done()
        await _record(tenant_x, seat, session)  # a pod of before there was a choice
        return Done()
    space = session.stores["Namespace"].get("", key.namespace)
    ask = placement.ask_of(pod, space.labels if space is not None else {})
    found = placement.choose(ask, _candidates(tenant_x, session))
    if isinstance(found, Nowhere):
        kind = kinds.BY_NAME[PODS.kind]
        pair = downward.look(kind, _pod_key(key, session), session)
        await pod_placement.hold(kind, pair, pod, found.message, session)
        return Again(LOOK_AGAIN_SECONDS)
    await _record(tenant_x, found.name, session)
    seats.take(tenant_x, found.name)
    there = _session_at(found.name, session)
    if there is not None:
        seats.promise(tenant_x.uid, there.super_cluster.inventory, ask.requests)
        there.add(_pod_key(key, there))
    _log.info("tenant.placed", target=found.name)
    return Done()


async def _record(tenant_x: Entry, name: str, session: Session) -> None:
    """Write where a pod goes; a pod that has changed meanwhile is looked at once more."""
    body = {
        "metadata": {
            "uid": tenant_x.uid,
            "resourceVersion": tenant_x.resource_version,
            "annotations": {marks.SEAT: f"{name}/{secrets.token_hex(_DIGITS)}"},
        }
    }
    try:
        await session.tenant_client.patch(
            PODS,
            tenant_x.name,
            body,
            namespace=tenant_x.namespace,
            subresource="status",
            field_manager=marks.SYNCER,
        )
    except errors.Conflict as problem:
        raise Wait("the pod has changed meanwhile", BEHIND_SECONDS) from problem


def _pod_key(key: Key, session: Session) -> Key:
    return session.key(PODS.kind, key.namespace, key.name)


def _session_at(name: str, session: Session) -> Session | None:
    found = (each for each in session.link.sessions if each.name == name)
    return next((each for each in found if isinstance(each, Session)), None)


def _candidates(tenant_x: Entry, session: Session) -> list[Candidate]:
    granted = session.link.seats.granted or {HOME: _EVERYWHERE}
    return [_candidate(grant, tenant_x, session) for grant in granted.values()]


def _candidate(grant: TargetGrant, tenant_x: Entry, session: Session) -> Candidate:
    there = _session_at(grant.name, session)
    made = Candidate(
        name=grant.name,
        weight=grant.weight,
        namespaces=grant.namespace_selector,
        rooms=(),
        free={},
        is_home=grant.name == HOME,
        peers=session.link.seats.peers(tenant_x, grant.name),
    )
    if there is None:
        return made._replace(refuses="is not reached yet")
    inventory, view = there.super_cluster.inventory, session.view.policy.nodes.view
    if there.target is None:
        return made._replace(rooms=inventory.rooms(view), free=inventory.free())
    shown = session.stores["Node"].get("", target_nodes.name_of(grant.name))
    node = shown.decode() if shown is not None else {}
    resolver = there.view.resolver()
    return made._replace(
        rooms=inventory.rooms(view, target_nodes.name_of(grant.name)),
        free=inventory.free(),
        labels=labels_there(there),
        taints=mappings(mapping(node.get("spec")).get("taints")),
        resolves=bool(resolver.server) or resolver.allows_node_dns,
        refuses=_refusal(there, node),
    )


def _refusal(there: Session, node: Object) -> str:
    assert there.target is not None  # noqa: S101 - asked only then
    if there.target.problem:
        return "does not answer"
    if not there.is_ready:
        return "is not reached yet"
    if mapping(node.get("spec")).get("unschedulable"):
        return "is unschedulable"
    return "" if there.link.cluster.status.endpoint else "cannot reach this cluster's API"


def labels_there(session: Session) -> dict[str, str]:
    """Return the labels of the node that stands for a target, its tenant's own among them."""
    assert session.target is not None  # noqa: S101 - asked only then
    shown = session.stores["Node"].get("", target_nodes.name_of(session.name))
    own = dict(shown.labels) if shown is not None else {}
    below = (
        node["metadata"].get("labels") or {} for node in session.super_cluster.inventory.bodies()
    )
    return {**own, **target_nodes.labels_of(session.name, session.target.spec.labels, below)}


# --- what each super cluster's key asks -----------------------------------------------------------


async def elsewhere(kind: Kind, pair: Pair, session: Session) -> Verdict | None:
    """Do what is to be done for a pod that is not seated here; None: it is."""
    tenant_x, seats = pair.tenant_x, session.link.seats
    assert tenant_x is not None  # noqa: S101 - asked only then
    seat = seats.of(tenant_x)
    if seat == session.name:
        return None
    if seat == NOWHERE and session.target is None:
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
    _log.warning("super.stale", seat=seat or "none")
    await session.deletions.delete(downward.target(kind, pair, decision.grounds))
    return Done()


def check(tenant_x: Entry, session: Session) -> None:
    """Raise Wait unless a twin may be made here now: granted, and the record is in."""
    seats = session.link.seats
    if not seats.is_split:
        return
    if not seats.offers(session.name):
        raise Wait("this cluster is not granted any more", LOOK_AGAIN_SECONDS)
    if not seats.is_recorded(tenant_x, session.name):
        home = session.link.sessions[0]
        if isinstance(home, Session):
            home.add(home.key(PLACEMENT, tenant_x.namespace, tenant_x.name))
        raise Wait("the record of the pod's seat is on its way")


def consumed(pod: Object, session: Session) -> Object:
    """Return a tenant pod as the cluster that it is seated in is to see it."""
    if session.target is None:
        return pod
    return target_nodes.consumed(
        pod, session.name, labels_there(session), session.target.spec.taints
    )
