"""Snapshots and restores in place, with a real etcd, etcdctl and etcdutl on the host.

The Jobs and their pods are those of the super cluster's API. The test plays kubelet: it runs the
containers of a Job as processes, with the folders of the volumes on the host.
"""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kubeio import Object
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage, cluster_version
from tests.integration.vcmanager.hosted_control_plane import build_etcd_flags, materialise, start
from tests.support.processes import ProgramProcess, free_port
from tests.support.vcmanager.job_containers import run_container
from tools.testbed.artifacts import binaries
from vcmanager.phases.etcd import member_config
from vcmanager.pki import inventory
from vcmanager.reconcilers.snapshots.snapshot import reconcile_snapshot
from vcmanager.runtime import keys

SNAPSHOTS = resources.VIRTUAL_CLUSTER_SNAPSHOTS
POD_A, POD_B = "/registry/pods/default/a", "/registry/pods/default/b"
_ROUNDS = 120


@dataclass(kw_only=True)
class HostStore:
    """A tenant whose etcd runs on the host."""

    stage: ManagerStage
    cluster: Object
    folder: Path
    port: int
    process: ProgramProcess | None = None
    flags: dict[str, str] = field(default_factory=dict)
    stateful_set: Object = field(default_factory=dict)
    snapshots: Path = Path()
    """Folder of the volume of snapshots in the pod that runs."""

    def run_etcd(self) -> None:
        """Start etcd on the volume."""
        self.process = start(self.stateful_set, self.folder / "etcd", **self.flags)

    async def write_files(self) -> None:
        """Write the files of etcd's pod, with the Secrets as they are now."""
        root = self.stage.root(self.cluster)
        await materialise(self.stage, root, self.stateful_set, self.folder / "etcd")

    async def stop_etcd(self) -> None:
        """Stop etcd as the end of its pod does."""
        if self.process is not None:
            await self.process.stop(patience=5.0)
            self.process = None

    def etcdctl(self, *words: str) -> str:
        """Return the output of etcdctl."""
        pki = self.folder / "etcd/etc/kubernetes/pki"
        found = subprocess.run(
            [
                str(binaries.path("etcdctl")),
                f"--endpoints=https://127.0.0.1:{self.port}",
                f"--cacert={pki}/trust/etcd.crt",
                f"--cert={pki}/etcd/tls.crt",
                f"--key={pki}/etcd/tls.key",
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        return found.stdout if not found.returncode else f"failed: {found.stderr}"

    async def wait_for_etcd(self) -> None:
        """Return when etcd answers."""
        for _ in range(100):
            if not self.etcdctl("get", "x").startswith("failed"):
                return
            await asyncio.sleep(0.1)
        assert self.process is not None
        raise AssertionError(self.process.tail())

    @property
    def revision(self) -> int:
        """Revision of etcd."""
        found = json.loads(self.etcdctl("get", "x", "-w", "json"))
        return int(found["header"]["revision"])

    async def run_jobs(self) -> None:
        """Play kubelet for the pods of Jobs: run their containers one after the other."""
        root = self.stage.root(self.cluster)
        page = await self.stage.admin.list(
            resources.PODS, namespace=root, label_selector=f"{wellknown.COMPONENT}=snapshot"
        )
        for pod in page["items"]:
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            await self._run_pod(root, pod)

    async def _run_pod(self, root: str, pod: Object) -> None:
        place = self.folder / "job"
        shutil.rmtree(place, ignore_errors=True)
        is_empty = any("emptyDir" in each for each in pod["spec"]["volumes"])
        self.snapshots = self.folder / (f"empty-{uuid4()}" if is_empty else "snapshots")
        await materialise(self.stage, root, {"spec": {"template": {"spec": pod["spec"]}}}, place)
        states: dict[str, list[Object]] = {"initContainerStatuses": [], "containerStatuses": []}
        code = 0
        for kind, status in (
            ("initContainers", "initContainerStatuses"),
            ("containers", "containerStatuses"),
        ):
            for container in pod["spec"].get(kind) or ():
                if code:
                    break
                code, message = self._run_container(container, place)
                ended = {"exitCode": code, "message": message[-4000:]}
                states[status].append(
                    {
                        "name": container["name"],
                        "image": container["image"],
                        "imageID": "",
                        "ready": False,
                        "restartCount": 0,
                        "state": {"terminated": ended},
                    }
                )
        await self.stage.admin.patch(
            resources.PODS,
            pod["metadata"]["name"],
            {"status": {"phase": "Failed" if code else "Succeeded", **states}},
            namespace=root,
            subresource="status",
        )

    def _run_container(self, container: Object, place: Path) -> tuple[int, str]:
        self.snapshots.mkdir(exist_ok=True)
        replaced = (
            ("https://etcd-client:2379", f"https://127.0.0.1:{self.port}"),
            (member_config.build_peer_url(0), self.flags["listen-peer-urls"]),
            ("/etc/kubernetes", f"{place}/etc/kubernetes"),
            ("/var/lib/etcd", str(self.folder / "volume")),
        )

        def adapt(words: list[str]) -> list[str]:
            for old, new in replaced:
                words = [word.replace(old, new) for word in words]
            return [re.sub("(^|=)/snapshots/", rf"\g<1>{self.snapshots}/", word) for word in words]

        return run_container(container, self.folder / "termination.log", adapt)

    async def save(self, name: str, **spec: Any) -> Object:
        """Create a snapshot and return it when it has ended."""
        body = {
            "apiVersion": SNAPSHOTS.api_version,
            "kind": SNAPSHOTS.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"virtualClusterName": self.cluster["metadata"]["name"], **spec},
        }
        await self.stage.admin.create(SNAPSHOTS, body)
        return await self.settle(name, lambda found: found.get("phase") in ("Complete", "Failed"))

    async def settle(self, name: str, until: Any) -> Object:
        """Reconcile a snapshot until its status is as wanted."""
        found: Object = {}
        for _ in range(_ROUNDS):
            await reconcile_snapshot(self.stage.means, keys.build_snapshot_key("default", name))
            await self.run_jobs()
            found = await self.stage.admin.get(SNAPSHOTS, name, namespace="default")
            if until(found.get("status") or {}):
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"not settled: {found.get('status')}")

    async def restore(self, snapshot: str, moment: str = "2026-11-28T08:00:00Z") -> Object:
        """Request a restore and return `status.restore` when the request has been removed."""
        request = f"{snapshot}@{moment}"
        name = self.cluster["metadata"]["name"]
        annotations = {wellknown.RESTORE_SNAPSHOT: request}
        await self.stage.admin.patch(
            resources.VIRTUAL_CLUSTERS,
            name,
            {"metadata": {"annotations": annotations}},
            namespace="default",
        )
        body: Object = {}
        for _ in range(_ROUNDS):
            await self.stage.work(self.cluster)
            etcd = await self._get_etcd()
            if etcd["spec"]["replicas"] == 0:
                await self.stop_etcd()
            await self.stage.end_pods(self.cluster)
            await self.run_jobs()
            body = await self.stage.fresh(self.cluster)
            if wellknown.RESTORE_SNAPSHOT not in (body["metadata"].get("annotations") or {}):
                return body["status"]["restore"]
            await asyncio.sleep(0.1)
        raise AssertionError(f"not restored: {body['status']}")

    async def _get_etcd(self) -> Object:
        return await self.stage.admin.get(
            resources.STATEFUL_SETS, "etcd", namespace=self.stage.root(self.cluster)
        )


@pytest.fixture
async def store(stage: ManagerStage, tmp_path: Path) -> AsyncIterator[HostStore]:
    cluster = await stage.declare(dns="none")
    await stage.bring_up(cluster)
    etcd = await stage.admin.get(resources.STATEFUL_SETS, "etcd", namespace=stage.root(cluster))
    port, peer = free_port(), f"https://127.0.0.1:{free_port()}"
    client = f"https://127.0.0.1:{port}"
    flags = build_etcd_flags(tmp_path / "volume/data", client, peer)
    (tmp_path / "volume").mkdir()
    found = HostStore(
        stage=stage,
        cluster=cluster,
        folder=tmp_path,
        port=port,
        flags=flags,
        stateful_set=etcd,
    )
    await found.write_files()
    found.run_etcd()
    await found.wait_for_etcd()
    try:
        yield found
    finally:
        await found.stop_etcd()


async def test_a_restored_tenant_has_the_data_of_the_snapshot_and_a_higher_revision(
    store: HostStore,
):
    """REL-74."""
    store.etcdctl("put", POD_A, "saved")
    snapshot = await store.save("first")
    status = snapshot["status"]
    assert status["phase"] == "Complete", status
    manifest = status["manifest"]
    assert manifest["virtualClusterUID"] == store.cluster["metadata"]["uid"]
    assert manifest["objects"] == 1
    assert manifest["revision"] == store.revision
    assert set(manifest["secrets"]) == {
        *inventory.AUTHORITIES.values(),
        inventory.SERVICE_ACCOUNT_KEYS,
    }
    file = store.folder / "snapshots" / f"{snapshot['metadata']['uid']}.db"
    beside = json.loads(file.with_suffix(".json").read_text())
    assert beside["sha256"] == manifest["sha256"]
    assert beside["resources"] == {"pods": 1}

    store.etcdctl("del", POD_A)
    store.etcdctl("put", POD_B, "later")
    later = store.revision
    await store.stage.admin.patch(
        SNAPSHOTS,
        "first",
        {"metadata": {"annotations": {wellknown.COMPARE_SNAPSHOT: "now"}}},
        namespace="default",
    )
    compared = await store.settle("first", lambda found: "comparison" in found)
    comparison = compared["status"]["comparison"]
    assert comparison["removed"] == {"pods": 1}
    assert comparison["broughtBack"] == {"pods": 1}
    assert comparison["removedNames"] == ["pods/default/b"]
    assert compared["status"]["manifest"] == manifest

    result = await store.restore("first")
    assert (result["phase"], result["reason"]) == ("Complete", "Restored")
    store.run_etcd()
    await store.wait_for_etcd()
    assert store.revision > later + 900_000_000
    assert "saved" in store.etcdctl("get", POD_A)
    assert not store.etcdctl("get", POD_B)
    root = await store.stage.admin.get(resources.NAMESPACES, store.stage.root(store.cluster))
    assert int(root["metadata"]["annotations"][wellknown.STORE_EPOCH]) >= 1000
    await store.stage.bring_up(store.cluster)


async def test_a_snapshot_from_before_an_upgrade_brings_its_version_back(
    store: HostStore, monkeypatch: pytest.MonkeyPatch
):
    """REL-74."""

    async def older_version() -> str:
        return "v1.35.4"

    older = cluster_version("v1.35", kubernetesVersion="1.35", serviceType="ClusterIP")
    await store.stage.admin.apply(resources.CLUSTER_VERSIONS, older, field_manager="tests")
    store.etcdctl("put", POD_A, "saved")
    snapshot = await store.save("before-upgrade")
    origin = {"kubernetesVersion": "v1.35.4", "clusterVersionName": "v1.35"}
    status = {"manifest": {**snapshot["status"]["manifest"], **origin}}
    await store.stage.admin.patch(
        SNAPSHOTS, "before-upgrade", {"status": status}, namespace="default", subresource="status"
    )
    store.etcdctl("put", POD_B, "later")

    refused = await store.restore("before-upgrade")
    assert (refused["phase"], refused["reason"]) == ("Failed", "OtherKubernetesMinor")
    await store.stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        store.cluster["metadata"]["name"],
        {"spec": {"clusterVersionName": "v1.35"}},
        namespace="default",
    )
    result = await store.restore("before-upgrade", "2026-11-28T09:00:00Z")
    assert (result["phase"], result["reason"]) == ("Complete", "Restored"), result
    body = await store.stage.fresh(store.cluster)
    assert body["status"]["version"] == "v1.35.4"
    store.run_etcd()
    await store.wait_for_etcd()
    assert "saved" in store.etcdctl("get", POD_A)
    assert not store.etcdctl("get", POD_B)
    # One API server stands for all tenants. From here on it is one of the older minor.
    monkeypatch.setattr(store.stage.tenants.client, "version", older_version)
    await store.stage.bring_up(store.cluster)
    root = store.stage.root(store.cluster)
    server = await store.stage.admin.get(resources.STATEFUL_SETS, "apiserver", namespace=root)
    [container, *_] = server["spec"]["template"]["spec"]["containers"]
    assert ":v1.35." in container["image"]


async def test_a_changed_file_is_refused_and_the_tenant_runs_on(store: HostStore):
    """REL-74."""
    store.etcdctl("put", POD_A, "saved")
    snapshot = await store.save("broken")
    file = store.folder / "snapshots" / f"{snapshot['metadata']['uid']}.db"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    store.etcdctl("put", POD_B, "later")

    result = await store.restore("broken")
    assert (result["phase"], result["reason"]) == ("Failed", "ChecksumMismatch")
    assert "The tenant was not stopped" in result["message"]
    assert store.process is not None
    assert "later" in store.etcdctl("get", POD_B)
    ready = await store.stage.condition(store.cluster, "Ready")
    assert (ready or {}).get("status") == "True"


async def test_a_missing_claim_is_named_and_a_deleted_snapshot_deletes_its_file(store: HostStore):
    name = "elsewhere"
    await store.stage.admin.create(
        SNAPSHOTS,
        {
            "apiVersion": SNAPSHOTS.api_version,
            "kind": SNAPSHOTS.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "virtualClusterName": store.cluster["metadata"]["name"],
                "storage": {"persistentVolumeClaim": {"claimName": "snapshots-nfs"}},
            },
        },
    )
    found = await store.settle(name, lambda status: status.get("phase") == "Pending")
    condition = found["status"]["conditions"][0]
    assert condition["reason"] == "ClaimMissing"
    assert "snapshots-nfs" in condition["message"]

    snapshot = await store.save("short-lived")
    file = store.folder / "snapshots" / f"{snapshot['metadata']['uid']}.db"
    assert file.exists()
    await store.stage.admin.delete(SNAPSHOTS, "short-lived", namespace="default")
    for _ in range(_ROUNDS):
        key = keys.build_snapshot_key("default", "short-lived")
        await reconcile_snapshot(store.stage.means, key)
        await store.run_jobs()
        page = await store.stage.admin.list(SNAPSHOTS, namespace="default")
        if "short-lived" not in {each["metadata"]["name"] for each in page["items"]}:
            break
        await asyncio.sleep(0.1)
    else:
        raise AssertionError("the snapshot still exists")
    assert not file.exists()
