"""The new VirtualCluster of `restore --as-new`, and the checks before it starts."""

from types import SimpleNamespace
from typing import Any

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.snapshot import fork, restore
from tenancy import wellknown
from tests.unit.kubectl_vc.snapshot.test_snapshots import body


def test_the_new_tenant_is_suspended_and_has_no_address_reader_or_time_of_the_old_one():
    old = {
        "clusterVersionName": "v1.36",
        "serviceCidr": "10.96.8.0/22",
        "snapshotSchedule": {"interval": "24h"},
        "kubeconfigReaders": [{"kind": "User", "name": "a"}],
        "suspend": False,
        "endpoint": {"hostname": "shop.example.com"},
        "kubeconfigSecrets": ["ArgoCD"],
        "sleep": {"workloads": "Keep"},
        "pausedUntil": "2026-12-24T18:00:00Z",
        "expiresAt": "2026-12-24T18:00:00Z",
        "addons": [{"name": "base"}],
        "dns": "none",
    }
    found = fork.build_cluster("copy", old, {})
    labels = {wellknown.DELETION_PROTECTION: "enabled"}
    assert found["metadata"] == {"name": "copy", "labels": labels}
    assert found["spec"] == {"clusterVersionName": "v1.36", "dns": "none", "suspend": True}


def test_the_version_is_that_of_the_snapshot_when_the_old_tenant_was_upgraded():
    found = fork.build_cluster(
        "copy", {"clusterVersionName": "v1.37"}, {"clusterVersionName": "v1.36"}
    )
    assert found["spec"]["clusterVersionName"] == "v1.36"


def test_a_file_alone_needs_the_version_of_its_manifest():
    found = fork.build_cluster("copy", {}, {"clusterVersionName": "v1.36"})
    assert found["spec"] == {"clusterVersionName": "v1.36", "suspend": True}
    with pytest.raises(CliError, match="names no ClusterVersion"):
        fork.build_cluster("copy", {}, {})


def test_encrypted_secrets_are_refused_before_anything_is_created():
    fork.check_manifest({"secrets": {"cluster-ca": "ab"}})
    with pytest.raises(CliError, match="encrypted Secrets"):
        fork.check_manifest({"secrets": {"encryption-keys": "ab"}})


@pytest.mark.parametrize(
    ("spec", "annotations", "state", "message"),
    [
        ({}, {}, None, "is not suspended"),
        ({"suspend": True}, {wellknown.RESTORE_SNAPSHOT: "s@t"}, None, "is being restored"),
        (
            {"suspend": True},
            {},
            {"phase": "Failed", "reason": "EncryptedData", "message": "no."},
            r"was not restored \(EncryptedData\)",
        ),
        ({"suspend": True}, {}, {"phase": "Complete"}, None),
        ({"suspend": True}, {}, None, None),
    ],
)
def test_only_a_suspended_and_restored_tenant_starts(spec, annotations, state, message):
    found = {
        "metadata": {"name": "copy", "annotations": annotations},
        "spec": spec,
        "status": {"restore": state} if state else {},
    }
    if message is None:
        fork.check_startable("it", found)
        return
    with pytest.raises(CliError, match=message):
        fork.check_startable("it", found)


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_right_to_suspend_is_checked_before_the_long_steps(allowed):
    asked: list[Any] = []

    class ReviewingClient:
        async def create(self, _: Any, question: Any) -> Any:
            asked.append(question["spec"]["resourceAttributes"])
            return {"status": {"allowed": allowed}}

    connection: Any = SimpleNamespace(super_client=ReviewingClient(), namespace="team-a")
    if allowed:
        await fork.check_right(connection, "copy")
    else:
        with pytest.raises(CliError, match="clusterrole virtual-cluster-admin"):
            await fork.check_right(connection, "copy")
    group, resource = "tenancy.x-k8s.io", "virtualclusters"
    where = {"namespace": "team-a", "name": "copy"}
    assert asked == [{"verb": "suspend", "group": group, "resource": resource, **where}]


def test_an_imported_snapshot_of_another_tenant_is_for_a_suspended_one_only():
    snapshot = body()
    snapshot["status"]["manifest"]["virtualClusterUID"] = "another"
    cluster = {"metadata": {"name": "n", "namespace": "d", "uid": "u"}, "spec": {"suspend": True}}
    with pytest.raises(CliError, match="--as-new"):
        restore.check_snapshot(cluster, snapshot)
    snapshot.setdefault("spec", {})["imported"] = {"manifest": {}}
    restore.check_snapshot(cluster, snapshot)
    with pytest.raises(CliError, match="--as-new"):
        restore.check_snapshot({**cluster, "spec": {}}, snapshot)
