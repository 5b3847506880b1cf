"""Addresses and networks as texts, and the check that an address can be another machine's. Pure.

Must not know the caller or its purpose.

Hazard: only an address of another machine may pass, because it is dialled with a credential.
Refused addresses mean the dialling machine itself, or no particular machine.
"""

import ipaddress
from collections.abc import Iterable

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

METADATA_NETWORKS: tuple[IPNetwork, ...] = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16",  # all clouds, and the other link-local addresses
            "100.100.100.200/32",  # Alibaba Cloud
            "168.63.129.16/32",  # Azure
            "192.0.0.192/32",  # Oracle Cloud
            "fe80::/10",
            "fd00:42::42/128",  # Scaleway
            "fd00:c1::a9fe:a9fe/128",  # Oracle Cloud
            "fd00:ec2::23/128",  # AWS, credentials of pods
            "fd00:ec2::254/128",  # AWS
            "fd20:ce::254/128",  # Google Cloud
        ),
    )
)
"""Link-local networks, and addresses at which clouds serve credentials of a node to its pods."""

PRIVATE_NETWORKS: tuple[IPNetwork, ...] = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    )
)
"""Private networks (RFC 1918, RFC 6598, RFC 4193)."""

DNS_PORTS = (53, 1053, 5353)
"""Ports of DNS servers in their pods. A server without the right to low ports has another port than
its Service, and network plugins compare the port of the pod."""

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
"""Prefix of the translators of one network (RFC 8215). The place of the IPv4 address varies."""

_IPV4_IN_IPV6_NETWORKS = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96"))
)
"""NAT64 (RFC 6052), SIIT (RFC 2765), and IPv4-compatible addresses (RFC 4291)."""


def parse_network(text: str) -> IPNetwork | None:
    """Return a CIDR or an address as a network. None if it is neither."""
    if "%" in text:
        return None  # a scope has a meaning on one machine only
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def parse_networks(found: Iterable[str]) -> tuple[IPNetwork, ...]:
    """Return the networks of texts. Texts that are no network are left out."""
    return tuple(net for net in map(parse_network, found) if net is not None)


def collapse_networks(found: Iterable[IPNetwork]) -> tuple[IPNetwork, ...]:
    """Return the same addresses as the fewest networks, IPv4 first."""
    fours: list[ipaddress.IPv4Network] = []
    sixes: list[ipaddress.IPv6Network] = []
    for net in found:
        if isinstance(net, ipaddress.IPv4Network):
            fours.append(net)
        else:
            sixes.append(net)
    return (*ipaddress.collapse_addresses(fours), *ipaddress.collapse_addresses(sixes))


def check_remote_address(address: IPAddress) -> str:
    """Return why an address cannot be another machine's, as half a sentence, or an empty string."""
    address = _embedded_ipv4(address)
    if address.is_loopback:
        return "is a loopback address, which means another machine in each place"
    if address.is_link_local:
        return "is a link-local address, which is valid on one network only"
    if any(address in network for network in METADATA_NETWORKS):
        return "is the address of a cloud's metadata service"
    if address in _LOCAL_NAT64:
        return "is translated to another address, which is not known here"
    if address.is_unspecified or address.is_multicast or _is_special_purpose(address):
        return "is not the address of a single machine"
    return ""


def is_translated_locally(address: IPAddress) -> bool:
    """Return whether an address has the prefix of the translators of one network."""
    return address in _LOCAL_NAT64


def list_nat64_networks(cluster: Iterable[IPNetwork]) -> tuple[IPNetwork, ...]:
    """Return the IPv6 networks by which a NAT64 translator reaches forbidden IPv4 addresses.

    `cluster` has the networks of the super cluster. If any of them is of IPv4, pods have IPv4
    addresses and need no translator, so all of its addresses are returned. Otherwise the translated
    metadata addresses are returned.
    """
    if any(isinstance(net, ipaddress.IPv4Network) for net in cluster):
        return (_NAT64, _LOCAL_NAT64)
    base = int(_NAT64.network_address)
    embedded = (
        ipaddress.IPv6Network((base | int(net.network_address), _NAT64.prefixlen + net.prefixlen))
        for net in METADATA_NETWORKS
        if isinstance(net, ipaddress.IPv4Network)
    )
    return (*embedded, _LOCAL_NAT64)


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
