"""Reconciler of the CRDs of additional networks in a tenant.

Owns their creation. An existing CRD belongs to the tenant and is never changed. Must not know the
objects.
"""

from kubeio import errors
from kubeio.controller.worker import Done, Result
from syncer.model.keys import Key
from syncer.rules.network.attachments import tenant_crds
from syncer.tenants.session import Session
from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS


async def reconcile_network_crd(key: Key, session: Session) -> Result:
    """Create the CRD of a kind if the policy offers the kind and the tenant lacks the CRD."""
    offered = tenant_crds.list_offered_kinds(session.view.policy)
    if key.name in offered and not session.connection.is_defined(key.name):
        try:
            await session.writer.create_tenant_object(
                key, CUSTOM_RESOURCE_DEFINITIONS, tenant_crds.build_crd(key.name)
            )
        except errors.AlreadyExists:
            return Done()
    return Done()
