"""Rules for objects that depend on a changed object of the same tenant.

Owns these few rules. `syncer.handlers.tenant_events` and `syncer.handlers.super_events` call them.
Must not decide or write: it queues keys. Hazard: a rule must exist for every dependency. Without
it, a network policy, for example, keeps names of old namespaces.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeio.cache.store import Entry
from syncer.model.keys import NODE
from syncer.model.references import ACCOUNT_TOKEN, POD_TOKEN, Ref, user_of
from syncer.rules import disruption_budgets
from syncer.rules.disruption_budgets import BUDGET
from syncer.rules.network import ingress_hosts, ingresses, network_policies
from syncer.rules.placement import target_node
from syncer.rules.pods import token_specs
from syncer.tenants.session import Session

GATHER_SECONDS = 5.0
"""Time in seconds over which changes of a target's nodes are merged. Otherwise an upgrade of 100
nodes causes 100 writes in each tenant. They would be slowed down, and users' changes with them.
"""


def tenant_changed(
    session: Session, kind: str, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    """Queue the objects that depend on a changed object of the tenant."""
    if kind == "Namespace":
        _namespace_changed(session, old, new, low=low)
    elif kind == "Ingress":
        _ingress_changed(session, old, new, low=low)


def super_pod_changed(
    session: Session, namespace: str, old: Entry | None, new: Entry | None
) -> None:
    """Queue the budgets of a namespace whose healthy pods in the super cluster have changed."""
    budgets = session.stores[BUDGET].list(namespace)
    if budgets and (old is None or new is None or _counted(old) != _counted(new)):
        _add_all(session, budgets)


def _counted(pod: Entry) -> tuple[object, ...]:
    return pod.uid, pod.labels, disruption_budgets.is_healthy(pod)


def super_budget_changed(
    session: Session, namespace: str, old: Entry | None, new: Entry | None
) -> None:
    """Queue the budgets of a namespace when another budget's selector changes or ends."""
    before, after = (_selected(entry) for entry in (old, new))
    if session.view.policy.sync.blocking_disruption_budgets != "Allow" and before != after:
        _add_all(session, session.stores[BUDGET].list(namespace))


def _selected(budget: Entry | None) -> Mapping[str, Any] | None:
    if budget is None or budget.deleting:
        return None
    return disruption_budgets.selector_of(budget.decode())


def _add_all(session: Session, budgets: Iterable[Entry]) -> None:
    for entry in budgets:
        session.add(session.key(BUDGET, entry.namespace, entry.name), low=True)


def node_changed(session: Session, name: str, *, low: bool) -> None:
    """Queue the pods that wait for a node when the tenant's changes to a node differ.

    Running pods stay where they are, as in any cluster.
    """
    if not session.nodes.look(name) or not session.is_ready:
        return
    for entry in session.stores["Pod"].list():
        if not session.pods.is_bound(entry.namespace, entry.name):
            session.add(session.key("Pod", entry.namespace, entry.name), low=low)


def super_node_changed(
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
            node_changed(session, entry.name, low=low)


def target_nodes_changed(sessions: Iterable[Session]) -> None:
    """Queue the virtual node of a target once, for all changes within `GATHER_SECONDS`."""
    for session in sessions:
        if session.is_ready:
            key = session.key(NODE, "", target_node.name_of(session.name))
            session.queue.add_after(key, GATHER_SECONDS, low=True)


def space_needed(session: Session, namespace: str, *, low: bool) -> None:
    """Queue the objects of a namespace that a target needs while a pod is assigned to it."""
    session.add(session.key("Namespace", "", namespace), low=low)
    for kind in ("NetworkPolicy", BUDGET):
        for entry in session.stores[kind].list(namespace):
            session.add(session.key(kind, namespace, entry.name), low=low)


def token_gone(session: Session, namespace: str, super_secret: Entry) -> None:
    """Queue the pods that mount a deleted token."""
    token = token_specs.spec_of_secret(super_secret.annotations, session.tenant.registration)
    if token is None:
        return
    need = Ref(POD_TOKEN, token.pod_uid) if token.pod_uid else Ref(ACCOUNT_TOKEN, token.account)
    for name in session.pods.references.users(namespace, need):
        session.add(session.key("Pod", namespace, name), low=True)


def class_changed(session: Session, kind: str, name: str, *, low: bool) -> None:
    """Queue the objects that name a created, changed or deleted class of the super cluster."""
    if kind != ingresses.INGRESS_CLASS:
        return
    for entry in session.stores["Ingress"].list():
        if ingresses.class_of(entry.decode()) == name:
            session.add(session.key("Ingress", entry.namespace, entry.name), low=low)


def hosts_changed(sessions: Iterable[Session], old: Entry | None, new: Entry | None) -> None:
    """Queue the Ingresses with a host that a super Ingress has acquired or released."""
    before, now = (ingress_hosts.hosts_named(each) if each else frozenset() for each in (old, new))
    hosts = before ^ now
    for session in sessions if hosts else ():
        for entry in ingress_hosts.users(session.stores["Ingress"], hosts):
            session.add(session.key("Ingress", entry.namespace, entry.name), low=True)


def ranges_changed(session: Session) -> None:
    """Queue the objects that must leave out the addresses of the super cluster."""
    for kind in ("EndpointSlice", "NetworkPolicy"):
        is_there = kind in session.super_cluster.stores
        for entry in session.stores[kind].list() if is_there else ():
            session.add(session.key(kind, entry.namespace, entry.name), low=True)


def _namespace_changed(
    session: Session, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    if old is not None and new is not None and old.labels == new.labels:
        return
    space = new or old
    for key in session.unseated():
        if space is not None and key.namespace == space.name:
            session.add(key, low=low)  # a target may select namespaces by label
    for entry in session.stores["NetworkPolicy"].list():
        if network_policies.follows_namespaces(entry.body):
            session.add(session.key("NetworkPolicy", entry.namespace, entry.name), low=low)


def _ingress_changed(session: Session, old: Entry | None, new: Entry | None, *, low: bool) -> None:
    entry = new or old
    if entry is None:
        return
    named = ingresses.secrets_of(new.decode()) if new is not None else ()
    changed = session.pods.references.set(
        entry.namespace, user_of("Ingress", entry.name), [Ref("Secret", name) for name in named]
    )
    for ref in changed:
        session.add(session.key(ref.kind, entry.namespace, ref.name), low=low)
