"""Rules for objects that depend on a changed object of the same tenant.

Owns these few rules. `syncer.handlers.tenant_events` and `syncer.handlers.super_events` call them.
Must not decide or write: it queues keys. Hazard: a rule must exist for every dependency. Without
it, a network policy, for example, keeps names of old namespaces.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubeio.cache.store import Entry
from syncer.model.keys import DEFAULT_POLICY, NODE, Key
from syncer.model.references import ACCOUNT_TOKEN, POD_TOKEN, ObjectReference, build_user_name
from syncer.model.tenant_view import API_SERVICE
from syncer.rules import disruption_budgets
from syncer.rules.configuration import service_variables
from syncer.rules.disruption_budgets import BUDGET
from syncer.rules.network import ingress_hosts, ingress_paths, ingresses, network_policies
from syncer.rules.placement import target_node
from syncer.rules.pods import token_specs
from syncer.tenants.session import Session
from tenancy import names
from tenancy.resources import MULTI_NETWORK_POLICIES, NETWORK_ATTACHMENTS

NODE_BATCH_SECONDS = 5.0
"""Time in seconds over which changes of a target's nodes are merged. Otherwise an upgrade of 100
nodes causes 100 writes in each tenant. They would be slowed down, and users' changes with them.
"""

VARIABLES_BATCH_SECONDS = 0.25
"""Time in seconds over which changes of Services are merged. Otherwise 1000 Services that are
created in a row cause 1000 writes of all their variables. A container that restarts at once would
see the change after this time."""


def enqueue_tenant_dependents(
    session: Session, kind: str, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    """Queue the objects that depend on a changed object of the tenant."""
    row = session.kinds.get(kind)
    if row is not None and row.list_references is not None:
        _enqueue_ruled_references(session, row.list_references, kind, old, new, low=low)
    elif kind == "Namespace":
        _enqueue_namespace_dependents(session, old, new, low=low)
    elif kind == "Ingress":
        _enqueue_ingress_dependents(session, old, new, low=low)
    elif kind == "Service":
        _enqueue_variables_of_service(session, old, new, low=low)
        _enqueue_ingresses_of_service(session, old, new, low=low)


def _enqueue_ruled_references(
    session: Session,
    list_references: Callable[[Mapping[str, Any]], Iterable[tuple[str, str, str]]],
    kind: str,
    old: Entry | None,
    new: Entry | None,
    *,
    low: bool,
) -> None:
    """Queue the ConfigMaps and Secrets that an object of a SyncRule begins or ends to name.

    An object without a copy in this super cluster needs none there.
    """
    entry = new or old
    if entry is None:
        return
    needed: dict[str, list[ObjectReference]] = {}
    is_needed = new is not None and session.scope.is_concerned(kind, new)
    for each in (old, new):
        found = list_references(each.decode()) if each is not None else ()
        for ref_kind, namespace, name in found:
            refs = needed.setdefault(namespace, [])
            if each is new and is_needed:
                refs.append(ObjectReference(ref_kind, name))
    user = build_user_name(kind, f"{entry.namespace}/{entry.name}")
    for namespace, refs in needed.items():
        changed = session.pods.references.set(namespace, user, refs)
        for ref in changed:
            session.work.enqueue(session.build_key(ref.kind, namespace, ref.name), low=low)
        if changed and not session.is_home:
            session.work.enqueue(session.build_key("Namespace", "", namespace), low=low)


def enqueue_pod_followers(session: Session, namespace: str, *, low: bool) -> None:
    """Queue the objects whose copies follow the pods of a namespace, and all that they name."""
    followers = session.connection.ruled.pod_followers
    for kind in followers if session.connection.assignments.is_split else ():
        for entry in session.stores[kind].list(namespace):
            enqueue_tenant_dependents(session, kind, None, entry, low=low)
            session.work.enqueue(session.build_key(kind, namespace, entry.name), low=low)


def enqueue_other_copies(session: Session, key: Key, *, low: bool) -> None:
    """Queue an object in the other super clusters of its tenant, one of which owns its status."""
    if key.kind not in session.connection.ruled.pod_followers:
        return
    for other in session.connection.sessions:
        if isinstance(other, Session) and other is not session:
            other.work.enqueue(other.build_key(key.kind, key.namespace, key.name), low=low)


def _enqueue_ingresses_of_service(
    session: Session, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    """Queue the Ingresses of a namespace when one of its Services becomes an external name.

    The policy decides whether an Ingress may name such a Service. Events are merged, so an Ingress
    is queued for either state. The Ingresses are few, and each is only compared.
    """
    entry = new or old
    if entry is None or not any(ingress_paths.is_external_name(each) for each in (old, new)):
        return
    for ingress in session.stores["Ingress"].list(entry.namespace):
        session.work.enqueue(session.build_key("Ingress", entry.namespace, ingress.name), low=low)
    enqueue_users_of_kind(session, "Service")


def enqueue_budgets_of_pod(
    session: Session, namespace: str, old: Entry | None, new: Entry | None
) -> None:
    """Queue the budgets of a namespace whose healthy pods in the super cluster have changed."""
    budgets = session.stores[BUDGET].list(namespace)
    if budgets and (
        old is None or new is None or _get_counted_fields(old) != _get_counted_fields(new)
    ):
        _enqueue_all(session, budgets)


def _get_counted_fields(pod: Entry) -> tuple[object, ...]:
    return pod.uid, pod.labels, disruption_budgets.is_pod_healthy(pod)


def enqueue_budgets_of_budget(
    session: Session, namespace: str, old: Entry | None, new: Entry | None
) -> None:
    """Queue the budgets of a namespace when another budget's selector changes or ends."""
    before, after = (_get_selector(entry) for entry in (old, new))
    if session.view.policy.sync.blocking_disruption_budgets != "Allow" and before != after:
        _enqueue_all(session, session.stores[BUDGET].list(namespace))


def _get_selector(budget: Entry | None) -> Mapping[str, Any] | None:
    if budget is None or budget.deleting:
        return None
    return disruption_budgets.get_selector(budget.decode())


def enqueue_slices_of_pod(session: Session, old: Entry | None, new: Entry | None) -> None:
    """Queue the slices that name an address which a super pod has acquired or released."""
    entry = new or old
    if entry is None:
        return
    for namespace, name in session.network_indexes.pod_addresses.set_pod(entry.key, new):
        session.work.enqueue(session.build_key("EndpointSlice", namespace, name))


def enqueue_pods_of_policy(
    session: Session, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    """Queue the pods that a network policy of the tenant begins or ceases to select."""
    entry, changed = new or old, session.network_indexes.policy_selectors.set(old, new)
    if entry is None or not changed or not session.work.is_ready:
        return
    for pod in session.stores["Pod"].list(entry.namespace):
        if any(each.selects(pod.labels) for each in changed):
            key = session.build_key("Pod", *pod.key)
            session.pod_memory.forget_pod(key)
            session.work.enqueue(key, low=low)


def _enqueue_all(session: Session, budgets: Iterable[Entry]) -> None:
    for entry in budgets:
        session.work.enqueue(session.build_key(BUDGET, entry.namespace, entry.name), low=True)


def enqueue_pods_waiting_for_node(session: Session, name: str, *, low: bool) -> None:
    """Queue the pods that wait for a node when the tenant's changes to a node differ.

    Running pods stay where they are, as in any cluster.
    """
    if not session.node_index.update(name) or not session.work.is_ready:
        return
    for entry in session.stores["Pod"].list():
        if not session.pods.is_bound(entry.namespace, entry.name):
            session.work.enqueue(session.build_key("Pod", entry.namespace, entry.name), low=low)


def enqueue_nodes_of_super_node(
    sessions: Iterable[Session], old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    """Check a node again in each tenant.

    A label that the super cluster has now is not the tenant's.
    """
    entry = new or old
    if entry is None:
        return
    if old is None or new is None or (old.uid, old.labels) != (new.uid, new.labels):
        for session in sessions:
            enqueue_pods_waiting_for_node(session, entry.name, low=low)


def enqueue_target_node(sessions: Iterable[Session]) -> None:
    """Queue the virtual node of a target once, for all changes within `NODE_BATCH_SECONDS`."""
    for session in sessions:
        if session.work.is_ready:
            key = session.build_key(NODE, "", target_node.build_node_name(session.name))
            session.queue.add_after(key, NODE_BATCH_SECONDS, low=True)


def enqueue_namespace_in_target(session: Session, namespace: str, *, low: bool) -> None:
    """Queue the objects of a namespace that a target needs while a pod is assigned to it."""
    session.work.enqueue(session.build_key("Namespace", "", namespace), low=low)
    for kind in ("NetworkPolicy", BUDGET):
        for entry in session.stores[kind].list(namespace):
            session.work.enqueue(session.build_key(kind, namespace, entry.name), low=low)
    enqueue_pod_followers(session, namespace, low=low)


def enqueue_pods_of_token(session: Session, namespace: str, super_secret: Entry) -> None:
    """Queue the pods that mount a deleted token."""
    token = token_specs.parse_secret(super_secret.annotations, session.tenant.super_cluster_uid)
    if token is None:
        return
    need = (
        ObjectReference(POD_TOKEN, token.pod_uid)
        if token.pod_uid
        else ObjectReference(ACCOUNT_TOKEN, token.account)
    )
    for name in session.pods.references.list_users(namespace, need):
        session.work.enqueue(session.build_key("Pod", namespace, name), low=True)


def enqueue_users_of_class(session: Session, kind: str, name: str, *, low: bool) -> None:
    """Queue the objects that name a created, changed or deleted class of the super cluster."""
    if kind != ingresses.INGRESS_CLASS:
        return
    for entry in session.stores["Ingress"].list():
        if ingresses.get_class(entry.decode()) == name:
            session.work.enqueue(session.build_key("Ingress", entry.namespace, entry.name), low=low)


def enqueue_users_of_hosts(sessions: Iterable[Session], hosts: frozenset[str]) -> None:
    """Queue the objects with a host that a super object has acquired or released."""
    for session in sessions if hosts else ():
        for kind in ("Ingress", *session.connection.ruled.list_host_kinds()):
            for entry in ingress_hosts.iterate_users(session.stores[kind], hosts):
                session.work.enqueue(session.build_key(kind, entry.namespace, entry.name), low=True)


def enqueue_users_of_kind(session: Session, kind: str) -> None:
    """Queue the objects of SyncRules that may name an object of a kind. They are few."""
    for user in session.connection.ruled.list_users(kind) if session.is_home else ():
        for entry in session.stores[user].list():
            session.work.enqueue(session.build_key(user, entry.namespace, entry.name), low=True)


def enqueue_users_of_cidrs(session: Session) -> None:
    """Queue the objects that must leave out the addresses of the super cluster."""
    for kind in ("EndpointSlice", "NetworkPolicy", NETWORK_ATTACHMENTS.kind):
        is_there = kind in session.super_cluster.stores
        for entry in session.stores[kind].list() if is_there else ():
            session.work.enqueue(session.build_key(kind, entry.namespace, entry.name), low=True)
    _enqueue_default_policies(session)


def enqueue_default_policies_of_service(
    session: Session, old: Entry | None, new: Entry | None
) -> None:
    """Queue the default policies when a super Service acquires or releases a node port."""
    entry = new or old
    if (
        entry is not None
        and session.network_indexes.node_ports.set_service(entry.key, new)
        and session.work.is_ready
    ):
        _enqueue_default_policies(session)


def _enqueue_default_policies(session: Session) -> None:
    for entry in session.super_cluster.list_owned("NetworkPolicy", session.tenant.uid):
        key = session.super_cluster.get_key("NetworkPolicy", entry)
        if key is not None and key.kind == DEFAULT_POLICY:
            session.work.enqueue(key, low=True)


def _enqueue_namespace_dependents(
    session: Session, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    if old is not None and new is not None and old.labels == new.labels:
        return
    space = new or old
    for key in session.scope.iterate_unassigned():
        if space is not None and key.namespace == space.name:
            session.work.enqueue(key, low=low)  # a target may select namespaces by label
    is_enabled = MULTI_NETWORK_POLICIES.kind in session.kinds
    kinds = ("NetworkPolicy", *((MULTI_NETWORK_POLICIES.kind,) if is_enabled else ()))
    found = [(kind, entry) for kind in kinds for entry in session.stores[kind].list()]
    for kind, entry in found:
        if network_policies.depends_on_namespaces(entry.body):
            session.work.enqueue(session.build_key(kind, entry.namespace, entry.name), low=low)


def _enqueue_variables_of_service(
    session: Session, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    """Queue the ConfigMaps that hold the variables of a changed Service.

    A pod that is created meanwhile queues its ConfigMap itself, without a delay. A ConfigMap that
    does not exist is created when a pod needs it.
    """
    entry = new or old
    if entry is None or not service_variables.is_changed(old, new):
        return
    if entry.key == API_SERVICE:
        owned = session.super_cluster.list_owned("ConfigMap", session.tenant.uid)
        found = [each for each in owned if each.name in service_variables.NAMES]
    else:
        below = session.view.get_super_namespace(entry.namespace)
        there = session.twins.get_store("ConfigMap").get(below, names.SERVICE_VARIABLES)
        found = [] if there is None else [there]
    for each in found:
        key = session.super_cluster.get_key("ConfigMap", each)
        if key is not None and key.tenant == session.tenant.uid and session.work.is_ready:
            session.queue.add_after(key, VARIABLES_BATCH_SECONDS, low=low)


def _enqueue_ingress_dependents(
    session: Session, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    entry = new or old
    if entry is None:
        return
    named = ingresses.list_secrets(new.decode()) if new is not None else ()
    changed = session.pods.references.set(
        entry.namespace,
        build_user_name("Ingress", entry.name),
        [ObjectReference("Secret", name) for name in named],
    )
    for ref in changed:
        session.work.enqueue(session.build_key(ref.kind, entry.namespace, ref.name), low=low)
