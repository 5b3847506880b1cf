"""The syncer away, the store away, the API server dead: nothing is lost, nothing is left."""

import json
import time
from collections.abc import Callable

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import stays, until

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

WRITES = {"create", "update", "patch", "delete", "deletecollection"}
SETTLE_SECONDS = 15


def super_pods(super_cluster: SuperClusterAdmin, tenant: TenantAdmin) -> dict[str, dict[str, str]]:
    """Return each super pod's identity and what a restart or an eviction would change."""
    selector = f"tenancy.x-k8s.io/vcname={tenant.name},tenancy.x-k8s.io/namespace"
    found = super_cluster.kubectl.items("pods", "-A", "-l", selector)
    return {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": {
            "uid": pod["metadata"]["uid"],
            "restarts": str(
                [c["restartCount"] for c in pod["status"].get("containerStatuses", [])]
            ),
            "deleting": pod["metadata"].get("deletionTimestamp", ""),
        }
        for pod in found
    }


def tenant_uids(tenant: TenantAdmin, namespace: str) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in tenant.kubectl.items("pods", "-n", namespace)
    }


def syncer_writes(super_cluster: SuperClusterAdmin, since: int) -> list[str]:
    """Return what the syncer wrote to the super cluster, its own lease apart."""
    return [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in super_cluster.audit(since)
        if entry["user"]["username"] == "system:serviceaccount:vc-manager:vc-syncer"
        and entry["verb"] in WRITES
        and entry["objectRef"]["resource"] != "leases"
    ]


def test_a_restart_with_nothing_changed_writes_nothing(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, tenant_b: TenantAdmin
):
    for tenant in (tenant_a, tenant_b):
        tenant.kubectl.apply(node_objects.sleeper("resting"), node_objects.service("resting"))
        tenant.kubectl.run("wait", "--for=condition=Ready", "pod/resting", "--timeout=90s")
    time.sleep(SETTLE_SECONDS)  # the last statuses and events are on their way
    since = super_cluster.audit_size()
    revisions = [
        t.kubectl.get("pod", "resting")["metadata"]["resourceVersion"] for t in (tenant_a, tenant_b)
    ]
    super_cluster.restart("vc-syncer")
    until(
        lambda: all(
            (super_cluster.condition(t.name, "Synced") or {}).get("status") == "True"
            for t in (tenant_a, tenant_b)
        ),
        "both tenants engaged",
    )
    time.sleep(SETTLE_SECONDS)  # what it would write on return it would write by now
    assert syncer_writes(super_cluster, since) == []
    after = [
        t.kubectl.get("pod", "resting")["metadata"]["resourceVersion"] for t in (tenant_a, tenant_b)
    ]
    assert after == revisions
    for tenant in (tenant_a, tenant_b):
        tenant.kubectl.run("delete", "pod/resting", "service/resting", timeout=60)


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(45.0, marks=pytest.mark.slow),
        pytest.param(900.0, marks=(pytest.mark.slow, pytest.mark.timeout(1800))),
    ],
)
def test_the_syncer_away_harms_nothing(
    super_cluster: SuperClusterAdmin, tenant_b: TenantAdmin, seconds: float
):
    """The longer time is three times that after which a lost node's pods would be evicted."""
    space = "absence"
    finishing = f"echo finished; sleep {min(20.0, seconds / 3):.0f}"
    tenant_b.kubectl.run("create", "namespace", space)
    tenant_b.kubectl.apply(node_objects.deployment("many", 50, namespace=space))
    tenant_b.kubectl.run(
        "-n", space, "rollout", "status", "deployment/many", "--timeout=300s", timeout=320
    )
    tenant_b.kubectl.apply(node_objects.job("finishing", finishing, namespace=space))
    until(
        lambda: any(
            pod["status"]["phase"] == "Running"
            for pod in tenant_b.kubectl.items("pods", "-n", space, "-l", "job-name=finishing")
        ),
        "the Job's pod running",
    )
    super_before = super_pods(super_cluster, tenant_b)
    tenant_before = tenant_uids(tenant_b, space)
    super_cluster.scale("vc-syncer", 0)
    try:
        time.sleep(seconds)
        assert tenant_uids(tenant_b, space) == tenant_before
    finally:
        super_cluster.scale("vc-syncer", 1)
    tenant_b.kubectl.run(
        "-n", space, "wait", "--for=condition=Complete", "job/finishing", "--timeout=60s"
    )
    time.sleep(SETTLE_SECONDS)  # wrong deletes would come now
    assert super_pods(super_cluster, tenant_b) == super_before
    assert tenant_uids(tenant_b, space) == tenant_before
    assert tenant_b.kubectl.run("-n", space, "logs", "job/finishing").strip() == "finished"
    tenant_b.kubectl.run("delete", "namespace", space, timeout=180)


def test_a_lost_etcd_pod_loses_nothing(super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin):
    """REL-21."""
    tenant_a.kubectl.apply(node_objects.sleeper("survivor"))
    tenant_a.kubectl.run("wait", "--for=condition=Ready", "pod/survivor", "--timeout=90s")
    before = (super_pods(super_cluster, tenant_a), tenant_uids(tenant_a, "default"))
    super_cluster.kubectl.run("-n", tenant_a.root, "delete", "pod", "etcd-0", timeout=90)
    until(
        lambda: tenant_a.kubectl.call("get", "pod", "survivor").code == 0,
        "the tenant's API back",
        seconds=120,
    )
    time.sleep(SETTLE_SECONDS)  # wrong deletes would come now
    assert (super_pods(super_cluster, tenant_a), tenant_uids(tenant_a, "default")) == before
    tenant_a.kubectl.run("delete", "pod", "survivor", timeout=60)


def lose_the_store(super_cluster: SuperClusterAdmin, tenant: TenantAdmin) -> None:
    """Delete a tenant's etcd volume and wait until its API answers from an empty store."""
    before = tenant.kubectl.get("namespace", "kube-system")["metadata"]["uid"]
    claims = super_cluster.kubectl.names("pvc", "-n", tenant.root)
    assert claims, "the tenant's etcd has a volume"
    super_cluster.kubectl.run("-n", tenant.root, "delete", "pvc", *claims, "--wait=false")
    super_cluster.kubectl.run("-n", tenant.root, "delete", "pod", "etcd-0", timeout=120)

    def emptied() -> bool:
        done = tenant.kubectl.call("get", "namespace", "kube-system", "-o", "json")
        return done.code == 0 and json.loads(done.out)["metadata"]["uid"] != before

    until(emptied, "the tenant's API on an empty store", seconds=180)


@pytest.mark.thorough
def test_a_lost_store_deletes_nothing_until_it_is_confirmed(
    super_cluster: SuperClusterAdmin, make_tenant: Callable[..., TenantAdmin]
):
    tenant = make_tenant("forgetful")
    tenant.kubectl.apply(node_objects.sleeper("precious"))
    tenant.kubectl.run("wait", "--for=condition=Ready", "pod/precious", "--timeout=90s")
    before = super_pods(super_cluster, tenant)
    assert before
    lose_the_store(super_cluster, tenant)
    held = until(
        lambda: (
            (condition := super_cluster.condition(tenant.name, "DeletesHeld"))
            and condition["status"] == "True"
            and condition
        ),
        "the condition DeletesHeld",
        seconds=120,
    )
    assert "confirm-deletes" in held["message"], held
    stays(lambda: super_pods(super_cluster, tenant) == before, "nothing is deleted", 30)
    tenant.kubectl.run("create", "namespace", "fresh")
    tenant.kubectl.apply(node_objects.sleeper("new", namespace="fresh"))
    tenant.kubectl.run("-n", "fresh", "wait", "--for=condition=Ready", "pod/new", "--timeout=90s")
    assert set(before) < set(super_pods(super_cluster, tenant)), "creates go on"

    super_cluster.kubectl.run("vc", "confirm-deletes", tenant.name)
    until(
        lambda: not set(before) & set(super_pods(super_cluster, tenant)),
        "the old pods gone after the confirmation",
        seconds=120,
    )
    condition = until(lambda: super_cluster.condition(tenant.name, "DeletesHeld"), "a condition")
    assert condition["status"] == "False"
    tenant.kubectl.apply(node_objects.sleeper("again"))
    tenant.kubectl.run("wait", "--for=condition=Ready", "pod/again", "--timeout=90s")
    assert tenant.kubectl.names("pods", "-A") == ["again", "new"]
    super_cluster.kubectl.run("vc", "delete", tenant.name, timeout=180)


def test_a_tenant_with_a_dead_api_server_is_deleted_without_a_trace(
    super_cluster: SuperClusterAdmin, make_tenant: Callable[..., TenantAdmin]
):
    tenant = make_tenant("doomed")
    tenant.kubectl.apply(node_objects.sleeper("orphan"))
    tenant.kubectl.run("wait", "--for=condition=Ready", "pod/orphan", "--timeout=90s")
    uid = super_cluster.virtual_cluster(tenant.name)["metadata"]["uid"]
    # An image that is not there keeps the API server dead whatever restarts it.
    super_cluster.kubectl.run(
        *("-n", tenant.root, "patch", "pod", "apiserver-0", "--type=json", "-p"),
        '[{"op": "replace", "path": "/spec/containers/0/image", "value": "nowhere/none:1"}]',
    )
    until(
        lambda: tenant.kubectl.call("get", "--raw", "/readyz", "--request-timeout=2s").code != 0,
        "the API server dead",
    )
    super_cluster.kubectl.run("vc", "delete", tenant.name, timeout=240)
    assert not super_cluster.kubectl.exists("virtualcluster", tenant.name)
    selector = f"tenancy.x-k8s.io/vcuid={uid}"
    for kind in ("namespaces", "pods", "services", "secrets", "configmaps"):
        assert super_cluster.kubectl.items(kind, "-A", "-l", selector) == [], kind
    assert not [n for n in super_cluster.kubectl.names("namespaces") if n.startswith(tenant.root)]
    volumes = super_cluster.kubectl.items("persistentvolumes")
    claims = [v["spec"].get("claimRef", {}).get("namespace", "") for v in volumes]
    assert not [claim for claim in claims if claim.startswith(tenant.root)]
