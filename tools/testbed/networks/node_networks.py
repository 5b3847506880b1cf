"""Additional networks on the nodes of a running cluster: devices, plugins and definitions.

Owns the trunk between the nodes, the stand-in for Multus on each node, and the CRDs of Multus,
Whereabouts and MultiNetworkPolicy. Must not know tenants.

The trunk is a bridge with VLANs on each node. A bridge in the hub connects them and passes every
tag. On a kernel without VLANs, the stand-in gives each VLAN a bridge and a VXLAN of its own. The
trunk carries the VXLANs. All of it ends with the namespaces of the cluster.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from functools import cache as cache_result
from pathlib import Path

import yaml

from syncer.rules.network.attachments import tenant_crds
from tenancy.resources import MULTI_NETWORK_POLICIES, NETWORK_ATTACHMENTS
from tools.testbed import cache
from tools.testbed.artifacts import binaries
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.cluster.topology import HUB, ClusterNode
from tools.testbed.commands import run
from tools.testbed.networks import meta_plugin

TRUNK = "br-trunk"
"""Name of the bridge on each node."""
PLUGIN = "meta-plugin"
ADDED_PLUGINS = ("macvlan", "vlan", "static", "whereabouts")
_WHEREABOUTS = "github.com/k8snetworkplumbingwg/whereabouts"
_CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WHEREABOUTS_CRDS = (
    "whereabouts.cni.cncf.io_ippools.yaml",
    "whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml",
)


def enable(cluster: ClusterHandle) -> None:
    """Connect the nodes by a trunk and give their pods additional networks.

    Nodes that have the trunk keep it.
    """
    install_crds(cluster)
    hub = _get_space(cluster, HUB)
    connect_hub(hub)
    for node in cluster.topology.nodes:
        connect_node(node.number, hub, _get_space(cluster, node.space))
        install_plugin(cluster, node)


def _get_space(cluster: ClusterHandle, name: str) -> str:
    """Return the file of a network namespace."""
    return f"/proc/{cluster.pid_of(name)}/ns/net"


def list_crds() -> list[dict[str, object]]:
    """Return the definitions of Multus, Whereabouts and MultiNetworkPolicy."""
    kinds = (NETWORK_ATTACHMENTS.kind, MULTI_NETWORK_POLICIES.kind)
    folder = binaries.source("whereabouts", _WHEREABOUTS) / "doc" / "crds"
    found = [yaml.safe_load((folder / name).read_text()) for name in WHEREABOUTS_CRDS]
    return [*(tenant_crds.build_crd(kind) for kind in kinds), *found]


def install_crds(cluster: ClusterHandle) -> None:
    """Apply the definitions."""
    for crd in list_crds():
        cluster.api.apply(crd)


@cache_result
def has_vlans() -> bool:
    """Return whether bridges of this kernel have VLANs (CONFIG_BRIDGE_VLAN_FILTERING)."""
    probe = ["unshare", "--net", "ip", "link", "add", "probe", "type", "bridge"]
    done = subprocess.run([*probe, "vlan_filtering", "1"], capture_output=True, check=False)
    return done.returncode == 0


def has_trunk(space: str) -> bool:
    """Return whether a network namespace has the bridge already."""
    shown = run(["nsenter", f"--net={space}", "ip", "-oneline", "link", "show"])
    return any(line.split()[1].rstrip(":") == TRUNK for line in shown.splitlines())


def connect_hub(hub: str) -> None:
    """Create the bridge of the hub. It passes tagged frames as they are."""
    if has_trunk(hub):
        return
    enter = ["nsenter", f"--net={hub}"]
    run([*enter, "ip", "link", "add", TRUNK, "type", "bridge"])
    run([*enter, "ip", "link", "set", TRUNK, "up"])


def connect_node(number: int, hub: str, node: str) -> None:
    """Create the bridge of a node and its link to the hub's, as a port with every VLAN."""
    if has_trunk(node):
        return
    port = f"trunk{number}"
    below, above = (["nsenter", f"--net={space}"] for space in (node, hub))
    run([*above, "ip", "link", "add", port, "type", "veth", "peer", "name", "trunk0"])
    run([*above, "ip", "link", "set", "trunk0", "netns", node])
    run([*above, "ip", "link", "set", port, "master", TRUNK, "up"])
    filtering = ["vlan_filtering", "1"] if has_vlans() else []
    run([*below, "ip", "link", "add", TRUNK, "type", "bridge", *filtering])
    run([*below, "ip", "link", "set", TRUNK, "up"])
    run([*below, "ip", "link", "set", "trunk0", "master", TRUNK, "up"])
    if filtering:
        run([*below, "bridge", "vlan", "add", "dev", "trunk0", "vid", "2-4094"])
    else:  # the VXLANs need an address
        run([*below, "ip", "addr", "add", f"169.254.77.{number}/24", "dev", TRUNK])


def install_plugin(cluster: ClusterHandle, node: ClusterNode) -> None:
    """Make the stand-in the first plugin of a node. The former configuration is its default."""
    folder = cluster.places.space(node.space)
    configuration = folder / "config"
    kubeconfig = cluster.places.pki / "admin.kubeconfig"
    write_program(configuration / "cni-bin")
    former = json.loads((configuration / "cni" / "10-bridge.conflist").read_text())
    plugin = build_config(former, kubeconfig=kubeconfig, state=folder / "meta-plugin")
    document = {"cniVersion": "1.0.0", "name": former["name"], "plugins": [plugin]}
    cache.write_atomic(configuration / "cni" / "00-meta.conflist", json.dumps(document))


def build_config(default: dict[str, object], *, kubeconfig: Path, state: Path) -> dict[str, object]:
    """Return the stand-in's configuration over a default network."""
    return {
        "type": PLUGIN,
        "capabilities": {"portMappings": True},
        "kubeconfig": str(kubeconfig),
        "stateDir": str(state),
        "vlanBridges": not has_vlans(),
        "delegate": default,
    }


def write_program(folder: Path) -> None:
    """Write the stand-in as a program, and the plugins that it may run beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    words = shlex.join([sys.executable, str(Path(meta_plugin.__file__).resolve())])
    cache.write_atomic(folder / PLUGIN, f"#!/bin/sh\nexec {words}\n", mode=0o755)
    for name in ADDED_PLUGINS:
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(binaries.path(name))
