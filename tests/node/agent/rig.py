"""vn-agent alone between a real tenant apiserver and a real kubelet.

The syncer's part is done by hand: pods are made in the super cluster with the ownership record, and
the tenant has its own pod and a node whose address is the agent's. So every byte goes the real way,
kubectl, apiserver, agent, kubelet, containerd, and what fails here fails for tenants.
"""

import asyncio
import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tenancy import marks, names, switches
from tenancy.switches import Call, Switches
from tests.node.kubectl import Kubectl, until
from tests.support.controlplane import ControlPlane
from tests.support.processes import Process, free_port
from vcmanager.pki.authority import Pair, Subject, make_authority, make_leaf
from vnagent.access import ACCESS

SPACE = "agent-test"
"""Super namespace of the agent's account."""
YEAR = timedelta(days=365)
NODE = "virtual"
SLEEPER = "trap 'exit 0' TERM; while :; do sleep 0.2; done"


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A tenant apiserver whose kubelet calls go to the agent."""

    kubectl: Kubectl
    vc_uid: str
    root: str
    identity: Path
    """Folder with `client.crt` and `client.key`, the apiserver's identity towards agents."""

    def super_namespace(self, namespace: str = "default") -> str:
        return names.super_namespace(self.root, self.vc_uid, namespace)


@dataclass(frozen=True, kw_only=True)
class Rig:
    """Everything around the agent."""

    super_kubectl: Kubectl
    folder: Path
    client_authority: Pair
    serving_authority: Pair
    agent: Process
    port: int
    health_port: int
    node: str
    node_ip: str
    tenant: Tenant
    other: Tenant
    virtual: str = NODE
    """The tenants' name of the node."""

    def place(self, tenant: Tenant, pod: dict[str, Any], **record: str) -> None:
        """Do the syncer's work: the super pod with its record, and the tenant's own pod."""
        name = pod["metadata"]["name"]
        containers = [c["name"] for c in pod["spec"]["containers"]]
        annotations = {
            marks.CLUSTER: tenant.root,
            marks.VC_UID: tenant.vc_uid,
            marks.UID: str(uuid.uuid4()),
            marks.NAMESPACE: "default",
            marks.CONTAINERS: ",".join(containers),
            **record,
        }
        labels = pod["metadata"].get("labels", {})
        twin = {**pod, "metadata": {"name": name, "namespace": "default", "labels": labels}}
        twin["spec"] = {**pod["spec"], "nodeName": self.virtual}
        tenant.kubectl.apply(twin)
        tenant.kubectl.run(
            *("patch", "pod", name, "--subresource=status", "--type=merge"),
            *("-p", '{"status": {"phase": "Running"}}'),
        )
        space = {"name": name, "namespace": tenant.super_namespace(), "annotations": annotations}
        space["labels"] = labels
        spec = {**pod["spec"], "nodeName": self.node, "automountServiceAccountToken": False}
        self.super_kubectl.apply({**pod, "metadata": space, "spec": spec})

    def wait(self, tenant: Tenant, name: str, phase: str = "Running") -> dict[str, Any]:
        """Wait for a super pod's phase, and return the pod."""

        def look() -> dict[str, Any] | None:
            found = self.super_kubectl.get("pod", name, "-n", tenant.super_namespace())
            return found if found["status"]["phase"] == phase else None

        return until(look, f"{name} is {phase}")

    def curl(self, path: str, *options: str, tenant: Tenant | None = None) -> tuple[int, str]:
        """Ask the agent directly, as a tenant; returns status (0: no answer) and body."""
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

    def permit(self, *off: Call) -> None:
        """Do vc-manager's work: switch calls of the first tenant off, and all others on."""
        everything = frozenset(Call)
        policies = {"baseline": everything, "shops": everything - set(off)}
        tenants = {self.tenant.vc_uid: "shops", self.other.vc_uid: "baseline"}
        metadata = {"name": marks.AGENT_ACCESS, "namespace": SPACE}
        data = {switches.DOCUMENT: switches.write(Switches(policies, tenants))}
        self.super_kubectl.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        )

    def audit(self) -> list[dict[str, Any]]:
        """What the agent has recorded."""
        lines = self.agent.log.read_text().splitlines()
        return [line for text in lines if (line := json.loads(text))["event"] == "session"]

    def metric(self, name: str) -> float:
        """The sum of a metric's series."""
        url = f"http://127.0.0.1:{self.health_port}/metrics"
        text = urllib.request.urlopen(url, timeout=5).read().decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, found))


def write(path: Path, content: bytes) -> Path:
    """Write a file that only its owner may read, and return its path."""
    path.write_bytes(content)
    path.chmod(0o600)
    return path


@contextmanager
def running(below: Kubectl, folder: Path) -> Iterator[Rig]:
    """Have an agent of the first node on the host, and two tenants, for the length of a block."""
    now = datetime.now(UTC)
    clients = make_authority("vn-agent-client", now=now)
    servers = make_authority("vn-agent-serving", now=now)
    node = min(below.items("nodes"), key=lambda item: item["metadata"]["name"])
    addresses = {a["type"]: a["address"] for a in node["status"]["addresses"]}
    host = address_toward(addresses["InternalIP"])
    serving = make_leaf(
        servers,
        Subject(
            common_name="vn-agent", addresses=("127.0.0.1", host), usages=frozenset({"server"})
        ),
        lifetime=YEAR,
        now=now,
    )
    write(folder / "client-ca.crt", clients.certificate)
    write(folder / "serving-ca.crt", servers.certificate)
    write(folder / "serving.crt", serving.certificate)
    write(folder / "serving.key", serving.key)
    _make_account(below, folder)
    port, health_port = free_port(), free_port()
    agent = start_agent(
        *(folder, addresses["InternalIP"], port, health_port),
        *(f"--node-name={node['metadata']['name']}", *api_flags(below)),
    )
    planes: list[ControlPlane] = []
    tenants: list[Tenant] = []
    try:
        for name in ("one", "two"):
            tenant, plane = _make_tenant(name, folder, below, clients, (host, port))
            planes.append(plane)
            tenants.append(tenant)
        rig = Rig(
            super_kubectl=below,
            folder=folder,
            client_authority=clients,
            serving_authority=servers,
            agent=agent,
            port=port,
            health_port=health_port,
            node=node["metadata"]["name"],
            node_ip=addresses["InternalIP"],
            tenant=tenants[0],
            other=tenants[1],
        )
        rig.permit()
        until(lambda: is_ready(health_port), "the agent is ready")
        yield rig
    finally:
        for plane in planes:
            asyncio.run(plane.stop())
        asyncio.run(agent.stop())
        for tenant in tenants:
            below.run("delete", "namespace", tenant.super_namespace(), "--wait=false")
        below.run("delete", "clusterrole,clusterrolebinding", SPACE)
        below.run("delete", "namespace", SPACE)  # waits: its name is used again


def address_toward(peer: str) -> str:
    """Return the machine's own address on the way to a peer.

    A tenant's API server proxies to no node whose address is loopback's.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, 9))  # sends nothing
        return str(probe.getsockname()[0])


def is_ready(health_port: int) -> bool:
    try:
        url = f"http://127.0.0.1:{health_port}/readyz"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except urllib.error.URLError:
        return False


def _make_account(below: Kubectl, folder: Path) -> None:
    """Make the agent's account as the chart does, and a token of it."""
    subject = {"kind": "ServiceAccount", "name": "agent", "namespace": SPACE}
    below.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "agent", "namespace": SPACE},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": SPACE},
            "rules": [
                {
                    "apiGroups": [row.group],
                    "resources": list(row.resources),
                    "verbs": list(row.verbs),
                }
                for row in ACCESS
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": SPACE},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": SPACE,
            },
            "subjects": [subject],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": SPACE, "namespace": SPACE},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": [marks.AGENT_ACCESS],
                    "verbs": ["get", "watch"],
                }
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": SPACE, "namespace": SPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": SPACE},
            "subjects": [subject],
        },
    )
    token = below.run("create", "token", "agent", "-n", SPACE, "--duration=2h")
    write(folder / "token", token.encode())
    roots = below.get("configmap", "kube-root-ca.crt", "-n", "default")
    write(folder / "kubelet-ca.crt", roots["data"]["ca.crt"].encode())


def api_flags(below: Kubectl) -> list[str]:
    """Say where the super API server is, as the kubelet does in a pod's environment."""
    config = yaml.safe_load(below.kubeconfig.read_text())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    return [f"--api-host={server.hostname}", f"--api-port={server.port or 443}"]


def start_agent(
    folder: Path, kubelet: str, port: int, health_port: int, *more: str, log: str = "agent.log"
) -> Process:
    options = {
        "pod-name": "vn-agent-test",
        "pod-ip": "127.0.0.1",
        "listen-host": "0.0.0.0",  # noqa: S104 - loopback for curl, the other for API servers
        "port": port,
        "health-port": health_port,
        "client-ca-file": folder / "client-ca.crt",
        "kubelet-host": kubelet,
        "kubelet-ca-file": folder / "kubelet-ca.crt",
        "token-file": folder / "token",
        "pod-namespace": SPACE,
        "api-ca-file": folder / "kubelet-ca.crt",
        "tls-cert-file": folder / "serving.crt",
        "tls-private-key-file": folder / "serving.key",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return Process([sys.executable, "-m", "vnagent", *flags, *more], folder / log)


def _make_tenant(
    name: str, folder: Path, below: Kubectl, clients: Pair, agent: tuple[str, int]
) -> tuple[Tenant, ControlPlane]:
    host, port = agent
    now = datetime.now(UTC)
    vc_uid = str(uuid.uuid4())
    root = names.root_namespace("default", name, vc_uid)
    identity = folder / name
    identity.mkdir()
    leaf = make_leaf(
        clients,
        Subject(
            common_name="kube-apiserver-kubelet-client",
            uris=(f"vc://{vc_uid}/{root}",),
            usages=frozenset({"client"}),
        ),
        lifetime=YEAR,
        now=now,
    )
    arguments = {
        "kubelet-client-certificate": str(write(identity / "client.crt", leaf.certificate)),
        "kubelet-client-key": str(write(identity / "client.key", leaf.key)),
        "kubelet-certificate-authority": str(folder / "serving-ca.crt"),
        "kubelet-preferred-address-types": f"{marks.AGENT_ADDRESS},InternalIP",
    }
    plane = ControlPlane(folder / f"{name}-plane", name=name, api_args=arguments)
    asyncio.run(plane.start())
    kubeconfig = write(identity / "kubeconfig", plane.kubeconfig())
    tenant = Tenant(
        kubectl=Kubectl(kubeconfig=kubeconfig, path=below.path),
        vc_uid=vc_uid,
        root=root,
        identity=identity,
    )
    space = tenant.super_namespace()
    below.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    tenant.kubectl.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    addresses = [
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": marks.AGENT_ADDRESS, "address": host},
    ]
    patch_node(tenant, addresses=addresses, daemonEndpoints={"kubeletEndpoint": {"Port": port}})
    return tenant, plane


def patch_node(tenant: Tenant, node: str = NODE, **status: Any) -> None:
    """Change the status of a node of the tenant's."""
    tenant.kubectl.run(
        *("patch", "node", node, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )
