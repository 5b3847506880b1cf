"""Handlers for watch events of a super cluster: which event queues which key.

Owns the subscriptions to the caches of a super cluster. Must not decide or write: a handler only
updates indexes and queues keys. Hazard: a handler must not need to see a transition. Events are
merged, so it would miss some.
"""

from collections.abc import Mapping
from functools import partial

from kubeio import Object
from kubeio.cache.store import Entry, Store
from syncer.clusters.super_cluster import SuperCluster
from syncer.controllers.pods import reschedule
from syncer.handlers import dependents, predicates
from syncer.handlers.tenant_events import is_spec_changed, suspect_drift
from syncer.model.keys import EVENT, LIMIT_RANGE, RESOURCE_QUOTA, TOKEN, Key
from syncer.model.references import is_reserved_name, list_references
from syncer.rules import events
from syncer.rules.configuration import service_variables
from syncer.rules.disruption_budgets import BUDGET
from syncer.rules.pods import lifecycle
from syncer.rules.storage import claims
from syncer.safety.expectations import ClusterSide, EventOrigin
from syncer.tenants.session import Session
from tenancy import ownership


class SuperEvents:
    """Routes events of a super cluster to all present sessions."""

    def __init__(self, super_cluster: SuperCluster, sessions: Mapping[str, Session]) -> None:
        """`sessions` are those of this super cluster, by the UID of the VirtualCluster."""
        self.super_cluster = super_cluster
        self.sessions = sessions

    def subscribe(self) -> None:
        """Subscribe to every cache of the super cluster."""
        below = self.super_cluster
        for kind, store in below.stores.items():
            store.subscribe(partial(self._handle_super_object, kind))
        below.events.subscribe(self._handle_event)
        below.secrets.subscribe(self._handle_secret_access)
        below.cidr_tracker.subscribe(self._handle_super_cidrs)
        below.subscribe_served(self._handle_kind_served)
        below.ruled.subscribe_added(self._handle_ruled_kind)
        below.ruled.subscribe_complete(self._handle_ruled_kind_complete)

    def _handle_super_object(
        self, kind: str, old: Entry | None, new: Entry | None, live: bool
    ) -> None:
        before: Key | None = None
        for entry in (old, new):  # both: the labels that name the tenant may have been edited
            key = self.super_cluster.get_key(kind, entry) if entry is not None else None
            session = self.sessions.get(key.tenant) if key is not None else None
            if key is None or session is None or key == before:
                continue
            before = key
            if kind in (RESOURCE_QUOTA, LIMIT_RANGE) and not is_spec_changed(old, new):
                continue  # the super cluster counts in its status at each create
            news = session.expectations.observe_event(ClusterSide.SUPER, key, new)
            if news is EventOrigin.FOREIGN and is_spec_changed(old, new):
                suspect_drift(session, ClusterSide.SUPER, key, old, new)
            if new is not None:
                session.lost_twins.clear_vanished_twin(key)
            elif old is not None:
                self._handle_deleted(session, key, old, kind=kind, live=live)
                if news is EventOrigin.FOREIGN and kind in session.kinds and not old.deleting:
                    session.lost_twins.record_vanished_twin(key, old.key)  # or lost its labels
            self._enqueue_dependents(session, key, old, new, kind=kind, live=live)
            if old is None or new is None:
                dependents.enqueue_other_copies(session, key, low=not live)
            session.work.wake_waiters(key)
            if not (live and kind == "Pod"):
                session.work.enqueue(key, low=not live)
            elif not predicates.has_expected_tenant_pod(session, key, new):
                session.work.enqueue(key)
            elif news is not EventOrigin.OWN_UNCHANGED and not predicates.is_grace_countdown(
                session, key, old, new
            ):
                predicates.enqueue_pod(session, ClusterSide.SUPER, key, news, new)

    def _enqueue_dependents(
        self,
        session: Session,
        key: Key,
        old: Entry | None,
        new: Entry | None,
        *,
        kind: str,
        live: bool,
    ) -> None:
        """Queue the objects that depend on a super object."""
        if kind == "Pod":
            self.handle_pod(session, key, old, new, low=not live)
        elif kind == BUDGET:
            dependents.enqueue_budgets_of_budget(session, key.namespace, old, new)
        elif kind == "Service":
            dependents.enqueue_default_policies_of_service(session, old, new)

    def _handle_ruled_kind(self, kind: str, store: Store) -> None:
        """Subscribe to the copies of a kind that a SyncRule has begun to sync."""
        store.subscribe(partial(self._handle_super_object, kind))

    def _handle_ruled_kind_complete(self, kind: str) -> None:
        """Queue the objects of a kind, and its copies in sessions of tenants without its rule.

        A session that began before the cache was complete concluded nothing from it.
        """
        below = self.super_cluster
        for session in self.sessions.values():
            if kind in session.kinds:
                session.handle_kind_served(kind)
            elif session.ruled.is_removed(kind):
                for entry in below.list_owned(kind, session.tenant.uid):
                    key = below.get_key(kind, entry)
                    if key is not None:
                        session.work.enqueue(key, low=True)

    def _handle_secret_access(self, namespace: str) -> None:
        """Queue a namespace whose Secrets became readable, or are refused."""
        entry = self.super_cluster.stores["Namespace"].get("", namespace)
        key = self.super_cluster.get_key("Namespace", entry) if entry is not None else None
        session = self.sessions.get(key.tenant) if key is not None else None
        if key is not None and session is not None:
            session.work.wake_waiters(key)
            session.work.enqueue(key)

    def handle_pod(
        self,
        session: Session,
        key: Key,
        old: Entry | None,
        new: Entry | None,
        *,
        low: bool,  # noqa: ARG002
    ) -> None:
        """Queue the objects that depend on a twin."""
        dependents.enqueue_budgets_of_pod(session, key.namespace, old, new)

    def _handle_deleted(
        self, session: Session, key: Key, old: Entry, *, kind: str, live: bool
    ) -> None:
        """Forget, or queue, what depends on a super object that left the cache."""
        session.proven_deletes.forget(key)
        session.queue.forget(key)
        if key.kind == TOKEN:
            dependents.enqueue_pods_of_token(session, key.namespace, old)
        if kind == "Pod":
            last = old.decode()
            self.record_twin_end(session, old, last, live=live)
            _release_references(session, key.namespace, last)

    def record_twin_end(
        self, session: Session, super_pod: Entry, last: Object, *, live: bool
    ) -> None:
        """Record that a bound twin no longer exists, so its tenant pod is lost."""
        annotations = {"annotations": super_pod.annotations}
        owner = ownership.read_owner(annotations, session.tenant.super_cluster_uid)
        if owner is not None and (last.get("spec") or {}).get("nodeName"):
            session.lost_twins.record_bound_twin_end(
                owner.uid,
                was_deleting=super_pod.deleting,
                # Without the kubelet's last update, the twin may only have lost its labels.
                is_certain=live and lifecycle.was_force_deleted(last),
            )

    def _handle_kind_served(self, kind: str) -> None:
        for session in self.sessions.values():
            session.handle_kind_served(kind)

    def _handle_super_cidrs(self) -> None:
        for session in self.sessions.values():
            dependents.enqueue_users_of_cidrs(session)

    def _handle_event(self, _: Entry | None, new: Entry | None, live: bool) -> None:
        """Queue an Event of the running watch. A list repeats old Events."""
        if new is None or not live:
            return
        namespace = self.super_cluster.stores["Namespace"].get("", new.namespace)
        registration = self.super_cluster.registration
        owner = (
            ownership.read_owner({"annotations": namespace.annotations}, registration)
            if namespace
            else None
        )
        session = self.sessions.get(owner.vc_uid) if owner is not None else None
        if session is None or owner is None or not session.work.is_ready:
            return
        event = new.decode()
        if (
            events.get_regarding(event)[0] not in events.SYNCED_KINDS
            or not session.event_budget.take_token()
        ):
            return
        reschedule.record_scale_up(event, owner.namespace, session)
        key = session.build_key(EVENT, owner.namespace, new.name)
        if session.event_memory.queue_event(key, event):
            session.work.enqueue(key, low=True)


def _release_references(session: Session, namespace: str, last: Object) -> None:
    """Queue the objects that only a deleted super pod still used."""
    for ref in list_references(last.get("spec") or {}):
        if is_reserved_name(ref.kind, ref.name) and ref.kind == "Secret":
            session.work.enqueue(session.build_key(TOKEN, namespace, ref.name))
        elif ref.kind != "ConfigMap" or ref.name not in service_variables.NAMES:
            name = session.kinds[ref.kind].tenant_name(ref.name)
            if ref.kind == claims.CLAIM or not session.view.is_referenced(
                ref.kind, namespace, name
            ):
                session.work.enqueue(session.build_key(ref.kind, namespace, name))
