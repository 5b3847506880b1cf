"""Check of addresses that can mean another machine. Pure.

Must not know the caller or its purpose.

Hazard: only an address of another machine may pass, because it is dialled with a credential.
Refused addresses mean the dialling machine itself, or no particular machine.
"""

import ipaddress

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_IPV4_IN_IPV6_NETWORKS = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96"))
)
"""NAT64 (RFC 6052), SIIT (RFC 2765), and IPv4-compatible addresses (RFC 4291)."""


def check_remote_address(address: IPAddress) -> str:
    """Return why an address cannot be another machine's, as half a sentence, or an empty string."""
    address = _embedded_ipv4(address)
    if address.is_loopback:
        return "is a loopback address, which means another machine in each place"
    if address.is_link_local:
        return "is a link-local address, which is valid on one network only"
    if address.is_unspecified or address.is_multicast or _is_special_purpose(address):
        return "is not the address of a single machine"
    return ""


def _is_special_purpose(address: IPAddress) -> bool:
    """Return whether an IPv4 address is in a block that no machine has (RFC 6890)."""
    is_v4 = isinstance(address, ipaddress.IPv4Address)
    return is_v4 and (address.is_reserved or int(address) >> 24 == 0)


def _embedded_ipv4(address: IPAddress) -> IPAddress:
    """Return the IPv4 address that an IPv6 address stands for, if networks translate it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if any(address in network for network in _IPV4_IN_IPV6_NETWORKS):
        found = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address if int(address) <= 1 else found  # :: and ::1 mean themselves
    return address
