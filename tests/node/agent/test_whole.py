"""The product as the chart installs it, on a node whose kubelet signs its own certificate.

Hazard: the chart stays in this folder's cluster until that goes, so this module is the last one.
"""

import pytest

from tenancy import wellknown
from tests.node.conftest import SuperClusterAdmin, TenantAdmin, created
from tests.node.minors import EACH
from tests.support import node_objects
from tests.support.debugs import debugged
from tests.support.kubectl import KubectlRunner, until
from tools.testbed import chart
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.progress import StepPrinter

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

POD = "on-node-2"


@pytest.fixture(scope="module")
def tenant(
    cluster: ClusterHandle, below: KubectlRunner, tmp_path_factory: pytest.TempPathFactory
) -> TenantAdmin:
    """A tenant with a pod on each node."""
    nodes = sorted(below.names("nodes"))
    if len(nodes) < 2:
        pytest.skip("the super cluster that is up has one node; the second one is self-signed")
    chart.install(cluster, StepPrinter(), values=("agent.upstream=auto",))
    whole = SuperClusterAdmin(cluster=cluster, kubectl=below)
    found = created(whole, tmp_path_factory.mktemp("whole"), "whole")
    for number, node in enumerate(nodes[:2], 1):
        pod = node_objects.sleeper(f"on-node-{number}", words=f"ready {number}")
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        found.kubectl.apply(pod)
    ready = ("--for=condition=Ready", "pod/on-node-1", f"pod/{POD}", "--timeout=90s")
    found.kubectl.run("wait", *ready, timeout=100)
    return found


def test_the_node_reports_which_way_its_calls_go_and_why(tenant: TenantAdmin):
    """X-26: by the agent's own Event, which the syncer carries up, once it has been asked."""
    assert tenant.kubectl.run("logs", POD) == "ready 2\n"
    assert tenant.kubectl.run("logs", "on-node-1") == "ready 1\n"

    def told() -> list[tuple[str, str]]:
        nodes = sorted(tenant.kubectl.items("nodes"), key=lambda node: node["metadata"]["name"])
        found = [node["status"]["conditions"] for node in nodes]
        direct = [one for each in found for one in each if one["type"] == wellknown.KUBELET_DIRECT]
        return [(one["status"], one["reason"]) for one in direct]

    wanted = [("True", "Kubelet"), ("False", "KubeletUntrusted")]
    until(lambda: told() == wanted, "the second node alone is not reached straight")


@pytest.mark.parametrize("minor", EACH)
def test_exec_works_there(tenant: TenantAdmin, minor: str):
    """X-26: with its input and its exit code."""
    user = tenant.kubectl.of_minor(minor)
    script = "read line; echo got $line; echo aside >&2; exit 42"
    done = user.call("exec", "-i", POD, "--", "sh", "-c", script, stdin="hello\n")
    # kubectl may say first which container it takes: another test has put one beside it.
    assert (done.code, done.out, "aside" in done.err.splitlines()) == (42, "got hello\n", True)


@pytest.mark.parametrize("minor", EACH)
def test_a_debug_container_is_talked_to_and_sees_its_target(tenant: TenantAdmin, minor: str):
    """X-26: the syncer adds it, and the agent attaches to it by way of the API server."""
    debugged(tenant.kubectl.of_minor(minor), "default", POD, f"probe-{minor.replace('.', '-')}")
