"""`kubectl vc why` on real API servers with the syncer: seeded faults, in both views."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.diagnosis import why
from kubectl_vc.output.cli_errors import CliError, NotFoundError
from kubectl_vc.output.printers import ReportFormat
from kubectl_vc.output.terminal import Terminal
from kubeio import errors
from tenancy import wellknown
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
            await self.world.super_client.create(SECRETS, body, namespace=self.world.tenant.root)

    async def renew_lease(self, renewed: datetime) -> None:
        """Write the Lease of the syncer, which the program writes and its class does not."""
        stamp = renewed.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": wellknown.SYNCER, "namespace": HOME},
            "spec": {"holderIdentity": "test", "leaseDurationSeconds": 7, "renewTime": stamp},
        }
        await self.world.super_client.apply(LEASES, body, field_manager="test")

    async def run(self, side: str, wanted: str, namespace: str = "", **options: Any) -> str:
        """Run the verb with the kubeconfig of a side, and return its output.

        The verb runs in this loop, because the syncer of the test logs to standard output.
        """
        out = io.StringIO()
        values: dict[str, Any] = {
            "virtual_cluster": "",
            "as_tenant": False,
            "manager_namespace": HOME,
            "form": ReportFormat.JSON,
        }
        flags = ConfigFlags(kubeconfig=str(self.folder / side), namespace=namespace)
        await why.run_why(
            flags, Terminal(out, out), wanted=wanted, options=why.WhyOptions(**values | options)
        )
        return out.getvalue()

    async def ask(self, wanted: str, namespace: str) -> dict[str, Any]:
        """Return the report of the super view, after a check of both views of the tenant."""
        tenant = self.world.tenant
        known = {"virtual_cluster": f"{tenant.namespace}/{tenant.name}"}
        found: dict[str, Any] = json.loads(await self.run("super", wanted, namespace, **known))
        found["tenantLayers"] = []
        for shown in (
            await self.run("super", wanted, namespace, as_tenant=True, **known),
            await self.run("tenant", wanted, namespace),
        ):
            for hidden in (tenant.root, tenant.uid, self.world.super_namespace(namespace)):
                assert hidden not in shown
            assert "copy" not in json.loads(shown)
            found["tenantLayers"].append(json.loads(shown)["layer"])
        return found


@pytest.fixture
async def asker(world: SyncerWorld, tmp_path: Path) -> Asker:
    """A user with the rights of an administrator."""
    found = Asker(world, tmp_path)
    await found.publish_kubeconfig()
    await found.renew_lease(datetime.now(UTC))
    return found


async def wait_for_event(world: SyncerWorld, namespace: str, reason: str) -> None:
    """Wait for an Event of the syncer."""

    async def exists() -> bool:
        return any(each["reason"] == reason for each in await world.events(namespace))

    await eventually(exists)


async def test_faults_of_pods_are_named_by_their_layer(synced: SyncerWorld, asker: Asker):
    """SEC-250."""
    space = await synced.namespace()
    create = synced.tenant_client.create
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
        lambda: synced.tenant_client.get(PODS, "unplaced", namespace=space),
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
        lambda: synced.tenant_client.get(PODS, "image", namespace=space),
        until=lambda body: body["status"].get("containerStatuses"),
    )
    found = await asker.ask("pod/image", space)
    assert (found["layer"], found["node"]) == ("image", node)
    assert found["tenantLayers"] == ["image", "image"]

    await synced.start_pod(space, "needy", node)
    await asker.renew_lease(datetime.now(UTC))
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
        await world.tenant_client.create(SERVICES, body, namespace=space)
        await wait_for_event(world, space, "QuotaExceeded")
        found = await asker.ask("svc/web", space)
        assert (found["layer"], found["copy"]) == ("quota", "none")
        assert "spec.quota" in found["reason"]
        assert found["tenantLayers"] == ["quota", "quota"]


async def test_parked_write_is_named(synced: SyncerWorld, asker: Asker):
    space = await synced.namespace()
    spec = {"selector": {"a": "1"}, "ports": [{"port": 80}]}
    await synced.tenant_client.create(
        SERVICES, {"metadata": {"name": "s"}, "spec": spec}, namespace=space
    )
    await eventually(lambda: synced.twin(SERVICES, space, "s"))
    super_space, drift = synced.super_namespace(space), {"spec": {"selector": {"a": "theirs"}}}

    async def repaired() -> bool:
        return (await synced.twin(SERVICES, space, "s"))["spec"]["selector"] == {"a": "1"}

    for _ in range(5):
        await synced.super_client.patch(SERVICES, "s", drift, namespace=super_space)
        await eventually(repaired)
    await synced.super_client.patch(SERVICES, "s", drift, namespace=super_space)
    await wait_for_event(synced, space, "SyncParked")
    found = await asker.ask("svc/s", space)
    assert found["layer"] == "parked"
    assert "spec.selector.a" in found["reason"]
    assert found["tenantLayers"] == ["parked", "parked"]


async def test_stopped_syncer_is_named_before_its_effects(world: SyncerWorld, asker: Asker):
    async with world.syncer():
        space = await world.namespace()
    await asker.renew_lease(datetime.now(UTC) - timedelta(minutes=5))
    await world.tenant_client.create(PODS, pod("late"), namespace=space)
    found = await asker.ask("pod/late", space)
    assert (found["layer"], found["copy"]) == ("syncer", "none")
    assert found["tenantLayers"] == ["new", "new"]
    await world.tenant_client.delete(PODS, "late", namespace=space, grace_seconds=0)


async def test_missing_object_and_tenant_are_errors(synced: SyncerWorld, asker: Asker):
    with pytest.raises(CliError, match="was not found"):
        await asker.run("super", "pod/none", virtual_cluster=f"{synced.tenant.namespace}/none")
    tenant = f"{synced.tenant.namespace}/{synced.tenant.name}"
    for options in ({}, {"as_tenant": True}):
        with pytest.raises(NotFoundError, match="Pod default/none was not found in the virtual"):
            await asker.run("super", "pod/none", virtual_cluster=tenant, **options)
