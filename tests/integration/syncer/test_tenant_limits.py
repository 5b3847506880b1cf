"""A tenant that is too large or suspended: disconnected and told, beside one that goes on."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubeio import Object
from kubeio.cache.cache_budget import MIB
from syncer.safety.cache_limits import TenantLimits, build_cache_limits
from tenancy import wellknown
from tenancy.resources import NETWORK_POLICIES, PODS, VIRTUAL_CLUSTERS
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.hostile_servers import EndlessScript, Hostility, hostile
from tests.integration.syncer.objects import pod
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually

LIMITS = TenantLimits(
    cache=build_cache_limits(16 * MIB), away_base_seconds=2.0, away_max_seconds=4.0
)
"""A kind may use 4 MiB, which are some twenty of these policies."""


def large_policy(number: int) -> Object:
    """Return a NetworkPolicy of 200 KB."""
    metadata = {"name": f"p{number}", "annotations": {"example.com/x": "y" * 200_000}}
    return {
        "apiVersion": NETWORK_POLICIES.api_version,
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {"podSelector": {}},
    }


async def is_synced(world: SyncerWorld, reason: str) -> Object | None:
    """Return the condition Synced if it has this reason."""
    found = await world.condition(wellknown.SYNCED)
    return found if found is not None and found["reason"] == reason else None


async def overflow_event(world: SyncerWorld) -> Object | None:
    """Return an Event in the tenant about its size."""
    found = await world.events("default")
    return next((event for event in found if event["reason"] == "TooLarge"), None)


async def works(world: SyncerWorld, space: str, name: str) -> None:
    """Create a pod and wait for its twin."""
    await world.tenant_client.create(PODS, pod(name), namespace=space)
    await eventually(lambda: world.twin(PODS, space, name))


async def test_a_tenant_that_is_too_large_is_reported_and_recovers_and_the_neighbour_goes_on(
    world: SyncerWorld, tmp_path: Path
):
    """REL-77: the objects come as watch events, and then in the list of the next attempt."""
    async with (
        own_world(world.super_plane, tmp_path / "large") as large,
        world.syncer(limits=LIMITS) as syncer,
    ):
        large.running.append(syncer)
        await eventually(large.is_engaged, within=30)
        space, big = await world.namespace(), await large.namespace()
        await works(large, big, "before")
        for number in range(30):
            await large.tenant_client.create(NETWORK_POLICIES, large_policy(number), namespace=big)
        told = await eventually(lambda: is_synced(large, "TooLarge"), within=30)
        assert told["status"] == "False"
        assert f"NetworkPolicy in namespace {big}: more than {4 * MIB} bytes" in told["message"]
        assert "Delete objects in the tenant" in told["message"]
        event = await eventually(lambda: overflow_event(large), within=30)
        assert event["involvedObject"]["name"] == big
        assert f"NetworkPolicy in namespace {big}: more than {4 * MIB} bytes" in event["message"]
        await works(world, space, "beside")
        again = await eventually(  # the next attempt reads the same objects in a list
            lambda: is_synced(large, "TooLarge"),
            until=lambda found: found is not None and found["message"] != told["message"],
            within=30,
        )
        assert f"NetworkPolicy in namespace {big}" in again["message"]
        assert await world.has_twin(PODS, space, "beside")
        assert await large.has_twin(PODS, big, "before"), "its copies stay"
        for number in range(30):
            await large.tenant_client.delete(NETWORK_POLICIES, f"p{number}", namespace=big)
        await eventually(lambda: is_synced(large, "Engaged"), within=60)
        await works(large, big, "after")
        large.running.clear()


@contextlib.asynccontextmanager
async def attacked(
    world: SyncerWorld, script: EndlessScript, folder: Path
) -> AsyncIterator[SyncerWorld]:
    """Run a syncer for a world and for a tenant with a hostile API server. Yield the tenant."""
    async with (
        own_world(world.super_plane, folder / "attacked") as found,
        hostile(found, script),
        world.syncer(limits=LIMITS) as syncer,
    ):
        found.running.append(syncer)
        yield found
        found.running.clear()


@pytest.mark.parametrize("hostility", ["pages", "watch"])
async def test_a_server_that_sends_without_end_is_left_and_harms_no_neighbour(
    world: SyncerWorld, tmp_path: Path, hostility: Hostility
):
    """REL-77: a list whose pages never end, and a cache that only watch events fill."""
    script = EndlessScript(hostility)
    async with attacked(world, script, tmp_path) as endless:
        told = await eventually(lambda: is_synced(endless, "TooLarge"), within=30)
        assert "NetworkPolicy" in told["message"]
        assert str(4 * MIB) in told["message"] or str(8 * MIB) in told["message"]
        assert script.sent * 200_000 < 32 * MIB, "one attempt reads little more than the limit"
        space = await world.namespace()
        await works(world, space, "beside")
        before = script.sent
        await eventually(lambda: script.sent > before, within=30)  # the next attempt
        await works(world, space, "later")
        script.hostility = None
        await eventually(lambda: is_synced(endless, "Engaged"), within=60)
        await works(endless, await endless.namespace(), "after")


async def test_unfinished_events_of_all_watches_are_charged_to_their_tenant(
    world: SyncerWorld, tmp_path: Path
):
    """REL-77: each event is below the limit of one, and no cache has an object."""
    script = EndlessScript("unfinished")
    async with attacked(world, script, tmp_path) as unfinished:
        told = await eventually(lambda: is_synced(unfinished, "TooLarge"), within=30)
        assert f"more than {16 * MIB} bytes of objects and unfinished events" in told["message"]
        await works(world, await world.namespace(), "beside")
        script.hostility = None
        await eventually(lambda: is_synced(unfinished, "Engaged"), within=60)
        await works(unfinished, await unfinished.namespace(), "after")


async def test_a_suspended_tenant_is_not_synced_until_it_is_resumed(
    world: SyncerWorld, tmp_path: Path
):
    async with own_world(world.super_plane, tmp_path / "still") as still, world.syncer() as syncer:
        still.running.append(syncer)
        await eventually(still.is_engaged, within=30)
        space = await still.namespace()

        async def suspend(value: bool) -> None:
            await still.super_client.patch(
                VIRTUAL_CLUSTERS,
                still.tenant.name,
                {"spec": {"suspend": value}},
                namespace=still.tenant.namespace,
            )

        await suspend(True)
        told = await eventually(lambda: is_synced(still, "Suspended"))
        assert told["status"] == "False"
        await still.tenant_client.create(PODS, pod("web"), namespace=space)
        await works(world, await world.namespace(), "beside")
        assert not await still.has_twin(PODS, space, "web")
        await suspend(False)
        await eventually(lambda: still.twin(PODS, space, "web"), within=30)
        await eventually(lambda: is_synced(still, "Engaged"))
        still.running.clear()
