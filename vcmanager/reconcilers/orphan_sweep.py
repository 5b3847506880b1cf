"""Second cleanup of deleted tenants, when no request for them can arrive any longer.

Owns its time and its tenants. Only sweep tenants whose finalizer this process removed. A missing
VirtualCluster is no proof that the tenant ended. Hazards: a request outlives its client, so a
namespace may be created after the last check. A restored super cluster has the VirtualCluster
again, with the same UID. A manager that exits meanwhile loses the list of tenants to sweep.
"""

import structlog

from kubeio import Object, errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from tenancy.ownership import Tenant
from tenancy.resources import VIRTUAL_CLUSTERS
from vcmanager.reconcilers import virtual_cluster_deletion
from vcmanager.runtime import keys
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import DeletedTenant, ReconcileContext
from vcmanager.runtime.keys import ReconcileKey

ORPHAN_DELAY_SECONDS = 90.0
"""Delay in seconds until no request for a deleted tenant can arrive any longer.

By default API servers end a request after 60 s (`--request-timeout`), and its client after 15 s.
"""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def schedule_sweep(means: ReconcileContext, body: Object, tenant: Tenant) -> None:
    """Schedule the second cleanup of a tenant whose finalizer was just removed."""
    key = keys.build_deleted_tenant_key(tenant.namespace, tenant.uid)
    means.deleted_tenants[key] = DeletedTenant(tenant, body)
    means.enqueue_after(key, ORPHAN_DELAY_SECONDS)


async def reconcile_orphans(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Delete late objects of a deleted tenant."""
    found = means.deleted_tenants.get(key)
    if found is None:
        return Done()
    if not await _is_recreated(means, found.tenant):
        try:
            await virtual_cluster_deletion.delete_late_objects(means, found.body, found.tenant)
        except PhaseBlocked as held:
            _log.warning("tenant.orphans_found", tenant=found.tenant.root, problem=held.message)
            return RequeueAfter(ORPHAN_DELAY_SECONDS)
    del means.deleted_tenants[key]
    return Done()


async def _is_recreated(means: ReconcileContext, tenant: Tenant) -> bool:
    try:
        live = await means.super_client.get(
            VIRTUAL_CLUSTERS, tenant.name, namespace=tenant.namespace, metadata_only=True
        )
    except errors.NotFound:
        return False
    return bool(live["metadata"]["uid"] == tenant.uid)
