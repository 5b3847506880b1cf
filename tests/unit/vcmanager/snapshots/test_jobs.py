"""Shape and results of the Jobs of snapshots."""

import pytest

from tenancy import wellknown
from tenancy.snapshots import view
from tenancy.snapshots.specs import SnapshotSchedule
from tests.support.vcmanager.factories import TENANT
from tests.support.vcmanager.snapshots import (
    SNAPSHOT_UID,
    live_etcd,
    make_snapshot,
    snapshot_body,
)
from vcmanager.plan.control_plane import ETCD_QUOTA_PERCENT
from vcmanager.snapshots import jobs
from vcmanager.snapshots.jobs import JobContext

CONTEXT = JobContext(tenant=TENANT, etcd=live_etcd(), image="registry.example/vc-manager:1")
BUILD = {
    "save": lambda context: jobs.build_save_job(context, make_snapshot(), {"a": 1}, name="x"),
    "compare": lambda context: jobs.build_compare_job(context, make_snapshot(), name="x"),
    "check": lambda context: jobs.build_check_job(context, make_snapshot(), name="x"),
    "delete": lambda context: jobs.build_delete_job(context, make_snapshot(), name="x"),
    "restore": lambda context: jobs.build_restore_job(context, make_snapshot(), name="x"),
}
MOUNTED = {
    "save": {"snapshots", "certificates", "trust"},
    "compare": {"snapshots", "certificates", "trust"},
    "check": {"snapshots"},
    "delete": {"snapshots"},
    "restore": {"snapshots", "data"},
}


@pytest.mark.parametrize("purpose", BUILD)
def test_a_pod_has_no_token_and_mounts_only_what_it_needs(purpose):
    job = BUILD[purpose](CONTEXT)
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["restartPolicy"] == "Never"
    assert {each["name"] for each in pod["volumes"]} == MOUNTED[purpose]
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert job["spec"]["template"]["metadata"]["labels"][wellknown.COMPONENT] == "snapshot"


def test_a_restore_raises_the_revision_and_has_one_member():
    pod = jobs.build_restore_job(CONTEXT, make_snapshot(), name="x")["spec"]["template"]["spec"]
    verify, restore = pod["initContainers"]
    assert f"--sha256={'ab' * 32}" in verify["args"]
    assert f"/snapshots/{SNAPSHOT_UID}.db" in restore["command"]
    assert "--bump-revision=1000000000" in restore["command"]
    assert "--mark-compacted" in restore["command"]
    assert "--initial-cluster=etcd-0=https://etcd-0.etcd:2380" in restore["command"]
    assert "--initial-cluster-token=x" in restore["command"]  # of this restore alone
    assert [each["name"] for each in pod["containers"]] == ["swap"]


def test_image_and_placement_are_those_of_etcd():
    etcd = live_etcd(
        nodeSelector={"pool": "control"}, imagePullSecrets=[{"name": "pull"}], hostNetwork=True
    )
    job = jobs.build_restore_job(
        JobContext(tenant=TENANT, etcd=etcd, image="vc-manager:1"), make_snapshot(), name="x"
    )
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "control"}
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert "hostNetwork" not in pod
    images = {each["name"]: each["image"] for each in pod["initContainers"]}
    assert images == {"verify": "vc-manager:1", "restore": "registry.example/vc/etcd:3.7.3"}


def test_the_claim_has_room_for_the_snapshots_of_a_schedule_and_the_next_one():
    claim = jobs.build_claim(CONTEXT, "snapshots")
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "10240Mi"
    files = SnapshotSchedule(interval="24h").keep + 1
    assert files * ETCD_QUOTA_PERCENT <= 100 * jobs.VOLUME_FACTOR


def pod(code=0, message="", kind="containerStatuses"):
    ended = {"exitCode": code, "message": message}
    return {"status": {kind: [{"name": "save", "state": {"terminated": ended}}]}}


def job(kind=""):
    listed = [{"type": kind, "status": "True", "reason": "DeadlineExceeded", "message": "late"}]
    return {"status": {"conditions": listed if kind else []}}


@pytest.mark.parametrize(
    ("found", "pods", "reason", "words"),
    [
        (job("Failed"), [], "DeadlineExceeded", "late"),
        (
            job("Failed"),
            [pod(1, '{"reason": "ChecksumMismatch", "message": "other"}')],
            "ChecksumMismatch",
            "other",
        ),
        (
            job("Failed"),
            [pod(1, "Error: write /snapshots/x: no space left on device", "initContainerStatuses")],
            "VolumeFull",
            "volume of snapshots is full",
        ),
        (
            job("Failed"),
            [pod(1, "first\ndeadline exceeded")],
            "SnapshotJobFailed",
            "save: deadline exceeded",
        ),
        (job("Failed"), [pod(137)], "SnapshotJobFailed", "exit code 137"),
        (job("Failed"), [pod(1, '["no", "object"]')], "SnapshotJobFailed", "no"),
    ],
)
def test_a_failed_job_reports_why(found, pods, reason, words):
    result = jobs.read_result(found, pods)
    assert (result.is_done, result.is_failed, result.reason) == (True, True, reason)
    assert words in result.message


def test_only_an_early_failure_proves_that_the_last_container_never_started():
    early = jobs.read_result(job("Failed"), [pod(1, "x", "initContainerStatuses")])
    assert early.is_before_last
    for pods in ([pod(1, "x")], []):
        assert not jobs.read_result(job("Failed"), pods).is_before_last


def test_a_pod_with_data_has_no_deadline_and_starts_or_not():
    assert "activeDeadlineSeconds" not in BUILD["restore"](CONTEXT)["spec"]
    assert BUILD["save"](CONTEXT)["spec"]["activeDeadlineSeconds"] == 900
    waiting = {"status": {"initContainerStatuses": [{"state": {"waiting": {"reason": "x"}}}]}}
    assert not jobs.read_result(job(), [waiting]).has_started
    running = {"status": {"initContainerStatuses": [{"state": {"running": {}}}]}}
    assert jobs.read_result(job(), [waiting, running]).has_started


def test_the_output_is_that_of_the_last_container():
    assert not jobs.read_result(job(), [pod()]).is_done
    result = jobs.read_result(job("Complete"), [pod(0, '{"sha256": "ab"}')])
    assert (result.is_failed, result.output) == (False, {"sha256": "ab"})


def test_a_pod_without_a_node_reports_why():
    waiting = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}
    assert jobs.describe_pending([{"status": {"conditions": [waiting]}}]) == "0/1 nodes"
    assert not jobs.describe_pending([pod()])


def in_bucket(**s3: str):
    """Return a snapshot in a bucket."""
    body = snapshot_body()
    wanted = {"endpoint": "https://s3.example.com", "bucket": "tenants", "prefix": "a/"}
    body["spec"]["storage"] = {"s3": {**wanted, **s3}}
    return view.parse_snapshot(body)


IN_BUCKET = {
    "save": lambda found: jobs.build_save_job(CONTEXT, found, {"a": 1}, name="x"),
    "compare": lambda found: jobs.build_compare_job(CONTEXT, found, name="x"),
    "check": lambda found: jobs.build_check_job(CONTEXT, found, name="x"),
    "delete": lambda found: jobs.build_delete_job(CONTEXT, found, name="x"),
    "restore": lambda found: jobs.build_restore_job(CONTEXT, found, name="x"),
}


@pytest.mark.parametrize("purpose", IN_BUCKET)
def test_only_our_own_containers_have_the_credentials_of_a_bucket(purpose):
    pod = IN_BUCKET[purpose](in_bucket(caSecretName="snapshots-ca"))["spec"]["template"]["spec"]
    labels = IN_BUCKET[purpose](in_bucket())["spec"]["template"]["metadata"]["labels"]
    assert labels[wellknown.USES_BUCKET] == "true"
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["snapshots"] == {"name": "snapshots", "emptyDir": {}}
    assert volumes["s3-credentials"]["secret"]["secretName"] == "snapshots-s3"
    assert volumes["s3-ca"]["secret"]["secretName"] == "snapshots-ca"
    for container in (*pod["initContainers"], *pod["containers"]):
        mounted = {each["name"] for each in container["volumeMounts"]}
        assert ("s3-credentials" in mounted) is ("command" not in container)
    flagged = [
        each
        for each in (*pod["initContainers"], *pod["containers"])
        if "--s3-endpoint=https://s3.example.com" in each.get("args", ())
    ]
    assert len(flagged) == 1
    assert "--s3-prefix=a/" in flagged[0]["args"]


def test_a_server_with_a_public_authority_has_no_ca():
    job = jobs.build_check_job(CONTEXT, in_bucket(), name="x")
    pod = job["spec"]["template"]["spec"]
    assert "s3-ca" not in {each["name"] for each in pod["volumes"]}
    assert not any("--s3-ca=" in word for word in pod["containers"][0]["args"])


def test_another_tenant_starts_from_a_rewritten_file():
    job = jobs.build_restore_job(CONTEXT, make_snapshot(), name="x", fork_range="10.96.8.0/22")
    pod = job["spec"]["template"]["spec"]
    verify, fork, restore = pod["initContainers"]
    written = f"/snapshots/{SNAPSHOT_UID}.db.fork"
    assert verify["name"] == "verify"
    assert f"--out={written}" in fork["args"]
    assert "--service-range=10.96.8.0/22" in fork["args"]
    assert written in restore["command"]
    assert f"--fork={written}" in pod["containers"][0]["args"]
    check = jobs.build_check_job(CONTEXT, make_snapshot(), name="x", fork_range="10.96.8.0/22")
    names = [each["name"] for each in check["spec"]["template"]["spec"]["initContainers"]]
    assert names == ["verify"]


def test_an_uploaded_file_is_checked_and_not_saved_again():
    job = jobs.build_record_job(CONTEXT, make_snapshot(), {"sha256": "cd" * 32}, name="x")
    pod = job["spec"]["template"]["spec"]
    assert pod["initContainers"] == []
    assert f"--sha256={'cd' * 32}" in pod["containers"][0]["args"]
    assert {each["name"] for each in pod["volumes"]} == {"snapshots"}
