"""Handlers for watch events of a tenant: which event queues which key.

Owns the subscriptions to the caches of a tenant. Must not decide or write: a handler only
updates indexes and queues keys. Hazard: a handler must not need to see a transition. Events are
merged, so it would miss some. The one exception is the end of a tenant object, which is recorded as
proof for a delete: live reads replace it where it was missed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kubeio.cache.store import Entry, Handler, Store
from kubeio.resource_version import revision_of
from syncer.controllers import sync_down
from syncer.handlers import dependents, predicates
from syncer.model import mirrored_kinds
from syncer.model.keys import ADDRESS, NODE, PLACEMENT, TOKEN, VOLUME, Key
from syncer.model.pod_index import Changes, node_of
from syncer.model.references import ACCOUNT_TOKEN, POD_TOKEN, Ref
from syncer.placement.assignments import NOWHERE
from syncer.rules import registry
from syncer.rules.placement import target_node
from syncer.rules.pods import pod_facts
from syncer.rules.storage import claims, volumes
from syncer.safety.expectations import News, Side
from syncer.tenants.connection import Link
from syncer.tenants.session import Session
from tenancy import wellknown


def wire_tenant(session: Session) -> Callable[[], None]:
    """Subscribe a session to its tenant's caches.

    Returns the function that unsubscribes it, for targets.
    """
    wired: list[tuple[Store, Handler]] = [
        (session.stores[kind], partial(_tenant_changed, session, kind))
        for kind in registry.BY_NAME
        if kind in session.super_cluster.stores
    ]
    if session.target is not None:
        wired.append((session.stores[NODE], partial(_shown_changed, session, NODE)))
    for store, handler in wired:
        store.subscribe(handler)
    if session.target is None:
        _wire_home(session)
    unsubscribe = session.link.seats.subscribe(partial(_seat_changed, session))
    return partial(_unwire, wired, unsubscribe)


def _unwire(wired: list[tuple[Store, Handler]], unsubscribe: Callable[[], None]) -> None:
    unsubscribe()
    for store, handler in wired:
        store.unsubscribe(handler)


def _seat_changed(session: Session, pod: Entry) -> None:
    """Update a pod with a new assignment. All of its own events may have come before."""
    entry = session.stores["Pod"].get(*pod.key)
    if entry is not None and entry.uid == pod.uid:
        pod_moved_between(session, entry, entry, low=False)


def take_in(session: Session) -> None:
    """Add the pods that are already assigned to a target when the session begins."""
    for entry in session.stores["Pod"].list():
        _pod_moved(session, None, entry, low=True)


def _wire_home(session: Session) -> None:
    """Subscribe to the resources that the home cluster shows in the tenant."""
    for kind in (NODE, ADDRESS, VOLUME, *mirrored_kinds.BY_KIND):
        session.stores[kind].subscribe(partial(_shown_changed, session, kind))
    session.stores[VOLUME].subscribe(partial(_own_volume_changed, session))
    session.stores[claims.CLAIM].subscribe(partial(_claim_changed, session))


def _tenant_changed(
    session: Session,
    kind: str,
    old: Entry | None,
    new: Entry | None,
    live: bool,
) -> None:
    entry = new or old
    if entry is None:
        return
    key = session.key(kind, entry.namespace, entry.name)
    news = session.expectations.seen(Side.TENANT, key, new)
    if new is None or (old is not None and old.uid != new.uid):
        session.reminders.gone(key)
        _tenant_gone(session, key, old, live=live)
    if kind == "Pod":
        _pod_moved(session, old, new, low=not live)
    dependents.tenant_changed(session, kind, old, new, low=not live)
    if is_rewritten(old, new):
        session.queue.forget(key)  # a refused object may be accepted now, so the delay is reset
        session.fuse.forget(key)
    elif news is News.FOREIGN and new is not None:
        session.figures.suspect(Side.TENANT, key, revision_of(new.resource_version))
    if kind == "Pod" and session.link.seats.is_split and _is_elsewhere(session, key, new):
        return
    if not (live and kind == "Pod"):
        session.add(key, low=not live)
    elif not predicates.is_over(session, key, news, new):
        predicates.wake(session, Side.TENANT, key, news, new)


def _is_elsewhere(session: Session, key: Key, new: Entry | None) -> bool:
    """Return True if a pod has no twin in this super cluster and needs none."""
    if new is None or session.link.seats.of(new) in (session.name, NOWHERE):
        return False
    return sync_down.look(registry.BY_NAME[key.kind], key, session).super_x is None


def is_rewritten(old: Entry | None, new: Entry | None) -> bool:
    """Return True if an object was changed. A change of the status alone does not count."""
    if old is None or new is None or old.uid != new.uid:
        return True
    if not new.generation:  # a kind without generation
        return _said(old) != _said(new)
    return (old.generation, old.labels, old.annotations) != (
        new.generation,
        new.labels,
        new.annotations,
    )


def _said(entry: Entry) -> dict[str, Any]:
    """Return an object without its status, which contains the syncer's own writes."""
    metadata = {"labels": entry.labels, "annotations": entry.annotations}
    return {**entry.decode(), "metadata": metadata, "status": None}


def _tenant_gone(session: Session, key: Key, old: Entry | None, *, live: bool) -> None:
    if old is None:
        return
    if key.kind == "Service":
        session.link.seats.service_gone(old.uid)
    if key.kind == "Pod" and session.target is not None:
        session.target.muster.gone(session.tenant.uid, old.uid)
    if live:
        kind = registry.BY_NAME[key.kind]
        if not session.is_twin(sync_down.look(kind, key, session).super_x, old.uid):
            return  # without a twin the record would stay, and live reads prove late ends
        forced = key.kind == "Pod" and pod_facts.was_forced(old.decode())
        session.deletions.saw_gone(key, old.uid, forced=forced)
    else:
        session.link.doubt_store()  # absent from a list: perhaps a different store


def _pod_moved(session: Session, old: Entry | None, new: Entry | None, *, low: bool) -> None:
    if session.link.seats.is_split:
        pod_moved_between(session, old, new, low=low)
    else:
        _pod_taken_in(session, old, new, low=low)


def pod_moved_between(session: Session, old: Entry | None, new: Entry | None, *, low: bool) -> None:
    """Update the indexes as `_pod_taken_in`, for a pod that may be assigned elsewhere."""
    entry, seats = new or old, session.link.seats
    if entry is None:
        return
    is_another = old is None or new is None or new.uid != old.uid
    if session.target is None and is_another:
        if old is not None:
            seats.gone(old.uid)
        if new is not None and not low:
            seats.saw_made(new.uid)
    namespace = entry.namespace
    was_taken_in, was_in = session.pods.has(*entry.key), session.pods.is_in(namespace)
    seat = seats.of(new) if new is not None else NOWHERE
    _pod_taken_in(
        session,
        (old or entry) if was_taken_in else None,
        new if new is not None and seat == session.name and _is_needed(session, new) else None,
        low=low,
    )
    if session.target is not None and was_in != session.pods.is_in(namespace):
        dependents.space_needed(session, namespace, low=low)
    if session.target is None and new is not None and _is_misrecorded(old, new, seat, session):
        session.add(session.key(PLACEMENT, *new.key), low=low)


def _is_needed(session: Session, pod: Entry) -> bool:
    """Return True if a pod's needs are synced to its assigned cluster, where it may be created."""
    return (
        session.target is None or session.link.seats.offers(session.name) or session.has_twin(pod)
    )


def _is_misrecorded(old: Entry | None, new: Entry, seat: str, session: Session) -> bool:
    """Return True if a pod must be placed, or another writer changed its record."""
    if seat == NOWHERE or old is new:  # the same entry: the syncer's record is on its way
        return seat == NOWHERE
    return not node_of(new) and not session.link.seats.is_recorded(new, seat)


def look_again(link: Link) -> None:
    """Check every assignment after a change of the grants or of the visible targets."""
    sessions = [each for each in link.sessions if isinstance(each, Session)]
    for entry in link.stores["Pod"].list():
        link.seats.look_again(entry)
        is_bound = bool(node_of(entry))
        for session in sessions:
            if is_bound and not (session.target is not None and session.pods.has(*entry.key)):
                continue  # bound pods stay, except in a target no longer granted
            session.add(session.key("Pod", *entry.key), low=True)
            if session.target is None:
                session.add(session.key(PLACEMENT, *entry.key), low=True)


def _pod_taken_in(session: Session, old: Entry | None, new: Entry | None, *, low: bool) -> None:
    if new is not None:
        changes = session.pods.set(old, new)
    else:
        changes = session.pods.drop(old) if old is not None else Changes()
    entry = new or old
    namespace = entry.namespace if entry is not None else ""
    for ref in changes.refs:
        # Only the first and the last pod change whether a reference is needed. Claims are always
        # needed.
        if ref.kind == claims.CLAIM or not session.pods.references.is_shared(namespace, ref):
            for key in keys_of_ref(session, namespace, ref):
                session.add(key, low=low)
    for node in changes.nodes:
        # Between the first and the last pod, no part of a shown node depends on its pods. A node
        # that was recreated in the super cluster is an exception. Its old state is shown until a
        # pod runs on it.
        if not session.view.has_node(node) or len(session.pods.on_node(node)) <= 1:
            session.add(session.key(NODE, "", node), low=low)


def keys_of_ref(session: Session, namespace: str, ref: Ref) -> list[Key]:
    """Return the keys of the objects that a pod's reference needs."""
    if ref.kind not in (ACCOUNT_TOKEN, POD_TOKEN):
        return [session.key(ref.kind, namespace, ref.name)]
    below = session.super_store("Secret").list(session.view.super_namespace(namespace))
    return [
        session.key(TOKEN, namespace, entry.name)
        for entry in below
        if entry.annotations.get(wellknown.ACCOUNT) == ref.name
        or entry.annotations.get(wellknown.TOKEN_POD, "").endswith(f"/{ref.name}")
    ]


def _shown_changed(
    session: Session,
    kind: str,
    old: Entry | None,
    new: Entry | None,
    live: bool,
) -> None:
    entry = new or old
    if entry is None or not _is_shown_from(session, kind, entry):
        return
    key = session.key(kind, "", entry.name)
    if session.expectations.seen(Side.TENANT, key, new) is News.FOREIGN:
        suspect(session, Side.TENANT, key, old, new)
    if kind == NODE:
        dependents.node_changed(session, entry.name, low=not live)
        if session.target is not None:
            _place_who_waits(session.link)
    session.wake(key)
    session.add(key, low=not live)


def _place_who_waits(link: Link) -> None:
    """Queue the unplaced pods, because a target may accept different pods now."""
    for session in [each for each in link.sessions if isinstance(each, Session)]:
        for key in session.unseated():
            session.add(key, low=True)


def _is_shown_from(session: Session, kind: str, entry: Entry) -> bool:
    """Return True if an object is shown from this super cluster."""
    if session.target is not None:
        return entry.name == target_node.name_of(session.name)
    return kind != NODE or wellknown.SUPER_CLUSTER not in entry.annotations


def _own_volume_changed(session: Session, old: Entry | None, new: Entry | None, live: bool) -> None:
    """Queue the claim of a tenant's own volume, which decides what the claim may name."""
    for entry in (old, new):
        place = volumes.claim_named(entry) if entry is not None else None
        if place is not None:
            session.add(session.key(claims.CLAIM, *place), low=not live)


def _claim_changed(session: Session, old: Entry | None, new: Entry | None, live: bool) -> None:
    """Queue the volume that a claim names, and wake the pods that wait for the claim."""
    entry = new or old
    if entry is not None:
        session.wake(session.key(claims.CLAIM, entry.namespace, entry.name))
    for entry in (old, new):
        name = claims.volume_named(entry) if entry is not None else ""
        if name:
            session.add(session.key(VOLUME, "", name), low=not live)


def suspect(session: Session, side: Side, key: Key, old: Entry | None, new: Entry | None) -> None:
    """Record a possible drift: another writer changed or deleted an object."""
    if old is not None and (new is not None or not old.deleting):
        revision = revision_of(new.resource_version) if new is not None else 0
        session.figures.suspect(side, key, revision)
