"""Granted super clusters of one tenant, as candidates for one of its pods.

Owns the conversion from caches and grants to the input of `syncer.rules.placement`. Must not write.
Hazard: the tenant's changes to a target's virtual node must be included. Otherwise its cordons and
taints would not apply, as they do with any scheduler.
"""

from collections.abc import Iterable

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model.keys import ASSIGNMENT, HOME, Key
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules.placement import cluster_scheduler, target_node
from syncer.rules.placement.cluster_scheduler import CandidateCluster, PodRequirements
from syncer.rules.pods import dns
from syncer.tenants.session import Session
from syncer.tenants.target_session import TargetSession
from tenancy.resources import PODS
from tenancy.specs import TargetGrant

_HOME_GRANT = TargetGrant(name=HOME)
_NOT_REACHED_YET = "is not connected yet"


def list_candidates(tenant_x: Entry, session: Session) -> list[CandidateCluster]:
    """Return the candidates for a pod."""
    granted = session.connection.grants.granted or {HOME: _HOME_GRANT}
    return [_build_candidate(grant, tenant_x, session) for grant in granted.values()]


def list_unreached(offered: Iterable[CandidateCluster]) -> list[str]:
    """Return the names of the candidates that are not connected yet."""
    return [each.name for each in offered if each.refusal == _NOT_REACHED_YET]


def _build_candidate(grant: TargetGrant, tenant_x: Entry, session: Session) -> CandidateCluster:
    there = get_session_in(grant.name, session)
    made = CandidateCluster(
        name=grant.name,
        weight=grant.weight,
        namespaces=grant.namespace_selector,
        accepts_all_pods=grant.pods == "all",
        nodes=(),
        free={},
        is_home=grant.name == HOME,
        peers=session.connection.assignments.count_peers(tenant_x, grant.name),
    )
    if there is None:
        return made._replace(refusal=_NOT_REACHED_YET)
    inventory, pool = there.super_cluster.capacity, session.view.policy.nodes
    if not isinstance(there, TargetSession):
        return made._replace(
            nodes=inventory.list_nodes(pool.view, pool=pool), free=inventory.compute_free()
        )
    shown = session.stores["Node"].get("", target_node.build_node_name(grant.name))
    node = shown.decode() if shown is not None else {}
    resolver = dns.resolver_of(there.view)
    return made._replace(
        nodes=inventory.list_nodes(pool.view, target_node.build_node_name(grant.name), pool),
        free=inventory.compute_free(),
        labels=get_target_node_labels(there),
        taints=as_mappings(as_mapping(node.get("spec")).get("taints")),
        has_dns=bool(resolver.server) or resolver.allows_node_dns,
        refusal=_find_refusal(there, node),
    )


def _find_refusal(there: TargetSession, node: Object) -> str:
    if there.target.problem:
        return "does not answer"
    if not there.work.is_ready:
        return _NOT_REACHED_YET
    if there.target.refusal:
        return there.target.refusal
    if as_mapping(node.get("spec")).get("unschedulable"):
        return "is unschedulable"
    return "" if there.connection.cluster.status.endpoint else "cannot reach this cluster's API"


def get_target_node_labels(session: TargetSession) -> dict[str, str]:
    """Return the labels of a target's virtual node, including those of its tenant."""
    shown = session.stores["Node"].get("", target_node.build_node_name(session.name))
    own = target_node.list_own_labels(shown.labels, shown.annotations) if shown is not None else {}
    places = session.super_cluster.capacity.node_totals.topology
    return {**own, **target_node.build_labels(session.name, session.target.spec.labels, places)}


def build_requirements(tenant_x: Entry, pod: Object, session: Session) -> PodRequirements:
    """Return the requirements of a pod."""
    space = session.stores["Namespace"].get("", tenant_x.namespace)
    return cluster_scheduler.build_requirements(pod, space.labels if space is not None else {})


def get_session_in(name: str, session: Session) -> Session | None:
    """Return the session of the same tenant with a super cluster."""
    found = (each for each in session.connection.sessions if each.name == name)
    return next((each for each in found if isinstance(each, Session)), None)


def build_pod_key(key: Key, session: Session) -> Key:
    """Return the key of a pod in a super cluster."""
    return session.build_key(PODS.kind, key.namespace, key.name)


def is_pod_current(tenant_x: Entry, session: Session) -> bool:
    """Return True if a pod still exists. Otherwise memory about it would stay for good."""
    found = session.stores[PODS.kind].get(*tenant_x.key)
    return found is not None and found.uid == tenant_x.uid


def enqueue_assignment(tenant_x: Entry, session: Session) -> None:
    """Queue the placement of a pod."""
    home = get_session_in(HOME, session)
    if home is not None:
        home.work.enqueue(home.build_key(ASSIGNMENT, tenant_x.namespace, tenant_x.name))
