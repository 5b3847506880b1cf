"""An application of three tiers, straight on the super cluster and in a tenant: what differs.

Plain manifests (`three_tier/*.yaml`) are applied three times: twice on the super cluster, as a
control of the comparison itself, and once in a tenant. The tests play the cloud, which the testbed
has not got: addresses of the load balancer and of the Ingress are written on the super cluster.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support.kubectl import KubectlOutput, KubectlRunner, until
from tools.testbed.cluster.handle import REPOSITORY

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(900)]

FOLDER = Path(__file__).parent / "three_tier"
DIFFERENCES = FOLDER / "differences.yaml"
MANIFESTS = sorted(set(FOLDER.glob("*.yaml")) - {DIFFERENCES})
SPACE = "storefront"
CONTROL = "storefront-control"
IN_TENANT = "storefront-tenant"
HOST = "shop.example.com"
"""Each run has one of its own, with the namespace in it: a host belongs to one of a cluster."""
INGRESS_CLASS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "IngressClass",
    "metadata": {"name": "edge"},
    "spec": {"controller": "example.com/edge"},
}
FROM_THE_CLOUD = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}}}
WORKLOADS = ("deployment/web", "deployment/api", "statefulset/db", "daemonset/collector")


@dataclass(frozen=True)
class ApplicationSide:
    """One of the three: where it was applied, and where its pods run."""

    kubectl: KubectlRunner
    namespace: str
    below: str

    def run(self, *words: str, stdin: str | None = None) -> str:
        return self.kubectl.run("-n", self.namespace, *words, stdin=stdin, timeout=150)

    def apply(self) -> None:
        """Apply the manifests. What must name the namespace, and the host, get this one's."""
        self.kubectl.run("create", "namespace", self.namespace)
        text = "\n---\n".join(file.read_text() for file in MANIFESTS)
        own = f"namespace: {self.namespace}"
        text = text.replace(f"namespace: {SPACE}", own)
        self.run("apply", "-f", "-", stdin=text.replace(HOST, f"shop.{self.namespace}.example.com"))

    def settle(self) -> None:
        """Wait until everything runs and the CronJob has run exactly once."""
        for workload in WORKLOADS:
            self.run("rollout", "status", workload, "--timeout=120s")
        self.run("wait", "--for=condition=Complete", "job/fill", "--timeout=60s")
        self.run("wait", "--for=jsonpath={.status.phase}=Bound", "pvc", "--all", "--timeout=60s")
        until(lambda: self._report().get("lastSuccessfulTime"), "a run of the CronJob", 100)
        self.run("patch", "cronjob", "report", "-p", '{"spec": {"suspend": true}}')
        until(lambda: not self._report().get("active"), "the last run of the CronJob ended")

    def _report(self) -> dict:
        return self.kubectl.get("cronjob", "report", "-n", self.namespace)["status"]


@pytest.fixture(scope="module")
def straight(super_cluster: SuperClusterAdmin) -> ApplicationSide:
    return ApplicationSide(super_cluster.kubectl, SPACE, SPACE)


@pytest.fixture(scope="module")
def control(super_cluster: SuperClusterAdmin) -> ApplicationSide:
    return ApplicationSide(super_cluster.kubectl, CONTROL, CONTROL)


@pytest.fixture(scope="module")
def tenant(tenant_a: TenantAdmin) -> ApplicationSide:
    return ApplicationSide(tenant_a.kubectl, IN_TENANT, tenant_a.super_namespace(IN_TENANT))


@pytest.fixture(scope="module", autouse=True)
def running(
    super_cluster: SuperClusterAdmin,
    straight: ApplicationSide,
    control: ApplicationSide,
    tenant: ApplicationSide,
) -> Iterator[None]:
    """The application runs three times."""
    sides, below = (straight, control, tenant), super_cluster.kubectl
    below.apply(INGRESS_CLASS)
    until(lambda: tenant.kubectl.exists("ingressclass", "edge"), "the class of the Ingress")
    for side in sides:
        side.apply()
    for side in sides:
        side.settle()
    for side in sides:
        for target in ("service/web-edge", "ingress/web"):
            words = ("patch", target, "--subresource=status", "--type=merge")
            until(lambda s=side, t=target: below.exists("-n", s.below, t), target)
            below.run("-n", side.below, *words, "-p", json.dumps(FROM_THE_CLOUD))
    yield
    for side in sides:
        side.kubectl.run("delete", "namespace", side.namespace, "--wait=false")
    for side in sides:
        gone = ("wait", "--for=delete", f"namespace/{side.namespace}", "--timeout=120s")
        side.kubectl.run(*gone, timeout=150)
    below.run("delete", "ingressclass", "edge")


def compare(left: ApplicationSide, right: ApplicationSide, *words: str) -> KubectlOutput:
    """Run the program that compares two clusters."""
    kubeconfigs = (str(left.kubectl.kubeconfig), str(right.kubectl.kubeconfig))
    spaces = ("-n", left.namespace, "--right-namespace", right.namespace)
    done = subprocess.run(
        [sys.executable, "-m", "tools.compare", *kubeconfigs, *spaces, *words],
        cwd=REPOSITORY,
        env={**os.environ, "PATH": left.kubectl.path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return KubectlOutput(done.returncode, done.stdout, done.stderr)


def is_equal(left: ApplicationSide, right: ApplicationSide, *words: str) -> bool:
    done = compare(left, right, *words)
    assert done.code == 0, f"exit {done.code}\n{done.err}\n{done.out}"
    return True


def test_two_runs_on_the_super_cluster_do_not_differ(
    straight: ApplicationSide, control: ApplicationSide
):
    until(lambda: is_equal(straight, control), "no difference")


def test_a_tenant_differs_from_the_super_cluster_by_the_tracked_list(
    straight: ApplicationSide, tenant: ApplicationSide
):
    listed = ("--expected", str(DIFFERENCES))
    until(lambda: is_equal(straight, tenant, *listed), "the differences of the list and no others")


@pytest.mark.parametrize("side", ["straight", "tenant"])
def test_the_tiers_reach_one_another(
    request: pytest.FixtureRequest, super_cluster: SuperClusterAdmin, side: str
):
    """Only the middle reaches the store: a NetworkPolicy of the application says so."""
    place: ApplicationSide = request.getfixturevalue(side)
    words = ("exec", "deployment/web", "-c", "web", "--", "wget", "-T", "5", "-qO-")
    assert place.run(*words, "http://api:8000").strip() == "orders of db-0"
    store = "http://db-1.db:8080/orders"
    if super_cluster.cluster.enforces:
        done = place.kubectl.call("-n", place.namespace, *words, store)
        assert "timed out" in done.err, done
    fetch = f"import urllib.request as r; print(r.urlopen('{store}', timeout=5).read().decode())"
    read = ("exec", "deployment/api", "-c", "api", "--", "python3", "-c", fetch)
    assert place.run(*read).strip() == "orders of db-1"
