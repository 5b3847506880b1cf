"""Reconciler of the tenant's own network in super namespaces (`VirtualCluster.spec.network`).

Owns the writes of its definition. Pods of a namespace are created after it. Must not know its
content.

Hazard: a definition of another owner must not be used. A pod would be attached to a network that
the syncer did not check.
"""

from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.controllers.network import super_namespace_objects
from syncer.model.keys import Key
from syncer.rules.network.attachments import primary_networks
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy.resources import NETWORK_ATTACHMENTS


async def reconcile_tenant_network(key: Key, session: Session) -> Result:
    """Create, restore or delete the definition in one super namespace."""
    below = session.view.get_super_namespace(key.namespace)
    entry = session.twins.get_store(NETWORK_ATTACHMENTS.kind).get(below, key.name)
    if session.twins.is_behind(key, None, entry):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    space = super_namespace_objects.get_namespace(key, below, session)
    if space is None:
        return Done()  # the end of the namespace deletes the definition
    kind = session.kinds[NETWORK_ATTACHMENTS.kind]
    if session.view.spec.network is None:
        if entry is not None:
            await super_namespace_objects.delete_object(kind, key, entry, session)
        return Done()
    if primary_networks.find_problem(session.view):
        session.connection.enqueue_status()
        return Done()  # the condition reports it, and running pods keep their network
    wanted = primary_networks.build_network(space, session.view)
    return await super_namespace_objects.ensure_object(kind, key, entry, wanted, session)
