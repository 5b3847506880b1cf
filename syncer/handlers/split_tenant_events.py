"""Handlers for watch events of a tenant whose pods run in several clusters.

Owns the differences from `syncer.handlers.tenant_events`: each pod is indexed in the session of its
assigned cluster only, and the key of its assignment is queued in the home cluster. Must not choose
a cluster. Hazard: every session must be notified when a pod is reassigned, because all events of
the pod itself may have come before.
"""

from collections.abc import Callable
from functools import partial

from kubeio.cache.store import Entry
from syncer.controllers import cached_objects
from syncer.handlers import dependents
from syncer.handlers.tenant_events import TenantEvents, index_pod
from syncer.model.keys import ASSIGNMENT, NODE, Key
from syncer.model.pod_index import get_node
from syncer.placement.assignments import UNASSIGNED
from syncer.rules.placement import target_node
from syncer.tenants.connection import TenantConnection
from syncer.tenants.session import Session
from syncer.tenants.target_session import TargetSession


class SplitTenantEvents(TenantEvents):
    """Routes the events of such a tenant to its session with the home cluster."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._unsubscribe_assignments: Callable[[], None] = _do_nothing

    def subscribe(self) -> None:
        """Subscribe the session to its tenant's caches and to the assignments."""
        super().subscribe()
        assignments = self.session.connection.assignments
        self._unsubscribe_assignments = assignments.subscribe(self._handle_reassigned)

    def unsubscribe(self) -> None:
        """End the subscriptions."""
        self._unsubscribe_assignments()
        super().unsubscribe()

    def _handle_reassigned(self, pod: Entry) -> None:
        """Update a pod with a new assignment. All of its own events may have come before."""
        entry = self.session.stores["Pod"].get(*pod.key)
        if entry is not None and entry.uid == pod.uid:
            self.index_pod(entry, entry, low=False)

    def index_pod(self, old: Entry | None, new: Entry | None, *, low: bool) -> None:
        """Update the indexes and the assignments, and queue a pod that must be assigned."""
        assignments = self.session.connection.assignments
        if old is None or new is None or new.uid != old.uid:
            if old is not None:
                assignments.forget_deleted_pod(old.uid)
            if new is not None and not low:
                assignments.record_new_pod(new.uid)
        entry = new or old
        namespace = entry.namespace if entry is not None else ""
        had_namespace = self.session.pods.has_namespace(namespace)
        cluster = index_assigned_pod(self.session, old, new, low=low)
        if had_namespace != self.session.pods.has_namespace(namespace):
            dependents.enqueue_pod_followers(self.session, namespace, low=low)
        if new is not None and self._has_invalid_record(old, new, cluster):
            self.session.work.enqueue(self.session.build_key(ASSIGNMENT, *new.key), low=low)

    def _has_invalid_record(self, old: Entry | None, new: Entry, cluster: str) -> bool:
        """Return True if a pod must be placed, or another writer changed its record."""
        if cluster == UNASSIGNED or old is new:  # the same entry: the syncer's record is on its way
            return cluster == UNASSIGNED
        return not get_node(new) and not self.session.connection.assignments.is_recorded(
            new, cluster
        )

    def is_assigned_elsewhere(self, key: Key, new: Entry | None) -> bool:
        """Return True if a pod has no twin in this super cluster and needs none."""
        session = self.session
        if new is None or session.connection.assignments.get_cluster(new) in (
            session.name,
            UNASSIGNED,
        ):
            return False
        return cached_objects.read_pair(session.kinds[key.kind], key, session).super_x is None

    def _handle_deleted(self, key: Key, old: Entry | None, *, live: bool) -> None:
        if key.kind == "Service" and old is not None:
            self.session.connection.service_clusters.forget(old.uid)
        super()._handle_deleted(key, old, live=live)


class TargetTenantEvents(SplitTenantEvents):
    """Routes the events of such a tenant to its session with a target."""

    session: TargetSession

    def _subscribe_mirrors(self) -> None:
        """Subscribe to the nodes, because one virtual node stands for the target."""
        self._add_handler(NODE, partial(self._handle_mirrored_object, NODE))

    def index_pod(self, old: Entry | None, new: Entry | None, *, low: bool) -> None:
        """Update the indexes, and queue a namespace that the target begins or ends to need."""
        index_target_pod(self.session, old, new, low=low)

    def index_assigned_pods(self) -> None:
        """Add the pods that are already assigned to the target when the session begins."""
        for entry in self.session.stores["Pod"].list():
            self.index_pod(None, entry, low=True)

    def handle_shown_node(self, name: str, *, low: bool) -> None:
        """Queue the pods that wait for a change of the target's virtual node."""
        super().handle_shown_node(name, low=low)
        _enqueue_waiting_pods(self.session.connection)

    def is_mirror_source(self, kind: str, entry: Entry) -> bool:  # noqa: ARG002
        """Return True for the virtual node that stands for the target."""
        return entry.name == target_node.build_node_name(self.session.name)

    def _handle_deleted(self, key: Key, old: Entry | None, *, live: bool) -> None:
        if key.kind == "Pod" and old is not None:
            self.session.target.pod_loss_guard.remove_deleted(self.session.tenant.uid, old.uid)
        super()._handle_deleted(key, old, live=live)


def index_assigned_pod(
    session: Session, old: Entry | None, new: Entry | None, *, low: bool, is_needed: bool = True
) -> str:
    """Update the indexes with a pod that may be assigned elsewhere. Returns its assigned cluster.

    `is_needed` is False if the pod needs nothing in this super cluster.
    """
    entry, cluster = new or old, UNASSIGNED
    if entry is None:
        return cluster
    if new is not None:
        cluster = session.connection.assignments.get_cluster(new)
    index_pod(
        session,
        (old or entry) if session.pods.has(*entry.key) else None,
        new if is_needed and cluster == session.name else None,
        low=low,
    )
    return cluster


def index_target_pod(
    session: TargetSession, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    """Update the indexes of a target with a pod, and queue its namespace if that changes."""
    entry = new or old
    if entry is None:
        return
    had_namespace = session.pods.has_namespace(entry.namespace)
    # Needs are synced while a twin exists, and to a target in which it may be created.
    is_needed = (
        new is None
        or session.connection.grants.is_offered(session.name)
        or session.twins.has_twin(new)
    )
    index_assigned_pod(session, old, new, low=low, is_needed=is_needed)
    if had_namespace != session.pods.has_namespace(entry.namespace):
        dependents.enqueue_namespace_in_target(session, entry.namespace, low=low)


def enqueue_assignments(connection: TenantConnection) -> None:
    """Check every assignment after a change of the grants or of the visible targets."""
    sessions = [each for each in connection.sessions if isinstance(each, Session)]
    for entry in connection.stores["Pod"].list():
        connection.assignments.notify_pod(entry)
        is_bound = bool(get_node(entry))
        for session in sessions:
            if is_bound and (session.is_home or not session.pods.has(*entry.key)):
                continue  # bound pods stay, except in a target no longer granted
            session.work.enqueue(session.build_key("Pod", *entry.key), low=True)
            if session.is_home:
                session.work.enqueue(session.build_key(ASSIGNMENT, *entry.key), low=True)


def _enqueue_waiting_pods(connection: TenantConnection) -> None:
    """Queue the unplaced pods, because a target may accept different pods now."""
    for session in [each for each in connection.sessions if isinstance(each, Session)]:
        for key in session.scope.iterate_unassigned():
            session.work.enqueue(key, low=True)


def _do_nothing() -> None:
    """Unsubscribe nothing, because nothing is subscribed yet."""
