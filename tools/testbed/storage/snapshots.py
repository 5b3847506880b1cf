"""Volumes with snapshots: the real snapshot controller and sidecars, and a small CSI driver.

Owns their components, CRDs and classes. A cluster has none of it until a test requests it. The
driver is a program of the testbed (`gomod/csi`). Its volumes are directories of the first node,
because neither csi-driver-host-path nor node-driver-registrar can be fetched as Go modules.

Hazard: pods that use these volumes must run on the first node. On any other node they never start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from tools.testbed.artifacts import binaries
from tools.testbed.cluster.api import Object, wait_for
from tools.testbed.cluster.components import ClusterProgram, flags
from tools.testbed.cluster.handle import ClusterHandle

DRIVER = "directories.csi.testbed"
CLASS = "directories"
"""Name of the StorageClass and of the VolumeSnapshotClass."""
_MODULE = "github.com/kubernetes-csi/external-snapshotter/client/v8"
_KINDS = ("volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses")
_NO_GROUPS = {"feature-gates": "CSIVolumeGroupSnapshot=false"}
"""Without it both programs wait for CRDs of group snapshots."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def list_crds(*kinds: str) -> list[Object]:
    """Return the CRDs of snapshots, as the module of the snapshotter ships them."""
    folder = binaries.source("csi", _MODULE) / "config" / "crd"
    return [
        yaml.safe_load((folder / f"snapshot.storage.k8s.io_{kind}.yaml").read_text())
        for kind in kinds or _KINDS
    ]


def start(cluster: ClusterHandle) -> None:
    """Install the CRDs and the classes, and start the programs."""
    for each in list_crds():
        cluster.api.apply(each)
    served = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses"
    wait_for(
        "the CRDs of snapshots are not served",
        lambda: cluster.api.exists(served),
        seconds=30,
        hint=lambda: f"{served} answers 404",
    )
    for each in build_classes():
        cluster.api.apply(each)
    for component in _components(cluster):
        cluster.control.start(component)


def stop(cluster: ClusterHandle) -> None:
    """Stop the programs."""
    for component in reversed(_components(cluster)):
        cluster.control.stop(component.name, 3)


def build_classes() -> list[Object]:
    """Return the driver's object and its classes."""
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": False},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CLASS},
            "provisioner": DRIVER,
            "volumeBindingMode": "Immediate",
        },
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": CLASS},
            "driver": DRIVER,
            "deletionPolicy": "Delete",
        },
    ]


def build_commands(
    root: Path, kubelet: Path, kubeconfig: Path, node: str
) -> Mapping[str, tuple[str, ...]]:
    """Return the commands of all programs by name, in start order.

    `root` has the volumes. `kubelet` is the folder of the kubelet, where it finds the driver.
    """
    plugins = kubelet / "plugins"
    access = {"kubeconfig": kubeconfig}
    sidecar = {**access, "csi-address": plugins / DRIVER / "csi.sock"}
    arguments = {
        "csi-driver": [DRIVER, str(root), str(plugins), str(kubelet / "plugins_registry"), node],
        "snapshot-controller": flags({**access, **_NO_GROUPS}),
        "csi-snapshotter": flags({**sidecar, **_NO_GROUPS}),
        "csi-provisioner": flags(sidecar),
    }
    return {name: (str(binaries.path(name)), *words) for name, words in arguments.items()}


def _components(cluster: ClusterHandle) -> list[ClusterProgram]:
    node = cluster.topology.nodes[0]
    commands = build_commands(
        cluster.places.space(node.space) / "csi",
        Path("/var/lib/kubelet"),
        cluster.places.pki / "admin.kubeconfig",
        node.name,
    )
    return [
        ClusterProgram(f"{node.space}/{name}", node.space, argv, {"PATH": _PATH})
        for name, argv in commands.items()
    ]
