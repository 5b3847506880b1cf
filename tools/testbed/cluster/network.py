"""Virtual Ethernet pairs, bridges and routes between the namespaces of a cluster and the host.

Owns the one interface per cluster on the host and the routes over it. All of it depends on the
namespaces of the cluster. When their last process ends, the kernel removes interface and routes.

Hazard: a range that the host already routes must not be used, so another slot is chosen. Its routes
would cut the host off from that range.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from ipaddress import IPv4Network
from itertools import islice
from typing import Any

from tools.testbed.cluster.topology import SLOTS, Topology
from tools.testbed.commands import run

_CABLES = IPv4Network("169.254.0.0/16")
"""Addresses of the links between clusters, four for each."""


def host_ranges() -> list[IPv4Network]:
    """Return the ranges in the host's routing table, except the default route."""
    routes: list[dict[str, Any]] = json.loads(run(["ip", "-4", "-json", "route"]) or "[]")
    return [IPv4Network(route["dst"]) for route in routes if route["dst"] != "default"]


def is_free(topology: Topology, taken: Iterable[IPv4Network]) -> bool:
    """Return whether no range of the cluster overlaps with a used one."""
    return not any(mine.overlaps(other) for mine in topology.ranges for other in taken)


def connect_hub(topology: Topology, hub_pid: int) -> None:
    """Create the bridge in the hub and its link to the host."""
    _batch(
        [
            "link set lo up",
            "link add hub0 type bridge",
            f"addr add {topology.hub_ip}/{topology.wire.prefixlen} dev hub0",
            "link set hub0 up",
        ],
        hub_pid,
    )
    _batch(
        [f"link add {topology.host_link} type veth peer name host0 netns {hub_pid}"],
    )
    _batch(["link set host0 master hub0", "link set host0 up"], hub_pid)
    host = topology.host_link
    _batch(
        [f"addr add {topology.host_ip}/{topology.wire.prefixlen} dev {host}", f"link set {host} up"]
    )


def connect_node(topology: Topology, number: int, hub_pid: int, node_pid: int) -> None:
    """Create the link of one node and the routes to it."""
    node = topology.nodes[number - 1]
    port = node.space
    _batch(
        [
            f"link add {port} type veth peer name eth0 netns {node_pid}",
            f"link set {port} master hub0",
            f"link set {port} up",
            f"route add {node.pods} via {node.ip}",
        ],
        hub_pid,
    )
    others = [other for other in topology.nodes if other.number != number]
    _batch(
        [
            "link set lo up",
            f"addr add {node.ip}/{topology.wire.prefixlen} dev eth0",
            "link set eth0 up",
            f"route add default via {topology.hub_ip}",
            *(f"route add {other.pods} via {other.ip}" for other in others),
        ],
        node_pid,
    )
    _batch([f"route add {node.pods} via {node.ip}"])
    if number == 1:  # kube-proxy of the first node serves the hub and the host as well
        _batch([f"route add {topology.services} via {node.ip}"], hub_pid)
        _batch([f"route add {topology.services} via {node.ip}"])


def connect_clusters(one: Topology, one_hub: int, other: Topology, other_hub: int) -> None:
    """Link two hubs: hub, nodes and pods of each reach those of the other.

    Service addresses are valid in their own cluster only and are not routed. An existing link is
    recreated.
    """
    ends = [(one, one_hub, 1), (other, other_hub, 2)]
    wire = next(islice(_CABLES.subnets(new_prefix=30), one.slot * SLOTS + other.slot, None))
    _batch([f"link delete {_port(other)}"], one_hub, check=False)
    _batch([f"link add {_port(other)} type veth peer name {_port(one)} netns {other_hub}"], one_hub)
    for (here, hub, number), (there, _, their_number) in (ends, reversed(ends)):
        port, gateway = _port(there), wire[their_number]
        _batch(
            [
                f"addr add {wire[number]}/{wire.prefixlen} dev {port}",
                f"link set {port} up",
                *(
                    f"route add {found} via {gateway} dev {port} src {here.hub_ip}"
                    for found in (there.wire, there.pods)
                ),
            ],
            hub,
        )


def _port(topology: Topology) -> str:
    """Return the name of this cluster's port in another cluster's hub."""
    return f"cluster{topology.slot}"


def disconnect(topology: Topology) -> None:
    """Remove the host's end of the link. The kernel then removes the routes over it."""
    run(["ip", "link", "delete", topology.host_link], check=False)


def links() -> list[str]:
    """Return the host's interfaces that belong to clusters of the testbed."""
    found: list[dict[str, Any]] = json.loads(run(["ip", "-json", "link"]) or "[]")
    return [link["ifname"] for link in found if link["ifname"].startswith("vctest")]


def _batch(lines: list[str], pid: int | None = None, *, check: bool = True) -> None:
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net"] if pid else []
    run([*enter, "ip", "-batch", "-"], stdin="\n".join(lines) + "\n", check=check)
