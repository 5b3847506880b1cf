"""Addresses of a tenant's slice that super Services of others already have.

Pure. Owns the IPAddress objects by which the tenant's own allocator leaves such addresses alone.
Hazard: an object without our label is the allocator's own and is never touched.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry, Store
from syncer.model.tenant_view import Slice, TenantView
from tenancy import wellknown

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parsed(address: str) -> Address | None:
    """Return the address that an IPAddress is named for; None when that is none."""
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None


def in_slice(store: Store, part: Slice) -> Iterator[Entry]:
    """Yield the IPAddresses of a slice: by its addresses when those are fewer than all that are."""
    if part.num_addresses < len(store):
        found = (store.get("", str(address)) for address in part)
        yield from (entry for entry in found if entry is not None)
        return
    for entry in store.list():
        address = parsed(entry.name)
        if address is not None and address in part:
            yield entry


def is_taken_by_others(super_address: Mapping[str, Any], view: TenantView) -> bool:
    """Tell whether an address of the slice is held by a Service that is not this tenant's.

    The Services of the root namespace count as the tenant's: they back its provided ones.
    """
    holder = (super_address.get("spec") or {}).get("parentRef") or {}
    namespace = holder.get("namespace", "")
    if namespace == view.tenant.root:
        return False
    own = {view.super_namespace(entry.name) for entry in view.stores["Namespace"].list()}
    return namespace not in own


def reservation(address: str) -> Object:
    """Return the IPAddress that keeps an address free in the tenant.

    It names a parent because the API wants one; the allocator only tends objects that carry its
    own label.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {"name": address, "labels": {wellknown.RESERVED_ADDRESS: "true"}},
        "spec": {"parentRef": {"resource": "namespaces", "name": "kube-system"}},
    }
