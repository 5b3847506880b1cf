"""Address ranges of the super cluster itself: its nodes, API servers, pods and Services.

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
from syncer.model.unstructured import as_mapping, as_strings

CidrNetwork = IPv4Network | IPv6Network
CidrAddress = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class SuperCidrs:
    """Networks of the super cluster, each list without overlaps."""

    nodes: tuple[CidrNetwork, ...] = ()
    """Addresses of nodes and of API servers, which may run on other machines."""
    pods: tuple[CidrNetwork, ...] = ()
    services: tuple[CidrNetwork, ...] = ()


NO_CIDRS = SuperCidrs()


def return_no_cidrs() -> SuperCidrs:
    """Return no ranges, because nothing is known."""
    return NO_CIDRS


class _NodeAddress(msgspec.Struct):
    type: str = ""
    address: str = ""


class _NodeStatus(msgspec.Struct):
    addresses: list[_NodeAddress] | None = None


class _NodeSpec(msgspec.Struct):
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_cidrs: list[str] | None = msgspec.field(default=None, name="podCIDRs")


class _NodeObject(msgspec.Struct):
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


_NODE_DECODER = msgspec.json.Decoder(_NodeObject)
_SHOWN_TYPES = frozenset({"InternalIP", "ExternalIP"})


class SuperCidrTracker:
    """Current ranges of one super cluster."""

    def __init__(self, nodes: Store, service_cidrs: Store, api_slices: Store) -> None:
        """`api_slices` has the EndpointSlices of the super cluster's Service `kubernetes`."""
        self._cidrs_by_node: dict[str, tuple[tuple[CidrNetwork, ...], tuple[CidrNetwork, ...]]] = {}
        self._service_cidrs, self._api_slices = service_cidrs, api_slices
        self._current_cidrs: SuperCidrs | None = None
        self._handlers: list[Callable[[], None]] = []
        nodes.subscribe(self._handle_node)
        service_cidrs.subscribe(self._handle_change)
        api_slices.subscribe(self._handle_change)

    def get_current(self) -> SuperCidrs:
        """Return the current ranges."""
        if self._current_cidrs is None:
            self._current_cidrs = SuperCidrs(
                nodes=collapse_networks(
                    [
                        *(net for found, _ in self._cidrs_by_node.values() for net in found),
                        *(net for entry in self._api_slices.list() for net in _read_slice(entry)),
                    ]
                ),
                pods=collapse_networks(
                    net for _, found in self._cidrs_by_node.values() for net in found
                ),
                services=collapse_networks(
                    net
                    for entry in self._service_cidrs.list()
                    for net in _read_service_cidrs(entry)
                ),
            )
        return self._current_cidrs

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Subscribe a handler to changes of the ranges."""
        self._handlers.append(handler)

    def _handle_node(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        entry = new or old
        if entry is None:
            return
        before = self._cidrs_by_node.get(entry.name, ((), ()))
        now = _read_node_cidrs(new) if new is not None else ((), ())
        if now == before:
            return
        if any(now):
            self._cidrs_by_node[entry.name] = now
        else:
            self._cidrs_by_node.pop(entry.name, None)
        self._notify()

    def _handle_change(self, _: Entry | None, __: Entry | None, ___: bool) -> None:
        self._notify()

    def _notify(self) -> None:
        self._current_cidrs = None
        for handler in self._handlers:
            handler()


class CidrSet:
    """Set of networks with lookup by binary search.

    A linear search would be too slow. A super cluster has as many networks as nodes, and an object
    of a tenant may need thousands of lookups.
    """

    def __init__(self, found: Iterable[CidrNetwork]) -> None:
        nets = collapse_networks(found)
        self._nets = {v: [net for net in nets if net.version == v] for v in (4, 6)}
        self._first_addresses = {
            v: [int(n.network_address) for n in nets] for v, nets in self._nets.items()
        }
        self._last_addresses = {
            v: [int(n.broadcast_address) for n in nets] for v, nets in self._nets.items()
        }

    def __len__(self) -> int:
        """Return the number of networks."""
        return sum(len(nets) for nets in self._nets.values())

    def count_overlapping(self, net: CidrNetwork) -> int:
        """Return the number of networks that share an address with this one."""
        low, high = self._find_positions(net)
        return high - low

    def list_overlapping(self, net: CidrNetwork) -> list[CidrNetwork]:
        """Return the networks that share an address with this one."""
        low, high = self._find_positions(net)
        return self._nets[net.version][low:high]

    def contains(self, address: CidrAddress) -> bool:
        """Return whether an address is in one of the networks."""
        low = bisect_left(self._last_addresses[address.version], int(address))
        return low < bisect_right(self._first_addresses[address.version], int(address))

    def _find_positions(self, net: CidrNetwork) -> tuple[int, int]:
        low = bisect_left(self._last_addresses[net.version], int(net.network_address))
        return low, bisect_right(self._first_addresses[net.version], int(net.broadcast_address))


def parse_network(text: str) -> CidrNetwork | None:
    """Return a CIDR or an address as a network. None if it is neither."""
    if "%" in text:
        return None  # a scope has a meaning on one machine only
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def parse_networks(found: Iterable[str]) -> tuple[CidrNetwork, ...]:
    """Return the networks of texts. Texts that are no network are left out."""
    return tuple(net for net in map(parse_network, found) if net is not None)


def collapse_networks(found: Iterable[CidrNetwork]) -> tuple[CidrNetwork, ...]:
    """Return the same addresses as the fewest networks, IPv4 first."""
    fours: list[IPv4Network] = []
    sixes: list[IPv6Network] = []
    for net in found:
        if isinstance(net, IPv4Network):
            fours.append(net)
        else:
            sixes.append(net)
    return (*ipaddress.collapse_addresses(fours), *ipaddress.collapse_addresses(sixes))


def _read_node_cidrs(entry: Entry) -> tuple[tuple[CidrNetwork, ...], tuple[CidrNetwork, ...]]:
    """Return the addresses of a node and the ranges of its pods."""
    try:
        node = _NODE_DECODER.decode(entry.body)
    except msgspec.ValidationError:
        return (), ()
    shown = [a.address for a in node.status.addresses or () if a.type in _SHOWN_TYPES]
    pods = node.spec.pod_cidrs or [node.spec.pod_cidr]
    return parse_networks(shown), parse_networks(pods)


def _read_service_cidrs(entry: Entry) -> tuple[CidrNetwork, ...]:
    return parse_networks(as_strings(as_mapping(entry.decode().get("spec")).get("cidrs")))


def _read_slice(entry: Entry) -> tuple[CidrNetwork, ...]:
    """Return the addresses in an EndpointSlice."""
    endpoints = entry.decode().get("endpoints") or ()
    return parse_networks(
        address for each in endpoints for address in as_strings(as_mapping(each).get("addresses"))
    )
