"""Snapshots of a tenant's volume by the real snapshot controller, and their restore.

The CSI driver is a small one of the testbed (`tools/testbed/storage/snapshots.py`). Controller,
snapshotter and provisioner are those of the Kubernetes project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import until
from tools.testbed import chart
from tools.testbed.progress import StepPrinter
from tools.testbed.storage import snapshots

pytestmark = [pytest.mark.node, pytest.mark.thorough, pytest.mark.timeout(900)]

SPACE = "snapshots"
GROUP = "snapshot.storage.k8s.io"
CRD = f"customresourcedefinition/volumesnapshots.{GROUP}"
POLICY = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "TenantPolicy",
    "metadata": {"name": "snapshots"},
    "spec": {"syncRules": {"names": ["volumesnapshots", "volumesnapshotcontents"]}},
}
CONTENT = f"volumesnapshotcontents.{GROUP}"
VALUE = "syncRules.volumeSnapshots.enabled"


def claim(name: str, **spec: Any) -> dict[str, Any]:
    """Return a claim of the driver's class."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": snapshots.CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def snapshot(name: str, **source: str) -> dict[str, Any]:
    """Return a snapshot of a source."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"volumeSnapshotClassName": snapshots.CLASS, "source": source},
    }


def get_content(tenant: TenantAdmin, name: str) -> str:
    """Return the name of the content of a snapshot."""
    found = tenant.kubectl.get("volumesnapshot", name, "-n", SPACE)
    return str(found["status"]["boundVolumeSnapshotContentName"])


def run_with(tenant: TenantAdmin, name: str, claim_name: str, script: str) -> str:
    """Run a pod with a volume until it has succeeded. Returns its output."""
    body = node_objects.pod(
        name,
        script,
        namespace=SPACE,
        restartPolicy="Never",
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}],
    )
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    tenant.kubectl.apply(body)
    done = ("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
    tenant.kubectl.run("-n", SPACE, *done, timeout=130)
    return tenant.kubectl.run("-n", SPACE, "logs", name)


def wait_for_event(tenant: TenantAdmin, words: str) -> None:
    """Wait until an Event in the tenant has these words."""
    until(lambda: words in tenant.kubectl.run("-n", SPACE, "events"), f"the Event with {words!r}")


@pytest.fixture(scope="module")
def tenants(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, tenant_b: TenantAdmin
) -> Iterator[tuple[TenantAdmin, TenantAdmin]]:
    """Two tenants whose policy selects the chart's rule. The first one has data and a snapshot."""
    snapshots.start(super_cluster.cluster)
    values = (*chart.KUBELET_UPSTREAM, f"{VALUE}=true")
    chart.install(super_cluster.cluster, StepPrinter(), values=values)
    for rule in POLICY["spec"]["syncRules"]["names"]:
        super_cluster.kubectl.run(
            "wait", f"syncrule/{rule}", "--for=condition=Ready", "--timeout=90s", timeout=100
        )
    super_cluster.kubectl.apply(POLICY)
    both = (tenant_a, tenant_b)
    for tenant in both:
        patch = json.dumps({"spec": {"policyRef": {"name": "snapshots"}}})
        super_cluster.kubectl.run(
            "patch", "virtualcluster", tenant.name, "--type=merge", "-p", patch
        )
        until(
            lambda tenant=tenant: tenant.kubectl.call("get", CRD).code == 0,
            "the definition of snapshots in the tenant",
        )
        tenant.kubectl.run("wait", "--for=condition=Established", CRD, "--timeout=60s")
        tenant.kubectl.run("create", "namespace", SPACE)
    tenant_a.kubectl.apply(claim("data"))
    run_with(tenant_a, "writer", "data", "echo first > /data/file; chmod 640 /data/file; sync")
    tenant_a.kubectl.apply(snapshot("one", persistentVolumeClaimName="data"))
    ready = ("wait", "volumesnapshot/one", "--for=jsonpath={.status.readyToUse}=true")
    tenant_a.kubectl.run("-n", SPACE, *ready, "--timeout=120s", timeout=130)
    yield both
    none = json.dumps({"spec": {"policyRef": None}})
    for tenant in both:
        tenant.kubectl.run("delete", "namespace", SPACE, timeout=180)
        super_cluster.kubectl.run(
            "patch", "virtualcluster", tenant.name, "--type=merge", "-p", none
        )
    super_cluster.kubectl.run("delete", "tenantpolicy", "snapshots")
    values = (*chart.KUBELET_UPSTREAM, f"{VALUE}=false")
    chart.install(super_cluster.cluster, StepPrinter(), values=values)
    snapshots.stop(super_cluster.cluster)


def test_a_claim_from_a_snapshot_has_the_data_of_its_time(tenants):
    owner, _ = tenants
    run_with(owner, "changer", "data", "echo second > /data/file; sync")
    source = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "one"}
    owner.kubectl.apply(claim("restored", dataSource=source))
    script = "cat /data/file; stat -c %a /data/file"
    assert run_with(owner, "reader", "restored", script).split() == ["first", "640"]
    assert run_with(owner, "again", "data", "cat /data/file").split() == ["second"]


def test_the_status_has_no_names_of_the_super_cluster(tenants):
    owner, _ = tenants
    found = owner.kubectl.get("volumesnapshot", "one", "-n", SPACE)
    assert found["status"]["creationTime"]
    assert owner.root not in json.dumps(found)


def test_a_tenant_sees_the_content_of_its_own_snapshots_only(super_cluster, tenants):
    """It is read-only, and has the status of the super cluster and the tenant's own namespace."""
    owner, other = tenants
    name = get_content(owner, "one")
    until(lambda: owner.kubectl.exists(CONTENT, name), "the content in its tenant")
    until(lambda: owner.kubectl.get(CONTENT, name).get("status"), "the status of the content")
    shown, real = owner.kubectl.get(CONTENT, name), super_cluster.kubectl.get(CONTENT, name)
    assert shown["spec"]["volumeSnapshotRef"]["namespace"] == SPACE
    assert shown["spec"]["source"] == real["spec"]["source"]
    assert shown["status"]["readyToUse"] is True
    assert shown["status"]["snapshotHandle"] == real["status"]["snapshotHandle"]
    assert owner.root not in json.dumps(shown)
    patch = json.dumps({"spec": {"deletionPolicy": "Retain"}})
    owner.kubectl.run("patch", CONTENT, name, "--type=merge", "-p", patch)
    until(
        lambda: owner.kubectl.get(CONTENT, name)["spec"]["deletionPolicy"] == "Delete",
        "the end of the tenant's change",
    )
    assert super_cluster.kubectl.get(CONTENT, name)["spec"]["deletionPolicy"] == "Delete"
    assert other.kubectl.items(CONTENT) == []


def test_a_snapshot_of_another_tenants_volume_is_refused(super_cluster, tenants):
    """By the content of the other tenant, by the name of its claim, and by its snapshot."""
    owner, other = tenants
    content = get_content(owner, "one")
    assert super_cluster.kubectl.exists("volumesnapshotcontent", content)
    other.kubectl.apply(snapshot("stolen", volumeSnapshotContentName=content))
    wait_for_event(other, "spec.source.volumeSnapshotContentName is not synced")
    other.kubectl.apply(snapshot("by-name", persistentVolumeClaimName="data"))
    wait_for_event(other, "the claim data is not in the super cluster yet")
    source = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "one"}
    other.kubectl.apply(claim("taken", dataSource=source))
    wait_for_event(other, "spec.dataSource VolumeSnapshot one does not exist yet")
    below = other.super_namespace(SPACE)
    assert super_cluster.kubectl.items("volumesnapshots", "-n", below) == []
    assert super_cluster.kubectl.items("persistentvolumeclaims", "-n", below) == []


def test_a_deleted_snapshot_is_deleted_in_the_super_cluster(super_cluster, tenants):
    owner, _ = tenants
    owner.kubectl.apply(snapshot("short", persistentVolumeClaimName="data"))
    ready = ("wait", "volumesnapshot/short", "--for=jsonpath={.status.readyToUse}=true")
    owner.kubectl.run("-n", SPACE, *ready, "--timeout=120s", timeout=130)
    content = get_content(owner, "short")
    until(lambda: owner.kubectl.exists(CONTENT, content), "the content in its tenant")
    owner.kubectl.run("-n", SPACE, "delete", "volumesnapshot", "short", timeout=60)
    until(
        lambda: not super_cluster.kubectl.exists("volumesnapshotcontent", content),
        "the end of the content",
    )
    until(lambda: not owner.kubectl.exists(CONTENT, content), "its end in the tenant")
