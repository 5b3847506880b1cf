"""Devices of a node that exist only by name, and the driver that serves them.

Owns the component of the driver in `gomod/dra-driver`. A cluster has none until a test requests it.

Hazard: the driver must run inside the node's space. The kubelet's folders and those of the CDI are
private there. Outside of it, it would write to the machine's own.
"""

from __future__ import annotations

from tools.testbed.artifacts import binaries
from tools.testbed.cluster.components import ClusterProgram, flags
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.cluster.topology import ClusterNode

DRIVER = "devices.testbed.example"
"""Name of the driver, in ResourceSlices and in selectors of DeviceClasses."""


def start(cluster: ClusterHandle, node: ClusterNode, count: int) -> None:
    """Start the driver of a node, which publishes `count` devices."""
    arguments = {
        "kubeconfig": cluster.places.pki / "admin.kubeconfig",
        "node-name": node.name,
        "driver-name": DRIVER,
        "devices": count,
    }
    program = (str(binaries.path("dra-driver")), *flags(arguments))
    cluster.control.start(ClusterProgram(_get_name(node), node.space, program))


def stop(cluster: ClusterHandle, node: ClusterNode) -> None:
    """Stop the driver of a node. Its ResourceSlices stay."""
    cluster.control.stop(_get_name(node), 3)


def _get_name(node: ClusterNode) -> str:
    return f"{node.space}/dra-driver"
