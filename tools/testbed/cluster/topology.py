"""Addresses and names of a cluster, all derived from its name and its slot. Pure.

A cluster is one hub namespace (control plane, registry, a bridge) and one namespace per node on
that bridge. The host is on the bridge as well, with routes to pods, Services and nodes. There is no
default route out of the cluster.

Hazard: at most SLOTS clusters may run in parallel. The widest Service range that the API
server accepts is a /12, and 10.0.0.0/8 has only a few besides the pods' ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

SLOTS = 8
REGISTRY_PORT = 5000
API_PORT = 6443
HUB = "hub"


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """One node: its name in Kubernetes, its address and its pods' range."""

    number: int
    name: str
    ip: IPv4Address
    pods: IPv4Network

    @property
    def space(self) -> str:
        """Name of its namespaces, folder and cgroup."""
        return f"node-{self.number}"

    @property
    def is_self_signed(self) -> bool:
        """Whether its kubelet's serving certificate is its own, as kind's and kubeadm's are."""
        return self.number == 2

    @property
    def gateway(self) -> IPv4Address:
        """Address of its own bridge, which the pods use as their gateway."""
        return self.pods[1]


@dataclass(frozen=True, slots=True)
class Topology:
    """The addresses of one cluster."""

    name: str
    slot: int
    node_count: int

    @property
    def wire(self) -> IPv4Network:
        """Range of the bridge: hub, nodes and host."""
        return IPv4Network(f"10.{64 + self.slot}.0.0/24")

    @property
    def pods(self) -> IPv4Network:
        return IPv4Network(f"10.{72 + self.slot}.0.0/16")

    @property
    def services(self) -> IPv4Network:
        return IPv4Network(f"10.{96 + 16 * self.slot}.0.0/12")

    @property
    def hub_ip(self) -> IPv4Address:
        return self.wire[1]

    @property
    def host_ip(self) -> IPv4Address:
        """Address of the host on the bridge. Pods reach servers of the host at it."""
        return self.wire[254]

    @property
    def dns_ip(self) -> IPv4Address:
        return self.services[10]

    @property
    def host_link(self) -> str:
        """Name of the host's end of the link to the bridge, at most 15 characters (kernel)."""
        return f"vctest{self.slot}"

    @property
    def server(self) -> str:
        return f"https://{self.hub_ip}:{API_PORT}"

    @property
    def registry(self) -> str:
        return f"http://{self.hub_ip}:{REGISTRY_PORT}"

    @property
    def cgroup(self) -> str:
        return f"virtual-cluster-{self.name}"

    @property
    def nodes(self) -> tuple[ClusterNode, ...]:
        ranges = list(self.pods.subnets(new_prefix=22))
        return tuple(
            ClusterNode(
                number, f"{self.name}-node-{number}", self.wire[10 + number], ranges[number - 1]
            )
            for number in range(1, self.node_count + 1)
        )

    @property
    def ranges(self) -> tuple[IPv4Network, ...]:
        """Ranges that the host must not use for anything else."""
        return (self.wire, self.pods, self.services)
