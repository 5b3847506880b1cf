"""Pods that end in the super cluster without the tenant's doing: four rules, each on a real node.

1. Deleted below by another owner: the tenant pod goes with the same grace. One that was never bound
   gets a new twin (tests/integration/syncer/test_pods.py).
2. Vanished below without notice: the tenant pod has failed. It goes if it has a controller.
3. Evicted by the node: the phase comes up and stays.
4. Deleted by the tenant while the super cluster's API is away: it stays until that is back.
"""

from collections.abc import Iterator

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import stays, until

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(900)]

SPACE = "losing"


@pytest.fixture(scope="module", autouse=True)
def space(tenant_b: TenantAdmin) -> Iterator[str]:
    """A namespace of this module's own."""
    tenant_b.kubectl.run("create", "namespace", SPACE)
    yield SPACE
    tenant_b.kubectl.run("delete", "namespace", SPACE, timeout=120)


def pods_of(tenant: TenantAdmin, name: str) -> dict[str, str]:
    """Return the UIDs of the pods of a Deployment, by name."""
    found = tenant.kubectl.items("pods", "-n", SPACE, "-l", f"app={name}")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def start(tenant: TenantAdmin, bare: str, kept: str) -> None:
    """Run one pod without a controller and one with."""
    tenant.kubectl.apply(
        node_objects.sleeper(bare, namespace=SPACE),
        node_objects.deployment(kept, 1, namespace=SPACE),
    )
    tenant.kubectl.run("-n", SPACE, "wait", "--for=condition=Ready", f"pod/{bare}", "--timeout=90s")
    tenant.kubectl.run("-n", SPACE, "rollout", "status", f"deployment/{kept}", "--timeout=90s")


def test_pods_that_vanish_without_notice_have_failed(
    tenant_b: TenantAdmin, super_cluster: SuperClusterAdmin
):
    """A0-22: no one was there to see them go."""
    start(tenant_b, "alone", "owned")
    before = pods_of(tenant_b, "owned")
    where = tenant_b.super_namespace(SPACE)
    super_cluster.scale("vc-syncer", 0)
    try:
        super_cluster.kubectl.run(
            *("-n", where, "delete", "pod", "alone", *before, "--force", "--grace-period=0")
        )
    finally:
        super_cluster.scale("vc-syncer", 1)
    until(
        lambda: not set(pods_of(tenant_b, "owned").values()) & set(before.values()),
        "the pod with a controller gone",
    )
    tenant_b.kubectl.run("-n", SPACE, "rollout", "status", "deployment/owned", "--timeout=60s")
    assert len(pods_of(tenant_b, "owned")) == 1

    def failed() -> bool:
        status = tenant_b.kubectl.get("pod", "alone", "-n", SPACE)["status"]
        return (status["phase"], status.get("reason")) == ("Failed", "SuperPodLost")

    until(failed, "the pod without a controller failed")
    stays(failed, "it stays", 5)
    assert not super_cluster.kubectl.exists("pod", "alone", "-n", where)
    tenant_b.kubectl.run("-n", SPACE, "delete", "pod/alone", "deployment/owned", timeout=60)


def test_a_pod_that_its_node_evicts_stays_as_it_ended(
    tenant_b: TenantAdmin, super_cluster: SuperClusterAdmin
):
    """A0-22, REL-40: the kubelet evicts a pod that writes more than its limit."""
    greedy = node_objects.pod(
        "greedy", "dd if=/dev/zero of=/file bs=1M count=16; sleep 600", namespace=SPACE
    )
    limits = {"limits": {"ephemeral-storage": "2Mi"}}
    greedy["spec"]["containers"][0]["resources"] = limits
    tenant_b.kubectl.apply(greedy)

    def ended() -> tuple[str, str]:
        status = tenant_b.kubectl.get("pod", "greedy", "-n", SPACE)["status"]
        return status["phase"], status.get("reason", "")

    until(lambda: ended() == ("Failed", "Evicted"), "the eviction", seconds=120)
    status = tenant_b.kubectl.get("pod", "greedy", "-n", SPACE)["status"]
    assert "storage" in status["message"]
    stays(lambda: ended() == ("Failed", "Evicted"), "it stays", 5)
    where = tenant_b.super_namespace(SPACE)
    assert super_cluster.kubectl.exists("pod", "greedy", "-n", where)
    # The one that clears the twin away changes nothing either.
    super_cluster.kubectl.run("-n", where, "delete", "pod", "greedy", timeout=60)
    stays(lambda: ended() == ("Failed", "Evicted"), "it stays without its twin", 5)
    assert not super_cluster.kubectl.exists("pod", "greedy", "-n", where)
    tenant_b.kubectl.run("-n", SPACE, "delete", "pod/greedy", timeout=60)


def test_a_deleted_super_namespace_is_restored_with_what_controllers_keep(
    tenant_b: TenantAdmin, super_cluster: SuperClusterAdmin
):
    start(tenant_b, "bare", "kept")
    tenant_b.kubectl.apply(node_objects.service("kept", namespace=SPACE))
    where = tenant_b.super_namespace(SPACE)
    until(lambda: super_cluster.kubectl.exists("service", "kept", "-n", where), "the Service")
    before = pods_of(tenant_b, "kept")
    old = super_cluster.kubectl.get("namespace", where)["metadata"]["uid"]
    address = tenant_b.kubectl.get("service", "kept", "-n", SPACE)["spec"]["clusterIP"]
    super_cluster.kubectl.run("delete", "namespace", where, "--wait=false")
    until(
        lambda: super_cluster.kubectl.get("namespace", where)["metadata"]["uid"] != old,
        "a new super namespace",
    )
    until(
        lambda: not set(pods_of(tenant_b, "kept").values()) & set(before.values()),
        "the old pods gone",
    )
    tenant_b.kubectl.run("-n", SPACE, "rollout", "status", "deployment/kept", "--timeout=90s")
    assert len(pods_of(tenant_b, "kept")) == 1
    assert pods_of(tenant_b, "kept").keys() == {
        pod["metadata"]["name"]
        for pod in super_cluster.kubectl.items("pods", "-n", where, "-l", "app=kept")
    }
    below = until(
        lambda: super_cluster.kubectl.get("service", "kept", "-n", where), "the Service again"
    )
    assert below["spec"]["clusterIP"] == address
    # A pod without a controller was deleted. It has not come back, and did not go without a word.
    assert not tenant_b.kubectl.exists("pod", "bare", "-n", SPACE)
    selector = "involvedObject.name=bare,reason=SuperPodDeleted"
    said = tenant_b.kubectl.items("events", "-n", SPACE, "--field-selector", selector)
    assert len(said) == 1
    assert tenant_b.root not in said[0]["message"]
    tenant_b.kubectl.run("-n", SPACE, "delete", "service/kept", "deployment/kept", timeout=60)


def test_a_pod_deleted_while_the_super_api_is_away_stays_until_it_is_back(
    tenant_b: TenantAdmin, super_cluster: SuperClusterAdmin
):
    start(tenant_b, "leaving", "staying")
    before = pods_of(tenant_b, "staying")
    where = tenant_b.super_namespace(SPACE)
    twin = super_cluster.kubectl.get("pod", "leaving", "-n", where)["metadata"]["uid"]
    super_cluster.cluster.stop("kube-apiserver")
    try:
        tenant_b.kubectl.run("-n", SPACE, "delete", "pod", "leaving", "--wait=false")

        def is_leaving() -> bool:
            pod = tenant_b.kubectl.get("pod", "leaving", "-n", SPACE)
            return "deletionTimestamp" in pod["metadata"]

        stays(is_leaving, "it stays, for nobody knows whether its node still runs it", 15)
        assert pods_of(tenant_b, "staying") == before
    finally:
        super_cluster.cluster.start("kube-apiserver")
        super_cluster.cluster.wait_until_ready()
    until(
        lambda: not tenant_b.kubectl.exists("pod", "leaving", "-n", SPACE),
        "the pod gone",
        seconds=120,
    )
    assert not super_cluster.kubectl.exists("pod", "leaving", "-n", where), twin
    assert pods_of(tenant_b, "staying") == before
    tenant_b.kubectl.run("-n", SPACE, "delete", "deployment/staying", timeout=60)
