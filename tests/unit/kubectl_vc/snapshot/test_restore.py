"""Checks before a restore, its dry run, and its result."""

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.snapshot import restore
from tests.support.vcmanager.factories import TENANT
from tests.unit.kubectl_vc.snapshot.test_snapshots import body

CLUSTER = {"metadata": {"name": "vc-1", "namespace": "default", "uid": TENANT.uid}}


def test_a_snapshot_of_another_tenant_is_refused_before_anything_is_asked():
    restore.check_snapshot(CLUSTER, body())
    other = {"metadata": {**CLUSTER["metadata"], "uid": "another"}}
    with pytest.raises(CliError, match="is of another VirtualCluster"):
        restore.check_snapshot(other, body())
    with pytest.raises(CliError, match="is not complete"):
        restore.check_snapshot(CLUSTER, body("Unknown"))


def test_the_dry_run_lists_the_changes():
    snapshot = body()
    snapshot["status"]["manifest"]["clusterVersionName"] = "v1.36"
    snapshot["status"]["comparison"] = {
        "removed": {"pods": 2, "secrets": 1},
        "broughtBack": {},
        "reverted": {"pods": 1},
        "removedNames": ["pods/default/b"],
    }
    assert list(restore.describe_comparison(snapshot)) == [
        "Snapshot of v1.36, Kubernetes v1.36.1, 7 objects",
        "Removed in the tenant (their copies stay until confirm-deletes): 3",
        "  pods: 2",
        "  secrets: 1",
        "Brought back in the tenant, and synced to the super cluster: 0",
        "Set back to their earlier content: 1",
        "  pods: 1",
        "  removed: pods/default/b",
    ]


@pytest.mark.parametrize(
    ("running", "current", "lines"),
    [
        ("v1.37.2", "v1.37", 1),
        ("v1.35.4", "v1.35", 1),
        ("v1.36.4", "other", 0),
        ("v1.37.2", "v1.36", 0),
        ("", "v1.37", 0),
    ],
)
def test_a_change_of_the_cluster_version_is_announced(running, current, lines):
    snapshot = body()
    snapshot["status"]["manifest"]["clusterVersionName"] = "v1.36"
    cluster = {"spec": {"clusterVersionName": current}, "status": {"version": running}}
    found = list(restore.describe_version(cluster, snapshot))
    expected = f"also changes the ClusterVersion from {current} to v1.36."
    assert [each.endswith(expected) for each in found] == [True] * lines


def test_a_comparison_that_failed_reports_it():
    snapshot = body()
    snapshot["status"]["comparison"] = {"requested": "t"}
    assert "not known" in list(restore.describe_comparison(snapshot))[1]


def test_a_failed_restore_is_an_error_with_its_reason():
    restore.check_result("it", {"phase": "Complete"})
    failed = {"phase": "Failed", "reason": "ChecksumMismatch", "message": "other bytes."}
    with pytest.raises(
        CliError, match=r"^it was not restored \(ChecksumMismatch\): other bytes\.$"
    ):
        restore.check_result("it", failed)
