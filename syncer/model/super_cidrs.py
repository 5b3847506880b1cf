"""Address ranges of the super cluster itself: its nodes, pods and Services.

Owns the reading of these ranges from the caches of the super cluster, and reports changes. Must not
know tenants.

Hazard: the ranges of pods are known only if nodes have them (podCIDRs). If a network plugin assigns
them by itself, an administrator must list them in the policy (superRanges). Otherwise a tenant can
address pods of the super cluster.
"""

import ipaddress
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import msgspec

from kubeio.cache.store import Entry, Store
from syncer.model.unstructured import mapping, texts

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Ranges:
    """Networks of the super cluster, each list without overlaps."""

    nodes: tuple[Network, ...] = ()
    pods: tuple[Network, ...] = ()
    services: tuple[Network, ...] = ()


NONE = Ranges()


def unknown() -> Ranges:
    """Return no ranges, because nothing is known."""
    return NONE


class _Address(msgspec.Struct):
    type: str = ""
    address: str = ""


class _Status(msgspec.Struct):
    addresses: list[_Address] | None = None


class _Spec(msgspec.Struct):
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_cidrs: list[str] | None = msgspec.field(default=None, name="podCIDRs")


class _Node(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_NODE = msgspec.json.Decoder(_Node)
_SHOWN_TYPES = frozenset({"InternalIP", "ExternalIP"})


class SuperRanges:
    """Current ranges of one super cluster."""

    def __init__(self, nodes: Store, service_cidrs: Store) -> None:
        self._of_node: dict[str, tuple[tuple[Network, ...], tuple[Network, ...]]] = {}
        self._service_cidrs = service_cidrs
        self._current: Ranges | None = None
        self._handlers: list[Callable[[], None]] = []
        nodes.subscribe(self._node_changed)
        service_cidrs.subscribe(self._services_changed)

    def current(self) -> Ranges:
        """Return the current ranges."""
        if self._current is None:
            self._current = Ranges(
                nodes=collapsed(net for found, _ in self._of_node.values() for net in found),
                pods=collapsed(net for _, found in self._of_node.values() for net in found),
                services=collapsed(
                    net for entry in self._service_cidrs.list() for net in _service_ranges(entry)
                ),
            )
        return self._current

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Subscribe a handler to changes of the ranges."""
        self._handlers.append(handler)

    def _node_changed(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        entry = new or old
        if entry is None:
            return
        before = self._of_node.get(entry.name, ((), ()))
        now = _of_node(new) if new is not None else ((), ())
        if now == before:
            return
        if any(now):
            self._of_node[entry.name] = now
        else:
            self._of_node.pop(entry.name, None)
        self._tell()

    def _services_changed(self, _: Entry | None, __: Entry | None, ___: bool) -> None:
        self._tell()

    def _tell(self) -> None:
        self._current = None
        for handler in self._handlers:
            handler()


class Spans:
    """Set of networks with lookup by binary search.

    A linear search would be too slow. A super cluster has as many networks as nodes, and an object
    of a tenant may need thousands of lookups.
    """

    def __init__(self, found: Iterable[Network]) -> None:
        nets = collapsed(found)
        self._nets = {v: [net for net in nets if net.version == v] for v in (4, 6)}
        self._first = {v: [int(n.network_address) for n in nets] for v, nets in self._nets.items()}
        self._last = {v: [int(n.broadcast_address) for n in nets] for v, nets in self._nets.items()}

    def __len__(self) -> int:
        """Return the number of networks."""
        return sum(len(nets) for nets in self._nets.values())

    def count(self, net: Network) -> int:
        """Return the number of networks that share an address with this one."""
        low, high = self._places(net)
        return high - low

    def overlapping(self, net: Network) -> list[Network]:
        """Return the networks that share an address with this one."""
        low, high = self._places(net)
        return self._nets[net.version][low:high]

    def holds(self, address: Address) -> bool:
        """Return whether an address is in one of the networks."""
        low = bisect_left(self._last[address.version], int(address))
        return low < bisect_right(self._first[address.version], int(address))

    def _places(self, net: Network) -> tuple[int, int]:
        low = bisect_left(self._last[net.version], int(net.network_address))
        return low, bisect_right(self._first[net.version], int(net.broadcast_address))


def network(text: str) -> Network | None:
    """Return a CIDR or an address as a network. None if it is neither."""
    if "%" in text:
        return None  # a scope has a meaning on one machine only
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def networks(found: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of texts. Texts that are no network are left out."""
    return tuple(net for net in map(network, found) if net is not None)


def collapsed(found: Iterable[Network]) -> tuple[Network, ...]:
    """Return the same addresses as the fewest networks, IPv4 first."""
    fours: list[IPv4Network] = []
    sixes: list[IPv6Network] = []
    for net in found:
        if isinstance(net, IPv4Network):
            fours.append(net)
        else:
            sixes.append(net)
    return (*ipaddress.collapse_addresses(fours), *ipaddress.collapse_addresses(sixes))


def _of_node(entry: Entry) -> tuple[tuple[Network, ...], tuple[Network, ...]]:
    """Return the addresses of a node and the ranges of its pods."""
    try:
        node = _NODE.decode(entry.body)
    except msgspec.ValidationError:
        return (), ()
    shown = [a.address for a in node.status.addresses or () if a.type in _SHOWN_TYPES]
    pods = node.spec.pod_cidrs or [node.spec.pod_cidr]
    return networks(shown), networks(pods)


def _service_ranges(entry: Entry) -> tuple[Network, ...]:
    return networks(texts(mapping(entry.decode().get("spec")).get("cidrs")))
