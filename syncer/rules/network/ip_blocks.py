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
from syncer.model.super_cidrs import Network, Spans, collapsed, network, networks

WORLD = networks(("0.0.0.0/0", "::/0"))
_MAPPED = IPv6Network("::ffff:0:0/96")


@dataclass(frozen=True, slots=True)
class Block:
    """One ipBlock, as the tenant wrote it."""

    cidr: Network
    excepts: tuple[Network, ...] = ()

    def covered(self, nets: Spans) -> AbstractSet[Network]:
        """Return the networks of which the block covers every address."""
        found, left_out = nets.overlapping(self.cidr), Spans(self.excepts)
        return {net for net in found if is_part(net, self.cidr) and not left_out.count(net)}

    def size(self, taken: Spans) -> int:
        """Return the approximate number of networks in the synced ipBlock."""
        return 1 + len(self.excepts) + taken.count(self.cidr)

    def without(self, taken: Spans) -> Object | None:
        """Return the ipBlock that is synced. None if no address is left."""
        gone = collapsed([*self.excepts, *taken.overlapping(self.cidr)])
        if any(is_part(self.cidr, net) for net in gone):
            return None
        block: Object = {"cidr": str(self.cidr)}
        return {**block, "except": [str(net) for net in gone]} if gone else block


def cover(blocks: Iterable[Block], nets: Spans) -> bool:
    """Return whether each network lies completely in one of the blocks."""
    found: set[Network] = set()
    for block in blocks:
        found |= block.covered(nets)
    return len(found) == len(nets)


def parsed(cidr: object, excepts: object) -> Block | None:
    """Return a block. None if the API would not accept it."""
    whole = _network(cidr)
    if whole is None or not isinstance(excepts, Sequence) or isinstance(excepts, str):
        return None
    inner = [_network(each) for each in excepts]
    if any(net is None or not is_part(net, whole) or net == whole for net in inner):
        return None
    return Block(whole, tuple(net for net in inner if net is not None))


def is_part(inner: Network, outer: Network) -> bool:
    """Return whether a network lies in another one of the same address family."""
    if isinstance(inner, IPv4Network):
        return isinstance(outer, IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and inner.subnet_of(outer)


def _network(text: object) -> Network | None:
    if not isinstance(text, str) or "/" not in text:
        return None
    net = network(text)
    # An IPv4 network in IPv6 notation would pass a comparison with IPv4 ranges.
    return None if net is None or is_part(net, _MAPPED) else net
