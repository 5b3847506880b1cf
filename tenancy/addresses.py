"""Which addresses can be meant for another machine; pure.

Must not know who asks, nor for what. Hazard: what passes here is dialled with a credential. What is
refused means the very machine that dials it, or nobody in particular.
"""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def local_problem(address: Address) -> str:
    """Return why an address cannot be another machine's, half a sentence; empty: it can."""
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    if address.is_loopback:
        return "is a loopback address: to each machine it is that machine itself"
    if address.is_link_local:
        return "is a link-local address: it means something else on each network"
    if address.is_unspecified or address.is_multicast:
        return "is no address of a single machine"
    return ""
