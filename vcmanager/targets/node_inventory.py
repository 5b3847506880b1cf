"""Capacity and addresses of the nodes of a cluster.

Pure. Hazard: node data come from that cluster, which may be hostile. An invalid quantity or network
is left out, and lists are cut.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tenancy.quantities import parse_quantity
from tenancy.super_clusters import ClusterRanges

COUNTED_RESOURCES = ("cpu", "ephemeral-storage", "memory", "pods")
MAX_RANGES = 256
"""Maximum number of CIDRs in a status. Further ranges need the administrator's own list."""
MAX_AMOUNT = Decimal(10) ** 18
"""Maximum amount of a resource of one node: one exabyte. Larger amounts are ignored as invalid."""
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_MILLI = Decimal(1000)
_MEBI = Decimal(2) ** 20


@dataclass(slots=True)
class NodeInventory:
    """Sums over the nodes that are ready and accept pods, and the pod ranges of all nodes."""

    nodes: int = 0
    sums: dict[str, Decimal] = field(default_factory=dict)
    pod_ranges: set[str] = field(default_factory=set)

    def add_nodes(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Add nodes from a list of the API server."""
        for node in nodes:
            spec, status = node.get("spec") or {}, node.get("status") or {}
            self.pod_ranges |= normalize_networks(spec.get("podCIDRs") or [spec.get("podCIDR")])
            if not is_schedulable(node):
                continue
            self.nodes += 1
            for name in COUNTED_RESOURCES:
                amount = parse_quantity((status.get("allocatable") or {}).get(name))
                if amount is not None and 0 <= amount <= MAX_AMOUNT:
                    self.sums[name] = self.sums.get(name, Decimal(0)) + amount

    def format_capacity(self) -> dict[str, str]:
        """Return the sums as quantities: milli-cores, mebibytes, pods."""
        units = {"cpu": (_MILLI, "m", Decimal(1)), "pods": (Decimal(1), "", Decimal(1))}
        told = {}
        for name, amount in sorted(self.sums.items()):
            times, unit, per = units.get(name, (Decimal(1), "Mi", _MEBI))
            told[name] = f"{int(amount * times / per)}{unit}"
        return told

    def collapse_pod_ranges(self) -> tuple[str, ...]:
        """Return the pod ranges of the nodes, collapsed to the fewest networks."""
        nets = [ipaddress.ip_network(text) for text in self.pod_ranges]
        fours = [net for net in nets if isinstance(net, ipaddress.IPv4Network)]
        sixes = [net for net in nets if isinstance(net, ipaddress.IPv6Network)]
        joined = [*ipaddress.collapse_addresses(fours), *ipaddress.collapse_addresses(sixes)]
        return tuple(map(str, joined[:MAX_RANGES]))


def is_schedulable(node: Mapping[str, Any]) -> bool:
    """Return whether a node is ready and open to ordinary pods."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    conditions = status.get("conditions") or ()
    is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    is_shut = any(
        taint.get("key") == _CONTROL_PLANE and taint.get("effect") in _SCHEDULING_EFFECTS
        for taint in spec.get("taints") or ()
    )
    return is_ready and not spec.get("unschedulable") and not is_shut


def normalize_networks(found: Iterable[Any]) -> set[str]:
    """Return the valid networks among some texts, in canonical form."""
    nets = set()
    for text in found:
        try:
            nets.add(str(ipaddress.ip_network(text, strict=False)) if text else "")
        except (ValueError, TypeError):
            continue
    return nets - {""}


def list_service_ranges(service_cidrs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the ranges of ServiceCIDR objects."""
    found = (each.get("spec") or {} for each in service_cidrs)
    nets = normalize_networks(cidr for spec in found for cidr in spec.get("cidrs") or ())
    return tuple(sorted(nets)[:MAX_RANGES])


def choose_ranges(seen: ClusterRanges, declared: ClusterRanges) -> ClusterRanges:
    """Return the administrator's list if there is one, otherwise the ranges found by the probe."""
    return ClusterRanges(
        pods=declared.pods or seen.pods, services=declared.services or seen.services
    )
