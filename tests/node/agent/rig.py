"""vn-agent alone between a real tenant apiserver and a real kubelet.

The syncer's part is done by hand: pods are made in the super cluster with the ownership record, and
the tenant has its own pod and a node whose address is the agent's. So every byte goes the real way,
kubectl, apiserver, agent, kubelet, containerd, and what fails here fails for tenants.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenancy import wellknown
from tenancy.agent_permissions import AgentPermissions, KubeletCall
from tests.support import agents
from tests.support.agents import AgentCaller, AgentUnderTest, is_ready, write
from tests.support.controlplane import LocalControlPlane
from tests.support.kubectl import KubectlRunner, until
from tests.support.processes import ProgramProcess
from vcmanager.pki.authority import KeyPair

NODE = "virtual"
SLEEPER = "trap 'exit 0' TERM; while :; do sleep 0.2; done"
LISTS = "cd /proc; for p in [0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null"
"""Prints the command line of each process of a container."""


@dataclass(frozen=True, kw_only=True)
class AgentTenant(AgentCaller):
    """A tenant apiserver whose kubelet calls go to the agent."""

    kubectl: KubectlRunner


@dataclass(frozen=True, kw_only=True)
class AgentRig:
    """Everything around the agent."""

    super_kubectl: KubectlRunner
    folder: Path
    client_authority: KeyPair
    serving_authority: KeyPair
    agent: ProgramProcess
    port: int
    health_port: int
    node: str
    node_ip: str
    tenant: AgentTenant
    other: AgentTenant
    virtual: str = NODE
    """The tenants' name of the node."""

    def place(self, tenant: AgentTenant, pod: dict[str, Any], **record: str) -> None:
        """Do the syncer's work: the super pod with its record, and the tenant's own pod."""
        name = pod["metadata"]["name"]
        labels = pod["metadata"].get("labels", {})
        twin = {**pod, "metadata": {"name": name, "namespace": "default", "labels": labels}}
        twin["spec"] = {**pod["spec"], "nodeName": self.virtual}
        tenant.kubectl.apply(twin)
        tenant.kubectl.run(
            *("patch", "pod", name, "--subresource=status", "--type=merge"),
            *("-p", '{"status": {"phase": "Running"}}'),
        )
        self.super_kubectl.apply(agents.recorded(pod, tenant, self.node, **record))

    def wait(self, tenant: AgentTenant, name: str, phase: str = "Running") -> dict[str, Any]:
        """Wait for a super pod's phase, and return the pod."""

        def look() -> dict[str, Any] | None:
            found = self.super_kubectl.get("pod", name, "-n", tenant.super_namespace())
            return found if found["status"]["phase"] == phase else None

        return until(look, f"{name} is {phase}")

    def wait_for_restart(self, tenant: AgentTenant, name: str) -> dict[str, Any]:
        """Wait until a super pod's container `main` runs for the second time. Return the pod."""

        def look() -> dict[str, Any] | None:
            pod = self.wait(tenant, name)
            main = next(c for c in pod["status"]["containerStatuses"] if c["name"] == "main")
            return pod if main["restartCount"] == 1 and main["state"].get("running") else None

        return until(look, f"{name} has restarted")

    def curl(self, path: str, *options: str, tenant: AgentTenant | None = None) -> tuple[int, str]:
        """Ask the agent directly, as a tenant. Returns status (0: no answer) and body."""
        identity = (tenant or self.tenant).identity
        done = subprocess.run(
            ["curl", "--silent", "--max-time", "20", "--path-as-is", "--http1.1"]
            + ["--cert", str(identity / "client.crt"), "--key", str(identity / "client.key")]
            + ["--cacert", str(self.folder / "serving-ca.crt"), "--write-out", "\n%{http_code}"]
            + [*options, f"https://127.0.0.1:{self.port}{path}"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        body, _, status = done.stdout.rpartition("\n")
        return int(status or 0), body

    def permit(self, *off: KubeletCall) -> None:
        """Do vc-manager's work: switch calls of the first tenant off, and all others on."""
        everything = frozenset(KubeletCall)
        policies = {"baseline": everything, "shops": everything - set(off)}
        tenants = {self.tenant.vc_uid: "shops", self.other.vc_uid: "baseline"}
        agents.permit(self.super_kubectl, AgentPermissions(policies, tenants))

    def audit(self) -> list[dict[str, Any]]:
        """The audit lines of the agent."""
        return [line for line in self._logged() if line["event"] == "session"]

    def descriptors(self) -> int:
        """Count what the agent has open."""
        return len(list(Path(f"/proc/{self.agent.pid}/fd").iterdir()))

    def tasks(self) -> dict[str, int]:
        """Return where the agent's tasks wait, and how many there, by its own word."""

        def told() -> list[dict[str, int]]:
            return [line["found"] for line in self._logged() if line.get("source") == "tasks"]

        known = len(told())
        os.kill(self.agent.pid, signal.SIGUSR1)
        return until(lambda: told()[known:], "the agent tells its tasks")[0]

    def _logged(self) -> list[dict[str, Any]]:
        """Return the lines of its log. The last one may be half written."""
        lines = self.agent.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def metric(self, name: str) -> float:
        """The sum of a metric's series."""
        url = f"http://127.0.0.1:{self.health_port}/metrics"
        text = urllib.request.urlopen(url, timeout=5).read().decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, found))


@contextmanager
def running(below: KubectlRunner, folder: Path) -> Iterator[AgentRig]:
    """Have an agent of the first node on the host, and two tenants, for the length of a block."""
    planes: list[LocalControlPlane] = []
    tenants: list[AgentTenant] = []
    with agents.running(below, folder) as agent:
        try:
            for name in ("one", "two"):
                tenant, plane = _make_tenant(name, agent)
                planes.append(plane)
                tenants.append(tenant)
            rig = AgentRig(
                super_kubectl=below,
                folder=folder,
                client_authority=agent.client_authority,
                serving_authority=agent.serving_authority,
                agent=agent.process,
                port=agent.port,
                health_port=agent.health_port,
                node=agent.node,
                node_ip=agent.node_ip,
                tenant=tenants[0],
                other=tenants[1],
            )
            rig.permit()
            until(lambda: is_ready(agent.health_port), "the agent is ready")
            yield rig
        finally:
            for plane in planes:
                asyncio.run(plane.stop())


def _make_tenant(name: str, agent: AgentUnderTest) -> tuple[AgentTenant, LocalControlPlane]:
    caller = agent.caller(name)
    arguments = {
        "kubelet-client-certificate": str(caller.identity / "client.crt"),
        "kubelet-client-key": str(caller.identity / "client.key"),
        "kubelet-certificate-authority": str(agent.folder / "serving-ca.crt"),
        "kubelet-preferred-address-types": f"{wellknown.AGENT_ADDRESS},InternalIP",
    }
    plane = LocalControlPlane(agent.folder / f"{name}-plane", name=name, api_args=arguments)
    asyncio.run(plane.start())
    kubeconfig = write(caller.identity / "kubeconfig", plane.kubeconfig())
    tenant = AgentTenant(
        kubectl=KubectlRunner(kubeconfig=kubeconfig, path=agent.super_kubectl.path),
        vc_uid=caller.vc_uid,
        root=caller.root,
        identity=caller.identity,
    )
    tenant.kubectl.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    addresses = [
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": wellknown.AGENT_ADDRESS, "address": agent.host},
    ]
    patch_node(
        tenant, addresses=addresses, daemonEndpoints={"kubeletEndpoint": {"Port": agent.port}}
    )
    return tenant, plane


def patch_node(tenant: AgentTenant, node: str = NODE, **status: Any) -> None:
    """Change the status of a node of the tenant's."""
    tenant.kubectl.run(
        *("patch", "node", node, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )
