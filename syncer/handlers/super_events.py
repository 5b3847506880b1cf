"""Handlers for watch events of a super cluster: which event queues which key.

Owns the subscriptions to the caches of a super cluster. Must not decide or write: a handler only
updates indexes and queues keys. Hazard: a handler must not need to see a transition. Events are
merged, so it would miss some.
"""

from collections.abc import Mapping
from functools import partial

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.clusters.super_cluster import SuperCluster
from syncer.controllers.pods import reschedule
from syncer.handlers import dependents, predicates
from syncer.handlers.tenant_events import is_rewritten, pod_moved_between, suspect
from syncer.model.keys import EVENT, TOKEN, Key
from syncer.model.references import is_reserved_name, refs_of
from syncer.rules import events, registry
from syncer.rules.disruption_budgets import BUDGET
from syncer.rules.pods import pod_facts
from syncer.rules.storage import claims
from syncer.safety.expectations import News, Side
from syncer.tenants.session import Session
from tenancy import ownership


class SuperWiring:
    """Routes events of a super cluster to all present sessions."""

    def __init__(self, super_cluster: SuperCluster, sessions: Mapping[str, Session]) -> None:
        """`sessions` are those of this super cluster, by the UID of the VirtualCluster."""
        self.super_cluster = super_cluster
        self.sessions = sessions

    def subscribe(self) -> None:
        """Subscribe to every cache of the super cluster."""
        below = self.super_cluster
        for kind, store in below.stores.items():
            store.subscribe(partial(self._changed, kind))
        below.events.subscribe(self._event_changed)
        below.ranges.subscribe(self._ranges_changed)
        if below.registration:
            below.inventory.subscribe(self._target_nodes_changed)

    def _changed(self, kind: str, old: Entry | None, new: Entry | None, live: bool) -> None:
        before: Key | None = None
        for entry in (old, new):  # both: the labels that name the tenant may have been edited
            key = self.super_cluster.key_of(kind, entry) if entry is not None else None
            session = self.sessions.get(key.tenant) if key is not None else None
            if key is None or session is None or key == before:
                continue
            before = key
            news = session.expectations.seen(Side.SUPER, key, new)
            if news is News.FOREIGN and is_rewritten(old, new):
                suspect(session, Side.SUPER, key, old, new)
            if new is not None:
                session.lost_twins.is_in_sight(key)
                if kind == "Pod" and session.target is not None:
                    _is_there(session, new)
            elif old is not None:
                _left(session, key, old, kind=kind, live=live)
                if news is News.FOREIGN and kind in registry.BY_NAME and not old.deleting:
                    session.lost_twins.lost_sight_of(key, old.key)  # or lost its labels
            if kind == "Pod":
                dependents.super_pod_changed(session, key.namespace, old, new)
                _twin_moved(session, key, old, new, low=not live)
            elif kind == BUDGET:
                dependents.super_budget_changed(session, key.namespace, old, new)
            session.wake(key)
            if not (live and kind == "Pod"):
                session.add(key, low=not live)
            elif not predicates.is_as_written(session, key, new):
                session.add(key)
            elif news is not News.QUIET and not predicates.is_only_later(session, key, old, new):
                predicates.wake(session, Side.SUPER, key, news, new)

    def _target_nodes_changed(self) -> None:
        dependents.target_nodes_changed(self.sessions.values())

    def _ranges_changed(self) -> None:
        for session in self.sessions.values():
            dependents.ranges_changed(session)

    def _event_changed(self, _: Entry | None, new: Entry | None, live: bool) -> None:
        """Queue an Event of the running watch. A list repeats old Events."""
        if new is None or not live:
            return
        namespace = self.super_cluster.stores["Namespace"].get("", new.namespace)
        registration = self.super_cluster.registration
        owner = (
            ownership.owner_of({"annotations": namespace.annotations}, registration)
            if namespace
            else None
        )
        session = self.sessions.get(owner.vc_uid) if owner is not None else None
        if session is None or owner is None or not session.is_ready:
            return
        event = new.decode()
        if events.regards(event)[0] not in events.KINDS or not session.event_budget.take():
            return
        if session.link.seats.is_split:
            reschedule.heard(event, owner.namespace, session)
        key = session.key(EVENT, owner.namespace, new.name)
        if session.reminders.queue_event(key, event):
            session.add(key, low=True)


def _twin_moved(
    session: Session, key: Key, old: Entry | None, new: Entry | None, *, low: bool
) -> None:
    """Keep a pod's needs in a target that is no longer granted, as long as its twin exists."""
    if session.target is None or (old is not None and new is not None):
        return
    if new is None:
        dependents.space_needed(session, key.namespace, low=low)
    entry = session.stores["Pod"].get(key.namespace, key.name)
    if entry is not None:
        pod_moved_between(session, entry, entry, low=low)


def _left(session: Session, key: Key, old: Entry, *, kind: str, live: bool) -> None:
    """Forget, or queue, what depends on a super object that left the cache."""
    session.deletions.forget(key)
    session.queue.forget(key)
    if key.kind == TOKEN:
        dependents.token_gone(session, key.namespace, old)
    if kind == "Pod":
        last = old.decode()
        _twin_gone(session, old, last, live=live)
        _free_refs(session, key.namespace, last)


def _is_there(session: Session, super_pod: Entry) -> None:
    """Record that a twin is present in a target."""
    annotations = {"annotations": super_pod.annotations}
    owner = ownership.owner_of(annotations, session.tenant.registration)
    if owner is not None and session.target is not None:
        session.target.muster.present(session.tenant.uid, owner.uid)


def _twin_gone(session: Session, super_pod: Entry, last: Object, *, live: bool) -> None:
    """Record that a bound twin no longer exists, so its tenant pod is lost."""
    annotations = {"annotations": super_pod.annotations}
    owner = ownership.owner_of(annotations, session.tenant.registration)
    if owner is not None and (last.get("spec") or {}).get("nodeName"):
        is_over = live or super_pod.deleting or pod_facts.is_finished(last)
        if session.target is not None and not is_over:
            session.target.muster.absent(session.tenant.uid, owner.uid)
        session.lost_twins.saw_bound_twin_end(
            owner.uid,
            was_deleting=super_pod.deleting,
            # Without the kubelet's last update, the twin may only have lost its labels.
            is_certain=live and pod_facts.was_forced(last),
        )


def _free_refs(session: Session, namespace: str, last: Object) -> None:
    """Queue the objects that only a deleted super pod still used."""
    for ref in refs_of(last.get("spec") or {}):
        if is_reserved_name(ref.kind, ref.name) and ref.kind == "Secret":
            session.add(session.key(TOKEN, namespace, ref.name))
        else:
            name = registry.BY_NAME[ref.kind].tenant_name(ref.name)
            if ref.kind == claims.CLAIM or not session.view.is_referenced(
                ref.kind, namespace, name
            ):
                session.add(session.key(ref.kind, namespace, name))
