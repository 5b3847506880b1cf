"""Writes of objects that the syncer itself puts into super namespaces, without a tenant object.

Owns creation, repair and deletion, for the reconcilers that know when an object is wanted. Must not
know its content.

Hazard: an object of another owner must be neither used nor changed. Pods of the namespace would
follow rules that the syncer did not write.
"""

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import adoption, cached_objects
from syncer.model.keys import Key
from syncer.rules.registry import SyncedKind
from syncer.safety import proven_deletes
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import SUPER_SIDE
from syncer.tenants.session import Session


def get_namespace(key: Key, below: str, session: Session) -> Entry | None:
    """Return the tenant namespace of a key, if its super namespace can be written into."""
    space = session.stores["Namespace"].get("", key.namespace)
    twin = session.twins.get_store("Namespace").get("", below)
    if space is None or twin is None or twin.deleting or not session.twins.is_twin(twin, space.uid):
        return None
    return space


async def ensure_object(
    kind: SyncedKind, key: Key, entry: Entry | None, wanted: Object, session: Session
) -> Result:
    """Create the object, or restore what another client changed. `entry` is the cached one."""
    if entry is None:
        return await _create(kind, key, wanted, session)
    if not entry.deleting:  # otherwise its end queues the key
        await _restore(kind, key, entry.decode(), wanted, session)
    return Done()


async def delete_object(kind: SyncedKind, key: Key, entry: Entry, session: Session) -> None:
    """Delete the object, unless another client owns it or its deletion has begun."""
    if not entry.deleting and session.tenant.owns({"annotations": entry.annotations}):
        target = proven_deletes.build_own_target(key, kind.resource, entry)
        await session.proven_deletes.delete_proven(target)


async def _create(kind: SyncedKind, key: Key, wanted: Object, session: Session) -> Result:
    try:
        await session.writer.create_super_object(key, kind.resource, wanted)
    except errors.AlreadyExists:
        return await _resolve_name_conflict(kind, key, wanted, session)
    except errors.Forbidden as problem:
        if problem.has_cause("NamespaceTerminating"):
            raise NotReadyYet("the super namespace is being deleted") from problem
        raise
    return Done()


async def _restore(
    kind: SyncedKind, key: Key, live: Object, wanted: Object, session: Session
) -> None:
    body = kind.change(live, wanted)
    if body is None:
        session.parked.clear_if_converged(key, SUPER_SIDE)
        session.work.wake_waiters(key)
    else:
        scope = WriteScope(key, SUPER_SIDE)
        await session.writer.update_super_object(scope, kind.resource, body, before=live)


async def _resolve_name_conflict(
    kind: SyncedKind, key: Key, wanted: Object, session: Session
) -> Result:
    """Read the object that has the name: one that lost its labels, or a foreign one.

    A foreign object is not touched. The pods of the namespace wait until it is deleted.
    """
    live = await session.super_client.get(
        kind.resource, key.name, namespace=wanted["metadata"]["namespace"], metadata_only=True
    )
    if not session.tenant.owns(live["metadata"]):
        return RequeueAfter(cached_objects.FOREIGN_RETRY_SECONDS)
    await adoption.restore_labels(kind, live["metadata"], session)
    return RequeueAfter(CACHE_BEHIND_SECONDS)
