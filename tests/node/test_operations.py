"""What happens to a tenant in its years, on real nodes: sleep, snapshot, restore, fork, upgrade."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.node.conftest import COMPONENTS, SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import until

pytestmark = [pytest.mark.node, pytest.mark.thorough, pytest.mark.timeout(900)]

NAME, COPY = "operated", "operated-copy"
APP = "web"
REPLICAS = 2


@pytest.fixture(scope="module")
def operated(make_tenant: Callable[..., TenantAdmin]) -> TenantAdmin:
    """A tenant of this module alone, with a Deployment that runs."""
    tenant = make_tenant(NAME)
    tenant.kubectl.apply(node_objects.deployment(APP, REPLICAS))
    await_deployment(tenant)
    return tenant


def await_deployment(tenant: TenantAdmin) -> None:
    """Wait until the Deployment is available."""
    words = ("rollout", "status", f"deployment/{APP}", "--timeout=120s")
    tenant.kubectl.run(*words, timeout=130)


def running_pods(found: list[dict[str, Any]]) -> dict[str, tuple[str, int]]:
    """Return UID and restarts of the pods that are not being deleted, by name."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ())),
        )
        for pod in found
        if "deletionTimestamp" not in pod["metadata"]
    }


def super_pods(super_cluster: SuperClusterAdmin, tenant: TenantAdmin) -> dict[str, Any]:
    """Return the super pods of the tenant's namespace `default`."""
    return running_pods(super_cluster.kubectl.items("pods", "-n", tenant.super_namespace()))


@pytest.mark.parametrize("workloads", ["keep", "scale-to-zero"])
def test_a_tenant_sleeps_and_wakes(
    super_cluster: SuperClusterAdmin, operated: TenantAdmin, workloads: str
):
    before = super_pods(super_cluster, operated)
    tenant_before = running_pods(operated.kubectl.items("pods"))
    assert len(before) == REPLICAS
    super_cluster.kubectl.run("vc", "sleep", NAME, "--workloads", workloads, timeout=180)
    assert super_cluster.kubectl.names("pods", "-n", operated.root) == []
    assert operated.kubectl.call("get", "pods", "--request-timeout=3s").code != 0
    if workloads == "keep":
        assert super_pods(super_cluster, operated) == before
    else:
        until(lambda: not super_pods(super_cluster, operated), "the end of the tenant's pods")
    begun = time.monotonic()
    super_cluster.kubectl.run("vc", "wake", NAME, "--no-wait")
    until(
        lambda: operated.kubectl.call("get", "--raw", "/readyz", "--request-timeout=1s").code == 0,
        "the first answer of the tenant's API server",
        120,
    )
    print(f"wake to the first answer: {time.monotonic() - begun:.1f} s (aim 8)")
    super_cluster.kubectl.run(
        "wait", f"virtualcluster/{NAME}", "--for=condition=Synced", "--timeout=120s", timeout=130
    )
    if workloads == "keep":
        assert super_pods(super_cluster, operated) == before
        assert running_pods(operated.kubectl.items("pods")) == tenant_before
        return
    until(lambda: len(super_pods(super_cluster, operated)) == REPLICAS, "new pods", 120)
    await_deployment(operated)
    assert not set(super_pods(super_cluster, operated).values()) & set(before.values())


def test_a_snapshot_brings_back_what_was_deleted_and_becomes_another_tenant(
    super_cluster: SuperClusterAdmin, operated: TenantAdmin, make_tenant: Callable[..., TenantAdmin]
):
    kubectl = super_cluster.kubectl
    kept = super_pods(super_cluster, operated)
    kubectl.run("vc", "snapshot", "create", NAME, "--snapshot", "before", timeout=180)
    operated.kubectl.apply(node_objects.service("later"))
    operated.kubectl.apply(node_objects.deployment("late", 1))
    space = operated.super_namespace()
    until(lambda: kubectl.exists("service", "later", "-n", space), "the copy of the Service")
    operated.kubectl.run("scale", f"deployment/{APP}", "--replicas=1")
    until(lambda: len(super_pods(super_cluster, operated)) == REPLICAS, "one pod of each", 120)
    (left,) = (name for name in super_pods(super_cluster, operated) if name in kept)

    kubectl.run("vc", "restore", NAME, "--from", "before", "--yes", timeout=400)
    await_deployment(operated)
    assert not operated.kubectl.exists("service", "later")
    assert super_pods(super_cluster, operated)[left] == kept[left]  # it never stopped
    # What the snapshot lacks stays in the super cluster until a person confirms its end.
    assert kubectl.exists("service", "later", "-n", space)
    kubectl.run("vc", "confirm-deletes", NAME, timeout=120)
    until(lambda: not kubectl.exists("service", "later", "-n", space), "the end of the copy")
    until(lambda: len(super_pods(super_cluster, operated)) == REPLICAS, "two pods of web", 120)

    before = super_pods(super_cluster, operated)
    kubectl.run("vc", "restore", "--as-new", COPY, "--from", "before", timeout=500)
    root = super_cluster.virtual_cluster(COPY)["status"]["clusterNamespace"]
    assert not kubectl.exists("namespace", f"{root}-default")  # nothing runs before a word
    kubectl.run("vc", "confirm-start", COPY, timeout=120)
    copy = make_tenant(COPY)
    await_deployment(copy)
    assert len(super_pods(super_cluster, copy)) == REPLICAS
    assert super_pods(super_cluster, operated) == before
    kubectl.run("vc", "delete", COPY, "--yes", timeout=180)
    kubectl.run("vc", "snapshot", "delete", "before", timeout=120)


def test_an_upgrade_of_the_components_keeps_pods_and_ends_exec_only_with_its_agent(
    super_cluster: SuperClusterAdmin, operated: TenantAdmin
):
    before = super_pods(super_cluster, operated)
    pod = next(iter(before))
    with operated.kubectl.running("exec", "-i", pod, "--", "cat") as session:
        assert echoed(session, "first")
        restart(super_cluster, "deployment/vc-manager", "deployment/vc-syncer")
        assert echoed(session, "second")
        restart(super_cluster, "daemonset/vn-agent")
        assert session.wait(timeout=60) != 0
        assert session.stderr is not None
        assert session.stderr.read().strip()
    assert super_pods(super_cluster, operated) == before
    assert operated.kubectl.run("exec", pod, "--", "echo", "again").strip() == "again"


def test_an_upgrade_to_the_next_minor_keeps_pods_and_ends_open_streams(
    super_cluster: SuperClusterAdmin, make_tenant: Callable[..., TenantAdmin]
):
    super_cluster.publish_minors()
    tenant = make_tenant("upgraded", "v1.35")
    tenant.kubectl.apply(node_objects.deployment(APP, REPLICAS))
    await_deployment(tenant)
    before = super_pods(super_cluster, tenant)
    tenant_before = running_pods(tenant.kubectl.items("pods"))
    pod = next(iter(before))
    words = ("exec", "-i", pod, "--", "cat")
    with (
        tenant.kubectl.running(*words) as session,
        tenant.kubectl.running("logs", "-f", pod) as log,
    ):
        assert echoed(session, "open")
        assert log.stdout is not None
        assert log.stdout.readline().strip() == "ready"
        patch = '{"spec": {"clusterVersionName": "v1.36"}}'
        super_cluster.kubectl.run(
            "patch", "virtualcluster", tenant.name, "--type=merge", "-p", patch
        )
        until(lambda: minor_of(tenant) == "36", "the new minor", 240)
        assert session.wait(timeout=60) != 0
        log.wait(timeout=60)
    super_cluster.kubectl.run(
        "wait", f"virtualcluster/{tenant.name}", "--for=condition=Ready", "--timeout=120s",
        timeout=130,
    )  # fmt: skip
    assert super_pods(super_cluster, tenant) == before
    assert running_pods(tenant.kubectl.items("pods")) == tenant_before
    tenant.kubectl.run("scale", f"deployment/{APP}", f"--replicas={REPLICAS + 1}")
    await_deployment(tenant)


def echoed(session: subprocess.Popen[str], words: str) -> bool:
    """Return whether an open `cat` in a pod returns a line."""
    assert session.stdin is not None
    assert session.stdout is not None
    session.stdin.write(f"{words}\n")
    session.stdin.flush()
    return session.stdout.readline().strip() == words


def restart(super_cluster: SuperClusterAdmin, *components: str) -> None:
    """Replace the pods of components, as an upgrade of the chart does."""
    super_cluster.kubectl.run("-n", COMPONENTS, "rollout", "restart", *components)
    for each in components:
        words = ("-n", COMPONENTS, "rollout", "status", each, "--timeout=180s")
        super_cluster.kubectl.run(*words, timeout=190)


def minor_of(tenant: TenantAdmin) -> str:
    """Return the minor of the tenant's API server. Empty while it does not answer."""
    found = tenant.kubectl.call("get", "--raw", "/version", "--request-timeout=2s")
    return str(json.loads(found.out)["minor"]) if found.code == 0 else ""
