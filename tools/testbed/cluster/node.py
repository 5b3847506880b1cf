"""One node: containerd, kubelet, kube-proxy, NetworkPolicy controller, and their configuration.

The controller of kube-network-policies accepts or drops the first packet of each connection. Its
own rules need the nftables statement `queue`, which a kernel may lack (CONFIG_NFT_QUEUE). Therefore
the rules here send packets to it by the older target NFQUEUE. The decisions are upstream's.

Hazard: these programs must be started inside the node's space. The supervisor mounts private
folders there over the fixed places that they write to (/var/lib/kubelet, /run/containerd,
/var/log/containers). Outside of it they would write to the machine's own.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tools.testbed import cache
from tools.testbed.artifacts import binaries
from tools.testbed.cluster.components import ClusterFolders, ClusterProgram, flags
from tools.testbed.cluster.topology import ClusterNode, Topology

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_PLUGINS = ("bridge", "loopback", "host-local", "portmap")

# The root of the machine may lack CAP_SYS_RESOURCE. Then runc dies when it lowers an OOM score.
# restrict_oom_score_adj keeps containerd from requesting it.
CONTAINERD = """\
version = 3
root = "{root}"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt", \
"io.containerd.internal.v1.tracing", "io.containerd.snapshotter.v1.btrfs", \
"io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", \
"io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.blockfile"]

[grpc]
address = "{socket}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cni_bin}", "{added_bin}"]
conf_dir = "{cni_conf}"

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.images".registry]
config_path = "{certs}"
"""

POLICY_CONTROLLER = "network-policies"
_QUEUE_NUMBER = 100
_CHAIN = "NETWORK-POLICIES"
_BRIDGE = "cni0"

# Packets of the node's own root processes pass, as those of a kubelet's probes must. A pod's
# packets come from another network namespace and have no owner here. Packets between two pods of a
# node cross its bridge, and br_netfilter shows them to the rules. The rule in INPUT is not
# upstream's, which lets a pod reach its own node whatever its policies are. Calico and Cilium can
# refuse that.
# Hazard: --queue-bypass must stay. With it every packet passes while the controller is stopped, and
# `ClusterHandle.enforce` relies on that. Otherwise a stopped controller cuts the node off.
_QUEUE = f"-j NFQUEUE --queue-num {_QUEUE_NUMBER} --queue-bypass"
_TO_NODE = f"INPUT -i {_BRIDGE} -m conntrack --ctstate NEW {_QUEUE}"
_RULES = (
    f"-A {_CHAIN} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN",
    f"-A {_CHAIN} -m owner --uid-owner 0 -j RETURN",
    f"-A {_CHAIN} {_QUEUE}",
)
_HOOKS = (f"POSTROUTING -j {_CHAIN}", _TO_NODE)
_TABLE = "iptables -w -t mangle"
POLICY_SCRIPT = "\n".join(
    (
        "set -e",
        f"{_TABLE} -N {_CHAIN} 2>/dev/null || {_TABLE} -F {_CHAIN}",
        *(f"{_TABLE} {rule}" for rule in _RULES),
        *(f"{_TABLE} -C {hook} 2>/dev/null || {_TABLE} -A {hook}" for hook in _HOOKS),
        'exec "$@"',
    )
)

HOSTS = """\
server = "{registry}"

[host."{registry}"]
capabilities = ["pull", "resolve"]
"""


def containerd_config(root: Path, configuration: Path, pause: str) -> str:
    """Return containerd's configuration for its content folder and its configuration files."""
    return CONTAINERD.format(
        root=root,
        socket=CONTAINERD_SOCKET,
        cni_bin=cni_folder(),
        added_bin=configuration / "cni-bin",
        cni_conf=configuration / "cni",
        runc=shutil.which("runc", path="/usr/local/sbin:/usr/sbin:/usr/bin") or "runc",
        pause=pause,
        certs=configuration / "registries",
    )


def cni_folder() -> Path:
    """Return the folder of the CNI plugins, which are all built from one module."""
    folders = {binaries.path(plugin).parent for plugin in CNI_PLUGINS}
    return folders.pop()


def write_configuration(
    topology: Topology, node: ClusterNode, places: ClusterFolders, pause: str
) -> None:
    """Write the files that the components of a node read."""
    folder = places.space(node.space)
    configuration = folder / "config"
    containerd_toml = containerd_config(folder / "containerd", configuration, pause)
    cache.write_atomic(configuration / "containerd.toml", containerd_toml)
    hosts = HOSTS.format(registry=topology.registry)
    cache.write_atomic(configuration / "registries/_default/hosts.toml", hosts)
    # Nothing listens on the hub's port 53. A query for an outside name is therefore refused at
    # once, without a timeout.
    cache.write_atomic(configuration / "resolv.conf", f"nameserver {topology.hub_ip}\n")
    for name, document in (
        ("cni/10-bridge.conflist", _cni(topology, node)),
        ("kubelet.json", _kubelet(topology, node, places)),
    ):
        cache.write_atomic(configuration / name, json.dumps(document, indent=1))


def components(
    topology: Topology, node: ClusterNode, places: ClusterFolders, minor: str
) -> list[ClusterProgram]:
    """Return a node's programs of one Kubernetes minor, in start order."""
    configuration = places.space(node.space) / "config"
    containerd = binaries.path("containerd")
    shim_folder = binaries.path("containerd-shim-runc-v2").parent
    kubelet = {
        "config": configuration / "kubelet.json",
        "kubeconfig": places.pki / f"{node.space}-kubelet.kubeconfig",
        "hostname-override": node.name,
        "node-ip": node.ip,
        "cert-dir": "/var/lib/kubelet/pki",
        "root-dir": "/var/lib/kubelet",
    }
    proxy = {
        "kubeconfig": places.pki / f"{node.space}-kube-proxy.kubeconfig",
        "hostname-override": node.name,
        "proxy-mode": "nftables",
        "cluster-cidr": topology.pods,
        "bind-address": node.ip,
        # Without the right to change the machine's connection tracking, kube-proxy dies at once.
        "conntrack-max-per-core": 0,
        "conntrack-min": 0,
        "conntrack-tcp-timeout-established": "0s",
        "conntrack-tcp-timeout-close-wait": "0s",
    }
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return [
        ClusterProgram(
            f"{node.space}/containerd",
            node.space,
            (str(containerd), "--config", str(configuration / "containerd.toml")),
            {"PATH": f"{shim_folder}:{path}"},
        ),
        ClusterProgram(
            f"{node.space}/kubelet",
            node.space,
            (str(binaries.path("kubelet", minor)), *flags(kubelet)),
        ),
        ClusterProgram(
            f"{node.space}/kube-proxy",
            node.space,
            (str(binaries.path("kube-proxy", minor)), *flags(proxy)),
        ),
    ]


def policy_controller(node: ClusterNode, places: ClusterFolders) -> ClusterProgram:
    """Return a node's NetworkPolicy controller, which first sets the rules."""
    arguments = {
        "kubeconfig": places.pki / "admin.kubeconfig",
        "hostname-override": node.name,
        "nfqueue-id": _QUEUE_NUMBER,
    }
    program = [str(binaries.path(POLICY_CONTROLLER)), *flags(arguments)]
    argv = ("/bin/sh", "-c", POLICY_SCRIPT, "sh", *program)
    return ClusterProgram(f"{node.space}/{POLICY_CONTROLLER}", node.space, argv)


def _cni(topology: Topology, node: ClusterNode) -> dict[str, Any]:
    # No masquerading: hub, host and other nodes have routes to the pods, and see their addresses.
    bridge = {
        "type": "bridge",
        "bridge": _BRIDGE,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": "/var/lib/cni/networks",
            "ranges": [[{"subnet": str(node.pods), "gateway": str(node.gateway)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": topology.name, "plugins": [bridge, portmap]}


def _kubelet(topology: Topology, node: ClusterNode, places: ClusterFolders) -> dict[str, Any]:
    pki = places.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(node.ip),
        "healthzBindAddress": "127.0.0.1",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"{node.space}-kubelet-serving.crt"),
        "tlsPrivateKeyFile": str(pki / f"{node.space}-kubelet-serving.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{topology.cgroup}/{node.space}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [str(topology.dns_ip)],
        "clusterDomain": "cluster.local",
        "resolvConf": str(places.space(node.space) / "config/resolv.conf"),
        # bench.agent reads logs of half a GiB, which would be cut while they are written.
        "containerLogMaxSize": "1Gi",
        "maxPods": 250,
        "podPidsLimit": 4096,
        "serializeImagePulls": False,
        "maxParallelImagePulls": 4,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        # Other programs use the machine's disk and memory too. A full disk must not evict pods.
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "staticPodPath": "",
        "logging": {"verbosity": 1},
        "featureGates": {},
    }
