"""Reconcile of the address of a removed node, for tenants whose endpoint used it.

Must not choose the new address: a reconcile of the tenant does. Hazard: a node that joins or is not
ready must not change a tenant's address. Otherwise kubeconfigs would change without need.
"""

from urllib.parse import urlsplit

from kubeio.controller.worker import Done, Result
from tenancy.resources import VIRTUAL_CLUSTERS
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey, build_key_of_listed


async def reconcile_node_address(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Wake the tenants whose API endpoint used the address of the removed node."""
    page = await means.super_client.list(VIRTUAL_CLUSTERS)
    for found in page.get("items") or ():
        server = (found.get("status") or {}).get("endpoint") or ""
        if urlsplit(server).hostname == key.name:
            means.enqueue(build_key_of_listed(found))
    return Done()
