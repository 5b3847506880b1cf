"""`kubectl vc why` on real API servers with the syncer: seeded faults, in both views."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from kubectl_vc.output.cli_errors import CliError, NotFoundError
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.resources import PODS, SERVICES
from tests.integration.syncer.objects import pod
from tests.integration.syncer.why_runner import WhyRunner, start_why_runner
from tests.integration.syncer.world import SyncerWorld, policed
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


@pytest.fixture
async def asker(world: SyncerWorld, tmp_path: Path) -> WhyRunner:
    """A user with the rights of an administrator."""
    return await start_why_runner(world, tmp_path)


async def wait_for_event(world: SyncerWorld, namespace: str, reason: str) -> None:
    """Wait for an Event of the syncer."""

    async def exists() -> bool:
        return any(each["reason"] == reason for each in await world.events(namespace))

    await eventually(exists)


async def test_faults_of_pods_are_named_by_their_layer(synced: SyncerWorld, asker: WhyRunner):
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


async def test_quota_is_named(world: SyncerWorld, asker: WhyRunner):
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


async def test_parked_write_is_named(synced: SyncerWorld, asker: WhyRunner):
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


async def test_stopped_syncer_is_named_before_its_effects(world: SyncerWorld, asker: WhyRunner):
    async with world.syncer():
        space = await world.namespace()
    await asker.renew_lease(datetime.now(UTC) - timedelta(minutes=5))
    await world.tenant_client.create(PODS, pod("late"), namespace=space)
    found = await asker.ask("pod/late", space)
    assert (found["layer"], found["copy"]) == ("syncer", "none")
    assert found["tenantLayers"] == ["new", "new"]
    await world.tenant_client.delete(PODS, "late", namespace=space, grace_seconds=0)


async def test_missing_object_and_tenant_are_errors(synced: SyncerWorld, asker: WhyRunner):
    with pytest.raises(CliError, match="was not found"):
        await asker.run("super", "pod/none", virtual_cluster=f"{synced.tenant.namespace}/none")
    tenant = f"{synced.tenant.namespace}/{synced.tenant.name}"
    for options in ({}, {"as_tenant": True}):
        with pytest.raises(NotFoundError, match="Pod default/none was not found in the virtual"):
            await asker.run("super", "pod/none", virtual_cluster=tenant, **options)
