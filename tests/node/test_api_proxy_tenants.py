"""Thirty tenants behind one node port, while tenants come and go and the proxy is replaced.

Each tenant has its own etcd, API server and controller-manager. Together they need 12 GB of memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.node.conftest import COMPONENTS, SuperClusterAdmin
from tests.support import node_objects
from tests.support.kubectl import KubectlRunner, until
from tools.testbed import chart
from tools.testbed.progress import StepPrinter

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(3600)]

COUNT = 30
PORT = 30444
TOGETHER = 3
"""Tenants that are created at once. On two processors, more of them start too slowly."""
READY_SECONDS = 600
PROXY = "deployment/api-proxy"


def build_cluster(name: str) -> dict[str, object]:
    """Return a VirtualCluster with a host name."""
    return {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "clusterVersionName": "v1.36",
            "dns": "none",
            "metrics": "none",
            "endpoint": {"hostname": f"{name}.example.com"},
        },
    }


@dataclass(kw_only=True)
class ProxiedTenants:
    """Tenants whose kubeconfigs name the proxy."""

    super_cluster: SuperClusterAdmin
    address: str
    folder: Path
    tenants: dict[str, KubectlRunner] = field(default_factory=dict)

    def add(self, names: Sequence[str]) -> None:
        """Create tenants, and wait until each answers by the proxy."""
        for begin in range(0, len(names), TOGETHER):
            some = names[begin : begin + TOGETHER]
            for name in some:
                self.super_cluster.kubectl.apply(build_cluster(name))
            for name in some:
                ready = (f"virtualcluster/{name}", "--for=condition=Ready")
                self.super_cluster.kubectl.run(
                    "wait", *ready, f"--timeout={READY_SECONDS}s", timeout=READY_SECONDS + 10
                )
                self.tenants[name] = self._connect(name)
            print(f"{begin + len(some)} of {len(names)} tenants answer by the proxy", flush=True)

    def remove(self, name: str) -> None:
        """Delete a tenant."""
        del self.tenants[name]
        self.super_cluster.kubectl.run("delete", "virtualcluster", name, timeout=300)

    def _connect(self, name: str) -> KubectlRunner:
        file = self.folder / name

        def is_written() -> bool:
            self.super_cluster.kubectl.run("vc", "kubeconfig", name, "-o", str(file), "--force")
            return f"https://{self.address}:{PORT}" in file.read_text()

        until(is_written, f"a kubeconfig of {name} with the proxy")
        kubectl = KubectlRunner(kubeconfig=file, path=self.super_cluster.kubectl.path)
        until(lambda: kubectl.call("get", "--raw", "/readyz").code == 0, f"{name} by the proxy")
        return kubectl

    def ask_all(self, *without: str) -> list[str]:
        """Ask each tenant once. Returns the errors."""
        asked = [each for name, each in list(self.tenants.items()) if name not in without]
        with ThreadPoolExecutor(4) as pool:
            calls = list(pool.map(lambda each: each.call("get", "--raw", "/version"), asked))
        return [call.err for call in calls if call.code != 0]


@pytest.fixture(scope="module")
def proxied(
    super_cluster: SuperClusterAdmin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProxiedTenants]:
    """Have the proxy and thirty tenants."""
    addresses = super_cluster.kubectl.items("nodes")[0]["status"]["addresses"]
    address = next(each["address"] for each in addresses if each["type"] == "InternalIP")
    values = (
        "apiProxy.enabled=true",
        f"apiProxy.service.type=NodePort,apiProxy.service.nodePort={PORT}",
        f"apiProxy.address={address}",
    )
    found = ProxiedTenants(
        super_cluster=super_cluster, address=address, folder=tmp_path_factory.mktemp("proxied")
    )
    try:
        chart.install(
            super_cluster.cluster, StepPrinter(), values=(*chart.KUBELET_UPSTREAM, *values)
        )
        found.add([f"t{number}" for number in range(COUNT)])
        yield found
    finally:
        for name in list(found.tenants):
            super_cluster.kubectl.run("delete", "virtualcluster", name, "--wait=false")
        chart.install(
            super_cluster.cluster,
            StepPrinter(),
            values=(*chart.KUBELET_UPSTREAM, "apiProxy.enabled=false"),
        )


def test_each_of_thirty_tenants_answers_by_one_port(proxied: ProxiedTenants):
    uids = {
        each.get("namespace", "kube-system")["metadata"]["uid"] for each in proxied.tenants.values()
    }
    assert len(uids) == COUNT
    servers = set()
    for each in proxied.tenants.values():
        config = json.loads(each.run("config", "view", "--raw", "-o", "json"))
        servers.add(config["clusters"][0]["cluster"]["server"])
    assert servers == {f"https://{proxied.address}:{PORT}"}


def test_no_request_fails_while_tenants_come_and_go_and_both_replicas_are_replaced(
    proxied: ProxiedTenants,
):
    super_kubectl = proxied.super_cluster.kubectl
    talker, watcher = proxied.tenants["t0"], proxied.tenants["t1"]
    talker.apply(node_objects.sleeper("talker"))
    talker.run("wait", "--for=condition=Ready", "pod/talker", "--timeout=180s", timeout=190)
    rounds, failed = 0, []
    with (
        talker.running("exec", "-i", "talker", "--", "sh", "-c", "read w; echo got $w") as command,
        watcher.running("get", "configmaps", "-w", "-o", "name") as watch,
        ThreadPoolExecutor(2) as pool,
    ):
        assert command.stdin is not None
        assert command.stdout is not None
        assert watch.stdout is not None
        assert watch.stdout.readline().startswith("configmap/")
        gone = pool.submit(proxied.remove, "t2")
        added = pool.submit(proxied.add, ["late"])
        super_kubectl.run("-n", COMPONENTS, "rollout", "restart", PROXY)
        words = ("-n", COMPONENTS, "rollout", "status", PROXY, "--watch=false")
        while not (gone.done() and added.done() and "successfully" in super_kubectl.run(*words)):
            rounds += 1
            failed += proxied.ask_all("t2", "late")
        for each in (gone, added):
            each.result()
        command.stdin.write("again\n")
        command.stdin.flush()
        assert command.stdout.readline() == "got again\n"
        watcher.run("create", "configmap", "late")
        assert any(line == "configmap/late\n" for line in iter(watch.stdout.readline, ""))
    print(f"{rounds} rounds of {COUNT - 1} requests, {len(failed)} failed")
    assert rounds > 0
    assert failed == []
