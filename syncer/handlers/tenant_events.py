"""Handlers for watch events of a tenant: which event queues which key.

Owns the subscriptions to the caches of a tenant. Must not decide or write: a handler only
updates indexes and queues keys. Hazard: a handler must not need to see a transition. Events are
merged, so it would miss some. The one exception is the end of a tenant object, which is recorded as
proof for a delete: live reads replace it where it was missed.
"""

from functools import partial
from typing import Any

from kubeio.cache.store import Entry, EventHandler, Store
from kubeio.resource_version import parse_revision
from syncer.controllers import cached_objects
from syncer.handlers import dependents, predicates
from syncer.model import mirrored_kinds
from syncer.model.keys import ADDRESS, NODE, QUOTA_REPORT, TOKEN, VOLUME, Key
from syncer.model.pod_index import PodIndexChanges
from syncer.model.references import ACCOUNT_TOKEN, POD_TOKEN, ObjectReference
from syncer.rules.pods import lifecycle
from syncer.rules.quota import quota_objects
from syncer.rules.storage import claims, volumes
from syncer.safety.expectations import ClusterSide, EventOrigin
from syncer.tenants.session import Session
from tenancy import names, wellknown
from tenancy.resources import CONFIG_MAPS


class TenantEvents:
    """Routes the events of a tenant to its session with the home cluster.

    All pods of the tenant run in the home cluster. `syncer.handlers.split_tenant_events` has the
    other tenants.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._subscribed: list[tuple[Store, EventHandler]] = []

    def subscribe(self) -> None:
        """Subscribe the session to its tenant's caches."""
        for kind in self.session.kinds:
            if kind in self.session.super_cluster.stores:
                self._add_handler(kind, partial(self._handle_object, kind))
        self._subscribe_mirrors()

    def unsubscribe(self) -> None:
        """End the subscriptions."""
        for store, handler in self._subscribed:
            store.unsubscribe(handler)
        self._subscribed.clear()

    def _add_handler(self, kind: str, handler: EventHandler) -> None:
        store = self.session.stores[kind]
        store.subscribe(handler)
        self._subscribed.append((store, handler))

    def _subscribe_mirrors(self) -> None:
        """Subscribe to the resources that the home cluster shows in the tenant."""
        ruled = self.session.ruled_mirrors
        for kind in (NODE, ADDRESS, VOLUME, *mirrored_kinds.MIRRORS_BY_KIND, *ruled):
            self._add_handler(kind, partial(self._handle_mirrored_object, kind))
        self._add_handler(VOLUME, self._handle_own_volume)
        self._add_handler(claims.CLAIM, self._handle_claim)

    def _handle_object(self, kind: str, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry, session = new or old, self.session
        if entry is None:
            return
        key = session.build_key(kind, entry.namespace, entry.name)
        news = session.expectations.observe_event(ClusterSide.TENANT, key, new)
        if new is None or (old is not None and old.uid != new.uid):
            session.pod_memory.forget_pod(key)
            session.node_memory.forget_pod(key)
            session.synced_states.forget(key)
            self._handle_deleted(key, old, live=live)
        if kind == "Pod":
            self.index_pod(old, new, low=not live)
        dependents.enqueue_tenant_dependents(session, kind, old, new, low=not live)
        if kind == "EndpointSlice":
            session.network_indexes.pod_addresses.set_slice(entry.key, new)
        elif kind == "NetworkPolicy":
            dependents.enqueue_pods_of_policy(session, old, new, low=not live)
        if is_spec_changed(old, new):
            session.queue.forget(key)  # a refused object may be accepted now: no delay applies
            session.hot_loop_guard.forget_key(key)
            session.quota.forget_waiter(key)
        elif news is EventOrigin.FOREIGN and new is not None:
            revision = parse_revision(new.resource_version)
            session.metrics.suspect_drift(ClusterSide.TENANT, key, revision)
        if kind == CONFIG_MAPS.kind and entry.key == names.QUOTA_REPORT and live:
            report = session.build_key(QUOTA_REPORT, "", "")
            if new is None and news is EventOrigin.FOREIGN:
                session.synced_states.record_deletion(report)
            session.queue.add_after(report, quota_objects.REPORT_SECONDS, low=True)
        if kind != "Pod":
            session.work.enqueue(key, low=not live)
        elif not self.is_assigned_elsewhere(key, new):
            self._enqueue_pod(key, news, new, live=live)

    def _enqueue_pod(self, key: Key, news: EventOrigin, new: Entry | None, *, live: bool) -> None:
        if not live:
            self.session.work.enqueue(key, low=True)
        elif not predicates.is_pod_event_irrelevant(self.session, key, news, new):
            predicates.enqueue_pod(self.session, ClusterSide.TENANT, key, news, new)

    def index_pod(self, old: Entry | None, new: Entry | None, *, low: bool) -> None:
        """Update the indexes of pods, and queue the objects that a pod begins or ends to need."""
        index_pod(self.session, old, new, low=low)

    def is_assigned_elsewhere(self, key: Key, new: Entry | None) -> bool:  # noqa: ARG002
        """Return True if a pod has no twin in this super cluster and needs none."""
        return False

    def _handle_deleted(self, key: Key, old: Entry | None, *, live: bool) -> None:
        if old is None:
            return
        session = self.session
        if live:
            kind = session.kinds[key.kind]
            if not session.twins.is_twin(
                cached_objects.read_pair(kind, key, session).super_x, old.uid
            ):
                return  # without a twin the record would stay, and live reads prove late ends
            forced = key.kind == "Pod" and lifecycle.was_force_deleted(old.decode())
            session.proven_deletes.record_tenant_end(key, old.uid, forced=forced)
        else:
            session.connection.request_store_check()  # absent from a list: another store, perhaps

    def _handle_mirrored_object(
        self, kind: str, old: Entry | None, new: Entry | None, live: bool
    ) -> None:
        entry, session = new or old, self.session
        if entry is None or not self.is_mirror_source(kind, entry):
            return
        key = session.build_key(kind, entry.namespace, entry.name)
        news = session.expectations.observe_event(ClusterSide.TENANT, key, new)
        if news is EventOrigin.FOREIGN:
            suspect_drift(session, ClusterSide.TENANT, key, old, new)
        if new is None:
            session.synced_states.forget(key)
            if live and news is EventOrigin.FOREIGN:
                session.synced_states.record_deletion(key)
        if kind == NODE:
            self.handle_shown_node(entry.name, low=not live)
        session.work.wake_waiters(key)
        session.work.enqueue(key, low=not live)

    def handle_shown_node(self, name: str, *, low: bool) -> None:
        """Queue the pods that wait for a change of a node in the tenant."""
        dependents.enqueue_pods_waiting_for_node(self.session, name, low=low)

    def is_mirror_source(self, kind: str, entry: Entry) -> bool:
        """Return True if an object is shown from this super cluster."""
        return kind != NODE or wellknown.SUPER_CLUSTER not in entry.annotations

    def _handle_own_volume(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        """Queue the claim of a tenant's own volume, which decides what the claim may name."""
        for entry in (old, new):
            place = volumes.get_claim_reference(entry) if entry is not None else None
            if place is not None:
                key = self.session.build_key(claims.CLAIM, *place)
                self.session.work.enqueue(key, low=not live)

    def _handle_claim(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        """Queue the volume that a claim names, and wake the pods that wait for the claim."""
        entry, session = new or old, self.session
        if entry is not None:
            session.work.wake_waiters(session.build_key(claims.CLAIM, entry.namespace, entry.name))
        for entry in (old, new):
            name = claims.get_volume(entry) if entry is not None else ""
            if name:
                session.work.enqueue(session.build_key(VOLUME, "", name), low=not live)


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


def index_pod(session: Session, old: Entry | None, new: Entry | None, *, low: bool) -> None:
    """Update the indexes with a pod of this super cluster, and queue what depends on it."""
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
                session.work.enqueue(key, low=low)
    for node in changes.nodes:
        # Between the first and the last pod, no part of a shown node depends on its pods. A node
        # that was recreated in the super cluster is an exception. Its old state is shown until a
        # pod runs on it.
        if not session.view.has_node(node) or len(session.pods.list_pods_on_node(node)) <= 1:
            session.work.enqueue(session.build_key(NODE, "", node), low=low)


def list_reference_keys(session: Session, namespace: str, ref: ObjectReference) -> list[Key]:
    """Return the keys of the objects that a pod's reference needs."""
    if ref.kind not in (ACCOUNT_TOKEN, POD_TOKEN):
        return [session.build_key(ref.kind, namespace, ref.name)]
    below = session.twins.get_store("Secret").list(session.view.get_super_namespace(namespace))
    return [
        session.build_key(TOKEN, namespace, entry.name)
        for entry in below
        if entry.annotations.get(wellknown.ACCOUNT) == ref.name
        or entry.annotations.get(wellknown.TOKEN_POD, "").endswith(f"/{ref.name}")
    ]


def suspect_drift(
    session: Session, side: ClusterSide, key: Key, old: Entry | None, new: Entry | None
) -> None:
    """Record a possible drift: another writer changed or deleted an object."""
    if old is not None and (new is not None or not old.deleting):
        revision = parse_revision(new.resource_version) if new is not None else 0
        session.metrics.suspect_drift(side, key, revision)
