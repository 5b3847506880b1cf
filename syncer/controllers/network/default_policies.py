"""Reconciler of the default network policies of super namespaces.

Owns their writes. Pods of a namespace are created after its default policies. A policy that another
client changed or deleted is restored. With isolation off the policies are deleted. Must not know
their content.

Hazard: the policies must exist before the first pod. Otherwise a pod reaches other tenants until
they do.
"""

from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.controllers import adoption
from syncer.controllers.network import super_namespace_objects
from syncer.model.keys import Key
from syncer.rules.network import default_policies
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy.resources import NETWORK_POLICIES


async def reconcile_default_policy(key: Key, session: Session) -> Result:
    """Create, restore or delete one default policy."""
    below = session.view.get_super_namespace(key.namespace)
    entry = session.twins.get_store(NETWORK_POLICIES.kind).get(below, key.name)
    if session.twins.is_behind(key, None, entry):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    space = super_namespace_objects.get_namespace(key, below, session)
    if space is None:
        return Done()  # its creation queues the key, or its end deletes the policy
    if not default_policies.is_enforced(session.view):
        return await _delete(key, entry, session)
    wanted = default_policies.build_default_policy(key.name, space, session.view)
    kind = session.kinds[NETWORK_POLICIES.kind]
    return await super_namespace_objects.ensure_object(kind, key, entry, wanted, session)


async def _delete(key: Key, entry: Entry | None, session: Session) -> Result:
    kind = session.kinds[NETWORK_POLICIES.kind]
    if entry is None:
        await adoption.find_vanished_twin(kind, key, session)
    else:
        await super_namespace_objects.delete_object(kind, key, entry, session)
    return Done()
