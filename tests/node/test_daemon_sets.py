"""DaemonSets of a tenant: one pod on each node that it is shown, and gone with the node.

Nodes that kwok looks after stand beside the real one for the length of this module. They take any
pod, so every pod that is made meanwhile says where it belongs.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import KubectlRunner, until
from tools.testbed import kwok

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(600)]

SPACE = "daemons"
HOLLOW = ("hollow-1", "hollow-2", "hollow-3")
EVERYWHERE = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "TenantPolicy",
    "metadata": {"name": "every-node"},
    "spec": {"nodes": {"expose": "all"}},
}
LINGER_SECONDS = 30
"""How long a node is shown that nothing needs any longer."""
GONE_SECONDS = LINGER_SECONDS + 120
"""The garbage collector of pods waits 40 seconds for a node to return, and looks now and then."""


@pytest.fixture(scope="module", autouse=True)
def nodes(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, tenant_b: TenantAdmin
) -> Iterator[None]:
    """Three nodes without machines. Both tenants are up before they could take control planes."""
    kubectl = super_cluster.kubectl
    kwok.start(super_cluster.cluster)
    try:
        add(kubectl, *HOLLOW)
        yield
    finally:
        kubectl.run("delete", "nodes", "-l", "type=kwok", "--timeout=60s")
        for name in HOLLOW:  # or the agents' pods there stand until the garbage is collected
            kubectl.run(
                *("delete", "pods", "-A", "--field-selector", f"spec.nodeName={name}"),
                *("--force", "--grace-period=0"),
            )
        kwok.stop(super_cluster.cluster)


@pytest.fixture
def space(request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace in both tenants."""
    both: list[TenantAdmin] = [request.getfixturevalue(f"tenant_{name}") for name in "ab"]
    for tenant in both:
        tenant.kubectl.run("create", "namespace", SPACE)
    yield SPACE
    for tenant in both:
        tenant.kubectl.run("delete", "namespace", SPACE, timeout=120)


def add(kubectl: KubectlRunner, *names: str) -> None:
    kubectl.apply(*(kwok.node(name, "zone-a") for name in names))
    kubectl.run("wait", "--for=condition=Ready", "node", *names, "--timeout=60s")


def daemon_set(namespace: str) -> dict[str, Any]:
    made = node_objects.deployment("collector", 1, namespace=namespace)
    del made["spec"]["replicas"]
    return {**made, "kind": "DaemonSet"}


def pinned(node: str, namespace: str) -> dict[str, Any]:
    """Return a Deployment that runs on one node."""
    made = node_objects.deployment(f"on-{node}", 1, namespace=namespace)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return made


def collectors(kubectl: KubectlRunner, namespace: str) -> dict[str, str]:
    """Return the UIDs of the DaemonSet's ready pods by node. Each node has one at most."""
    pods = kubectl.items("pods", "-n", namespace, "-l", "app=collector")
    ready = [
        pod
        for pod in pods
        for condition in pod["status"].get("conditions", [])
        if condition["type"] == "Ready" and condition["status"] == "True"
    ]
    assert len(ready) == len(pods), "a pod is not ready"
    found = {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in ready}
    assert len(found) == len(ready), "two pods on a node"
    return found


def is_on(tenant: TenantAdmin, below: KubectlRunner, nodes: set[str]) -> bool:
    """Return whether these are the nodes shown, with one pod of the DaemonSet each, also below."""
    assert set(tenant.kubectl.names("nodes")) == nodes
    assert set(collectors(tenant.kubectl, SPACE)) == nodes
    assert set(collectors(below, tenant.super_namespace(SPACE))) == nodes
    status = tenant.kubectl.get("daemonset", "collector", "-n", SPACE)["status"]
    assert status["desiredNumberScheduled"] == status["numberReady"] == len(nodes)
    return True


def test_a_daemon_set_follows_the_nodes_that_the_tenants_pods_run_on(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, space: str
):
    above, below = tenant_a.kubectl, super_cluster.kubectl
    pods = above.items("pods", "-A")  # of other tests
    used = {pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]}
    above.apply(daemon_set(space), *(pinned(node, space) for node in HOLLOW[:2]))
    for node in HOLLOW[:2]:
        above.run("-n", space, "rollout", "status", f"deployment/on-{node}", "--timeout=60s")
    until(
        lambda: is_on(tenant_a, below, {*used, *HOLLOW[:2]}),
        "one pod on each node, and none of a node that nothing runs on",
        GONE_SECONDS,  # a node that an earlier test ran on may still be shown, and get a pod
    )
    above.run("-n", space, "scale", "deployment/on-hollow-1", "--replicas=0")
    below.run("delete", "node", "hollow-2", "--timeout=60s")
    above.run("-n", space, "scale", "deployment/on-hollow-2", "--replicas=0")
    until(lambda: not above.exists("node", "hollow-2"), "the node gone with that below", 10)
    until(lambda: is_on(tenant_a, below, used), "the pods gone with their nodes", GONE_SECONDS)
    add(below, "hollow-2")


@pytest.mark.slow
def test_a_daemon_set_runs_on_every_node_where_the_policy_shows_all(
    super_cluster: SuperClusterAdmin, tenant_b: TenantAdmin, space: str
):
    above, below = tenant_b.kubectl, super_cluster.kubectl
    below.apply(EVERYWHERE)
    target = ("patch", "virtualcluster", tenant_b.name, "--type=merge", "-p")
    below.run(*target, '{"spec": {"policyRef": {"name": "every-node"}}}')
    try:
        every = set(below.names("nodes"))
        assert every > set(HOLLOW)
        until(lambda: set(above.names("nodes")) == every, "every node")
        above.apply(daemon_set(space))
        until(lambda: is_on(tenant_b, below, every), "one pod on each node")
        before = collectors(above, space)
        below.run("delete", "node", "hollow-3", "--timeout=60s")
        until(lambda: not above.exists("node", "hollow-3"), "the node gone with that below", 10)
        until(lambda: is_on(tenant_b, below, every - {"hollow-3"}), "its pod gone", GONE_SECONDS)
        add(below, "hollow-3")
        until(lambda: is_on(tenant_b, below, every), "one pod on the new node")
        after = collectors(above, space)
        assert {node for node in every if before[node] != after[node]} == {"hollow-3"}
    finally:
        below.run(*target, '{"spec": {"policyRef": null}}')
        below.run("delete", "tenantpolicy", "every-node")
