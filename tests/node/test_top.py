"""`kubectl top` and an autoscaler in a tenant that asks for them, and nothing left later."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.node.minors import MINORS
from tests.support import node_objects
from tests.support.kubectl import KubectlRunner, until

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(900)]

SPACE = "measured"
METRICS = "MetricsReady"
SCRAPES = 120.0
"""Seconds within which a pod has been measured twice, which its first figures need."""


def switch(super_cluster: SuperClusterAdmin, tenant: TenantAdmin, metrics: str) -> None:
    """Change what the VirtualCluster asks for."""
    patch = f'{{"spec": {{"metrics": "{metrics}"}}}}'
    super_cluster.kubectl.run("patch", "virtualcluster", tenant.name, "--type=merge", "-p", patch)


def busy(name: str) -> dict[str, Any]:
    """Return a Deployment whose one pod takes all it may have, five times what it asks for."""
    made = node_objects.deployment(name, 1, namespace=SPACE)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["command"] = ["sh", "-c", "trap 'exit 0' TERM; while :; do :; done"]
    container["resources"] = {
        "requests": {"cpu": "20m", "memory": "16Mi"},
        "limits": {"cpu": "100m", "memory": "32Mi"},
    }
    return made


def autoscaler(name: str) -> dict[str, Any]:
    """Return what has a Deployment scaled by the processor time of its pods."""
    target = {"type": "Utilization", "averageUtilization": 50}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def top(kubectl: KubectlRunner, *words: str) -> dict[str, tuple[int, int]]:
    """Return milli-cores and MiB by name, as `kubectl top` prints them."""
    found = {}
    for line in kubectl.run("top", *words, "--no-headers").splitlines():
        name, cpu, memory = [word for word in line.split() if not word.endswith("%")][:3]
        assert cpu.endswith("m"), line
        assert memory.endswith("Mi"), line
        found[name] = int(cpu[:-1]), int(memory[:-2])
    return found


@pytest.fixture(scope="module")
def measured(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, tenant_b: TenantAdmin
) -> Iterator[TenantAdmin]:
    """A tenant with metrics and a pod. Another tenant has a pod beside it."""
    both = (tenant_a, tenant_b)
    switch(super_cluster, tenant_a, "managed")
    try:
        for tenant in both:
            tenant.kubectl.run("create", "namespace", SPACE)
            tenant.kubectl.apply(node_objects.sleeper(f"of-{tenant.name}", namespace=SPACE))
        waits = ("wait", f"virtualcluster/{tenant_a.name}", f"--for=condition={METRICS}")
        super_cluster.kubectl.run(*waits, "--timeout=180s", timeout=200)
        yield tenant_a
    finally:
        for tenant in both:
            tenant.kubectl.run("delete", "namespace", SPACE, timeout=120)
        switch(super_cluster, tenant_a, "none")


@pytest.mark.parametrize("minor", MINORS)
def test_top_shows_the_tenants_pods_and_no_others(
    measured: TenantAdmin, tenant_b: TenantAdmin, minor: str
):
    """V-08, X-26: with the kubectl of each minor."""
    user = measured.kubectl.of_minor(minor)
    pods = until(lambda: top(user, "pods", "-n", SPACE), "the pod is measured", SCRAPES)
    assert set(pods) == {f"of-{measured.name}"}
    anywhere = user.run("top", "pods", "-A", "--no-headers")
    assert f"of-{tenant_b.name}" not in anywhere
    assert {line.split()[0] for line in anywhere.splitlines()} <= set(
        measured.kubectl.names("namespaces")
    )
    containers = user.run("top", "pods", "-n", SPACE, "--containers", "--no-headers")
    assert [line.split()[1] for line in containers.splitlines()] == ["main"]


@pytest.mark.parametrize("minor", MINORS)
def test_a_node_shows_what_the_tenants_own_pods_take(measured: TenantAdmin, minor: str):
    """V-08, X-26: and not what others do."""
    user = measured.kubectl.of_minor(minor)
    nodes = until(lambda: top(user, "nodes"), "the node is measured", SCRAPES)
    assert set(nodes) <= set(user.names("nodes"))
    pods = until(lambda: top(user, "pods", "-n", SPACE), "the pod is measured", SCRAPES)
    assert sum(memory for _, memory in nodes.values()) >= sum(mib for _, mib in pods.values())
    # The control planes of two tenants alone take more: the node's own figures are not shown.
    assert max(memory for _, memory in nodes.values()) < 512


def test_an_autoscaler_scales_up_what_is_busy(measured: TenantAdmin):
    """V-08: by figures of the agent."""
    kubectl = measured.kubectl
    kubectl.apply(busy("busy"), autoscaler("busy"))
    try:
        until(
            lambda: (
                kubectl.get("deployment", "busy", "-n", SPACE)["status"].get("readyReplicas") == 3
            ),
            "three pods of the Deployment",
            seconds=300,
        )
        found = kubectl.get("hpa", "busy", "-n", SPACE)["status"]
        assert found["desiredReplicas"] == 3
        said = {each["type"]: each["status"] for each in found["conditions"]}
        assert said["ScalingActive"] == "True"
    finally:
        kubectl.run("delete", "hpa,deployment", "busy", "-n", SPACE, timeout=120)
        until(
            lambda: (
                not any(name.startswith("busy-") for name in kubectl.names("pods", "-n", SPACE))
            ),
            "its pods are gone, which other tests would measure",
        )


def test_namespaces_come_and_go_beside_it(measured: TenantAdmin):
    """A group that no server answers for would keep each of them from being deleted."""
    measured.kubectl.run("create", "namespace", "passing")
    measured.kubectl.run("delete", "namespace", "passing", timeout=60)
    group = measured.kubectl.get("apiservice", "v1beta1.metrics.k8s.io")["status"]["conditions"]
    assert {each["type"]: each["status"] for each in group}["Available"] == "True"


def test_it_is_a_small_pod_of_the_root_namespace(
    measured: TenantAdmin, super_cluster: SuperClusterAdmin
):
    selector = ("-n", measured.root, "-l", "component-name=metrics-server")
    pods = super_cluster.kubectl.items("pods", *selector)
    assert len(pods) == 1, [(p["metadata"], p["spec"]["volumes"]) for p in pods]
    (pod,) = pods
    status = pod["status"]["containerStatuses"][0]
    assert (status["ready"], status["restartCount"]) == (True, 0)


def test_switched_off_nothing_of_it_is_left(
    measured: TenantAdmin, super_cluster: SuperClusterAdmin
):
    switch(super_cluster, measured, "none")
    try:
        until(
            lambda: (
                not super_cluster.condition(measured.name, METRICS)
                and not measured.kubectl.exists("apiservice", "v1beta1.metrics.k8s.io")
                and not super_cluster.kubectl.exists(
                    "service", "metrics-server", "-n", measured.root
                )
            ),
            "the metrics API is gone",
            seconds=90,
        )
        labelled = ("-l", "tenancy.x-k8s.io/bootstrap=true")
        kinds = "clusterroles,clusterrolebindings,rolebindings,services,endpointslices"
        left = measured.kubectl.names(kinds, "-A", *labelled)
        assert not [name for name in left if "metrics" in name]
        below = super_cluster.kubectl.names("deployments,services,secrets", "-n", measured.root)
        assert not [name for name in below if "metrics" in name]
        assert measured.kubectl.call("top", "pods", "-A").code != 0
        assert (super_cluster.condition(measured.name, "Ready") or {})["status"] == "True"
    finally:
        switch(super_cluster, measured, "managed")
        waits = ("wait", f"virtualcluster/{measured.name}", f"--for=condition={METRICS}")
        super_cluster.kubectl.run(*waits, "--timeout=180s", timeout=200)
