"""A tenant that sleeps: disconnected, with its copies, and back with the same or other pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubeio import Object
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, PODS, VIRTUAL_CLUSTERS
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_tenant_limits import is_synced
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": True}


async def set_sleep(world: SyncerWorld, value: dict[str, Any] | None) -> None:
    await world.super_client.patch(
        VIRTUAL_CLUSTERS,
        world.tenant.name,
        {"spec": {"sleep": value}},
        namespace=world.tenant.namespace,
    )


def owned(name: str) -> Object:
    body = pod(name)
    body["metadata"]["ownerReferences"] = [OWNER]
    return body


async def test_pods_of_an_asleep_tenant_run_on_and_keep_their_uids(
    world: SyncerWorld, tmp_path: Path
):
    """REL-133."""
    async with own_world(world.super_plane, tmp_path / "still") as still, world.syncer() as syncer:
        still.running.append(syncer)
        await eventually(still.is_engaged, within=30)
        space, node = await still.namespace(), await still.super_node()
        await still.tenant_client.create(
            CONFIG_MAPS, {"metadata": {"name": "kept"}}, namespace=space
        )
        await still.tenant_client.create(PODS, pod("web"), namespace=space)
        await still.start_pod(space, "web", node)
        before = await still.twin(PODS, space, "web")
        await set_sleep(still, {"workloads": "Keep"})
        await eventually(lambda: is_synced(still, wellknown.ASLEEP))
        await still.tenant_client.delete(CONFIG_MAPS, "kept", namespace=space)
        assert await still.twin(PODS, space, "web") == before
        await set_sleep(still, None)
        await eventually(lambda: is_synced(still, "Engaged"), within=30)
        after = await still.twin(PODS, space, "web")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        still.running.clear()


async def test_pods_of_a_tenant_scaled_to_zero_come_back_at_the_wake(
    world: SyncerWorld, tmp_path: Path
):
    """REL-133: their controllers create them, so their number needs no record."""
    async with own_world(world.super_plane, tmp_path / "zero") as zero, world.syncer() as syncer:
        zero.running.append(syncer)
        await eventually(zero.is_engaged, within=30)
        space, node = await zero.namespace(), await zero.super_node()
        for body in (owned("web"), pod("bare")):
            await zero.tenant_client.create(PODS, body, namespace=space)
            await zero.start_pod(space, body["metadata"]["name"], node)
        await set_sleep(zero, {"workloads": "ScaleToZero"})
        await eventually(lambda: is_synced(zero, wellknown.ASLEEP))
        for name in ("web", "bare"):
            await eventually(
                lambda n=name: zero.twin(PODS, space, n),  # type: ignore[misc]
                until=lambda body: "deletionTimestamp" in body["metadata"],
            )
            await zero.remove_pod(space, name)
            found = await zero.tenant_client.get(PODS, name, namespace=space)
            assert "deletionTimestamp" not in found["metadata"], (
                "the tenant sees no end of its pods"
            )
        await set_sleep(zero, None)
        await eventually(lambda: is_synced(zero, "Engaged"), within=30)
        await gone(lambda: zero.tenant_client.get(PODS, "web", namespace=space))
        lost = await eventually(
            lambda: zero.tenant_client.get(PODS, "bare", namespace=space),
            until=lambda body: body["status"]["phase"] == "Failed",
        )
        assert lost["status"]["reason"] == "SuperPodLost"
        await zero.tenant_client.create(PODS, owned("other"), namespace=space)
        await eventually(lambda: zero.twin(PODS, space, "other"))
        zero.running.clear()
