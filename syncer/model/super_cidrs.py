"""Address ranges of the super cluster itself: its nodes, pods and Services.

Owns the reading of these ranges from the caches of the super cluster, and reports changes. Must not
know tenants.

Hazard: the ranges of pods are known only if nodes have them (podCIDRs). If a network plugin assigns
them by itself, an administrator must list them in the policy (superRanges). A pod outside of every
range shows that the ranges are incomplete, and isolation then closes more than the ranges.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_network

import msgspec

from kubeio.cache.store import Entry, Store
from syncer.model.unstructured import as_mapping, as_mappings, as_strings
from tenancy.addresses import IPAddress, IPNetwork, collapse_networks, parse_networks

CidrNetwork = IPNetwork
CidrAddress = IPAddress


@dataclass(frozen=True, slots=True, eq=False)
class SuperCidrs:
    """Networks of the super cluster, each list without overlaps.

    Compared by identity, so that caches of results find them without a look at each network.
    """

    nodes: tuple[CidrNetwork, ...] = ()
    """Addresses of nodes and of the API server."""
    pods: tuple[CidrNetwork, ...] = ()
    services: tuple[CidrNetwork, ...] = ()
    stray_pods: tuple[CidrNetwork, ...] = ()
    """Addresses of running pods outside of all these networks, one of each larger network."""


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
_STRAY_SHIFTS = {4: 16, 6: 80}
"""Bits of an address besides the network (/16, /48) of which one stray address is kept, by the
version of IP."""
MAX_STRAYS = 64
"""Stray addresses that are kept. Each is a fact about the super cluster, and one is enough to close
a family of addresses."""


class SuperCidrTracker:
    """Current ranges of one super cluster."""

    def __init__(self, nodes: Store, service_cidrs: Store) -> None:
        self._cidrs_by_node: dict[str, tuple[tuple[CidrNetwork, ...], tuple[CidrNetwork, ...]]] = {}
        self._service_cidrs = service_cidrs
        self._api_slices = Store()
        self._current_cidrs: SuperCidrs | None = None
        self._known_cidrs = CidrSet(())
        """Nodes and pods of the current ranges."""
        self._stray_pods: dict[tuple[int, int], CidrNetwork] = {}
        """Addresses by version and first bits of the larger network."""
        self._handlers: list[Callable[[], None]] = []
        nodes.subscribe(self._handle_node)
        service_cidrs.subscribe(self._handle_service_cidrs)

    def add_api_slices(self, api_slices: Store) -> None:
        """Add the addresses of the API server, which may be no node."""
        self._api_slices = api_slices
        api_slices.subscribe(self._handle_service_cidrs)

    def observe_pod(self, node: str, address: CidrAddress) -> bool:
        """Remember the address of a running pod that no range has. Return whether it is new.

        A pod of an unknown node is ignored, because the range of the node is not known yet.
        """
        self.get_current()
        larger = (address.version, int(address) >> _STRAY_SHIFTS[address.version])
        if (
            self._known_cidrs.contains(address)
            or node not in self._cidrs_by_node
            or larger in self._stray_pods
            or len(self._stray_pods) >= MAX_STRAYS
        ):
            return False
        self._stray_pods[larger] = ip_network(address)
        self._notify()
        return True

    def get_current(self) -> SuperCidrs:
        """Return the current ranges."""
        if self._current_cidrs is None:
            nodes = collapse_networks(
                [
                    *(net for found, _ in self._cidrs_by_node.values() for net in found),
                    *(net for each in self._api_slices.list() for net in _read_slice(each)),
                ]
            )
            pods = collapse_networks(
                net for _, found in self._cidrs_by_node.values() for net in found
            )
            self._known_cidrs = known = CidrSet((*nodes, *pods))
            self._stray_pods = {
                larger: net
                for larger, net in self._stray_pods.items()
                if not known.contains(net.network_address)
            }
            self._current_cidrs = SuperCidrs(
                nodes=nodes,
                pods=pods,
                stray_pods=tuple(self._stray_pods.values()),
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

    def _handle_service_cidrs(self, _: Entry | None, __: Entry | None, ___: bool) -> None:
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


def _read_node_cidrs(entry: Entry) -> tuple[tuple[CidrNetwork, ...], tuple[CidrNetwork, ...]]:
    """Return the addresses of a node and the ranges of its pods."""
    try:
        node = _NODE_DECODER.decode(entry.body)
    except msgspec.ValidationError:
        return (), ()
    shown = [a.address for a in node.status.addresses or () if a.type in _SHOWN_TYPES]
    pods = node.spec.pod_cidrs or [node.spec.pod_cidr]
    return parse_networks(shown), parse_networks(pods)


def _read_slice(entry: Entry) -> tuple[CidrNetwork, ...]:
    endpoints = as_mappings(entry.decode().get("endpoints"))
    return parse_networks(text for each in endpoints for text in as_strings(each.get("addresses")))


def _read_service_cidrs(entry: Entry) -> tuple[CidrNetwork, ...]:
    return parse_networks(as_strings(as_mapping(entry.decode().get("spec")).get("cidrs")))
