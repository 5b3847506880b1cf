"""Tenants beside each other: equal names stay apart, and a dead tenant stops no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, PODS, VIRTUAL_CLUSTERS
from tests.integration.syncer.control_planes import declare, own_world
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough


async def test_equal_names_in_two_tenants_stay_apart(world: SyncerWorld, tmp_path: Path):
    async with own_world(world.super_plane, tmp_path / "other") as other, world.syncer() as syncer:
        other.running.append(syncer)
        await eventually(other.is_engaged, within=30)
        space = await world.namespace()
        await other.namespace(space)
        mine = await world.tenant_client.create(PODS, pod("web"), namespace=space)
        theirs = await other.tenant_client.create(PODS, pod("web"), namespace=space)
        for tenant, made in ((world, mine), (other, theirs)):
            twin = await eventually(lambda t=tenant: t.twin(PODS, space, "web"))
            annotations = twin["metadata"]["annotations"]
            assert annotations[wellknown.UID] == made["metadata"]["uid"]
            assert annotations[wellknown.VC_UID] == tenant.tenant.uid
        node = await world.super_node()
        await world.start_pod(space, "web", node)
        shown = await other.tenant_client.get(PODS, "web", namespace=space)
        assert "nodeName" not in shown["spec"]
        found = await other.tenant_client.list(PODS, namespace=space)
        assert len(found["items"]) == 1
        other.running.clear()


async def test_a_frozen_tenant_stops_no_other_tenant(world: SyncerWorld, tmp_path: Path):
    """REL-16, REL-76: it takes connections and does not answer.

    Meanwhile its pods' statuses keep changing.
    """
    async with (
        own_world(world.super_plane, tmp_path / "frozen") as frozen,
        world.syncer() as syncer,
    ):
        frozen.running.append(syncer)
        await eventually(frozen.is_engaged, within=30)
        frozen_space = await frozen.namespace()
        space, node = await world.namespace(), await world.super_node()
        pods = [f"p{number}" for number in range(40)]
        for name in pods:
            await frozen.tenant_client.create(PODS, pod(name), namespace=frozen_space)
        for name in pods:
            await eventually(lambda n=name: frozen.twin(PODS, frozen_space, n))
        frozen.tenant_plane.pause_apiserver()
        try:
            for name in pods:
                await frozen.report(frozen_space, name, **running_status(name))
            await asyncio.sleep(0.5)  # its keys are in the workers' hands by now
            started = asyncio.get_running_loop().time()
            await world.tenant_client.create(PODS, pod("web"), namespace=space)
            await world.start_pod(space, "web", node)
            assert asyncio.get_running_loop().time() - started < 5
        finally:
            frozen.tenant_plane.resume_apiserver()
        await eventually(
            lambda: frozen.tenant_client.get(PODS, pods[-1], namespace=frozen_space),
            until=lambda body: body["status"]["phase"] == "Running",
            within=60,
        )
        frozen.running.clear()


async def test_a_tenant_joins_and_leaves_while_the_syncer_runs(world: SyncerWorld):
    """Another VirtualCluster of the same control plane: engaged, told, and let go of."""
    async with world.syncer() as program:
        joined = await declare(world.super_client, world.tenant_plane)
        await eventually(lambda: joined.uid in program.tenants.connections, within=30)
        await eventually(lambda: program.tenants.connections[joined.uid].is_ready, within=30)
        await world.super_client.delete(VIRTUAL_CLUSTERS, joined.name, namespace=joined.namespace)
        await eventually(lambda: joined.uid not in program.tenants.connections)
        assert world.is_engaged()


async def test_a_new_kubeconfig_is_taken_without_losing_anything(world: SyncerWorld):
    from tenancy.resources import SECRETS  # noqa: PLC0415 - only here

    async with world.syncer():
        space = await world.namespace()
        await world.tenant_client.create(PODS, pod("web"), namespace=space)
        await eventually(lambda: world.twin(PODS, space, "web"))
        first = world.session
        renewed = world.tenant_plane.kubeconfig("syncer", group="").decode()
        since = world.mark("super")
        await world.super_client.patch(
            SECRETS,
            "syncer-kubeconfig",
            {"stringData": {"syncer-kubeconfig": renewed}},
            namespace=world.tenant.root,
        )
        await eventually(
            lambda: world.is_engaged() and world.session is not first,
            within=30,
        )
        await world.idle()
        assert [w for w in world.writes("super", since) if w.resource in ("pods", "secrets")] == []
        await world.tenant_client.create(
            CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}}, namespace=space
        )
        volume = {"name": "c", "configMap": {"name": "c"}}
        await world.tenant_client.create(PODS, pod("late", volumes=[volume]), namespace=space)
        await eventually(lambda: world.twin(CONFIG_MAPS, space, "c"))
