"""What happens to a tenant in its years, on real nodes: sleep, snapshot, restore, fork, upgrade."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import COMPONENTS, SuperClusterAdmin, TenantAdmin
from tests.node.test_two_tenants import without_credentials
from tests.support import node_objects
from tests.support.kubectl import until

pytestmark = [pytest.mark.node, pytest.mark.thorough, pytest.mark.timeout(900)]

NAME, COPY, LOST = "operated", "operated-copy", "lost"
APP, WRITER = "web", "writer"
REPLICAS = 2
ACCOUNT = "system:serviceaccount:default:default"


@pytest.fixture(scope="module")
def operated(make_tenant: Callable[..., TenantAdmin]) -> TenantAdmin:
    """A tenant of this module alone, with a Deployment that runs."""
    tenant = make_tenant(NAME)
    tenant.kubectl.apply(node_objects.deployment(APP, REPLICAS))
    await_deployment(tenant)
    return tenant


@pytest.fixture(scope="module")
def bystander(
    super_cluster: SuperClusterAdmin, make_tenant: Callable[..., TenantAdmin]
) -> Iterator[TenantAdmin]:
    """A tenant with a Deployment that runs, of which nothing may change."""
    tenant = make_tenant("bystander")
    tenant.kubectl.apply(node_objects.deployment(APP, REPLICAS))
    await_deployment(tenant)
    yield tenant
    super_cluster.kubectl.run("vc", "delete", tenant.name, "--yes", timeout=180)


def await_deployment(tenant: TenantAdmin, name: str = APP) -> None:
    """Wait until a Deployment is available."""
    words = ("rollout", "status", f"deployment/{name}", "--timeout=120s")
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


def look_at(super_cluster: SuperClusterAdmin, tenant: TenantAdmin) -> tuple[Any, Any]:
    """Return UIDs and restarts of a tenant's pods, in the super cluster and in the tenant."""
    found = super_pods(super_cluster, tenant), running_pods(tenant.kubectl.items("pods"))
    assert all(len(each) == REPLICAS for each in found), found
    return found


def authenticate(tenant: TenantAdmin, token: str, folder: Path) -> str:
    """Return the user of a token. Empty: the token is refused."""
    bare = without_credentials(tenant.kubectl, folder / "bare")
    found = bare.call("--token", token, "auth", "whoami", "-o", "json")
    if found.code == 0:
        return str(json.loads(found.out)["status"]["userInfo"]["username"])
    assert "Unauthorized" in found.err or "must be logged in" in found.err, found.err
    return ""


def read_token_secret(tenant: TenantAdmin) -> str:
    """Return the token of the Secret `ci`. Empty until the controllers have written it."""
    found = tenant.kubectl.get("secret", "ci").get("data") or {}
    return base64.b64decode(found.get("token") or "").decode()


def build_writer() -> list[dict[str, Any]]:
    """Return a Deployment that prints what its volume has, and then writes to it, and its claim."""
    script = (
        "trap 'exit 0' TERM; cat /data/words || echo none; echo kept > /data/words;"
        " sleep 2147483647 & wait"
    )
    found = node_objects.deployment(WRITER, 1)
    pod = found["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    found["spec"]["strategy"] = {"type": "Recreate"}  # two pods cannot share the volume
    [container] = pod["containers"]
    container["command"][-1] = script
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "16Mi"}},
        },
    }
    return [claim, found]


def build_data() -> list[dict[str, Any]]:
    """Return a ConfigMap, and a Secret with a token of the ServiceAccount `default`."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "words", "namespace": "default"},
            "data": {"key": "kept"},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "ci",
                "namespace": "default",
                "annotations": {"kubernetes.io/service-account.name": "default"},
            },
            "type": "kubernetes.io/service-account-token",
        },
    ]


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
    super_cluster: SuperClusterAdmin,
    operated: TenantAdmin,
    bystander: TenantAdmin,
    make_tenant: Callable[..., TenantAdmin],
    tmp_path: Path,
):
    """REL-74, REL-75."""
    kubectl = super_cluster.kubectl
    kept, untouched = super_pods(super_cluster, operated), look_at(super_cluster, bystander)
    token = operated.kubectl.run("create", "token", "default", "--duration=1h").strip()
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
    assert authenticate(operated, token, tmp_path) == ACCOUNT
    assert look_at(super_cluster, bystander) == untouched
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
    assert authenticate(copy, token, tmp_path) == ""
    assert look_at(super_cluster, bystander) == untouched
    kubectl.run("vc", "delete", COPY, "--yes", timeout=180)
    kubectl.run("vc", "snapshot", "delete", "before", timeout=120)


@pytest.mark.timeout(1200)
def test_a_deleted_tenant_comes_back_from_an_exported_snapshot(
    super_cluster: SuperClusterAdmin,
    bystander: TenantAdmin,
    make_tenant: Callable[..., TenantAdmin],
    tmp_path: Path,
):
    """REL-75. Its volumes are empty, and it has other keys, as docs/snapshots.md states."""
    kubectl, file = super_cluster.kubectl, tmp_path / "lost.db"
    lost = make_tenant(LOST)
    lost.kubectl.apply(node_objects.deployment(APP, REPLICAS), *build_writer(), *build_data())
    for name in (APP, WRITER):
        await_deployment(lost, name)
    # The volume is kept from one pod to the next, until the tenant is deleted.
    lost.kubectl.run("rollout", "restart", f"deployment/{WRITER}")
    await_deployment(lost, WRITER)
    until(lambda: read_writer(lost) == "kept", "the words of the first pod")
    old = lost.kubectl.run("create", "token", "default", "--duration=1h").strip()
    old_secret = until(lambda: read_token_secret(lost), "the token of the Secret")
    for token in (old, old_secret):
        assert authenticate(lost, token, tmp_path) == ACCOUNT
    before, untouched = super_pods(super_cluster, lost), look_at(super_cluster, bystander)
    kubectl.run("vc", "snapshot", "create", LOST, "--snapshot", "last", timeout=180)
    kubectl.run("vc", "snapshot", "export", "last", "-o", str(file), timeout=180)
    kubectl.run("vc", "delete", LOST, "--yes", timeout=300)
    until(lambda: not kubectl.exists("namespace", lost.root), "the end of the root namespace")

    words = ("vc", "restore", "--as-new", LOST, "--from-file", str(file))
    kubectl.run(*words, timeout=500)
    root = super_cluster.virtual_cluster(LOST)["status"]["clusterNamespace"]
    assert root != lost.root
    assert not kubectl.exists("namespace", f"{root}-default")  # nothing runs before a word
    kubectl.run("vc", "confirm-start", LOST, timeout=120)
    back = make_tenant(LOST)
    for name in (APP, WRITER):
        await_deployment(back, name)
    after = super_pods(super_cluster, back)
    assert len(after) == len(before)
    assert not set(after.values()) & set(before.values())
    assert back.kubectl.get("configmap", "words")["data"] == {"key": "kept"}
    assert read_writer(back) == "none"
    new_secret = until(lambda: read_token_secret(back), "the token of the new keys")
    for token in (old, old_secret):
        assert authenticate(back, token, tmp_path) == ""
    for token in (new_secret, back.kubectl.run("create", "token", "default").strip()):
        assert authenticate(back, token, tmp_path) == ACCOUNT
    assert look_at(super_cluster, bystander) == untouched
    # The snapshot of the deleted tenant has no files in the new one, and is no hindrance.
    kubectl.run("vc", "snapshot", "delete", "last", timeout=120)
    until(lambda: not kubectl.exists("virtualclustersnapshot", "last"), "the end of the snapshot")
    kubectl.run("vc", "delete", LOST, "--yes", timeout=300)


def read_writer(tenant: TenantAdmin) -> str:
    """Return what the writer found in its volume."""
    return tenant.kubectl.run("logs", f"deployment/{WRITER}").strip().splitlines()[-1]


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
