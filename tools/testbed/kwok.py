"""Nodes without machines: kwok reports them as Ready and their pods as Running.

Owns kwok's component and its stage files, which its own Go module ships. Also owns Karpenter's kwok
provider, which creates and removes such nodes. A cluster has none of it until a test requests it.

Hazard: while such nodes exist, a test must create only pods with a node selector, and must remove
the nodes at its end. Any other pod may be scheduled to such a node, where it does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from tools.testbed import cache
from tools.testbed.artifacts import binaries
from tools.testbed.cluster.api import Object
from tools.testbed.cluster.components import ClusterProgram, flags
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.cluster.topology import HUB

KIND = "kwok"
"""Value of the node label `type`."""

_MODULE = "sigs.k8s.io/kwok"
_KARPENTER_MODULE = "sigs.k8s.io/karpenter"
_KARPENTER_KWOK = "karpenter.kwok.sh"
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
    stages = places.config("kwok.yaml")
    write_stages(stages)
    last = list(topology.pods.subnets(new_prefix=22))[-1]
    command = build_command(
        places.pki / "admin.kubeconfig",
        stages,
        cidr=f"{last[1]}/{last.prefixlen}",
        **{"node-ip": topology.wire[200]},
    )
    environment = {"KWOK_WORKDIR": str(places.space(KIND))}
    return ClusterProgram(KIND, HUB, command, environment)


def write_stages(path: Path) -> None:
    """Write the stage files as one configuration."""
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
    cache.write_atomic(path, yaml.safe_dump_all(stages))


def build_command(kubeconfig: Path, stages: Path, **more: object) -> tuple[str, ...]:
    """Return the command of kwok, which manages only nodes of `node` and of Karpenter."""
    arguments = {
        "kubeconfig": kubeconfig,
        "config": stages,
        "manage-nodes-with-annotation-selector": f"{_MANAGED}=fake",
        "node-lease-duration-seconds": 40,
        **more,
    }
    return (str(binaries.path("kwok")), *flags(arguments))


# Karpenter, an autoscaler that creates such nodes and removes them.


def build_karpenter_command(metrics_port: int, health_port: int) -> tuple[str, ...]:
    """Return the command of Karpenter with its kwok provider. It reads $KUBECONFIG."""
    arguments = {
        "metrics-port": metrics_port,
        "health-probe-port": health_port,
        "disable-leader-election": "true",
        "batch-idle-duration": "500ms",
    }
    return (str(binaries.path("karpenter")), *flags(arguments))


def list_karpenter_definitions() -> list[Object]:
    """Return the CRDs that Karpenter needs, as its module ships them."""
    source = binaries.source("karpenter", _KARPENTER_MODULE)
    files = (
        *(source / "pkg/apis/crds").glob("*.yaml"),
        *(source / "kwok/apis/crds").glob("*.yaml"),
    )
    return [yaml.safe_load(file.read_text()) for file in sorted(files)]


def node_pool(name: str, labels: Mapping[str, str], *, cpus: int) -> list[Object]:
    """Return a node pool of Karpenter, and its class. Empty nodes go after a second.

    Each node has these labels and this number of processors.
    """
    requirements = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.sh/capacity-type": "on-demand",
        f"{_KARPENTER_KWOK}/instance-cpu": str(cpus),
    }
    spec = {
        "nodeClassRef": {"group": _KARPENTER_KWOK, "kind": "KWOKNodeClass", "name": name},
        "requirements": [
            {"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()
        ],
        "expireAfter": "Never",
    }
    return [
        {
            "apiVersion": f"{_KARPENTER_KWOK}/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": name},
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {
                "template": {"metadata": {"labels": dict(labels)}, "spec": spec},
                "disruption": {
                    "consolidationPolicy": "WhenEmptyOrUnderutilized",
                    "consolidateAfter": "1s",
                    "budgets": [{"nodes": "100%"}],
                },
            },
        },
    ]
