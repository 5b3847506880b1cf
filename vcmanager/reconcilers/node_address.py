"""An address that no node has any more: tenants that were reached there get another.

Must not choose the new one: a reconcile does. Hazard: a node that joins or is not ready changes no
tenant's address, so that kubeconfigs stay as they are.
"""

from urllib.parse import urlsplit

from kubeio.controller.worker import Done, Verdict
from tenancy.resources import VIRTUAL_CLUSTERS
from vcmanager.runtime.context import Means
from vcmanager.runtime.keys import Key, of_listed


async def reconcile(means: Means, key: Key) -> Verdict:
    """Wake the tenants whose API is reached at an address that is gone."""
    page = await means.super_client.list(VIRTUAL_CLUSTERS)
    for found in page.get("items") or ():
        server = (found.get("status") or {}).get("endpoint") or ""
        if urlsplit(server).hostname == key.name:
            means.wake(of_listed(found))
    return Done()
