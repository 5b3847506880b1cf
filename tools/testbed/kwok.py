"""Nodes without machines: kwok reports them as Ready and their pods as Running.

Owns kwok's component and its stage files, which its own Go module ships. A cluster has none of it
until a test requests it.

Hazard: while such nodes exist, a test must create only pods with a node selector, and must remove
the nodes at its end. Any other pod may be scheduled to such a node, where it does nothing.
"""

from __future__ import annotations

import yaml

from tools.testbed import binaries, cache
from tools.testbed.api import Object
from tools.testbed.cluster import ClusterHandle
from tools.testbed.components import ClusterProgram, flags
from tools.testbed.topology import HUB

KIND = "kwok"
"""Value of the node label `type`."""

_MODULE = "sigs.k8s.io/kwok"
_MANAGED = "kwok.x-k8s.io/node"
_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")


def start(cluster: ClusterHandle) -> None:
    """Start kwok, which manages only the nodes from `node`."""
    cluster.control.start(_component(cluster))


def stop(cluster: ClusterHandle) -> None:
    """Stop kwok."""
    cluster.control.stop(KIND, 3)


def node(name: str, zone: str) -> Object:
    """Return a node without a machine, in a zone."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {_MANAGED: "fake"},
            "labels": {
                "type": KIND,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": zone,
            },
        },
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"},
            "capacity": {"cpu": "32", "memory": "256Gi", "pods": "110"},
        },
    }


def _component(cluster: ClusterHandle) -> ClusterProgram:
    topology, places = cluster.topology, cluster.places
    folder = binaries.source("kwok", _MODULE) / "kustomize" / "stage"
    stages = [
        yaml.safe_load(file.read_text())
        for stage in _STAGES
        for file in sorted((folder / stage).glob("*.yaml"))
        if file.name != "kustomization.yaml"
    ]
    for stage in stages:
        if (
            stage["metadata"]["name"] == "pod-ready"
        ):  # no pod is ready at once, and drains wait for that
            stage["spec"]["delay"] = {"durationMilliseconds": 1000}
    cache.write_atomic(places.config("kwok.yaml"), yaml.safe_dump_all(stages))
    last = list(topology.pods.subnets(new_prefix=22))[-1]
    arguments = {
        "kubeconfig": places.pki / "admin.kubeconfig",
        "config": places.config("kwok.yaml"),
        "manage-nodes-with-annotation-selector": f"{_MANAGED}=fake",
        "cidr": f"{last[1]}/{last.prefixlen}",
        "node-ip": topology.wire[200],
        "node-lease-duration-seconds": 40,
    }
    environment = {"KWOK_WORKDIR": str(places.space(KIND))}
    return ClusterProgram(KIND, HUB, (str(binaries.path("kwok")), *flags(arguments)), environment)
