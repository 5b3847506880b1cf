"""A snapshot that another tenant starts from, with real etcd and API servers of both tenants.

The old API server writes the objects. The new one has other authorities, other keys for tokens and
another service range. It must serve the changed data without an error.
"""

import base64
import json
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources
from tenancy.resources import Resource
from tests.support.controlplane import LocalControlPlane, running
from tests.support.eventually import eventually
from tools.testbed.artifacts import binaries
from vcmanager.snapshots import etcd_fork
from vcmanager.snapshots.etcd_database import EtcdDatabase, compute_checksum
from vcmanager.snapshots.fork_rules import ForkRefusedError

OLD, NEW = "10.96.8.0/22", "10.96.16.0/22"
SERVICE_CIDRS = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False)
SIMPLE = {
    "containers": [{"name": "main", "image": "registry.example/main:1"}],
    "automountServiceAccountToken": False,
}
CONTROLLERS = ("serviceaccount-controller", "serviceaccount-token-controller")


def etcd_program(name: str, *words: str) -> str:
    """Return the output of a program of etcd."""
    found = subprocess.run(
        [str(binaries.path(name)), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def save(plane: LocalControlPlane, path: Path) -> None:
    """Save a snapshot of a plane."""
    etcd_program("etcdctl", f"--endpoints={plane.etcd}", "snapshot", "save", str(path))


def service(name: str, **spec: object) -> Object:
    """Return a Service."""
    ports = [{"port": 80, "protocol": "TCP"}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"ports": ports, **spec}}


async def fill(admin: Client) -> None:
    """Create an object of each row of the rules."""
    await admin.create(resources.SERVICES, service("web", selector={"app": "web"}))
    await admin.create(resources.SERVICES, service("fixed", clusterIP="10.96.8.200"))
    await admin.create(resources.SERVICES, service("open", type="NodePort"))
    await admin.create(resources.SERVICES, service("headless", clusterIP="None"))
    await admin.create(
        resources.SERVICES,
        service("outside", type="ExternalName", externalName="example.com"),
    )
    await admin.create(resources.NODES, {"metadata": {"name": "node-1"}})
    pod = {"metadata": {"name": "alone", "namespace": "default"}, "spec": SIMPLE}
    await admin.create(resources.PODS, pod)
    claim = {
        "metadata": {
            "name": "data",
            "namespace": "default",
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "volume.kubernetes.io/selected-node": "node-1",
                "own": "stays",
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
            "volumeName": "pv-of-the-old-tenant",
        },
    }
    await admin.create(resources.PERSISTENT_VOLUME_CLAIMS, claim)
    await admin.patch(
        resources.PERSISTENT_VOLUME_CLAIMS,
        "data",
        {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}},
        namespace="default",
        subresource="status",
    )
    for name, kind, annotations in (
        ("plain", "Opaque", {}),
        (
            "account",
            "kubernetes.io/service-account-token",
            {"kubernetes.io/service-account.name": "default"},
        ),
        ("bootstrap-token-abcdef", "bootstrap.kubernetes.io/token", {}),
    ):
        data = {"a": base64.b64encode(b"b" * 5000).decode()} if kind == "Opaque" else {}
        namespace = "kube-system" if name.startswith("bootstrap") else "default"
        metadata = {"name": name, "namespace": namespace, "annotations": annotations}
        secret = {"metadata": metadata, "type": kind, "data": data}
        await admin.create(resources.SECRETS, secret)
    for number in range(300):  # more than one page of leaves and of branches
        metadata = {"name": f"c{number}", "namespace": "default"}
        await admin.create(
            resources.CONFIG_MAPS, {"metadata": metadata, "data": {"k": "v" * (number * 20)}}
        )
    large = {"metadata": {"name": "large", "namespace": "default"}, "data": {"k": "v" * 900_000}}
    await admin.create(resources.CONFIG_MAPS, large)
    await admin.delete(resources.CONFIG_MAPS, "c7", namespace="default")

    async def has_token() -> bool:
        found = await admin.get(resources.SECRETS, "account", namespace="default")
        return "token" in (found.get("data") or {})

    await eventually(has_token, within=30)


@pytest.fixture
async def snapshot(tmp_path: Path) -> tuple[Path, Object]:
    """A snapshot of the old tenant, and its Secret with a token."""
    old = LocalControlPlane(
        tmp_path / "old", name="old", service_range=OLD, controllers=CONTROLLERS
    )
    async with running(old):
        async with Client(old.endpoint) as admin:
            await fill(admin)
            token = await admin.get(resources.SECRETS, "account", namespace="default")
        save(old, tmp_path / "old.db")
    return tmp_path / "old.db", token


async def test_the_new_tenant_has_the_objects_and_nothing_of_the_old_ones_network_and_storage(
    snapshot, tmp_path: Path
):
    """REL-75."""
    path, old_token = snapshot
    counts = etcd_fork.fork_database(path, tmp_path / "new.db", ip_network(NEW))
    assert counts["kept"] > 300
    assert counts["leftOut"] > 3
    compute_checksum(tmp_path / "new.db")
    state = json.loads(
        etcd_program("etcdutl", "snapshot", "status", str(tmp_path / "new.db"), "-w", "json")
    )
    assert state["totalKey"] == counts["kept"]
    folder = tmp_path / "new"
    etcd_program(
        *("etcdutl", "snapshot", "restore", str(tmp_path / "new.db")),
        *(f"--data-dir={folder / 'store'}", "--bump-revision=1000000000", "--mark-compacted"),
    )
    new = LocalControlPlane(folder, name="new", service_range=NEW, controllers=CONTROLLERS)
    async with running(new), Client(new.endpoint) as admin:
        page = await admin.list(resources.SERVICES, namespace="default")
        found = {each["metadata"]["name"]: each["spec"] for each in page["items"]}
        assert found["kubernetes"]["clusterIP"] == "10.96.16.1"
        assert found["fixed"]["clusterIP"] == "10.96.16.200"
        assert found["fixed"]["clusterIPs"] == ["10.96.16.200"]
        assert found["headless"]["clusterIP"] == "None"
        assert "clusterIP" not in found["outside"]
        assert found["open"]["ports"][0]["nodePort"] >= 30000
        for name in ("web", "open", "fixed"):
            assert ip_address(found[name]["clusterIP"]) in ip_network(NEW)
        assert not (await admin.list(resources.NODES))["items"]
        assert not (await admin.list(resources.PODS))["items"]
        claim = await admin.get(resources.PERSISTENT_VOLUME_CLAIMS, "data", namespace="default")
        assert "volumeName" not in claim["spec"]
        assert claim["metadata"]["annotations"] == {"own": "stays"}
        assert claim["status"] == {"phase": "Pending"}
        plain = await admin.get(resources.SECRETS, "plain", namespace="default")
        assert base64.b64decode(plain["data"]["a"]) == b"b" * 5000
        large = await admin.get(resources.CONFIG_MAPS, "large", namespace="default")
        assert len(large["data"]["k"]) == 900_000
        listed = await admin.list(resources.CONFIG_MAPS, namespace="default")
        names = {each["metadata"]["name"] for each in listed["items"]}
        assert {f"c{number}" for number in range(300) if number != 7} <= names
        assert "c7" not in names
        with pytest.raises(errors.NotFound):
            await admin.get(resources.SECRETS, "bootstrap-token-abcdef", namespace="kube-system")

        async def has_new_token() -> bool:
            secret = await admin.get(resources.SECRETS, "account", namespace="default")
            token = (secret.get("data") or {}).get("token")
            return token not in (None, old_token["data"]["token"])

        await eventually(has_new_token, within=30)
        cidr = await admin.get(SERVICE_CIDRS, "kubernetes")
        assert cidr["spec"]["cidrs"] == [NEW]
        made = await admin.create(resources.SERVICES, service("later"))
        assert made["spec"]["clusterIP"] not in {each.get("clusterIP") for each in found.values()}
        # An update is an allocation, too.
        await admin.patch(
            resources.SERVICES, "web", {"metadata": {"labels": {"a": "b"}}}, namespace="default"
        )


async def test_a_smaller_range_is_refused_and_leaves_no_file(snapshot, tmp_path: Path):
    path, _ = snapshot
    with pytest.raises(ForkRefusedError, match=r"10\.96\.\d+\.\d+ .* has no place in the range"):
        etcd_fork.fork_database(path, tmp_path / "new.db", ip_network("10.96.16.0/26"))
    assert not (tmp_path / "new.db").exists()
    assert not (tmp_path / "new.db.part").exists()
    with EtcdDatabase(path) as database:
        assert "/registry/secrets/default/plain" in database.read_live_entries()
