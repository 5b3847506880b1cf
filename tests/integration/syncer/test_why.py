"""`kubectl vc why` on real API servers with the syncer: seeded faults, in both views."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from kubectl_vc.app import app
from kubeio import errors
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.resources import LEASES, PODS, SECRETS, SERVICES
from tests.integration.syncer.objects import pod
from tests.integration.syncer.world import HOME, SyncerWorld, policed
from tests.support.eventually import eventually

UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
IMAGE = {
    "name": "main",
    "image": "registry.example/app:1",
    "imageID": "",
    "ready": False,
    "restartCount": 0,
    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
}


class Asker:
    """Runs `kubectl vc why` with the kubeconfigs of both sides."""

    def __init__(self, world: SyncerWorld, folder: Path) -> None:
        self.world, self.folder = world, folder
        (folder / "super").write_bytes(world.super_plane.kubeconfig())
        (folder / "tenant").write_bytes(world.tenant_plane.kubeconfig())

    async def publish_kubeconfig(self) -> None:
        """Create the Secret that vc-manager creates."""
        encoded = base64.b64encode(self.world.tenant_plane.kubeconfig()).decode()
        body = {"metadata": {"name": "admin-kubeconfig"}, "data": {"admin-kubeconfig": encoded}}
        with contextlib.suppress(errors.AlreadyExists):
            await self.world.below.create(SECRETS, body, namespace=self.world.tenant.root)

    async def run(self, *words: str) -> Any:
        """Run the verb."""
        return await asyncio.to_thread(CliRunner().invoke, app, ["why", *words])

    async def ask(self, wanted: str, namespace: str) -> dict[str, Any]:
        """Return the report of the super view, after a check of both views of the tenant."""
        tenant = self.world.tenant
        known = ("--kubeconfig", str(self.folder / "super"))
        where = (wanted, "-n", namespace, "-o", "json")
        by_super = (*where, *known, "--vc", f"{tenant.namespace}/{tenant.name}")
        done = await self.run(*by_super)
        assert (done.exit_code, done.stderr) == (0, "")
        found: dict[str, Any] = json.loads(done.stdout)
        for words in (
            (*by_super, "--as-tenant"),
            (*where, "--kubeconfig", str(self.folder / "tenant")),
        ):
            hidden = await self.run(*words)
            assert (hidden.exit_code, hidden.stderr) == (0, "")
            assert tenant.root not in hidden.stdout
            assert tenant.uid not in hidden.stdout
            assert self.world.super_namespace(namespace) not in hidden.stdout
            assert "copy" not in json.loads(hidden.stdout)
            found.setdefault("tenantLayers", []).append(json.loads(hidden.stdout)["layer"])
        return found


@pytest.fixture
async def asker(world: SyncerWorld, tmp_path: Path) -> Asker:
    """A user with the rights of an administrator."""
    found = Asker(world, tmp_path)
    await found.publish_kubeconfig()
    return found


async def wait_for_event(world: SyncerWorld, namespace: str, reason: str) -> None:
    """Wait for an Event of the syncer."""

    async def exists() -> bool:
        return any(each["reason"] == reason for each in await world.events(namespace))

    await eventually(exists)


async def test_faults_of_pods_are_named_by_their_layer(synced: SyncerWorld, asker: Asker):
    space = await synced.namespace()
    create = synced.above.create
    await create(PODS, pod("refused", hostNetwork=True), namespace=space)
    await create(PODS, pod("unplaced"), namespace=space)
    await create(PODS, pod("image"), namespace=space)
    await create(PODS, pod("needy"), namespace=space)
    await wait_for_event(synced, space, "SyncRejected")
    found = await asker.ask("pod/refused", space)
    assert (found["layer"], found["held"], found["copy"]) == ("policy", True, "none")
    assert "spec.hostNetwork" in found["reason"]
    assert "rule host-namespace" in found["reason"]
    assert found["tenantLayers"] == ["policy", "policy"]

    await eventually(lambda: synced.twin(PODS, space, "unplaced"))
    await synced.report(space, "unplaced", conditions=[UNSCHEDULABLE])
    await eventually(
        lambda: synced.above.get(PODS, "unplaced", namespace=space),
        until=lambda body: body["status"].get("conditions"),
    )
    found = await asker.ask("po/unplaced", space)
    assert found["layer"] == "no-node"
    assert "Insufficient cpu" in found["reason"]
    assert synced.super_namespace(space) in found["copy"]
    assert found["tenantLayers"] == ["no-node", "no-node"]

    node = await synced.super_node()
    await eventually(lambda: synced.twin(PODS, space, "image"))
    await synced.schedule(space, "image", node)
    await synced.report(space, "image", phase="Pending", containerStatuses=[IMAGE])
    await eventually(
        lambda: synced.above.get(PODS, "image", namespace=space),
        until=lambda body: body["status"].get("containerStatuses"),
    )
    found = await asker.ask("pod/image", space)
    assert (found["layer"], found["node"]) == ("image", node)
    assert found["tenantLayers"] == ["image", "image"]

    await synced.start_pod(space, "needy", node)
    found = await asker.ask("pod/needy", space)
    assert (found["layer"], found["held"]) == ("node-agent", True)
    assert found["tenantLayers"] == ["none", "none"]


async def test_quota_is_named(world: SyncerWorld, asker: Asker):
    policy = msgspec.convert(
        {**msgspec.to_builtins(BASELINE_POLICY), "quota": {"services": "0"}}, TenantPolicySpec
    )
    body = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    async with policed(world, policy), world.syncer():
        space = await world.namespace()
        await world.above.create(SERVICES, body, namespace=space)
        await wait_for_event(world, space, "QuotaExceeded")
        found = await asker.ask("svc/web", space)
        assert (found["layer"], found["copy"]) == ("quota", "none")
        assert "spec.quota" in found["reason"]
        assert found["tenantLayers"] == ["quota", "quota"]


async def test_parked_write_is_named(synced: SyncerWorld, asker: Asker):
    space = await synced.namespace()
    spec = {"selector": {"a": "1"}, "ports": [{"port": 80}]}
    await synced.above.create(SERVICES, {"metadata": {"name": "s"}, "spec": spec}, namespace=space)
    await eventually(lambda: synced.twin(SERVICES, space, "s"))
    below, drift = synced.super_namespace(space), {"spec": {"selector": {"a": "theirs"}}}

    async def repaired() -> bool:
        return (await synced.twin(SERVICES, space, "s"))["spec"]["selector"] == {"a": "1"}

    for _ in range(5):
        await synced.below.patch(SERVICES, "s", drift, namespace=below)
        await eventually(repaired)
    await synced.below.patch(SERVICES, "s", drift, namespace=below)
    await wait_for_event(synced, space, "SyncParked")
    found = await asker.ask("svc/s", space)
    assert found["layer"] == "parked"
    assert "spec.selector.a" in found["reason"]
    assert found["tenantLayers"] == ["parked", "parked"]


async def test_stopped_syncer_is_named_before_its_effects(world: SyncerWorld, asker: Asker):
    async with world.syncer():
        space = await world.namespace()
    stale = {"spec": {"holderIdentity": "gone", "renewTime": "2026-01-01T00:00:00.000000Z"}}
    await world.below.patch(LEASES, "vc-syncer", stale, namespace=HOME)
    await world.above.create(PODS, pod("late"), namespace=space)
    found = await asker.ask("pod/late", space)
    assert (found["layer"], found["copy"]) == ("syncer", "none")
    assert found["tenantLayers"] == ["new", "new"]
    await world.above.delete(PODS, "late", namespace=space, grace_seconds=0)


async def test_missing_object_and_tenant_are_errors(synced: SyncerWorld, asker: Asker):
    known = ("--kubeconfig", str(asker.folder / "super"))
    done = await asker.run("pod/none", *known, "--vc", f"{synced.tenant.namespace}/none")
    assert (done.exit_code, "was not found" in done.stderr) == (1, True)
    tenant = f"{synced.tenant.namespace}/{synced.tenant.name}"
    done = await asker.run("pod/none", *known, "--vc", tenant)
    assert done.exit_code == 1
    assert "Pod default/none was not found in the virtual cluster" in done.stderr
