"""Granted super clusters of one tenant, as candidates for one of its pods.

Owns the conversion from caches and grants to the input of `syncer.rules.placement`. Must not write.
Hazard: the tenant's changes to a target's virtual node must be included. Otherwise its cordons and
taints would not apply, as they do with any scheduler.
"""

from collections.abc import Iterable

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model.keys import HOME, PLACEMENT, Key
from syncer.model.unstructured import mapping, mappings
from syncer.rules.placement import cluster_scheduler, target_node
from syncer.rules.placement.cluster_scheduler import Ask, Candidate
from syncer.rules.pods import dns
from syncer.tenants.session import Session
from tenancy.resources import PODS
from tenancy.specs import TargetGrant

_EVERYWHERE = TargetGrant(name=HOME)
_LATE = "is not reached yet"


def of(tenant_x: Entry, session: Session) -> list[Candidate]:
    """Return the candidates for a pod."""
    granted = session.link.seats.granted or {HOME: _EVERYWHERE}
    return [_candidate(grant, tenant_x, session) for grant in granted.values()]


def late(offered: Iterable[Candidate]) -> list[str]:
    """Return the names of the candidates that are not connected yet."""
    return [each.name for each in offered if each.refuses == _LATE]


def _candidate(grant: TargetGrant, tenant_x: Entry, session: Session) -> Candidate:
    there = session_at(grant.name, session)
    made = Candidate(
        name=grant.name,
        weight=grant.weight,
        namespaces=grant.namespace_selector,
        takes_all=grant.pods == "all",
        rooms=(),
        free={},
        is_home=grant.name == HOME,
        peers=session.link.seats.peers(tenant_x, grant.name),
    )
    if there is None:
        return made._replace(refuses=_LATE)
    inventory, view = there.super_cluster.inventory, session.view.policy.nodes.view
    if there.target is None:
        return made._replace(rooms=inventory.rooms(view), free=inventory.free())
    shown = session.stores["Node"].get("", target_node.name_of(grant.name))
    node = shown.decode() if shown is not None else {}
    resolver = dns.resolver_of(there.view)
    return made._replace(
        rooms=inventory.rooms(view, target_node.name_of(grant.name)),
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
        return _LATE
    if there.target.refusal:
        return there.target.refusal
    if mapping(node.get("spec")).get("unschedulable"):
        return "is unschedulable"
    return "" if there.link.cluster.status.endpoint else "cannot reach this cluster's API"


def labels_there(session: Session) -> dict[str, str]:
    """Return the labels of a target's virtual node, including those of its tenant."""
    assert session.target is not None  # noqa: S101 - asked only then
    shown = session.stores["Node"].get("", target_node.name_of(session.name))
    own = target_node.own_labels(shown.labels, shown.annotations) if shown is not None else {}
    places = session.super_cluster.inventory.whole.places
    return {**own, **target_node.labels_of(session.name, session.target.spec.labels, places)}


def ask_of(tenant_x: Entry, pod: Object, session: Session) -> Ask:
    """Return the requirements of a pod."""
    space = session.stores["Namespace"].get("", tenant_x.namespace)
    return cluster_scheduler.ask_of(pod, space.labels if space is not None else {})


def session_at(name: str, session: Session) -> Session | None:
    """Return the session of the same tenant with a super cluster."""
    found = (each for each in session.link.sessions if each.name == name)
    return next((each for each in found if isinstance(each, Session)), None)


def pod_key(key: Key, session: Session) -> Key:
    """Return the key of a pod in a super cluster."""
    return session.key(PODS.kind, key.namespace, key.name)


def is_there(tenant_x: Entry, session: Session) -> bool:
    """Return True if a pod still exists. Otherwise memory about it would stay for good."""
    found = session.stores[PODS.kind].get(*tenant_x.key)
    return found is not None and found.uid == tenant_x.uid


def place_soon(tenant_x: Entry, session: Session) -> None:
    """Queue the placement of a pod."""
    home = session_at(HOME, session)
    if home is not None:
        home.add(home.key(PLACEMENT, tenant_x.namespace, tenant_x.name))
