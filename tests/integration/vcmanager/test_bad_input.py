"""Bad input of administrators and of volumes: a condition names it, and running tenants go on."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubeio import Object, errors
from tenancy import resources
from tenancy.resources import CLUSTER_VERSIONS, SECRETS, STATEFUL_SETS
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.test_rollout import create_version, finish, has_flag
from tests.integration.vcmanager.test_snapshots import POD_A, SNAPSHOTS, HostStore, store
from vcmanager.pki import bundles

__all__ = ["store"]

pytestmark = pytest.mark.integration
FLAG = "no-such-flag"
_COMPLAINT = f"Error: unknown flag: --{FLAG}"


async def change_flags(stage: ManagerStage, version: str, flags: Object | None) -> None:
    spec = {"extraArgs": {"apiServer": flags}}
    await stage.admin.patch(CLUSTER_VERSIONS, version, {"spec": spec})


async def crash(stage: ManagerStage, cluster: Object) -> None:
    """Play kubelet for an API server that ends at its start."""
    page = await stage.admin.list(
        resources.PODS, namespace=stage.root(cluster), label_selector="component-name=apiserver"
    )
    for pod in page["items"]:
        ended = {"exitCode": 1, "reason": "Error", "message": _COMPLAINT}
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}
        container = pod["spec"]["containers"][0]
        status = {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": False,
                    "restartCount": 3,
                    "state": {"waiting": waiting},
                    "lastState": {"terminated": ended},
                }
            ],
            "conditions": [
                {"type": each, "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for each in ("ContainersReady", "Ready")
            ],
        }
        with contextlib.suppress(errors.NotFound):  # the controller was faster
            await stage.admin.patch(
                resources.PODS,
                pod["metadata"]["name"],
                {"status": status},
                namespace=stage.root(cluster),
                subresource="status",
            )


async def test_flags_that_crash_an_api_server_are_named_and_reach_one_tenant_only(
    stage: ManagerStage,
):
    version = await create_version(stage)
    first, second = [await stage.declare(clusterVersionName=version, dns="none") for _ in range(2)]
    for each in (first, second):
        await stage.bring_up(each)
        await finish(stage, each)
    await change_flags(stage, version, {FLAG: "1"})
    await stage.work(first)
    assert await has_flag(stage, first, FLAG)
    ready: Object = {}
    for _ in range(100):
        await stage.end_pods(first)
        await crash(stage, first)
        await stage.work(first)
        await asyncio.sleep(0.05)
        ready = await stage.condition(first, "APIServerReady") or {}
        if FLAG in ready.get("message", ""):
            break
    assert ready.get("status") == "False", ready
    assert _COMPLAINT in ready["message"], ready

    await stage.work(second, times=3)
    assert not await has_flag(stage, second, FLAG), "the other tenant is not changed"
    running = await stage.condition(second, "Ready") or {}
    assert running.get("status") == "True"

    await change_flags(stage, version, None)
    await stage.work(first)
    await finish(stage, first)
    assert not await has_flag(stage, first, FLAG)


@pytest.mark.parametrize("fault", ["half", "empty", "other"])
@pytest.mark.parametrize("name", ["controller-manager-kubeconfig", "admin-kubeconfig"])
async def test_a_half_written_kubeconfig_is_written_again_and_nothing_else(
    stage: ManagerStage, name: str, fault: str
):
    cluster = await stage.declare(dns="none")
    await stage.bring_up(cluster)
    await stage.work(cluster)
    root = stage.root(cluster)
    page = await stage.admin.list(SECRETS, namespace=root)
    before = {each["metadata"]["name"]: each["data"] for each in page["items"]}
    server = await stage.admin.get(STATEFUL_SETS, "apiserver", namespace=root)
    whole = bundles.read_data(await stage.secret(cluster, name), name)
    written = {"half": whole[: len(whole) // 2], "empty": b"", "other": b"\xff\x00: [\n"}[fault]
    encoded = base64.b64encode(written).decode()
    await stage.admin.patch(SECRETS, name, {"data": {name: encoded}}, namespace=root)

    await stage.work(cluster, times=2)
    page = await stage.admin.list(SECRETS, namespace=root)
    after = {each["metadata"]["name"]: each["data"] for each in page["items"]}
    assert {each for each in after if after[each] != before[each]} == {name}
    mended = bundles.read_data(await stage.secret(cluster, name), name)
    assert bundles.read_kubeconfig_key_pair(mended) is not None
    condition = await stage.condition(cluster, "CertificatesReady") or {}
    assert condition.get("status") == "True", condition
    again = await stage.admin.get(STATEFUL_SETS, "apiserver", namespace=root)
    assert again["spec"]["template"] == server["spec"]["template"], "the API server stays"


@contextmanager
def tiny_volume(folder: Path) -> Iterator[None]:
    """Mount a file system without room for a snapshot."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tiny", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def check_unharmed(tenant: HostStore) -> None:
    """Raise AssertionError unless the tenant runs with its present data."""
    assert tenant.process is not None
    assert "saved" in tenant.etcdctl("get", POD_A)
    ready = await tenant.stage.condition(tenant.cluster, "Ready")
    assert (ready or {}).get("status") == "True"


async def test_a_full_volume_of_snapshots_is_named_and_the_tenant_unharmed(store: HostStore):
    store.etcdctl("put", POD_A, "saved")
    with tiny_volume(store.folder / "snapshots"):
        snapshot = await store.save("too-large")
    [condition] = snapshot["status"]["conditions"][:1]
    assert (snapshot["status"]["phase"], condition["reason"]) == ("Failed", "VolumeFull")
    assert "the volume of snapshots is full" in condition["message"]
    await check_unharmed(store)
    later = await store.save("with-room")
    assert later["status"]["phase"] == "Complete"


async def test_a_snapshot_of_another_minor_is_named_and_the_tenant_unharmed(store: HostStore):
    store.etcdctl("put", POD_A, "saved")
    snapshot = await store.save("older")
    manifest = {**snapshot["status"]["manifest"], "kubernetesVersion": "v1.34.2"}
    await store.stage.admin.patch(
        SNAPSHOTS,
        "older",
        {"status": {"manifest": manifest}},
        namespace="default",
        subresource="status",
    )
    result = await store.restore("older")
    assert (result["phase"], result["reason"]) == ("Failed", "OtherKubernetesMinor")
    assert "is of Kubernetes 1.34" in result["message"]
    assert "to a ClusterVersion of 1.34" in result["message"]
    await check_unharmed(store)
