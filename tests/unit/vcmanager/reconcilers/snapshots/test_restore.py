"""Writes of a restore, step by step: what is stopped, raised, reset and removed."""

from types import SimpleNamespace

import pytest

from kubeio import errors
from tenancy import wellknown
from tenancy.snapshots.view import parse_restore_request
from tenancy.specs import parse_virtual_cluster
from tests.support.vcmanager.factories import (
    TENANT,
    RecordedEventRows,
    RecordingClient,
    fake_means,
    pod,
)
from tests.support.vcmanager.snapshots import live_etcd, snapshot_body
from vcmanager.reconcilers.lifetime import control_plane_stop
from vcmanager.reconcilers.snapshots import restore
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

REQUEST = "first@2026-03-01T12:00:00Z"
JOB = parse_restore_request({wellknown.RESTORE_SNAPSHOT: REQUEST}).job_name
SYNCED_FALSE = {
    "type": "Synced",
    "status": "False",
    "reason": "Restoring",
    "message": f"The tenant's etcd is being restored ({REQUEST}), so nothing is synced.",
}


def body(restore_status=None, synced=None, *, request=REQUEST):
    status = {
        "version": "v1.36.1",
        "conditions": [synced or SYNCED_FALSE],
        "disconnectedForRestore": REQUEST,
    }
    if restore_status:
        status["restore"] = restore_status
    annotations = {wellknown.RESTORE_SNAPSHOT: request} if request else {}
    return {
        "metadata": {
            "name": TENANT.name,
            "namespace": TENANT.namespace,
            "uid": TENANT.uid,
            "resourceVersion": "7",
            "annotations": annotations,
        },
        "spec": {"clusterVersionName": "v1.36"},
        "status": status,
    }


def ended_job(kind):
    conditions = [{"type": kind, "status": "True", "reason": kind, "message": "late"}]
    return {"metadata": {"name": "job"}, "status": {"conditions": conditions if kind else []}}


def observed(*, replicas=1, pods=True, claims=("data-etcd-0", "snapshots")):
    etcd = live_etcd()
    etcd["metadata"]["annotations"] = {wellknown.LAST_WRITTEN_DIGEST: "d"}
    etcd["spec"]["replicas"] = replicas
    found = {name: {"metadata": {"name": name, "uid": f"uid-{name}"}} for name in claims}
    return ObservedObjects(
        namespace=None,
        objects={
            "StatefulSet": {"etcd": etcd},
            "ConfigMap": {"etcd-members": {"metadata": {"name": "etcd-members"}, "data": {}}},
            "PersistentVolumeClaim": found,
            "Pod": {"etcd-0": pod("etcd-0", "etcd")} if pods else {"j": pod("j", "snapshot")},
        },
    )


def cluster_version(name, minor):
    return {name: {"metadata": {"name": name}, "spec": {"kubernetesVersion": minor}}}


async def run(jobs, found, view):
    """Run the phase. Returns the client, the phase of `status.restore`, and whether it held."""
    root = {"metadata": {"uid": "r", "resourceVersion": "3", "annotations": {}}}
    root["metadata"]["annotations"][wellknown.STORE_EPOCH] = "4"
    client = RecordingClient({"first": snapshot_body(), TENANT.root: root, **jobs})
    events, queued = RecordedEventRows(), []
    means = fake_means(client, recorder=events, later=lambda *row: queued.append(row))
    dropped = []

    async def drop(uid):
        dropped.append(uid)

    object.__setattr__(means, "tenant_clients", SimpleNamespace(drop=drop))
    status = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    reason = ""
    try:
        await restore.hold_restore(means, parse_virtual_cluster(found), found, view, status)
    except PhaseBlocked as blocked:
        reason = blocked.reason
    assert reason in ("", "Restoring")
    return SimpleNamespace(
        client=client,
        phase=(status.restore or {}).get("phase"),
        version=status.version,
        is_held=bool(reason),
        events=events.reasons,
        queued=queued,
        dropped=dropped,
    )


CHECKED = {f"{JOB}-check": ended_job("Complete")}


@pytest.mark.parametrize(
    ("jobs", "view", "phase", "held", "calls"),
    [
        ({}, observed(), "Checking", False, [("create", f"{JOB}-check")]),
        ({f"{JOB}-check": ended_job("")}, observed(), "Checking", False, []),
        ({f"{JOB}-check": ended_job("Failed")}, observed(), "Failed", False, []),
        (CHECKED, observed(), "Stopping", True, [("patch", "etcd")]),
        (CHECKED, observed(replicas=0), "Stopping", True, []),
        (CHECKED, observed(replicas=0, pods=False), "Restoring", True, []),
        (
            {**CHECKED, JOB: ended_job("Complete")},
            observed(replicas=0, pods=False, claims=("data-etcd-0", "data-etcd-1", "snapshots")),
            "Complete",
            True,
            [("patch", TENANT.root), ("patch", "etcd-members"), ("delete", "data-etcd-1")],
        ),
        (
            {**CHECKED, JOB: ended_job("Failed")},
            observed(replicas=0),
            "Restoring",
            True,
            [("delete", JOB)],
        ),
    ],
)
async def test_each_step_writes_only_what_it_must(jobs, view, phase, held, calls):
    found = await run(jobs, body(), view)
    assert (found.phase, found.is_held) == (phase, held)
    assert found.client.calls == calls
    assert bool(found.queued) is not held
    assert bool(found.events) is (phase == "Failed")


async def test_deletes_are_held_before_the_members_are_reset():
    found = await run(
        {**CHECKED, JOB: ended_job("Complete")}, body(), observed(replicas=0, pods=False)
    )
    raised, members = found.client.bodies
    assert raised["metadata"]["annotations"] == {wellknown.STORE_EPOCH: "1004"}
    assert raised["metadata"]["resourceVersion"] == "3"
    assert members["data"]["initial-cluster"] == "etcd-0=https://etcd-0.etcd:2380"
    assert members["data"]["store-identity"] is None


@pytest.mark.parametrize(
    ("running", "jobs", "version"),
    [
        ("v1.37.2", {**CHECKED, JOB: ended_job("Complete")}, "v1.36.1"),
        ("v1.36.4", {**CHECKED, JOB: ended_job("Complete")}, "v1.36.1"),
        ("v1.37.2", {**CHECKED, JOB: ended_job("Failed")}, ""),
        ("v1.37.2", CHECKED, ""),
    ],
)
async def test_the_version_is_that_of_the_data_once_they_are_replaced(running, jobs, version):
    """Otherwise the start of the older API server would be a refused downgrade."""
    found = body()
    found["status"]["version"] = running
    view = observed(replicas=0, pods=False)
    done = await run({**jobs, **cluster_version("v1.36", "1.36")}, found, view)
    assert (done.is_held, done.version) == (True, version)
    assert ("patch", TENANT.name) not in done.client.calls


async def test_without_a_version_of_the_minor_nothing_is_stopped():
    found = body()
    found["status"]["version"] = "v1.37.2"
    for versions in ({}, cluster_version("v1.36", "1.37"), cluster_version("v1.36", "9.9")):
        done = await run({**CHECKED, **versions}, found, observed())
        assert (done.phase, done.is_held, done.client.calls) == ("Failed", False, [])


@pytest.mark.parametrize(
    ("synced", "asked", "connected"),
    [
        (SYNCED_FALSE, REQUEST, False),
        (SYNCED_FALSE, "first@2026-02-01T00:00:00Z", True),
        (SYNCED_FALSE, f"{REQUEST}0", True),
        (SYNCED_FALSE, "", True),
        ({**SYNCED_FALSE, "message": f"an earlier restore ({REQUEST})"}, "", True),
        ({**SYNCED_FALSE, "reason": "TenantUnreachable"}, REQUEST, True),
        ({**SYNCED_FALSE, "status": "True"}, REQUEST, True),
    ],
)
async def test_only_this_request_in_the_status_proves_a_disconnect(synced, asked, connected):
    found = body(synced=synced)
    found["status"]["disconnectedForRestore"] = asked
    cluster = parse_virtual_cluster(found)
    request = parse_restore_request(cluster.annotations)
    assert request is not None
    assert restore.is_disconnected(cluster, request) is not connected


@pytest.mark.parametrize("phase", ["Complete", "Failed"])
async def test_after_the_result_is_recorded_the_request_is_removed(phase):
    recorded = {"request": REQUEST, "phase": phase}
    found = await run({}, body(recorded), observed())
    assert not found.is_held
    assert found.client.calls == [
        ("delete", JOB),
        ("delete", f"{JOB}-check"),
        ("patch", TENANT.name),
    ]
    removed = found.client.bodies[-1]["metadata"]
    assert removed["annotations"] == {wellknown.RESTORE_SNAPSHOT: None}
    assert removed["resourceVersion"] == "7"


async def test_without_a_request_nothing_is_read_or_written():
    client = RecordingClient()
    client.problems = {("get", "first"): errors.NotFound("x")}
    found = body({"request": REQUEST, "phase": "Complete"}, request="")
    status = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    await restore.hold_restore(
        fake_means(client), parse_virtual_cluster(found), found, observed(), status
    )
    assert client.calls == []


@pytest.mark.parametrize("annotation", [REQUEST, "", "other@2026-03-02T00:00:00Z"])
async def test_an_announced_restore_goes_on_whatever_the_annotation_is(annotation):
    announced = {"request": REQUEST, "phase": "Restoring", "reason": "Restoring"}
    found = await run({}, body(announced, request=annotation), observed(replicas=0, pods=False))
    assert (found.phase, found.is_held) == ("Restoring", True)
    assert found.client.calls == [("create", JOB)]


@pytest.mark.parametrize("annotation", ["", "other@2026-03-02T00:00:00Z"])
async def test_before_that_a_request_can_be_withdrawn_or_changed(annotation):
    stopping = {"request": REQUEST, "phase": "Stopping"}
    found = await run(CHECKED, body(stopping, request=annotation), observed(replicas=0))
    assert found.phase == ("Failed" if annotation else None)
    assert not found.is_held


async def test_a_pod_of_a_person_in_the_root_namespace_delays_nothing():
    view = observed(replicas=0, pods=False)
    debug = pod("debug", "x")
    del debug["metadata"]["labels"]
    view.objects["Pod"]["debug"] = debug
    assert not control_plane_stop.has_running_component(view)
    view.objects["Pod"]["etcd-0"] = pod("etcd-0", "etcd")
    assert control_plane_stop.has_running_component(view)
