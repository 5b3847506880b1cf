"""Shape of the pod that reads and writes the volume of snapshots."""

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.snapshot import transfer_pod
from tests.support.vcmanager.snapshots import live_etcd, snapshot_body


def test_the_pod_has_no_token_and_mounts_the_claim_only():
    etcd = live_etcd(nodeSelector={"pool": "control"}, securityContext={"runAsUser": 65532})
    job = transfer_pod.build_job(
        etcd, snapshot_body(), root="root", image="vc-manager:1", is_read_only=True
    )
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["nodeSelector"] == {"pool": "control"}
    assert pod["securityContext"] == {"runAsUser": 65532}
    assert [each["name"] for each in pod["volumes"]] == ["snapshots"]
    [container] = pod["containers"]
    assert container["volumeMounts"][0]["readOnly"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert job["spec"]["activeDeadlineSeconds"] == 3600
    assert job["spec"]["ttlSecondsAfterFinished"] == 0


def test_a_snapshot_in_a_bucket_is_not_read_through_a_pod():
    found = snapshot_body()
    found["spec"]["storage"] = {"s3": {"prefix": "a/"}}
    with pytest.raises(CliError, match=r"Its key is a/5a1b0c5e-.*\.db"):
        transfer_pod.build_job(live_etcd(), found, root="r", image="i", is_read_only=True)
