"""ipBlocks of a network policy without the addresses of the super cluster.

Pure arithmetic. Must not know policies.

Hazard: the caller must leave out a block that loses all its addresses, and a rule that loses all
its peers. A rule without peers allows all traffic.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from kubeio import Object
from syncer.model.super_cidrs import CidrNetwork, CidrSet
from tenancy.addresses import collapse_networks, parse_network, parse_networks

ALL_ADDRESSES = parse_networks(("0.0.0.0/0", "::/0"))
_IPV4_MAPPED = IPv6Network("::ffff:0:0/96")


@dataclass(frozen=True, slots=True)
class IpBlock:
    """One ipBlock, as the tenant wrote it."""

    cidr: CidrNetwork
    exceptions: tuple[CidrNetwork, ...] = ()

    def list_covered(self, nets: CidrSet) -> AbstractSet[CidrNetwork]:
        """Return the networks of which the block covers every address."""
        found, left_out = nets.list_overlapping(self.cidr), CidrSet(self.exceptions)
        return {
            net
            for net in found
            if is_subnet(net, self.cidr) and not left_out.count_overlapping(net)
        }

    def estimate_size(self, taken: CidrSet) -> int:
        """Return the approximate number of networks in the synced ipBlock."""
        return 1 + len(self.exceptions) + taken.count_overlapping(self.cidr)

    def subtract(self, taken: CidrSet) -> Object | None:
        """Return the ipBlock that is synced. None if no address is left."""
        gone = collapse_networks([*self.exceptions, *taken.list_overlapping(self.cidr)])
        if any(is_subnet(self.cidr, net) for net in gone):
            return None
        block: Object = {"cidr": str(self.cidr)}
        return {**block, "except": [str(net) for net in gone]} if gone else block


def is_covered(blocks: Iterable[IpBlock], nets: CidrSet) -> bool:
    """Return whether each network lies completely in one of the blocks."""
    found: set[CidrNetwork] = set()
    for block in blocks:
        found |= block.list_covered(nets)
    return len(found) == len(nets)


def parse_block(cidr: object, excepts: object) -> IpBlock | None:
    """Return a block. None if the API would not accept it."""
    whole = _parse_network(cidr)
    if whole is None or not isinstance(excepts, Sequence) or isinstance(excepts, str):
        return None
    inner = [_parse_network(each) for each in excepts]
    if any(net is None or not is_subnet(net, whole) or net == whole for net in inner):
        return None
    return IpBlock(whole, tuple(net for net in inner if net is not None))


def is_subnet(inner: CidrNetwork, outer: CidrNetwork) -> bool:
    """Return whether a network lies in another one of the same address family."""
    if isinstance(inner, IPv4Network):
        return isinstance(outer, IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and inner.subnet_of(outer)


def _parse_network(text: object) -> CidrNetwork | None:
    if not isinstance(text, str) or "/" not in text:
        return None
    net = parse_network(text)
    # An IPv4 network in IPv6 notation would pass a comparison with IPv4 ranges.
    return None if net is None or is_subnet(net, _IPV4_MAPPED) else net
