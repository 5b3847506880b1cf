"""Node pools on a real scheduler: a tainted node, a tenant that may use it, and one that may not.

The real node is the pool. Two nodes that kwok looks after stand beside it, without a taint. Pods
without a node selector go there meanwhile, so no other test may run at the same time.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import KubectlRunner, until
from tools.testbed import kwok

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(600)]

SPACE = "pooled"
OUTSIDE = {"outside-1", "outside-2"}
KEY, VALUE = "pool.example.com/tenant", "a"
TAINT = {"key": KEY, "value": VALUE, "effect": "NoSchedule"}
CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "pooled"},
    "handler": "runc",
}
LINGER_SECONDS = 90
"""Longer than a node is shown that nothing needs any longer, in seconds."""


@pytest.fixture
def pool(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, tenant_b: TenantAdmin
) -> Iterator[str]:
    """The real node with the label and taint of a pool. Both tenants are up before the taint."""
    kubectl = super_cluster.kubectl
    pool = super_cluster.cluster.topology.nodes[0].name
    kwok.start(super_cluster.cluster)
    try:
        kubectl.apply(*(kwok.node(name, "zone-a") for name in OUTSIDE), CLASS)
        kubectl.run("wait", "--for=condition=Ready", "node", *OUTSIDE, "--timeout=60s")
        kubectl.run("label", "node", pool, f"{KEY}={VALUE}")
        kubectl.run("taint", "node", pool, f"{KEY}={VALUE}:{TAINT['effect']}")
        yield pool
    finally:
        kubectl.call("taint", "node", pool, f"{KEY}-")
        kubectl.call("label", "node", pool, f"{KEY}-")
        kubectl.run("delete", "nodes", "-l", "type=kwok", "--timeout=60s")
        for name in OUTSIDE:  # or the agents' pods there stand until the garbage is collected
            kubectl.run(
                *("delete", "pods", "-A", "--field-selector", f"spec.nodeName={name}"),
                *("--force", "--grace-period=0"),
            )
        kubectl.run("delete", "runtimeclass", "pooled", "--ignore-not-found")
        kwok.stop(super_cluster.cluster)


@pytest.fixture
def space(
    pool: str, super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, tenant_b: TenantAdmin
) -> Iterator[str]:
    """A namespace in both tenants, and a policy for one of them that shows every node."""
    kubectl = super_cluster.kubectl
    bind = ("patch", "virtualcluster", tenant_a.name, "--type=merge", "-p")
    write_policy(kubectl, {"nodes": {"expose": "all"}})
    kubectl.run(*bind, json.dumps({"spec": {"policyRef": {"name": SPACE}}}))
    try:
        for tenant in (tenant_a, tenant_b):
            tenant.kubectl.run("create", "namespace", SPACE)
        yield SPACE
    finally:
        for tenant in (tenant_a, tenant_b):
            tenant.kubectl.run("delete", "namespace", SPACE, "--ignore-not-found", timeout=120)
        kubectl.run(*bind, json.dumps({"spec": {"policyRef": None}}))
        kubectl.run("delete", "tenantpolicy", SPACE)


def write_policy(kubectl: KubectlRunner, spec: dict[str, Any]) -> None:
    kind = {"apiVersion": "tenancy.x-k8s.io/v1alpha1", "kind": "TenantPolicy"}
    kubectl.apply({**kind, "metadata": {"name": SPACE}, "spec": spec})


def roll_out(tenant: TenantAdmin, name: str) -> set[str]:
    """Run six pods that ask for no node. Return the nodes that they run on."""
    tenant.kubectl.apply(node_objects.deployment(name, 6, namespace=SPACE))
    words = ("rollout", "status", f"deployment/{name}", "--timeout=120s")
    tenant.kubectl.run("-n", SPACE, *words, timeout=130)
    pods = tenant.kubectl.items("pods", "-n", SPACE, "-l", f"app={name}")
    assert len(pods) == 6
    return {pod["spec"]["nodeName"] for pod in pods}


def pinned(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod that asks for a node outside of the pool."""
    made = node_objects.sleeper(name, namespace=SPACE)
    made["spec"] |= spec
    return made


def test_a_tenant_runs_in_its_pool_and_only_there(
    super_cluster: SuperClusterAdmin,
    tenant_a: TenantAdmin,
    tenant_b: TenantAdmin,
    pool: str,
    space: str,
):
    """SEC-81, SEC-82: the taint holds others back, and the selector holds the tenant."""
    above, below = tenant_a.kubectl, super_cluster.kubectl
    # The control: without the pool, the tenant is shown every node and is kept off the tainted one.
    until(lambda: set(above.names("nodes")) == {pool, *OUTSIDE}, "every node shown")
    assert roll_out(tenant_a, "before") <= OUTSIDE
    above.run("-n", space, "delete", "deployment", "before", "--timeout=60s")

    toleration = {**TAINT, "operator": "Equal"}
    nodes = {"expose": "all", "selector": {KEY: VALUE}, "tolerations": [toleration]}
    write_policy(below, {"nodes": nodes, "security": {"runtimeClassName": "pooled"}})
    until(lambda: above.names("nodes") == [pool], "only the pool shown", LINGER_SECONDS)
    assert above.get("node", pool)["spec"].get("taints", []) == []

    assert roll_out(tenant_a, "pooled") == {pool}
    copies = below.items("pods", "-n", tenant_a.super_namespace(space))
    assert {copy["spec"]["nodeName"] for copy in copies} == {pool}
    assert {copy["spec"]["runtimeClassName"] for copy in copies} == {"pooled"}
    assert above.run("-n", space, "logs", "deployment/pooled").strip() == "ready"
    assert roll_out(tenant_b, "other") <= OUTSIDE, "the taint keeps other tenants away"

    outside = min(OUTSIDE)
    above.apply(
        pinned("selects", nodeSelector={"kubernetes.io/hostname": outside}),
        pinned("another", nodeSelector={KEY: "b"}),
        pinned("named", nodeName=outside),
    )
    expected = {
        "selects": "FailedScheduling",
        "another": "SyncRejected",
        "named": "SyncRejected",
    }
    until(
        lambda: all(reason in reasons(above, pod) for pod, reason in expected.items()),
        "an Event of each pod that asks for another node",
    )
    copies = below.items("pods", "-n", tenant_a.super_namespace(space))
    assert {copy["spec"].get("nodeName", pool) for copy in copies} == {pool}
    assert above.names("nodes") == [pool]


def reasons(kubectl: KubectlRunner, pod: str) -> set[str]:
    """Return the reasons of a pod's Events."""
    found = kubectl.items("events", "-n", SPACE)
    return {each["reason"] for each in found if each["involvedObject"]["name"] == pod}
