"""Shape of the pod that reads and writes the volume of snapshots."""

from types import SimpleNamespace

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


class Deployments:
    """A super cluster with a Deployment of the same label in a namespace of a user."""

    def __init__(self, **images: str) -> None:
        self.images = images

    async def list(self, _: object, *, namespace: str = "", label_selector: str) -> dict:
        """Return the Deployments of a namespace, or of all."""
        assert label_selector == "app.kubernetes.io/name=vc-manager"
        return {
            "items": [
                {"spec": {"template": {"spec": {"containers": [{"image": image}]}}}}
                for place, image in self.images.items()
                if namespace in ("", place.replace("_", "-"))
            ]
        }


async def test_the_image_is_that_of_the_components_and_no_users():
    connection = SimpleNamespace(
        super_client=Deployments(a_user="stolen:1", vc_manager="vc-manager:1")
    )
    assert await transfer_pod.find_image(connection) == "vc-manager:1"
    with pytest.raises(CliError, match="--image"):
        await transfer_pod.find_image(SimpleNamespace(super_client=Deployments(a_user="stolen:1")))
