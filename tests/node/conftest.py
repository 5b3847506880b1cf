"""One real super cluster with the chart installed, and tenants in it, for all node tests.

Hazard: the machine holds one cluster at a time. Tests share it, so each test uses names of its own
and puts back what it stopped.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl import KubectlRunner, until
from tools.testbed import chart
from tools.testbed.artifacts import images
from tools.testbed.artifacts.registry import publish
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.progress import StepPrinter

COMPONENTS = "vc-manager"
"""Namespace of our components."""


@dataclass(frozen=True, kw_only=True)
class SuperClusterAdmin:
    """The super cluster, and what its admin does."""

    cluster: ClusterHandle
    kubectl: KubectlRunner

    def curl_from_node(self, node: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run curl in the network of a node. NetworkPolicies never close its own pods to a node."""
        nodes = self.cluster.topology.nodes
        space = next(each.space for each in nodes if each.name == node)
        return subprocess.run(
            ["nsenter", f"--net=/proc/{self.cluster.pid_of(space)}/ns/net", "curl", "--max-time"]
            + ["10", "--silent", "--show-error", *words],
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def without_enforcement(self) -> Iterator[None]:
        """Let all packets pass, as in a cluster whose network plugin ignores NetworkPolicies."""
        was_enforced = self.cluster.enforces
        if was_enforced:
            self.cluster.enforce(wanted=False)
        try:
            yield
        finally:
            if was_enforced:
                self.cluster.enforce(wanted=True)

    def virtual_cluster(self, name: str) -> dict[str, Any]:
        """Return a VirtualCluster."""
        return self.kubectl.get("virtualcluster", name)

    def condition(self, name: str, kind: str) -> dict[str, Any] | None:
        """Return a condition of a VirtualCluster, or None."""
        conditions = self.virtual_cluster(name).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), None)

    def scale(self, deployment: str, replicas: int) -> None:
        """Scale one of our Deployments and wait until it is so."""
        self.kubectl.run(
            "-n", COMPONENTS, "scale", "deployment", deployment, f"--replicas={replicas}"
        )
        until(
            lambda: len(self._pods_of(deployment)) == replicas,
            f"{replicas} pods of {deployment}",
        )
        self.kubectl.run(
            "-n", COMPONENTS, "rollout", "status", f"deployment/{deployment}", timeout=180
        )

    def restart(self, deployment: str) -> None:
        """Stop one of our Deployments whole, then start it."""
        self.scale(deployment, 0)
        self.scale(deployment, 1)

    def audit(self, since: int) -> list[dict[str, Any]]:
        """Return the audit entries written after byte `since`."""
        with self.cluster.audit_log.open("rb") as log:
            log.seek(since)
            return [json.loads(line) for line in log if line.endswith(b"\n")]

    def publish_minors(self) -> None:
        """Push the images of all minors to the cluster's registry."""
        made = images.build_further(StepPrinter(), *images.FURTHER)
        publish(made, self.cluster.places.registry)

    def audit_size(self) -> int:
        """Return the audit log's size in bytes."""
        return self.cluster.audit_log.stat().st_size

    def _pods_of(self, deployment: str) -> list[dict[str, Any]]:
        selector = f"app.kubernetes.io/name={deployment}"
        return self.kubectl.items("pods", "-n", COMPONENTS, "-l", selector)


@dataclass(frozen=True, kw_only=True)
class TenantAdmin:
    """A tenant, and what its admin does."""

    name: str
    root: str
    kubectl: KubectlRunner
    output: str
    """What `kubectl vc create` printed."""

    def super_namespace(self, namespace: str = "default") -> str:
        """Return the super namespace of a short tenant namespace."""
        return f"{self.root}-{namespace}"


@contextmanager
def running(cluster: ClusterHandle) -> Iterator[SuperClusterAdmin]:
    """Have a super cluster with the chart for the length of a block."""
    cluster.up(StepPrinter())
    chart.install(cluster, StepPrinter(), values=chart.KUBELET_UPSTREAM)
    try:
        yield SuperClusterAdmin(
            cluster=cluster,
            kubectl=KubectlRunner(kubeconfig=cluster.kubeconfig, path=cluster.path()),
        )
    finally:
        if "KEEP" not in os.environ:
            cluster.down()


def created(
    super_cluster: SuperClusterAdmin, folder: Path, name: str, cluster_version: str = "v1.36"
) -> TenantAdmin:
    """Create a tenant with the command that users type. Its kubeconfig lies in the folder.

    Its name server follows seconds after the command. Tests that look names up begin with it.
    """
    kubeconfig = folder / "kubeconfig"
    if super_cluster.kubectl.exists("virtualcluster", name):  # kept from an earlier run
        verb = ["kubeconfig", name]
    else:
        verb = ["create", name, "--cluster-version", cluster_version]
    output = super_cluster.kubectl.run("vc", *verb, "-o", str(kubeconfig), timeout=300)
    until = ("--for=condition=DNSReady", "--timeout=90s")
    super_cluster.kubectl.run("wait", f"virtualcluster/{name}", *until, timeout=100)
    root = super_cluster.virtual_cluster(name)["status"]["clusterNamespace"]
    tenant_kubectl = KubectlRunner(kubeconfig=kubeconfig, path=super_cluster.kubectl.path)
    return TenantAdmin(name=name, root=root, kubectl=tenant_kubectl, output=output)


@pytest.fixture(scope="session")
def super_cluster() -> Iterator[SuperClusterAdmin]:
    with running(ClusterHandle(os.environ.get("TEST_CLUSTER", "test"))) as found:
        yield found


@pytest.fixture(scope="session")
def make_tenant(
    super_cluster: SuperClusterAdmin, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., TenantAdmin]:
    """Create tenants with the command that users type."""

    def make(name: str, cluster_version: str = "v1.36") -> TenantAdmin:
        return created(super_cluster, tmp_path_factory.mktemp(name), name, cluster_version)

    return make


@pytest.fixture(scope="session")
def tenant_a(make_tenant: Callable[..., TenantAdmin]) -> TenantAdmin:
    return make_tenant("tenant-a")


@pytest.fixture(scope="session")
def tenant_b(make_tenant: Callable[..., TenantAdmin]) -> TenantAdmin:
    return make_tenant("tenant-b")
