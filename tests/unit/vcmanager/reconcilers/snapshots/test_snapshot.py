"""A snapshot that waits until the files of another one are removed from its claim."""

from dataclasses import replace

import pytest

from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from tests.support.vcmanager.snapshots import live_etcd, snapshot_body
from vcmanager.phases.etcd import member_config
from vcmanager.reconcilers.snapshots.snapshot import reconcile_snapshot
from vcmanager.runtime import keys
from vcmanager.runtime.options import OperatorSettings


def ready_etcd():
    found = live_etcd()
    found["status"] = {"readyReplicas": 1}
    source = {"configMapKeyRef": {"name": member_config.CONFIG_MAP, "key": "x"}}
    [container] = found["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "X", "valueFrom": source}]
    return found


def other(*, tenant=TENANT.name, claim="snapshots", deleting=True):
    body = snapshot_body()
    body["metadata"]["name"] = "other"
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    storage = {"persistentVolumeClaim": {"claimName": claim}}
    body["spec"] = {"virtualClusterName": tenant, "storage": storage}
    return body


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (other(), "MakingRoom"),
        (other(deleting=False), "Running"),
        (other(tenant="another"), "Running"),
        (other(claim="snapshots-b"), "Running"),
    ],
)
async def test_a_snapshot_waits_for_the_room_of_a_deleted_one(listed, reason):
    body = snapshot_body("Pending")
    body["metadata"]["resourceVersion"] = "7"
    cluster = {
        "metadata": {"name": TENANT.name, "namespace": TENANT.namespace, "uid": TENANT.uid},
        "spec": {"clusterVersionName": "v1.36"},
    }
    client = RecordingClient({"first": body, TENANT.name: cluster, "etcd": ready_etcd()})
    client.listed = [listed]
    settings = OperatorSettings(
        registry="registry.example", own_image="registry.example/vc-manager:1"
    )
    means = replace(fake_means(client), settings=settings)
    await reconcile_snapshot(means, keys.build_snapshot_key(TENANT.namespace, "first"))
    [condition] = client.bodies[-1]["status"]["conditions"][:1]
    assert condition["reason"] == reason
    assert any(verb == "create" for verb, _ in client.calls) is (reason == "Running")
