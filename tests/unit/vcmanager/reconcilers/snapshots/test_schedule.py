"""Snapshots that a schedule creates and deletes."""

import pytest

from kubeio.controller.worker import Done, RequeueAfter
from tenancy import wellknown
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from tests.support.vcmanager.snapshots import snapshot_body
from vcmanager.reconcilers.snapshots.schedule import reconcile_schedule
from vcmanager.runtime import keys

KEY = keys.build_schedule_key(TENANT.namespace, TENANT.name)


def cluster(**metadata):
    return {
        "metadata": {
            "name": TENANT.name,
            "namespace": TENANT.namespace,
            "uid": TENANT.uid,
            "creationTimestamp": "2026-03-01T00:00:00Z",
            **metadata,
        },
        "spec": {
            "clusterVersionName": "v1.36",
            "snapshotSchedule": {"interval": "1h", "keep": 1},
        },
    }


def saved(name, created, **metadata):
    body = snapshot_body()
    body["metadata"] |= {"name": name, "creationTimestamp": created, "uid": name, **metadata}
    return body


async def run(found, listed=()):
    client = RecordingClient({TENANT.name: found} if found else {})
    client.listed = list(listed)
    means = fake_means(client)
    result = await reconcile_schedule(means, KEY)
    return client, result, means


async def test_a_due_snapshot_has_the_label_of_its_schedule():
    client, result, _ = await run(cluster())
    assert client.calls == [("create", "vc-1-20260301-1200")]
    assert client.bodies[0]["metadata"]["labels"] == {wellknown.SNAPSHOT_SCHEDULE: TENANT.name}
    assert client.bodies[0]["spec"]["virtualClusterName"] == TENANT.name
    assert result == RequeueAfter(3600.0)


async def test_more_than_enough_are_deleted_oldest_first():
    old = [saved("a", "2026-03-01T11:30:00Z"), saved("b", "2026-03-01T10:30:00Z")]
    gone = saved("c", "2026-03-01T09:30:00Z", deletionTimestamp="2026-03-01T11:00:00Z")
    client, result, _ = await run(cluster(), [*old, gone])
    assert client.calls == [("delete", "b")]
    assert result == RequeueAfter(1800.0)


async def test_on_a_full_volume_the_oldest_one_goes_before_the_next_is_created():
    found = cluster()
    found["spec"]["snapshotSchedule"]["keep"] = 7
    full = saved("f", "2026-03-01T11:50:00Z")
    condition = {"type": "Complete", "status": "False", "reason": "VolumeFull"}
    full["status"] = {"phase": "Failed", "conditions": [condition]}
    listed = [saved("a", "2026-03-01T09:50:00Z"), saved("b", "2026-03-01T10:50:00Z"), full]
    client, _, _ = await run(found, listed)
    assert client.calls == [("delete", "a"), ("create", "vc-1-20260301-1200")]
    found["spec"]["sleep"] = {"workloads": "Keep"}
    client, _, _ = await run(found, listed)
    assert client.calls == []


@pytest.mark.parametrize(
    "found",
    [
        None,
        cluster(deletionTimestamp="2026-03-01T11:00:00Z"),
        {**cluster(), "spec": {"clusterVersionName": "v1.36"}},
    ],
)
async def test_without_a_schedule_nothing_is_created(found):
    client, result, _ = await run(found)
    assert client.calls == []
    assert result == Done()


async def test_during_a_restore_no_snapshot_is_created():
    annotations = {wellknown.RESTORE_SNAPSHOT: "first@2026-03-01T12:00:00Z"}
    client, _, _ = await run(cluster(annotations=annotations))
    assert client.calls == []


async def test_of_an_asleep_tenant_no_snapshot_is_created_and_none_is_overdue():
    found = cluster(creationTimestamp="2026-02-01T00:00:00Z")
    for sleep, created in ((None, True), ({"workloads": "Keep"}, False)):
        found["spec"]["sleep"] = sleep
        client, _, means = await run(found)
        assert bool(client.calls) is created
        assert set(means.snapshot_schedules._overdue.values()) == {created}
