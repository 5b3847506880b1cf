"""Reconciler of the default network policies of super namespaces.

Owns their writes. Pods of a namespace are created after its default policies. A policy that another
client changed or deleted is restored. With isolation off the policies are deleted. Must not know
their content.

Hazard: the policies must exist before the first pod. Otherwise a pod reaches other tenants until
they do.
"""

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import adoption, sync_down
from syncer.model.keys import Key
from syncer.rules.network import default_policies, network_policies
from syncer.safety import proven_deletes
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import SUPER_SIDE
from syncer.tenants.session import Session
from tenancy.resources import NETWORK_POLICIES


async def reconcile_default_policy(key: Key, session: Session) -> Result:
    """Create, restore or delete one default policy."""
    below = session.view.get_super_namespace(key.namespace)
    entry = session.get_super_store(NETWORK_POLICIES.kind).get(below, key.name)
    if session.is_behind(key, None, entry):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    space = _get_namespace(key, below, session)
    if space is None:
        return Done()  # its creation queues the key, or its end deletes the policy
    if not default_policies.is_enforced(session.view):
        return await _delete(key, entry, session)
    wanted = default_policies.build_default_policy(key.name, space, session.view)
    if entry is None:
        return await _create(key, wanted, session)
    if not entry.deleting:  # otherwise its end queues the key
        await _restore(key, entry.decode(), wanted, session)
    return Done()


def _get_namespace(key: Key, below: str, session: Session) -> Entry | None:
    """Return the tenant namespace of a key, if its super namespace can be written into."""
    space = session.stores["Namespace"].get("", key.namespace)
    twin = session.get_super_store("Namespace").get("", below)
    if space is None or twin is None or twin.deleting or not session.is_twin(twin, space.uid):
        return None
    return space


async def _create(key: Key, wanted: Object, session: Session) -> Result:
    try:
        await session.writer.create_super_object(key, NETWORK_POLICIES, wanted)
    except errors.AlreadyExists:
        return await _resolve_name_conflict(key, wanted, session)
    except errors.Forbidden as problem:
        if problem.has_cause("NamespaceTerminating"):
            raise NotReadyYet("the super namespace is being deleted") from problem
        raise
    return Done()


async def _restore(key: Key, live: Object, wanted: Object, session: Session) -> None:
    body = network_policies.build_change(live, wanted)
    if body is None:
        session.parked.clear_if_converged(key, SUPER_SIDE)
        session.wake_waiters(key)
    else:
        scope = WriteScope(key, SUPER_SIDE)
        await session.writer.update_super_object(scope, NETWORK_POLICIES, body, before=live)


async def _resolve_name_conflict(key: Key, wanted: Object, session: Session) -> Result:
    """Read the object that has the name: a policy that lost its labels, or a foreign one.

    A foreign policy is not touched. The pods of the namespace wait until it is deleted.
    """
    live = await session.super_client.get(
        NETWORK_POLICIES, key.name, namespace=wanted["metadata"]["namespace"], metadata_only=True
    )
    if not session.tenant.owns(live["metadata"]):
        return RequeueAfter(sync_down.FOREIGN_RETRY_SECONDS)
    kind = session.kinds[NETWORK_POLICIES.kind]
    await adoption.restore_labels(kind, live["metadata"], session)
    return RequeueAfter(CACHE_BEHIND_SECONDS)


async def _delete(key: Key, entry: Entry | None, session: Session) -> Result:
    if entry is None:
        await adoption.find_vanished_twin(session.kinds[NETWORK_POLICIES.kind], key, session)
    elif not entry.deleting and session.tenant.owns({"annotations": entry.annotations}):
        target = proven_deletes.build_own_target(key, NETWORK_POLICIES, entry)
        await session.proven_deletes.delete_proven(target)
    return Done()
