"""Which event wakes which key.

Owns the subscriptions to all caches, of a tenant and of the super cluster. Must not decide or
write: a handler only brings indexes up to date and queues keys. Hazard: a handler that must see a
transition is a bug, as events are merged; the exception is the end of a tenant object, which is
noted as proof for a delete and replaced by live reads when it was missed.
"""

from collections.abc import Mapping
from functools import partial

from kubeio.store import Entry
from syncer import downward, kinds
from syncer.expectations import Side
from syncer.keys import ADDRESS, EVENT, NODE, TOKEN, Key
from syncer.pod_index import Changes
from syncer.references import ACCOUNT_TOKEN, POD_TOKEN, Ref, is_reserved_name, refs_of
from syncer.session import SYNCED_KINDS, Session
from syncer.special import configuration, events, pods
from syncer.special.addresses import is_in_slice
from syncer.supercluster import SuperCluster
from tenancy import marks, ownership

# --- the tenant's side ----------------------------------------------------------------------------


def wire_tenant(session: Session) -> None:
    """Subscribe a session to its own caches."""
    for kind in SYNCED_KINDS:
        session.stores[kind].subscribe(partial(_tenant_changed, session, kind))
    for kind in (NODE, ADDRESS):
        session.stores[kind].subscribe(partial(_shown_changed, session, kind))


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
    session.expectations.seen(Side.TENANT, key, new)
    if new is None or (old is not None and old.uid != new.uid):
        _tenant_gone(session, key, old, live=live)
    if kind == "Pod":
        _pod_moved(session, old, new, low=not live)
    session.add(key, low=not live)


def _tenant_gone(session: Session, key: Key, old: Entry | None, *, live: bool) -> None:
    if old is None:
        return
    if live:
        kind = kinds.BY_NAME[key.kind]
        if not session.is_twin(downward.look(kind, key, session).super_x, old.uid):
            return  # nothing below to forget the note by; live reads prove what comes late
        forced = key.kind == "Pod" and pods.was_forced(old.decode())
        session.deletions.saw_gone(key, old.uid, forced=forced)
    else:
        session.doubt_store()  # absence from a list: perhaps it is another store


def _pod_moved(session: Session, old: Entry | None, new: Entry | None, *, low: bool) -> None:
    if new is not None:
        changes = session.pods.set(old, new)
    else:
        changes = session.pods.drop(old) if old is not None else Changes()
    entry = new or old
    namespace = entry.namespace if entry is not None else ""
    for ref in changes.refs:
        for key in keys_of_ref(session, namespace, ref):
            session.add(key, low=low)
    for node in changes.nodes:
        session.add(session.key(NODE, "", node), low=low)


def keys_of_ref(session: Session, namespace: str, ref: Ref) -> list[Key]:
    """Return the keys that a need of a pod concerns."""
    if ref.kind not in (ACCOUNT_TOKEN, POD_TOKEN):
        return [session.key(ref.kind, namespace, ref.name)]
    below = session.super_store("Secret").list(session.view.super_namespace(namespace))
    return [
        session.key(TOKEN, namespace, entry.name)
        for entry in below
        if entry.annotations.get(marks.ACCOUNT) == ref.name
        or entry.annotations.get(marks.TOKEN_POD, "").endswith(f"/{ref.name}")
    ]


def _shown_changed(
    session: Session,
    kind: str,
    old: Entry | None,
    new: Entry | None,
    live: bool,
) -> None:
    entry = new or old
    if entry is None:
        return
    key = session.key(kind, "", entry.name)
    session.expectations.seen(Side.TENANT, key, new)
    session.wake(key)
    session.add(key, low=not live)


# --- the super cluster's side ---------------------------------------------------------------------


class SuperWiring:
    """Routes what happens in the super cluster to whatever sessions there are at that moment."""

    def __init__(self, super_cluster: SuperCluster, sessions: Mapping[str, Session]) -> None:
        self._super_cluster = super_cluster
        self._sessions = sessions

    def subscribe(self) -> None:
        """Subscribe to every cache of the super cluster."""
        below = self._super_cluster
        for kind, store in below.stores.items():
            store.subscribe(partial(self._changed, kind))
        below.nodes.subscribe(self._node_changed)
        below.agents.subscribe(self._agent_changed)
        below.addresses.subscribe(self._address_changed)
        below.events.subscribe(self._event_changed)

    def _changed(self, kind: str, old: Entry | None, new: Entry | None, live: bool) -> None:
        for entry in (old, new):  # both: the labels that name the tenant may have been edited
            key = self._super_cluster.key_of(kind, entry) if entry is not None else None
            session = self._sessions.get(key.tenant) if key is not None else None
            if key is None or session is None:
                continue
            session.expectations.seen(Side.SUPER, key, new)
            if new is None:
                session.deletions.forget(key)
                if kind == "Pod" and entry is not None:
                    _free_refs(session, key.namespace, entry)
            session.wake(key)
            session.add(key, low=not live)

    def _node_changed(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        if entry is not None:
            self._node_touched(entry.name, low=not live)

    def _agent_changed(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        nodes = {
            str((entry.decode().get("spec") or {}).get("nodeName") or "")
            for entry in (old, new)
            if entry is not None
        }
        for node in nodes - {""}:
            self._node_touched(node, low=not live)

    def _node_touched(self, node: str, *, low: bool) -> None:
        for session in self._sessions.values():
            if session.pods.is_on_node(node) or session.stores[NODE].get("", node) is not None:
                session.add(session.key(NODE, "", node), low=low)

    def _address_changed(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        if entry is None:
            return
        for session in self._sessions.values():
            if is_in_slice(entry.name, session.view):
                session.add(session.key(ADDRESS, "", entry.name), low=not live)

    def _event_changed(self, _: Entry | None, new: Entry | None, live: bool) -> None:
        """Take an Event up: only from the running watch, as a list repeats what was told."""
        if new is None or not live:
            return
        namespace = self._super_cluster.stores["Namespace"].get("", new.namespace)
        owner = ownership.owner_of({"annotations": namespace.annotations}) if namespace else None
        session = self._sessions.get(owner.vc_uid) if owner is not None else None
        if session is None or owner is None or not session.is_ready:
            return
        event = new.decode()
        if events.regards(event)[0] not in events.KINDS or not session.event_budget.take():
            return
        key = session.key(EVENT, owner.namespace, new.name)
        if session.reminders.queue_event(key, event):
            session.add(key, low=True)


def _free_refs(session: Session, namespace: str, super_pod: Entry) -> None:
    """A super pod is gone: what only it still used may go, too."""
    for ref in refs_of(super_pod.decode().get("spec") or {}):
        if is_reserved_name(ref.kind, ref.name) and ref.kind == "Secret":
            session.add(session.key(TOKEN, namespace, ref.name))
        else:
            name = configuration.tenant_name(ref.name) if ref.kind == "ConfigMap" else ref.name
            session.add(session.key(ref.kind, namespace, name))
