"""An agent as a program of the host, in front of one node of a real super cluster.

Does what the chart, vc-manager and the syncer do for an agent: its account, its certificates, the
switches of policies, and the record on a tenant's pods. Knows no API servers of tenants.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tenancy import agent_permissions, names, wellknown
from tenancy.agent_permissions import AgentPermissions
from tests.support import grants
from tests.support.kubectl import KubectlRunner
from tests.support.processes import ProgramProcess, free_port
from vcmanager.pki.authority import CertificateSubject, KeyPair, make_authority, make_leaf
from vnagent.rbac import RBAC_RULES

SPACE = "agent-test"
"""Super namespace of the agent's account."""
YEAR = timedelta(days=365)


@dataclass(frozen=True, kw_only=True)
class AgentCaller:
    """A tenant as agents know it."""

    vc_uid: str
    root: str
    identity: Path
    """Folder with `client.crt` and `client.key`, its API server's identity towards agents."""

    def super_namespace(self, namespace: str = "default") -> str:
        """Return where the pods of one of its namespaces are."""
        return names.build_super_namespace(self.root, self.vc_uid, namespace)


@dataclass(frozen=True, kw_only=True)
class AgentUnderTest:
    """The agent, and its trusted authorities."""

    super_kubectl: KubectlRunner
    folder: Path
    client_authority: KeyPair
    serving_authority: KeyPair
    process: ProgramProcess
    host: str
    """The machine's address towards the node, on which the agent can be reached as on loopback."""
    port: int
    health_port: int
    node: str
    node_ip: str

    def caller(self, name: str) -> AgentCaller:
        """Make the identity of a new tenant, and its super namespace."""
        vc_uid = str(uuid.uuid4())
        root = names.build_root_namespace("default", name, vc_uid)
        subject = CertificateSubject(
            common_name="kube-apiserver-kubelet-client",
            uris=(f"vc://{vc_uid}/{root}",),
            usages=frozenset({"client"}),
        )
        leaf = make_leaf(self.client_authority, subject, lifetime=YEAR, now=datetime.now(UTC))
        identity = self.folder / name
        identity.mkdir()
        write(identity / "client.crt", leaf.certificate)
        write(identity / "client.key", leaf.key)
        caller = AgentCaller(vc_uid=vc_uid, root=root, identity=identity)
        metadata = {"name": caller.super_namespace(), "labels": {"made-for": SPACE}}
        self.super_kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return caller


def write(path: Path, content: bytes) -> Path:
    """Write a file that only its owner may read, and return its path."""
    path.write_bytes(content)
    path.chmod(0o600)
    return path


@contextmanager
def running(
    below: KubectlRunner, folder: Path, python: Sequence[str] = (sys.executable,), *flags: str
) -> Iterator[AgentUnderTest]:
    """Have an agent of the first node on the host for the length of a block, with more flags.

    It listens once `permit` was called. The namespaces of callers are deleted at the end.
    """
    now = datetime.now(UTC)
    clients = make_authority("vn-agent-client", now=now)
    servers = make_authority("vn-agent-serving", now=now)
    node = min(below.items("nodes"), key=lambda item: item["metadata"]["name"])
    addresses = {a["type"]: a["address"] for a in node["status"]["addresses"]}
    host = address_toward(addresses["InternalIP"])
    serving = make_leaf(
        servers,
        CertificateSubject(
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
    process = start_agent(
        *(folder, addresses["InternalIP"], port, health_port),
        *(f"--node-name={node['metadata']['name']}", *api_flags(below), *flags),
        python=python,
    )
    try:
        yield AgentUnderTest(
            super_kubectl=below,
            folder=folder,
            client_authority=clients,
            serving_authority=servers,
            process=process,
            host=host,
            port=port,
            health_port=health_port,
            node=node["metadata"]["name"],
            node_ip=addresses["InternalIP"],
        )
    finally:
        asyncio.run(process.stop())
        below.run("delete", "namespace", "-l", f"made-for={SPACE}", "--wait=false")
        below.run("delete", "clusterrole,clusterrolebinding", SPACE)
        below.run("delete", "namespace", SPACE)  # waits: its name is used again


def permit(below: KubectlRunner, told: AgentPermissions) -> None:
    """Write the agents' permissions of each tenant, as vc-manager does."""
    metadata = {"name": wellknown.AGENT_ACCESS, "namespace": SPACE}
    data = {agent_permissions.DOCUMENT_KEY: agent_permissions.encode_permissions(told)}
    below.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def recorded(pod: dict[str, Any], caller: AgentCaller, node: str, **record: str) -> dict[str, Any]:
    """Do the syncer's work: return the super pod of a tenant's, on a node and with its record."""
    annotations = {
        wellknown.CLUSTER: caller.root,
        wellknown.VC_UID: caller.vc_uid,
        wellknown.UID: str(uuid.uuid4()),
        wellknown.NAMESPACE: "default",
        wellknown.CONTAINERS: ",".join(c["name"] for c in pod["spec"]["containers"]),
        **record,
    }
    metadata = {
        "name": pod["metadata"]["name"],
        "namespace": caller.super_namespace(),
        "annotations": annotations,
        "labels": pod["metadata"].get("labels", {}),
    }
    spec = {**pod["spec"], "nodeName": node, "automountServiceAccountToken": False}
    return {**pod, "metadata": metadata, "spec": spec}


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
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False


def api_flags(below: KubectlRunner) -> list[str]:
    """Set the address of the super API server, as the kubelet does in a pod's environment."""
    config = yaml.safe_load(below.kubeconfig.read_text())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    return [f"--api-host={server.hostname}", f"--api-port={server.port or 443}"]


def start_agent(
    folder: Path,
    kubelet: str,
    port: int,
    health_port: int,
    *more: str,
    log: str = "agent.log",
    python: Sequence[str] = (sys.executable,),
) -> ProgramProcess:
    options = {
        "pod-name": "vn-agent-test",
        "pod-ip": "127.0.0.1",
        "listen-host": "0.0.0.0",  # noqa: S104 - loopback for curl, the other for API servers
        "port": port,
        "health-port": health_port,
        "metrics-port": 0,
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
    return ProgramProcess([*python, "-m", "vnagent", *flags, *more], folder / log)


def _make_account(below: KubectlRunner, folder: Path) -> None:
    """Make the agent's account as the chart does, and a token of it."""
    account = grants.build_account("agent", SPACE)
    document = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [wellknown.AGENT_ACCESS],
        "verbs": ["get", "watch"],
    }
    below.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "agent", "namespace": SPACE},
        },
        *grants.build_grant(grants.build_rules(RBAC_RULES), account, name=SPACE),
        *grants.build_grant([document], account, name=SPACE, namespace=SPACE),
    )
    token = below.run("create", "token", "agent", "-n", SPACE, "--duration=2h")
    write(folder / "token", token.encode())
    roots = below.get("configmap", "kube-root-ca.crt", "-n", "default")
    write(folder / "kubelet-ca.crt", roots["data"]["ca.crt"].encode())
