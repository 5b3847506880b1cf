"""Snapshots in a bucket of a real S3 server, imported files, and the start of another tenant."""

import base64
import hashlib
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme

from kubeio import Object
from tenancy import conditions, resources, wellknown
from tests.integration.vcmanager.test_snapshots import (
    POD_A,
    POD_B,
    SNAPSHOTS,
    HostStore,
    store,  # noqa: F401 - a fixture
)
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from tools.testbed.artifacts import binaries
from vcmanager.reconcilers.snapshots.snapshot import reconcile_snapshot
from vcmanager.runtime import keys
from vcmanager.snapshots import snapshot_steps

KEY, SECRET, BUCKET = "vc-access", "vc-secret-0123456789", "tenants"
CONFIG_MAP = "/registry/configmaps/default/a"


@dataclass
class S3Server:
    """A real S3 server on loopback."""

    port: int
    authority: trustme.CA
    process: ProgramProcess
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        """URL."""
        return f"https://127.0.0.1:{self.port}"

    def storage(self, **changes: str) -> Object:
        """Return `spec.storage`."""
        wanted = {
            "endpoint": self.endpoint,
            "bucket": BUCKET,
            "prefix": "a/b/",
            "caSecretName": "snapshots-ca",
        }
        return {"s3": {**wanted, **changes}}


@pytest.fixture
async def s3(tmp_path: Path) -> AsyncIterator[S3Server]:
    authority, port = trustme.CA(), free_port()
    pair = authority.issue_cert("127.0.0.1")
    pair.private_key_pem.write_to_path(tmp_path / "s3.key")
    for part in pair.cert_chain_pems:
        part.write_to_path(tmp_path / "s3.crt", append=True)
    words = [f"127.0.0.1:{port}", str(tmp_path / "s3.crt"), str(tmp_path / "s3.key")]
    process = ProgramProcess(
        [str(binaries.path("s3")), *words, KEY, SECRET, BUCKET], tmp_path / "s3.log"
    )

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        await eventually(listens, within=20)
        yield S3Server(port, authority, process)
    finally:
        await process.stop(patience=2.0)


async def write_secret(tenant: HostStore, name: str, **data: str) -> None:
    """Create or replace a Secret in the root namespace, as the platform administrator does."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    root = tenant.stage.root(tenant.cluster)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": root},
        "data": encoded,
    }
    await tenant.stage.admin.apply(resources.SECRETS, body, field_manager="admin")


async def write_credentials(tenant: HostStore, s3: S3Server, secret: str, *more: str) -> None:
    """Create or replace the Secret with the credentials and the allowed servers."""
    endpoints = "\n".join((f"https://127.0.0.1:{s3.port}", *more))
    data = {"accessKeyID": KEY, "secretAccessKey": secret, "endpoints": endpoints}
    await write_secret(tenant, "snapshots-s3", **data)


async def trust(tenant: HostStore, s3: S3Server) -> None:
    """Create the Secrets of the bucket."""
    await write_credentials(tenant, s3, SECRET)
    ca = s3.authority.cert_pem.bytes().decode()
    await write_secret(tenant, "snapshots-ca", **{"ca.crt": ca})


async def check_unharmed(tenant: HostStore) -> None:
    """Raise AssertionError unless the tenant runs with its present data."""
    assert tenant.process is not None
    assert "saved" in tenant.etcdctl("get", POD_A)
    ready = await tenant.stage.condition(tenant.cluster, "Ready")
    assert (ready or {}).get("status") == "True"


async def test_a_snapshot_in_a_bucket_is_restored_and_deleted(store: HostStore, s3: S3Server):  # noqa: F811
    """REL-74."""
    await trust(store, s3)
    store.etcdctl("put", POD_A, "saved")
    snapshot = await store.save("in-s3", storage=s3.storage())
    status = snapshot["status"]
    assert status["phase"] == "Complete", status
    page = await store.stage.admin.list(
        resources.PERSISTENT_VOLUME_CLAIMS, namespace=store.stage.root(store.cluster)
    )
    assert "snapshots" not in {each["metadata"]["name"] for each in page["items"]}

    store.etcdctl("put", POD_B, "later")
    await write_credentials(store, s3, "changed")
    result = await store.restore("in-s3")
    assert (result["phase"], result["reason"]) == ("Failed", "S3AccessDenied")
    assert "The tenant was not stopped" in result["message"]
    await check_unharmed(store)

    await trust(store, s3)
    result = await store.restore("in-s3", moment="2026-11-28T08:01:00Z")
    assert (result["phase"], result["reason"]) == ("Complete", "Restored"), result
    store.run_etcd()
    await store.wait_for_etcd()
    assert "saved" in store.etcdctl("get", POD_A)
    assert not store.etcdctl("get", POD_B)

    await store.stage.admin.delete(SNAPSHOTS, "in-s3", namespace="default")
    for _ in range(60):
        await reconcile_snapshot(store.stage.means, keys.build_snapshot_key("default", "in-s3"))
        await store.run_jobs()
        left = await store.stage.admin.list(SNAPSHOTS, namespace="default")
        if "in-s3" not in {each["metadata"]["name"] for each in left["items"]}:
            break
    else:
        raise AssertionError("the snapshot still exists")


@contextmanager
def cutting() -> Iterator[int]:
    """Run a server that cuts each connection. Yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("fault", "reason", "text"),
    [
        ("credentials", "S3AccessDenied", "refuses the credentials (403 "),
        ("bucket", "S3BucketNotFound", "the bucket missing of https://127.0.0.1"),
        ("authority", "S3Untrusted", "is not trusted"),
        ("no-secret", "S3CredentialsMissing", "the Secret snapshots-none with accessKeyID"),
        ("cut", "S3Unreachable", "cannot be reached"),
        ("endpoint", "S3EndpointNotAllowed", "the key endpoints of the Secret snapshots-s3"),
    ],
)
async def test_a_bucket_that_refuses_is_named_and_the_tenant_unharmed(
    store: HostStore,  # noqa: F811
    s3: S3Server,
    fault: str,
    reason: str,
    text: str,
):
    await trust(store, s3)
    store.etcdctl("put", POD_A, "saved")
    changes: dict[str, str] = {}
    if fault == "credentials":
        await write_credentials(store, s3, "wrong")
    elif fault == "bucket":
        changes["bucket"] = "missing"
    elif fault == "authority":
        other = trustme.CA().cert_pem.bytes().decode()
        await write_secret(store, "snapshots-ca", **{"ca.crt": other})
    elif fault == "no-secret":
        changes["credentialsSecretName"] = "snapshots-none"
    with cutting() as port:
        if fault == "cut":
            changes["endpoint"] = f"https://127.0.0.1:{port}"
            await write_credentials(store, s3, SECRET, changes["endpoint"])
        elif fault == "endpoint":
            changes["endpoint"] = f"https://127.0.0.1:{port}"
        snapshot = await store.save(f"refused-{fault}", storage=s3.storage(**changes))
    condition = conditions.find_condition(snapshot["status"]["conditions"], snapshot_steps.COMPLETE)
    assert (snapshot["status"]["phase"], condition["reason"]) == ("Failed", reason), condition
    assert text in condition["message"]
    assert SECRET not in condition["message"]
    await check_unharmed(store)


async def import_file(tenant: HostStore, name: str, manifest: Object, file: Path) -> Object:
    """Create an imported snapshot, and play `kubectl vc` for its file."""
    cluster_name = tenant.cluster["metadata"]["name"]
    body = {
        "apiVersion": SNAPSHOTS.api_version,
        "kind": SNAPSHOTS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"virtualClusterName": cluster_name, "imported": {"manifest": manifest}},
    }
    made = await tenant.stage.admin.create(SNAPSHOTS, body)

    def is_waiting(status: Object) -> bool:
        listed = status.get("conditions") or [{}]
        return listed[0].get("reason") == "WaitingForFile"

    await tenant.settle(name, is_waiting)
    (tenant.folder / "snapshots").mkdir(exist_ok=True)
    shutil.copy(file, tenant.folder / "snapshots" / f"{made['metadata']['uid']}.db")
    annotations = {wellknown.UPLOADED_SNAPSHOT: manifest["sha256"]}
    await tenant.stage.admin.patch(
        SNAPSHOTS, name, {"metadata": {"annotations": annotations}}, namespace="default"
    )
    return await tenant.settle(name, lambda found: found.get("phase") in ("Complete", "Failed"))


async def test_an_imported_file_is_checked_and_restored_in_place(store: HostStore, tmp_path: Path):  # noqa: F811
    store.etcdctl("put", POD_A, "saved")
    saved = await store.save("to-import")
    manifest = saved["status"]["manifest"]
    file = tmp_path / "exported.db"
    shutil.copy(tmp_path / "snapshots" / f"{saved['metadata']['uid']}.db", file)
    imported = await import_file(store, "imported", manifest, file)
    assert imported["status"]["manifest"] == manifest
    store.etcdctl("put", POD_B, "later")
    result = await store.restore("imported")
    assert (result["phase"], result["reason"]) == ("Complete", "Restored"), result
    store.run_etcd()
    await store.wait_for_etcd()
    assert not store.etcdctl("get", POD_B)

    wrong = {**manifest, "sha256": hashlib.sha256(b"other").hexdigest()}
    refused = await import_file(store, "wrong", wrong, file)
    condition = conditions.find_condition(refused["status"]["conditions"], snapshot_steps.COMPLETE)
    assert condition["reason"] == "ChecksumMismatch"


async def test_only_a_suspended_tenant_starts_from_the_snapshot_of_another_one(
    store: HostStore,  # noqa: F811
    tmp_path: Path,
):
    """REL-75."""
    store.etcdctl("put", POD_A, "saved")
    store.etcdctl("put", CONFIG_MAP, "kept")
    saved = await store.save("to-start-from")
    file = tmp_path / "exported.db"
    shutil.copy(tmp_path / "snapshots" / f"{saved['metadata']['uid']}.db", file)
    manifest = {**saved["status"]["manifest"], "virtualClusterUID": "of-another-tenant"}
    await import_file(store, "start", manifest, file)

    result = await store.restore("start")
    assert (result["phase"], result["reason"]) == ("Failed", "OtherTenant")
    assert "--as-new" in result["message"]
    await check_unharmed(store)

    name = store.cluster["metadata"]["name"]
    await store.stage.admin.patch(
        resources.VIRTUAL_CLUSTERS, name, {"spec": {"suspend": True}}, namespace="default"
    )
    result = await store.restore("start", moment="2026-11-28T08:01:00Z")
    assert (result["phase"], result["reason"]) == ("Complete", "Restored"), result
    assert "confirm-start" in result["message"]
    store.run_etcd()
    await store.wait_for_etcd()
    assert "kept" in store.etcdctl("get", CONFIG_MAP)
    assert not store.etcdctl("get", POD_A)
    root = await store.stage.admin.get(resources.NAMESPACES, store.stage.root(store.cluster))
    assert wellknown.STORE_EPOCH not in root["metadata"]["annotations"]
    body = await store.stage.fresh(store.cluster)
    assert body["spec"]["suspend"] is True
