"""Both sides of a key from the caches: reading them, and queueing a key once they are up to date.

Must not write. Hazard: a pair may be behind the last write of the syncer. Nothing may be concluded
from it until the caches show that write.
"""

from typing import NamedTuple

from kubeio.cache.store import Entry
from syncer.model.keys import Key
from syncer.model.references import is_reserved_name
from syncer.rules.registry import SyncedKind
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.session import Session

NAME_TAKEN = "NameTaken"
"""Reason of the Event about a name that a foreign object has."""
FOREIGN_RETRY_SECONDS = 60.0
"""Retry interval in seconds for such a name, because no watch shows the object."""


class ObjectPair(NamedTuple):
    """Both sides of a key from the caches."""

    key: Key
    tenant_x: Entry | None
    super_x: Entry | None
    wanted: bool


def read_pair(kind: SyncedKind, key: Key, session: Session) -> ObjectPair:
    """Return both sides of a key.

    An object with a reserved name in the super cluster is the syncer's, without tenant object.
    Otherwise it would be deleted as the twin of an earlier object.
    """
    name = kind.resource.kind
    tenant_x = session.stores[name].get(key.namespace, key.name)
    super_x: Entry | None = None
    if is_reserved_name(name, key.name):
        pass
    elif kind.resource.namespaced:
        below = session.view.get_super_namespace(key.namespace)
        super_x = session.twins.get_store(name).get(below, kind.super_name(key.name))
    else:
        super_x = session.twins.get_store(name).get("", session.view.get_super_namespace(key.name))
    wanted = (
        tenant_x is not None
        and kind.is_wanted(tenant_x, session.view)
        and session.scope.is_concerned(name, tenant_x)
    )
    return ObjectPair(key=key, tenant_x=tenant_x, super_x=super_x, wanted=wanted)


def has_own_twin(key: Key, session: Session) -> bool:
    """Return whether the object of a key exists in the tenant and has its twin.

    Hazard: an object that names another one must not be created before. A controller of the super
    cluster finds it by its name, which a foreign object may have.
    """
    kind = session.kinds.get(key.kind)
    if kind is None or not session.ruled.is_served(key.kind):
        return False
    pair = read_pair(kind, key, session)
    return pair.tenant_x is not None and session.twins.is_twin(pair.super_x, pair.tenant_x.uid)


def enqueue(kind: SyncedKind, key: Key, session: Session) -> None:
    """Queue a key with a relevant event, once the caches show the syncer's last write.

    Before that its reconcile would be useless. The echo wakes it, or a timer if the echo is
    missing.
    """
    pair = read_pair(kind, key, session)
    if not session.work.is_ready:
        return
    if session.twins.is_behind(key, pair.tenant_x, pair.super_x):
        session.queue.add_after(key, CACHE_BEHIND_SECONDS)
    else:
        session.queue.add(key)
