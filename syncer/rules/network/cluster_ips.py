"""Reservations of cluster IPs in a tenant's service range that other super Services already use.

Pure. Owns the IPAddress objects that keep the tenant's own allocator from assigning such addresses.

Hazard: an object without the syncer's label belongs to the allocator and must never be changed.
Otherwise a Service of the tenant loses its address.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry, Store
from syncer.model.tenant_view import ServiceCidr, TenantView
from tenancy import wellknown

ClusterIpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(address: str) -> ClusterIpAddress | None:
    """Return the address that is the name of an IPAddress. None if the name is no address."""
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None


def iterate_addresses_in_range(store: Store, part: ServiceCidr) -> Iterator[Entry]:
    """Yield the IPAddresses of a service range.

    A range with fewer addresses than the store has entries is looked up address by address.
    """
    if part.num_addresses < len(store):
        found = (store.get("", str(address)) for address in part)
        yield from (entry for entry in found if entry is not None)
        return
    for entry in store.list():
        address = parse_address(entry.name)
        if address is not None and address in part:
            yield entry


def is_taken_by_other(super_address: Mapping[str, Any], view: TenantView) -> bool:
    """Return whether a Service of another owner has an address of the service range.

    The Services of the root namespace belong to the tenant, because they back its provided
    Services.
    """
    holder = (super_address.get("spec") or {}).get("parentRef") or {}
    namespace = holder.get("namespace", "")
    if namespace == view.tenant.root:
        return False
    own = {view.get_super_namespace(entry.name) for entry in view.stores["Namespace"].list()}
    return namespace not in own


def build_reservation(address: str) -> Object:
    """Return the IPAddress that reserves an address in the tenant.

    It names a parent because the API requires one. The allocator manages only objects with its own
    label.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {"name": address, "labels": {wellknown.RESERVED_ADDRESS: "true"}},
        "spec": {"parentRef": {"resource": "namespaces", "name": "kube-system"}},
    }
