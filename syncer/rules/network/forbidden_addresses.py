"""Addresses that no object of a tenant may point at: of machines and of the super cluster.

Pure. Owns the check for endpoints and external names.

Hazard: an IPv4 address inside an IPv6 address must be checked too. Otherwise a tenant reaches a
forbidden address through the IPv6 form.
"""

import ipaddress
from collections.abc import Iterator

from syncer.model.super_cidrs import CidrAddress, CidrSet, SuperCidrs
from syncer.model.tenant_view import TenantView
from tenancy import addresses

_LOCAL_NETWORKS = CidrSet(
    addresses.METADATA_NETWORKS
    + addresses.parse_networks(
        (
            "0.0.0.0/8",
            "127.0.0.0/8",
            "224.0.0.0/4",
            "255.255.255.255/32",
            "::/128",
            "::1/128",
            "ff00::/8",
        )
    )
)
"""Loopback and link-local addresses, and addresses that are no single host."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")
_LOW_32_BITS = (1 << 32) - 1


def find_problem(text: object, taken: CidrSet) -> str:
    """Return the reason why an address is forbidden. Empty if it is allowed.

    `taken` has the addresses of the super cluster. The caller computes it once for all addresses of
    an object.
    """
    try:
        address = ipaddress.ip_address(text) if isinstance(text, str) else None
    except ValueError:
        address = None
    if address is None or getattr(address, "scope_id", None):
        return "is no address"
    for each in expand_embedded_ipv4(address):
        if _LOCAL_NETWORKS.contains(each):
            return "is local to a machine"
        if addresses.is_translated_locally(each):
            return "is translated to another address"
        if taken.contains(each):
            return "belongs to the super cluster"
    return ""


def list_super_cidrs(view: TenantView, ranges: SuperCidrs) -> CidrSet:
    """Return the addresses that belong to the super cluster of a tenant. `ranges` are its own."""
    listed = addresses.parse_networks(view.policy.network.super_ranges)
    return CidrSet((*ranges.nodes, *ranges.services, *listed, view.service_range))


def expand_embedded_ipv4(address: CidrAddress) -> Iterator[CidrAddress]:
    """Yield an address, and the IPv4 address inside it."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and (address in _NAT64 or address in _IPV4_COMPATIBLE):
            inner = ipaddress.IPv4Address(int(address) & _LOW_32_BITS)
        if inner is not None:
            yield inner
