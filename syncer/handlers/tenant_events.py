"""Handlers for watch events of a tenant: which event queues which key.

Owns the subscriptions to the caches of a tenant. Must not decide or write: a handler only
updates indexes and queues keys. Hazard: a handler must not need to see a transition. Events are
merged, so it would miss some. The one exception is the end of a tenant object, which is recorded as
proof for a delete: live reads replace it where it was missed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kubeio.cache.store import Entry, EventHandler, Store
from kubeio.resource_version import parse_revision
from syncer.controllers import sync_down
from syncer.handlers import dependents, predicates
from syncer.model import mirrored_kinds
from syncer.model.keys import ADDRESS, ASSIGNMENT, NODE, TOKEN, VOLUME, Key
from syncer.model.pod_index import PodIndexChanges, get_node
from syncer.model.references import ACCOUNT_TOKEN, POD_TOKEN, ObjectReference
from syncer.placement.assignments import UNASSIGNED
from syncer.rules import registry
from syncer.rules.placement import target_node
from syncer.rules.pods import pod_facts
from syncer.rules.storage import claims, volumes
from syncer.safety.expectations import ClusterSide, EventOrigin
from syncer.tenants.connection import TenantConnection
from syncer.tenants.session import Session
from tenancy import wellknown


def subscribe_tenant(session: Session) -> Callable[[], None]:
    """Subscribe a session to its tenant's caches.

    Returns the function that unsubscribes it, for targets.
    """
    wired: list[tuple[Store, EventHandler]] = [
        (session.stores[kind], partial(_handle_tenant_object, session, kind))
        for kind in registry.KINDS_BY_NAME
        if kind in session.super_cluster.stores
    ]
    if session.target is not None:
        wired.append((session.stores[NODE], partial(_handle_mirrored_object, session, NODE)))
    for store, handler in wired:
        store.subscribe(handler)
    if session.target is None:
        _subscribe_home(session)
    unsubscribe = session.connection.assignments.subscribe(partial(_handle_reassigned, session))
    return partial(_unsubscribe, wired, unsubscribe)


def _unsubscribe(wired: list[tuple[Store, EventHandler]], unsubscribe: Callable[[], None]) -> None:
    unsubscribe()
    for store, handler in wired:
        store.unsubscribe(handler)


def _handle_reassigned(session: Session, pod: Entry) -> None:
    """Update a pod with a new assignment. All of its own events may have come before."""
    entry = session.stores["Pod"].get(*pod.key)
    if entry is not None and entry.uid == pod.uid:
        index_split_pod(session, entry, entry, low=False)


def index_assigned_pods(session: Session) -> None:
    """Add the pods that are already assigned to a target when the session begins."""
    for entry in session.stores["Pod"].list():
        _index_pod(session, None, entry, low=True)


def _subscribe_home(session: Session) -> None:
    """Subscribe to the resources that the home cluster shows in the tenant."""
    for kind in (NODE, ADDRESS, VOLUME, *mirrored_kinds.MIRRORS_BY_KIND):
        session.stores[kind].subscribe(partial(_handle_mirrored_object, session, kind))
    session.stores[VOLUME].subscribe(partial(_handle_own_volume, session))
    session.stores[claims.CLAIM].subscribe(partial(_handle_claim, session))


def _handle_tenant_object(
    session: Session,
    kind: str,
    old: Entry | None,
    new: Entry | None,
    live: bool,
) -> None:
    entry = new or old
    if entry is None:
        return
    key = session.build_key(kind, entry.namespace, entry.name)
    news = session.expectations.observe_event(ClusterSide.TENANT, key, new)
    if new is None or (old is not None and old.uid != new.uid):
        session.pod_memory.forget_pod(key)
        session.node_memory.forget_pod(key)
        _handle_tenant_deleted(session, key, old, live=live)
    if kind == "Pod":
        _index_pod(session, old, new, low=not live)
    dependents.enqueue_tenant_dependents(session, kind, old, new, low=not live)
    if is_spec_changed(old, new):
        session.queue.forget(key)  # a refused object may be accepted now, so the delay is reset
        session.hot_loop_guard.forget_key(key)
    elif news is EventOrigin.FOREIGN and new is not None:
        session.metrics.suspect_drift(ClusterSide.TENANT, key, parse_revision(new.resource_version))
    if (
        kind == "Pod"
        and session.connection.assignments.is_split
        and _is_assigned_elsewhere(session, key, new)
    ):
        return
    if not (live and kind == "Pod"):
        session.enqueue(key, low=not live)
    elif not predicates.is_pod_event_irrelevant(session, key, news, new):
        predicates.enqueue_pod(session, ClusterSide.TENANT, key, news, new)


def _is_assigned_elsewhere(session: Session, key: Key, new: Entry | None) -> bool:
    """Return True if a pod has no twin in this super cluster and needs none."""
    if new is None or session.connection.assignments.get_cluster(new) in (session.name, UNASSIGNED):
        return False
    return sync_down.read_pair(registry.KINDS_BY_NAME[key.kind], key, session).super_x is None


def is_spec_changed(old: Entry | None, new: Entry | None) -> bool:
    """Return True if an object was changed. A change of the status alone does not count."""
    if old is None or new is None or old.uid != new.uid:
        return True
    if not new.generation:  # a kind without generation
        return _get_written_fields(old) != _get_written_fields(new)
    return (old.generation, old.labels, old.annotations) != (
        new.generation,
        new.labels,
        new.annotations,
    )


def _get_written_fields(entry: Entry) -> dict[str, Any]:
    """Return an object without its status, which contains the syncer's own writes."""
    metadata = {"labels": entry.labels, "annotations": entry.annotations}
    return {**entry.decode(), "metadata": metadata, "status": None}


def _handle_tenant_deleted(session: Session, key: Key, old: Entry | None, *, live: bool) -> None:
    if old is None:
        return
    if key.kind == "Service":
        session.connection.service_clusters.forget(old.uid)
    if key.kind == "Pod" and session.target is not None:
        session.target.pod_loss_guard.remove_deleted(session.tenant.uid, old.uid)
    if live:
        kind = registry.KINDS_BY_NAME[key.kind]
        if not session.is_twin(sync_down.read_pair(kind, key, session).super_x, old.uid):
            return  # without a twin the record would stay, and live reads prove late ends
        forced = key.kind == "Pod" and pod_facts.was_force_deleted(old.decode())
        session.proven_deletes.record_tenant_end(key, old.uid, forced=forced)
    else:
        session.connection.request_store_check()  # absent from a list: perhaps a different store


def _index_pod(session: Session, old: Entry | None, new: Entry | None, *, low: bool) -> None:
    if session.connection.assignments.is_split:
        index_split_pod(session, old, new, low=low)
    else:
        _index_own_pod(session, old, new, low=low)


def index_split_pod(session: Session, old: Entry | None, new: Entry | None, *, low: bool) -> None:
    """Update the indexes as `_index_own_pod`, for a pod that may be assigned elsewhere."""
    entry, seats = new or old, session.connection.assignments
    if entry is None:
        return
    is_another = old is None or new is None or new.uid != old.uid
    if session.target is None and is_another:
        if old is not None:
            seats.forget_deleted_pod(old.uid)
        if new is not None and not low:
            seats.record_new_pod(new.uid)
    namespace = entry.namespace
    was_taken_in, was_in = session.pods.has(*entry.key), session.pods.has_namespace(namespace)
    seat = seats.get_cluster(new) if new is not None else UNASSIGNED
    _index_own_pod(
        session,
        (old or entry) if was_taken_in else None,
        new if new is not None and seat == session.name and _is_pod_needed(session, new) else None,
        low=low,
    )
    if session.target is not None and was_in != session.pods.has_namespace(namespace):
        dependents.enqueue_namespace_in_target(session, namespace, low=low)
    if session.target is None and new is not None and _has_invalid_record(old, new, seat, session):
        session.enqueue(session.build_key(ASSIGNMENT, *new.key), low=low)


def _is_pod_needed(session: Session, pod: Entry) -> bool:
    """Return True if a pod's needs are synced to its assigned cluster, where it may be created."""
    return (
        session.target is None
        or session.connection.grants.is_offered(session.name)
        or session.has_twin(pod)
    )


def _has_invalid_record(old: Entry | None, new: Entry, seat: str, session: Session) -> bool:
    """Return True if a pod must be placed, or another writer changed its record."""
    if seat == UNASSIGNED or old is new:  # the same entry: the syncer's record is on its way
        return seat == UNASSIGNED
    return not get_node(new) and not session.connection.assignments.is_recorded(new, seat)


def enqueue_assignments(link: TenantConnection) -> None:
    """Check every assignment after a change of the grants or of the visible targets."""
    sessions = [each for each in link.sessions if isinstance(each, Session)]
    for entry in link.stores["Pod"].list():
        link.assignments.notify_pod(entry)
        is_bound = bool(get_node(entry))
        for session in sessions:
            if is_bound and not (session.target is not None and session.pods.has(*entry.key)):
                continue  # bound pods stay, except in a target no longer granted
            session.enqueue(session.build_key("Pod", *entry.key), low=True)
            if session.target is None:
                session.enqueue(session.build_key(ASSIGNMENT, *entry.key), low=True)


def _index_own_pod(session: Session, old: Entry | None, new: Entry | None, *, low: bool) -> None:
    if new is not None:
        changes = session.pods.set(old, new)
    else:
        changes = session.pods.remove(old) if old is not None else PodIndexChanges()
    entry = new or old
    namespace = entry.namespace if entry is not None else ""
    for ref in changes.refs:
        # Only the first and the last pod change whether a reference is needed. Claims are always
        # needed.
        if ref.kind == claims.CLAIM or not session.pods.references.is_shared(namespace, ref):
            for key in list_reference_keys(session, namespace, ref):
                session.enqueue(key, low=low)
    for node in changes.nodes:
        # Between the first and the last pod, no part of a shown node depends on its pods. A node
        # that was recreated in the super cluster is an exception. Its old state is shown until a
        # pod runs on it.
        if not session.view.has_node(node) or len(session.pods.list_pods_on_node(node)) <= 1:
            session.enqueue(session.build_key(NODE, "", node), low=low)


def list_reference_keys(session: Session, namespace: str, ref: ObjectReference) -> list[Key]:
    """Return the keys of the objects that a pod's reference needs."""
    if ref.kind not in (ACCOUNT_TOKEN, POD_TOKEN):
        return [session.build_key(ref.kind, namespace, ref.name)]
    below = session.get_super_store("Secret").list(session.view.get_super_namespace(namespace))
    return [
        session.build_key(TOKEN, namespace, entry.name)
        for entry in below
        if entry.annotations.get(wellknown.ACCOUNT) == ref.name
        or entry.annotations.get(wellknown.TOKEN_POD, "").endswith(f"/{ref.name}")
    ]


def _handle_mirrored_object(
    session: Session,
    kind: str,
    old: Entry | None,
    new: Entry | None,
    live: bool,
) -> None:
    entry = new or old
    if entry is None or not _is_mirror_source(session, kind, entry):
        return
    key = session.build_key(kind, "", entry.name)
    if session.expectations.observe_event(ClusterSide.TENANT, key, new) is EventOrigin.FOREIGN:
        suspect_drift(session, ClusterSide.TENANT, key, old, new)
    if kind == NODE:
        dependents.enqueue_pods_waiting_for_node(session, entry.name, low=not live)
        if session.target is not None:
            _enqueue_waiting_pods(session.connection)
    session.wake_waiters(key)
    session.enqueue(key, low=not live)


def _enqueue_waiting_pods(link: TenantConnection) -> None:
    """Queue the unplaced pods, because a target may accept different pods now."""
    for session in [each for each in link.sessions if isinstance(each, Session)]:
        for key in session.iterate_unassigned():
            session.enqueue(key, low=True)


def _is_mirror_source(session: Session, kind: str, entry: Entry) -> bool:
    """Return True if an object is shown from this super cluster."""
    if session.target is not None:
        return entry.name == target_node.build_node_name(session.name)
    return kind != NODE or wellknown.SUPER_CLUSTER not in entry.annotations


def _handle_own_volume(session: Session, old: Entry | None, new: Entry | None, live: bool) -> None:
    """Queue the claim of a tenant's own volume, which decides what the claim may name."""
    for entry in (old, new):
        place = volumes.get_claim_reference(entry) if entry is not None else None
        if place is not None:
            session.enqueue(session.build_key(claims.CLAIM, *place), low=not live)


def _handle_claim(session: Session, old: Entry | None, new: Entry | None, live: bool) -> None:
    """Queue the volume that a claim names, and wake the pods that wait for the claim."""
    entry = new or old
    if entry is not None:
        session.wake_waiters(session.build_key(claims.CLAIM, entry.namespace, entry.name))
    for entry in (old, new):
        name = claims.get_volume(entry) if entry is not None else ""
        if name:
            session.enqueue(session.build_key(VOLUME, "", name), low=not live)


def suspect_drift(
    session: Session, side: ClusterSide, key: Key, old: Entry | None, new: Entry | None
) -> None:
    """Record a possible drift: another writer changed or deleted an object."""
    if old is not None and (new is not None or not old.deleting):
        revision = parse_revision(new.resource_version) if new is not None else 0
        session.metrics.suspect_drift(side, key, revision)
