"""Super cluster by name: start, stop, restart of single components, removal.

Hazard: `up` and `down` must hold the cluster's lock while they work. Otherwise two runs would
change one cluster at the same time.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.testbed import cache, versions
from tools.testbed.artifacts import binaries, content, images, product, registry
from tools.testbed.cluster import addons, controlplane, leftovers, network, node, pki, records
from tools.testbed.cluster.api import KubeApi, wait_for
from tools.testbed.cluster.components import ClusterFolders, ClusterProgram, clusters_folder
from tools.testbed.cluster.control import SupervisorClient
from tools.testbed.cluster.topology import HUB, SLOTS, ClusterNode, Topology
from tools.testbed.errors import TestbedError
from tools.testbed.machine import cgroups, limits, preflight
from tools.testbed.progress import StepPrinter

REPOSITORY = Path(__file__).resolve().parents[3]
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")


class ClusterHandle:
    """One super cluster, identified by its name. The object itself has no state."""

    def __init__(
        self,
        name: str = "super",
        nodes: int = 1,
        minor: str | None = None,
        *,
        enforces: bool | None = None,
    ) -> None:
        """Name a cluster. The number of nodes, the minor and `enforces` take effect at `up`.

        `enforces` is whether NetworkPolicies are enforced. None: if the kernel can.
        """
        if not _NAME.fullmatch(name):
            raise TestbedError(
                f"the cluster name {name!r} is not usable: up to 30 lower-case letters, digits "
                "and dashes, beginning with a letter"
            )
        self.name = name
        self._nodes = nodes
        self._minor = versions.load().minor(minor).minor
        self._enforces = enforces
        self.places = ClusterFolders(clusters_folder() / name)
        self.control = SupervisorClient(self.places.root)

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig, which works from the host."""
        return REPOSITORY / ".testbed" / f"{self.name}.kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Audit log, JSON lines: all writes, and reads of accounts in the namespace vc-manager."""
        return self.places.audit_log

    @property
    def topology(self) -> Topology:
        """Addresses of the cluster. Raises TestbedError if it is not up."""
        record = records.read(self.name)
        if record is None:
            raise TestbedError(f"the cluster {self.name} is not up. Run `up --name {self.name}`")
        return Topology(self.name, record["slot"], record["nodes"])

    @property
    def minor(self) -> str:
        """Kubernetes minor of the running cluster, or of the next `up`."""
        return str((records.read(self.name) or {}).get("minor", self._minor))

    @property
    def enforces(self) -> bool:
        """Whether the nodes of the running cluster enforce NetworkPolicies."""
        return bool((records.read(self.name) or {}).get("enforces", False))

    @property
    def api(self) -> KubeApi:
        """The admin's connection to the API."""
        return KubeApi(self.topology.hub_ip, self.places.pki)

    def is_up(self) -> bool:
        """Return whether a finished `up` is still running."""
        record = records.read(self.name)
        return record is not None and record.get("up", False) and self.control.alive()

    def path(self) -> str:
        """Return a PATH with kubectl of the cluster's version, helm and kubectl-vc in front."""
        folders = [Path(sys.executable).parent, *map(_folder_of, ("kubectl", "helm"))]
        return os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)])

    def environment(self) -> dict[str, str]:
        """Return the environment with which kubectl reaches this cluster.

        With it kubectl writes no files outside of the cache.
        """
        direct = [os.environ.get("NO_PROXY", ""), "10.0.0.0/8"]  # no proxy reaches the cluster
        return {
            "NO_PROXY": ",".join(filter(None, direct)),
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(cache.root() / "kubectl"),
            "PATH": self.path(),
        }

    def up(self, progress: StepPrinter | None = None) -> None:
        """Start the cluster and wait until its nodes are Ready.

        A running cluster stays as it is.
        """
        progress = progress or StepPrinter()
        preflight.check(progress)
        enforces = preflight.decide_enforcement(self._enforces, progress)
        binaries.build(binaries.for_cluster(self._minor), progress)
        stable = product.stable_images(progress)
        template = content.prepare(stable, progress)
        further = images.build_further(progress)
        with cache.locked(f"cluster-{self.name}"):
            if self.is_up():
                if self.minor != self._minor:
                    raise TestbedError(
                        f"the cluster {self.name} is up with Kubernetes {self.minor}. Remove it"
                        f" first, or use another --name for {self._minor}"
                    )
                progress.note(f"the cluster {self.name} is up already")
                registry.publish(further, self.places.registry)
                self._hand_out()  # another checkout may have brought it up
                return
            if self.places.root.exists():
                with progress.step("remove what an unfinished run left"):
                    self._remove()
            strangers = cgroups.processes(f"{cgroups.PREFIX}{self.name}")
            if strangers:
                raise TestbedError(
                    f"a cluster {self.name} of another cache folder is running (processes"
                    f" {sorted(strangers)[:5]}). Remove it, or use another --name"
                )
            topology = self._claim_slot(enforces=enforces)
            limits.lift()
            with progress.step("namespaces, certificates and files"):
                self._prepare(topology)
                registry.publish([*stable, *further], self.places.registry)
            with progress.step("control plane"):
                self._start_control_plane(topology, template)
            with progress.step("nodes Ready"):
                self._start_nodes(topology)
            with progress.step("DNS and storage"):
                addons.wait(self.api, self._diagnosis)
            self._hand_out()
            records.write(self.name, {**(records.read(self.name) or {}), "up": True})

    def down(self, progress: StepPrinter | None = None) -> None:
        """Remove the cluster and everything that it left on the machine."""
        progress = progress or StepPrinter(quiet=True)
        with cache.locked(f"cluster-{self.name}"), progress.step(f"remove cluster {self.name}"):
            self._remove()

    def connect(self, other: ClusterHandle) -> None:
        """Connect this cluster's hub, nodes and pods with those of another running cluster."""
        one, there = self.topology, other.topology
        network.connect_clusters(one, self.pid_of(HUB), there, other.pid_of(HUB))

    def add_node(self, labels: Mapping[str, str], progress: StepPrinter | None = None) -> str:
        """Add a node with these labels. Returns its name when it is Ready."""
        progress = progress or StepPrinter(quiet=True)
        template = content.prepare(product.stable_images(progress), progress)
        with cache.locked(f"cluster-{self.name}"), progress.step("another node"):
            record = records.read(self.name) or {}
            topology = Topology(self.name, self.topology.slot, record["nodes"] + 1)
            one = topology.nodes[-1]
            pki.write_node(topology, one, self.places.pki)
            records.write(self.name, {**record, "nodes": topology.node_count})
            pid = self._make_node(topology, one, self.pid_of(HUB))
            content.give(template, self.places.space(one.space) / "containerd")
            self._start_node(one, ("containerd",))
            socket = Path(f"/proc/{pid}/root{node.CONTAINERD_SOCKET}")
            wait_for("containerd is not up", socket.exists, seconds=30, hint=self._diagnosis)
            self._start_node(one, self._node_programs())
            self._wait_for_nodes(60)
            self._describe(one, labels)
        return one.name

    def stop(self, component: str, grace_seconds: float = 3) -> None:
        """Stop one component. It stays stopped until `start`."""
        self.control.stop(self._component(component).name, grace_seconds)

    def start(self, component: str) -> None:
        """Start a stopped component. Returns without waiting for it."""
        self.control.start(self._component(component))

    def enforce(self, *, wanted: bool) -> None:
        """Begin or end the enforcement of NetworkPolicies on every node.

        Without its program the rules let every packet pass. Raises TestbedError if the cluster came
        up without enforcement.
        """
        if not self.enforces:
            raise TestbedError(
                f"the cluster {self.name} came up without enforcement of NetworkPolicies. Remove it"
                " and start it with `up --enforce`"
            )
        for one in self.topology.nodes:
            name = f"{one.space}/{node.POLICY_CONTROLLER}"
            self.start(name) if wanted else self.stop(name)

    def signal(self, component: str, number: int) -> None:
        """Send a signal to a component, for example SIGKILL or SIGSTOP."""
        self.control.signal(self._component(component).name, number)

    def components(self) -> dict[str, ClusterProgram]:
        """Return all components by name. A node's components are called `node-1/kubelet`."""
        topology, minor = self.topology, self.minor
        found = [
            controlplane.registry(self.places),
            controlplane.etcd(self.places),
            controlplane.apiserver(topology, self.places, minor),
            controlplane.controller_manager(topology, self.places, minor),
            controlplane.scheduler(self.places, minor),
        ]
        for one in topology.nodes:
            found += node.components(topology, one, self.places, minor)
            if self.enforces:
                found.append(node.policy_controller(one, self.places))
        return {component.name: component for component in found}

    def pid_of(self, space: str) -> int:
        """Return the host's process ID of the process with the namespaces of `hub` or `node-N`."""
        spaces = self.control.state()["spaces"]
        if space not in spaces:
            raise TestbedError(f"the cluster {self.name} has no {space}. It has {sorted(spaces)}")
        return self.control.host_pid(spaces[space])

    def wait_until_ready(self, seconds: float = 60) -> None:
        """Wait until the API answers and every node is Ready."""
        self._wait_for_api(seconds)
        self._wait_for_nodes(seconds)

    def _hand_out(self) -> None:
        made = (self.places.pki / "admin.kubeconfig").read_bytes()
        cache.write_atomic(self.kubeconfig, made, 0o600)

    def _component(self, name: str) -> ClusterProgram:
        components = self.components()
        for candidate in (name, f"node-1/{name}"):
            if candidate in components:
                return components[candidate]
        raise TestbedError(
            f"there is no component {name!r}. Known components: {', '.join(components)}"
        )

    def _prepare(self, topology: Topology) -> None:
        cgroups.make(f"{topology.cgroup}/system")
        pki.write_cluster(topology, self.places.pki)
        controlplane.write_configuration(topology, self.places)
        self.control.launch(topology.cgroup)
        hub = self.control.make_space(HUB, topology.name)
        network.connect_hub(topology, hub)
        for one in topology.nodes:
            self._make_node(topology, one, hub)

    def _make_node(self, topology: Topology, one: ClusterNode, hub_pid: int) -> int:
        """Create a node's namespaces and files. Returns the ID of the process that holds them."""
        cgroups.make(f"{topology.cgroup}/{one.space}")
        node.write_configuration(topology, one, self.places, images.PAUSE)
        pid = self.control.make_space(one.space, one.name)
        network.connect_node(topology, one.number, hub_pid, pid)
        return pid

    def _start_node(self, one: ClusterNode, programs: Sequence[str]) -> None:
        components = self.components()
        for program in programs:
            self.control.start(components[f"{one.space}/{program}"])

    def _node_programs(self) -> tuple[str, ...]:
        further = (node.POLICY_CONTROLLER,) if self.enforces else ()
        return ("kubelet", "kube-proxy", *further)

    def _describe(self, one: ClusterNode, labels: Mapping[str, str]) -> None:
        """Set a node's pod range and labels, as a cloud's controllers would."""
        spec = {"podCIDR": str(one.pods), "podCIDRs": [str(one.pods)]}
        body = {"metadata": {"labels": dict(labels)}, "spec": spec}
        self.api.merge(f"/api/v1/nodes/{one.name}", body)

    def _start_control_plane(self, topology: Topology, template: Path) -> None:
        components = self.components()
        for name in ("etcd", "kube-apiserver", "registry"):
            self.control.start(components[name])
        with ThreadPoolExecutor() as pool:
            copies = [
                pool.submit(content.give, template, self.places.space(one.space) / "containerd")
                for one in topology.nodes
            ]
            for copy, one in zip(copies, topology.nodes, strict=True):
                copy.result()
                self._start_node(one, ("containerd",))
        self._wait_for_api(60)
        for name in ("kube-controller-manager", "kube-scheduler"):
            self.control.start(components[name])

    def _start_nodes(self, topology: Topology) -> None:
        for one in topology.nodes:
            self._start_node(one, self._node_programs())
        addons.install(self.api, topology)
        self._wait_for_nodes(60)
        for one in topology.nodes:
            self._describe(one, {})

    def _wait_for_api(self, seconds: float) -> None:
        wait_for("the API is not ready", self.api.is_ready, seconds=seconds, hint=self._diagnosis)

    def _wait_for_nodes(self, seconds: float) -> None:
        wanted = {one.name for one in self.topology.nodes}

        def ready() -> bool:
            found = self.api.get("/api/v1/nodes")["items"]
            return wanted <= {item["metadata"]["name"] for item in found if _is_ready(item)}

        wait_for("the nodes are not Ready", ready, seconds=seconds, hint=self._diagnosis)

    def _diagnosis(self) -> str:
        ended: dict[str, int] = self.control.state()["ended"]
        logs = self.places.logs
        if not ended:
            return f"all programs run. See {logs}"
        lines = []
        for name, status in ended.items():
            log = logs / f"{name.replace('/', '-')}.log"
            tail = log.read_text(errors="replace").strip().splitlines()[-3:]
            lines.append(f"{name} ended with {status}: " + "\n  ".join(tail))
        return "\n".join([*lines, f"see {logs}"])

    def _claim_slot(self, *, enforces: bool) -> Topology:
        with cache.locked("slots"):
            routed = network.host_ranges()
            used = {record["slot"] for record in records.every()}
            for slot in range(SLOTS):
                topology = Topology(self.name, slot, self._nodes)
                if not used:
                    leftovers.note_before()
                if slot not in used and network.is_free(topology, routed):
                    record = {
                        "slot": slot,
                        "nodes": self._nodes,
                        "minor": self._minor,
                        "enforces": enforces,
                        "kubeconfig": str(self.kubeconfig),
                    }
                    records.write(self.name, {**record, "made": time.time()})
                    return topology
        raise TestbedError(
            "no address range is free for another cluster: the host routes parts of 10.0.0.0/8 or"
            " too many clusters are up. Remove one with `down`"
        )

    def _remove(self) -> None:
        record = records.read(self.name)
        self.control.kill()
        slot = -1 if record is None else record["slot"]
        topology = Topology(self.name, slot, 0)
        if record is not None:
            network.disconnect(topology)
        cgroups.kill(topology.cgroup)
        cgroups.remove(topology.cgroup)
        kubeconfigs = {self.kubeconfig}
        if record is not None:
            kubeconfigs.add(Path(record["kubeconfig"]))
        for kubeconfig in kubeconfigs:
            kubeconfig.unlink(missing_ok=True)
        if record is not None:  # the record is last, so that a killed `down` can continue
            for child in self.places.root.iterdir():
                if child.name != records.NAME:
                    cache.remove(child)
        cache.remove(self.places.root)
        if not records.every():
            limits.restore()


def _folder_of(program: str) -> Path:
    return binaries.path(program).parent


def _is_ready(item: dict[str, Any]) -> bool:
    conditions = item.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
