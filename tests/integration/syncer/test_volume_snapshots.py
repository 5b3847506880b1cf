"""The chart's SyncRule for VolumeSnapshots, on real API servers with the real definitions.

Most tests write statuses as the snapshot controller does. The last one runs the controller itself,
with a CSI driver but without a kubelet. `tests/node/test_volume_snapshots.py` has pods, too.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
import yaml

from kubeio import Object
from tenancy.policies import BASELINE_POLICY, ClassFilter
from tenancy.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    SYNC_RULES,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
)
from tests.integration.syncer.storage import claim, reasons
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_sync_rules import grant, manage
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.eventually import eventually
from tests.support.helm import CHART
from tools.testbed.storage import snapshots
from tools.testbed.storage.snapshots import list_crds

pytestmark = pytest.mark.thorough

FILE = CHART / "sync-rules" / "volume-snapshots.yaml"
RULE, ROLE, *_ = yaml.safe_load_all(FILE.read_text())
SOURCE = {"apiGroup": VOLUME_SNAPSHOTS.group, "kind": VOLUME_SNAPSHOTS.kind, "name": "s"}
CLASS = {"driver": "csi.example", "deletionPolicy": "Delete"}


def snapshot(name: str, **spec: Any) -> Object:
    """Return a snapshot of the claim `data`."""
    source = {"persistentVolumeClaimName": "data"}
    return {
        "apiVersion": VOLUME_SNAPSHOTS.api_version,
        "kind": VOLUME_SNAPSHOTS.kind,
        "metadata": {"name": name},
        "spec": {"volumeSnapshotClassName": "shown", "source": source, **spec},
    }


@pytest.fixture
async def ruled(world: SyncerWorld) -> AsyncIterator[SyncerWorld]:
    """A running syncer. The tenant's policy selects the rule, and shows one class of two."""
    for each in list_crds("volumesnapshots", "volumesnapshotclasses"):
        await world.super_client.apply(CUSTOM_RESOURCE_DEFINITIONS, each, field_manager="tests")
    for name in ("shown", "hidden"):
        body = {
            "apiVersion": VOLUME_SNAPSHOT_CLASSES.api_version,
            "kind": VOLUME_SNAPSHOT_CLASSES.kind,
            "metadata": {"name": name},
            **CLASS,
        }
        await eventually(
            lambda body=body: world.super_client.apply(
                VOLUME_SNAPSHOT_CLASSES, body, field_manager="tests"
            )
        )
    await grant(world, ROLE["rules"])
    await world.super_client.create(SYNC_RULES, RULE, validation="Strict")
    sync = msgspec.structs.replace(
        BASELINE_POLICY.sync, volume_snapshot_classes=ClassFilter(names=("shown",))
    )
    policy = msgspec.structs.replace(
        BASELINE_POLICY, sync=sync, sync_rules=ClassFilter(names=("volumesnapshots",))
    )
    async with policed(world, policy):
        await eventually(
            lambda: manage(world),
            until=lambda rules: all(
                item["status"]["conditions"][0]["status"] == "True" for item in rules
            ),
        )
        await manage(world)
        async with world.syncer():
            yield world
    await world.super_client.delete(SYNC_RULES, RULE["metadata"]["name"])
    await manage(world)


async def create(world: SyncerWorld, body: Object, space: str) -> None:
    """Create a tenant object once the tenant serves its kind."""
    is_snapshot = body["kind"] == VOLUME_SNAPSHOTS.kind
    resource = VOLUME_SNAPSHOTS if is_snapshot else PERSISTENT_VOLUME_CLAIMS
    await eventually(lambda: world.tenant_client.create(resource, body, namespace=space), within=30)


async def list_refusals(world: SyncerWorld, space: str, name: str) -> str:
    """Return the messages of the refusals of an object."""
    return " ".join(
        each["message"]
        for each in await world.events(space)
        if each["reason"] == "SyncRejected" and each["involvedObject"]["name"] == name
    )


async def test_a_snapshot_waits_for_its_claim_and_gets_its_status(ruled: SyncerWorld):
    space = await ruled.namespace()
    super_space = ruled.super_namespace(space)
    await ruled.super_client.create(PERSISTENT_VOLUME_CLAIMS, claim("data"), namespace=super_space)
    await create(ruled, snapshot("s"), space)
    await eventually(
        lambda: reasons(ruled, space, "s"), until=lambda found: "DataSourceMissing" in found
    )
    assert not await ruled.has_twin(VOLUME_SNAPSHOTS, space, "s")  # of a foreign claim
    await ruled.super_client.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace=super_space)
    await gone(lambda: ruled.twin(PERSISTENT_VOLUME_CLAIMS, space, "data"))
    await create(ruled, claim("data"), space)
    twin = await eventually(lambda: ruled.twin(VOLUME_SNAPSHOTS, space, "s"), within=30)
    assert twin["spec"] == snapshot("s")["spec"]

    status = {
        "boundVolumeSnapshotContentName": f"snapcontent-{twin['metadata']['uid']}",
        "creationTime": "2026-11-28T12:00:00Z",
        "readyToUse": False,
        "restoreSize": "1Gi",
        "error": {
            "message": f"cannot read claim {super_space}/data",
            "time": "2026-11-28T12:00:00Z",
        },
    }
    await ruled.super_client.patch(
        VOLUME_SNAPSHOTS, "s", {"status": status}, namespace=super_space, subresource="status"
    )
    own = await eventually(
        lambda: ruled.tenant_client.get(VOLUME_SNAPSHOTS, "s", namespace=space),
        until=lambda found: "error" in found.get("status", {}),
    )
    assert ruled.tenant.root not in str(own)
    assert own["status"]["error"]["message"].startswith("cannot read claim ")
    ready = {"status": {"readyToUse": True, "error": None}}
    await ruled.super_client.patch(
        VOLUME_SNAPSHOTS, "s", ready, namespace=super_space, subresource="status"
    )
    own = await eventually(
        lambda: ruled.tenant_client.get(VOLUME_SNAPSHOTS, "s", namespace=space),
        until=lambda found: found["status"]["readyToUse"],
    )
    del status["error"]
    assert own["status"] == {**status, "readyToUse": True}
    since = ruled.mark("super")
    await asyncio.sleep(0.3)
    await ruled.idle()
    assert not [each for each in ruled.writes("super", since) if "volumesnapshots" in str(each)]

    await ruled.tenant_client.delete(VOLUME_SNAPSHOTS, "s", namespace=space)
    await gone(lambda: ruled.twin(VOLUME_SNAPSHOTS, space, "s"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"source": {"volumeSnapshotContentName": "snapcontent-of-another"}},
            "spec.source.volumeSnapshotContentName is not synced",
        ),
        ({"volumeSnapshotClassName": "hidden"}, "is no VolumeSnapshotClass that this cluster"),
        ({"volumeSnapshotClassName": None}, "spec.volumeSnapshotClassName must be set"),
    ],
)
async def test_what_would_read_other_volumes_is_refused(
    ruled: SyncerWorld, spec: Object, words: str
):
    space = await ruled.namespace()
    await create(ruled, claim("data"), space)
    await create(ruled, snapshot("bad", **spec), space)
    await eventually(
        lambda: list_refusals(ruled, space, "bad"), until=lambda found: words in found, within=30
    )
    assert not await ruled.has_twin(VOLUME_SNAPSHOTS, space, "bad")


async def test_a_claim_is_restored_from_the_tenants_own_snapshot_only(ruled: SyncerWorld):
    space = await ruled.namespace()
    super_space = ruled.super_namespace(space)
    await ruled.settled_namespace(space)
    await ruled.super_client.create(VOLUME_SNAPSHOTS, snapshot("s"), namespace=super_space)
    await create(ruled, claim("restored", dataSourceRef=SOURCE), space)
    await eventually(
        lambda: reasons(ruled, space, "restored"), until=lambda found: "DataSourceMissing" in found
    )
    assert not await ruled.has_twin(PERSISTENT_VOLUME_CLAIMS, space, "restored")
    await ruled.super_client.delete(VOLUME_SNAPSHOTS, "s", namespace=super_space)
    await create(ruled, claim("data"), space)
    await create(ruled, snapshot("s"), space)
    twin = await eventually(
        lambda: ruled.twin(PERSISTENT_VOLUME_CLAIMS, space, "restored"), within=30
    )
    assert twin["spec"]["dataSource"] == SOURCE
    assert twin["spec"]["dataSourceRef"] == SOURCE


async def test_a_snapshot_is_no_source_without_the_rule(world: SyncerWorld):
    async with world.syncer():
        space = await world.namespace()
        await create(world, claim("restored", dataSource=SOURCE), space)
        await eventually(
            lambda: list_refusals(world, space, "restored"),
            until=lambda found: "spec.dataSource.kind" in found,
        )
        assert not await world.has_twin(PERSISTENT_VOLUME_CLAIMS, space, "restored")


@contextmanager
def run_programs(folder: Path, kubeconfig: bytes) -> Iterator[Path]:
    """Run the snapshot controller, the sidecars and the driver. Yields the folder of volumes."""
    (folder / "kubeconfig").write_bytes(kubeconfig)
    root = folder / "root"
    with ExitStack() as stack:
        kubelet = Path(stack.enter_context(TemporaryDirectory()))  # for sockets, so a short path
        commands = snapshots.build_commands(root, kubelet, folder / "kubeconfig", "node")
        for name, argv in commands.items():
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = stack.enter_context(subprocess.Popen(argv, stdout=log, stderr=log))
            stack.callback(process.terminate)
        yield root / "volumes"


async def fetch_directory(world: SyncerWorld, space: str, name: str, volumes: Path) -> Path:
    """Return the directory of a tenant's claim once it is bound."""
    twin = await eventually(
        lambda: world.twin(PERSISTENT_VOLUME_CLAIMS, space, name),
        until=lambda found: found.get("status", {}).get("phase") == "Bound",
        within=120,
    )
    volume = await world.super_client.get(PERSISTENT_VOLUMES, twin["spec"]["volumeName"])
    return volumes / volume["spec"]["csi"]["volumeHandle"]


async def list_snapshots(volumes: Path) -> list[Path]:
    """Return the snapshots of the driver."""
    return list((volumes.parent / "snapshots").iterdir())


async def test_the_real_controllers_take_and_restore_a_snapshot(ruled: SyncerWorld, tmp_path: Path):
    for each in list_crds():
        await ruled.super_client.apply(CUSTOM_RESOURCE_DEFINITIONS, each, field_manager="tests")
    driver, storage_class, snapshot_class = snapshots.build_classes()
    await ruled.super_client.apply(STORAGE_CLASSES, storage_class, field_manager="tests")
    body = {**snapshot_class, "metadata": {"name": "real"}}
    await ruled.super_client.apply(VOLUME_SNAPSHOT_CLASSES, body, field_manager="tests")
    assert driver["metadata"]["name"] == storage_class["provisioner"]
    shown = ClassFilter(names=("real",))
    sync = msgspec.structs.replace(BASELINE_POLICY.sync, volume_snapshot_classes=shown)
    policy = msgspec.structs.replace(
        BASELINE_POLICY, sync=sync, sync_rules=ClassFilter(names=("*",))
    )
    with run_programs(tmp_path, ruled.super_plane.kubeconfig()) as volumes:
        async with policed(ruled, policy):
            space = await ruled.namespace()
            own = {"storage_class": snapshots.CLASS}
            await create(ruled, claim("data", **own), space)
            directory = await fetch_directory(ruled, space, "data", volumes)
            (directory / "file").write_text("first")
            await create(ruled, snapshot("s", volumeSnapshotClassName="real"), space)
            found = await eventually(
                lambda: ruled.tenant_client.get(VOLUME_SNAPSHOTS, "s", namespace=space),
                until=lambda found: found.get("status", {}).get("readyToUse"),
                within=120,
            )
            assert ruled.tenant.root not in str(found)
            (directory / "file").write_text("second")
            await create(ruled, claim("restored", dataSource=SOURCE, **own), space)
            restored = await fetch_directory(ruled, space, "restored", volumes)
            assert (restored / "file").read_text() == "first"
            await ruled.tenant_client.delete(VOLUME_SNAPSHOTS, "s", namespace=space)
            await gone(lambda: ruled.tenant_client.get(VOLUME_SNAPSHOTS, "s", namespace=space))
            await eventually(lambda: list_snapshots(volumes), until=lambda found: not found)
