"""Reconciler of the tenant's own network in super namespaces (`VirtualCluster.spec.network`).

Owns the writes of its definition. Pods of a namespace are created after it. Must not know its
content.

Hazard: a definition of another owner must not be used. A pod would be attached to a network that
the syncer did not check.
"""

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import adoption, sync_down
from syncer.model.keys import Key
from syncer.rules.network.attachments import definitions, primary_networks
from syncer.safety import proven_deletes
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import SUPER_SIDE
from syncer.tenants.session import Session
from tenancy.resources import NETWORK_ATTACHMENTS


async def reconcile_tenant_network(key: Key, session: Session) -> Result:
    """Create, restore or delete the definition in one super namespace."""
    below = session.view.get_super_namespace(key.namespace)
    entry = session.get_super_store(NETWORK_ATTACHMENTS.kind).get(below, key.name)
    if session.is_behind(key, None, entry):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    space = _get_namespace(key, below, session)
    if space is None:
        return Done()  # the end of the namespace deletes the definition
    if session.view.spec.network is None:
        return await _delete(key, entry, session)
    if primary_networks.find_problem(session.view):
        session.connection.enqueue_status()
        return Done()  # the condition reports it, and running pods keep their network
    wanted = primary_networks.build_network(space, session.view)
    if entry is None:
        return await _create(key, wanted, session)
    if not entry.deleting:  # otherwise its end queues the key
        await _restore(key, entry.decode(), wanted, session)
    return Done()


def _get_namespace(key: Key, below: str, session: Session) -> Entry | None:
    space = session.stores["Namespace"].get("", key.namespace)
    twin = session.get_super_store("Namespace").get("", below)
    if space is None or twin is None or twin.deleting or not session.is_twin(twin, space.uid):
        return None
    return space


async def _create(key: Key, wanted: Object, session: Session) -> Result:
    try:
        await session.writer.create_super_object(key, NETWORK_ATTACHMENTS, wanted)
    except errors.AlreadyExists:
        return await _resolve_name_conflict(key, wanted, session)
    except errors.Forbidden as problem:
        if problem.has_cause("NamespaceTerminating"):
            raise NotReadyYet("the super namespace is being deleted") from problem
        raise
    return Done()


async def _restore(key: Key, live: Object, wanted: Object, session: Session) -> None:
    body = definitions.build_change(live, wanted)
    if body is None:
        session.parked.clear_if_converged(key, SUPER_SIDE)
        session.wake_waiters(key)
    else:
        scope = WriteScope(key, SUPER_SIDE)
        await session.writer.update_super_object(scope, NETWORK_ATTACHMENTS, body, before=live)


async def _resolve_name_conflict(key: Key, wanted: Object, session: Session) -> Result:
    """Read the object that has the name. A foreign one is not touched, and pods wait."""
    namespace = wanted["metadata"]["namespace"]
    live = await session.super_client.get(
        NETWORK_ATTACHMENTS, key.name, namespace=namespace, metadata_only=True
    )
    if not session.tenant.owns(live["metadata"]):
        return RequeueAfter(sync_down.FOREIGN_RETRY_SECONDS)
    await adoption.restore_labels(
        session.kinds[NETWORK_ATTACHMENTS.kind], live["metadata"], session
    )
    return RequeueAfter(CACHE_BEHIND_SECONDS)


async def _delete(key: Key, entry: Entry | None, session: Session) -> Result:
    if (
        entry is not None
        and not entry.deleting
        and session.tenant.owns({"annotations": entry.annotations})
    ):
        target = proven_deletes.build_own_target(key, NETWORK_ATTACHMENTS, entry)
        await session.proven_deletes.delete_proven(target)
    return Done()
