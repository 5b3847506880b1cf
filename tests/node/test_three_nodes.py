"""A tenant with three replicas on three nodes: nothing that happens to one of them is noticed.

Has a cluster of its own. A client reads and writes an object of the tenant ten times a second all
the time, and tries a refused connection once more, as clients do.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import tempfile
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.node.conftest import SuperClusterAdmin, TenantAdmin, created, running
from tests.support.kubectl import until
from tools.testbed.cluster.handle import ClusterHandle

pytestmark = [pytest.mark.slow, pytest.mark.node, pytest.mark.timeout(1800)]

NAME, COUNTER = "replicated", "counter"
PAUSE = 0.1


def cluster_version(minor: str, replicas: int, suffix: str = "", **spec: Any) -> dict[str, Any]:
    """Return a ClusterVersion of the short form."""
    return {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "ClusterVersion",
        "metadata": {"name": f"v{minor}-{replicas}{suffix}"},
        "spec": {
            "kubernetesVersion": minor,
            "replicas": replicas,
            "serviceType": "NodePort",
            **spec,
        },
    }


ENCRYPTED = "-encrypted"
SECRETBOX = {"provider": "secretbox"}


@dataclass
class SteadyClient:
    """Reads and writes a ConfigMap, each time on a new connection. Retries nothing else."""

    kubeconfig: Path
    phase: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    longest: dict[str, float] = field(default_factory=dict)
    """Longest time in seconds between two answers, by phase."""
    _stops: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._address = urlsplit(cluster["server"])
        self._name = cluster.get("tls-server-name", "")
        authority = b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as pair:
            for key in ("client-certificate-data", "client-key-data"):
                pair.write(b64decode(user[key]) + b"\n")
            pair.flush()
            self._context.load_cert_chain(pair.name)

    def _run(self) -> None:
        answered = time.monotonic()
        while not self._stops.is_set():
            phase = self.phase
            self.asked[phase] += 1
            if self._ask("GET", phase) and self._ask("PATCH", phase):
                now = time.monotonic()
                self.longest[phase] = max(self.longest.get(phase, 0.0), now - answered)
                answered = now
            time.sleep(PAUSE)

    def _ask(self, method: str, phase: str) -> bool:
        try:
            try:
                problem = self._send(method)
            except ConnectionRefusedError:
                problem = self._send(method)
        except (OSError, http.client.HTTPException) as failure:
            problem = repr(failure)
        if problem:
            self.failed.append(f"{phase}: {method}: {problem}")
        return not problem

    def _send(self, method: str) -> str:
        """Send one request. Returns what was wrong with the answer."""
        host, port = str(self._address.hostname), self._address.port or 443
        connection = http.client.HTTPConnection(host, port)
        with contextlib.closing(connection):
            plain = socket.create_connection((host, port), timeout=10)
            connection.sock = self._context.wrap_socket(plain, server_hostname=self._name or host)
            body = None
            if method == "PATCH":
                body = json.dumps({"data": {"count": str(time.time())}})
            headers = {"Content-Type": "application/merge-patch+json"}
            path = f"/api/v1/namespaces/default/configmaps/{COUNTER}"
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            said = answer.read().decode()
            return "" if answer.status == 200 else f"{answer.status} {said}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Ask for the length of a block."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._stops.set()
            thread.join(timeout=60)


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[SuperClusterAdmin]:
    with running(ClusterHandle("three", nodes=3)) as found:
        found.publish_minors()
        found.kubectl.apply(
            cluster_version("1.35", 1), cluster_version("1.35", 3), cluster_version("1.36", 3)
        )
        yield found


def use(admin: SuperClusterAdmin, version: str) -> None:
    """Give the tenant another ClusterVersion."""
    patch = f'{{"spec": {{"clusterVersionName": "{version}"}}}}'
    admin.kubectl.run("patch", "virtualcluster", NAME, "--type=merge", "-p", patch)


def settle(admin: SuperClusterAdmin, tenant: TenantAdmin, replicas: int, text: str = "") -> None:
    """Wait until the control plane has its replicas, all of one version, and etcd its members.

    The template of the API server must have the text, such as a flag or a part of the image.
    """

    def is_settled() -> bool:
        for name in ("etcd", "apiserver"):
            found = admin.kubectl.get("statefulset", name, "-n", tenant.root)
            status, wanted = found["status"], found["spec"]["replicas"]
            told = (status.get("readyReplicas"), status.get("updatedReplicas"))
            if wanted != replicas or told != (replicas, replicas):
                return False
            if status.get("observedGeneration") != found["metadata"]["generation"]:
                return False
            if name == "apiserver" and text not in str(found["spec"]["template"]):
                return False
        condition = admin.condition(NAME, "EtcdMembersReady") or {}
        return condition.get("status") == "True"

    until(is_settled, f"{replicas} replicas of {text or 'any version'}", 600)


def test_no_request_fails_when_replicas_come_go_change_or_are_lost(
    three_nodes: SuperClusterAdmin, tmp_path: Path
):
    kubectl = three_nodes.kubectl
    tenant = created(three_nodes, tmp_path, NAME, "v1.35-1")
    tenant.kubectl.run("create", "configmap", COUNTER)
    client = SteadyClient(tenant.kubectl.kubeconfig, phase="one to three")
    with client.running():
        use(three_nodes, "v1.35-3")
        settle(three_nodes, tenant, 3)
        nodes = {
            pod["spec"]["nodeName"]
            for pod in kubectl.items("pods", "-n", tenant.root)
            if pod["metadata"]["name"].startswith("etcd-")
        }
        assert len(nodes) == 3

        client.phase = "a lost disk"
        volume = kubectl.get("pod", "etcd-2", "-n", tenant.root)["spec"]["volumes"]
        claim = next(
            each["persistentVolumeClaim"]["claimName"]
            for each in volume
            if "persistentVolumeClaim" in each
        )
        uid = kubectl.get("pod", "etcd-2", "-n", tenant.root)["metadata"]["uid"]
        kubectl.run("-n", tenant.root, "delete", "pvc", claim, "--wait=false")
        kubectl.run("-n", tenant.root, "delete", "pod", "etcd-2", "--wait=false")
        until(
            lambda: kubectl.get("pod", "etcd-2", "-n", tenant.root)["metadata"]["uid"] != uid,
            "another pod etcd-2",
            120,
        )
        settle(three_nodes, tenant, 3)

        client.phase = "a drained node"
        node = kubectl.get("pod", "etcd-1", "-n", tenant.root)["spec"]["nodeName"]
        words = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=240s")
        kubectl.run("drain", node, *words, timeout=250)
        kubectl.run("uncordon", node)
        settle(three_nodes, tenant, 3)

        client.phase = "the next minor"
        use(three_nodes, "v1.36-3")
        settle(three_nodes, tenant, 3, "1.36")

        client.phase = "renewed leaves"
        kubectl.run("vc", "certs", "renew", NAME, "--timeout", "15m", timeout=1000)
        settle(three_nodes, tenant, 3)

        client.phase = "encryption"
        kubectl.apply(cluster_version("1.36", 3, ENCRYPTED, encryption=SECRETBOX))
        use(three_nodes, f"v1.36-3{ENCRYPTED}")
        settle(three_nodes, tenant, 3, "encryption-provider-config")

        client.phase = "three to one"
        kubectl.apply(cluster_version("1.36", 1, ENCRYPTED, encryption=SECRETBOX))
        use(three_nodes, f"v1.36-1{ENCRYPTED}")
        settle(three_nodes, tenant, 1)
    print(f"asked {dict(client.asked)}, longest silence {client.longest}")
    for each in client.failed:
        print(each)
    assert [each for each in client.failed if not each.startswith("three to one")] == []
    assert client.longest["three to one"] < 30
