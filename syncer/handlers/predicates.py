"""Filters for pod events, because most events need no work.

Owns the recognition of echoes, also of those that arrive before their answer, and of a pod's last
events. Must not write. Hazard: each filter must name the event that comes later. Otherwise a
skipped change is not reconciled until the resync.
"""

from kubeio.cache.store import Entry
from syncer.controllers import cached_objects
from syncer.model.keys import Key
from syncer.rules.pods import lifecycle
from syncer.safety.expectations import ClusterSide, EventOrigin
from syncer.tenants.session import Session


def enqueue_pod(
    session: Session, side: ClusterSide, key: Key, origin: EventOrigin, new: Entry | None
) -> None:
    """Queue a pod with a relevant event.

    An event of a pod in work may be the echo of the write in flight. It waits for the end of the
    reconcile, as the key would have to.
    """
    if origin is EventOrigin.FOREIGN and new is not None and session.queue.is_processing(key):
        session.expectations.keep_early_event(side, key, new)
    else:
        cached_objects.enqueue(session.kinds[key.kind], key, session)


def is_pod_event_irrelevant(
    session: Session, key: Key, origin: EventOrigin, new: Entry | None
) -> bool:
    """Return True if an event of a tenant pod needs no work. Half of the events need none."""
    if origin is EventOrigin.OWN_UNCHANGED and new is not None:
        return True
    twin = cached_objects.read_pair(session.kinds[key.kind], key, session).super_x
    if twin is not None or new is None:
        return twin is None
    if session.queue.is_processing(key) or session.expectations.is_behind(
        ClusterSide.SUPER, key, None
    ):
        return False  # its twin may be in creation, and no later event would delete it
    # With grace period 0 and without a twin, only a finalizer keeps it.
    return new.deleting and lifecycle.get_grace_seconds(new.decode()) == 0


def has_expected_tenant_pod(session: Session, key: Key, twin: Entry | None) -> bool:
    """Return True if a twin of the syncer still has its tenant pod.

    The tenant pod may have been deleted during the create, when there was no twin to delete yet.
    """
    tenant_x = session.stores["Pod"].get(key.namespace, key.name)
    return tenant_x is not None and session.twins.is_twin(twin, tenant_x.uid)


def is_grace_countdown(session: Session, key: Key, old: Entry | None, new: Entry | None) -> bool:
    """Return True if an event of a twin that ends with its pod only shortens the grace period.

    The last update of a kubelet releases the twin. The delete event follows at once and is the one
    that matters.
    """
    tenant_x = session.stores["Pod"].get(key.namespace, key.name)
    if tenant_x is None or not tenant_x.deleting or old is None or new is None:
        return False
    if not (old.deleting and new.deleting and old.uid == new.uid):
        return False
    if (old.labels, old.annotations) != (new.labels, new.annotations):
        return False
    before, now = old.decode(), new.decode()
    return lifecycle.get_grace_seconds(now) == 0 and all(
        before.get(field) == now.get(field) for field in ("spec", "status")
    )
