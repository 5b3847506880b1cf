"""At no moment is a pod in two super clusters, whatever schedulers, tenants and restarts do."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from kubeio.errors import KubeError
from syncer.rules.placement.reschedule_timeouts import UNANSWERED_CREATE_SECONDS
from tenancy import wellknown
from tenancy.resources import PODS, VIRTUAL_CLUSTERS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.target_world import TargetWorld
from tests.integration.syncer.test_assigned_clusters import own_plane, second, target_world, tenant
from tests.support.doubles import ObservedDoubles, observe, twins
from tests.support.eventually import eventually
from tests.support.own_address import needs_address

pytestmark = needs_address
__all__ = ["own_plane", "second", "target_world", "tenant"]

COUNT = 8
STEPS = 45
AT_LENGTH = 150
RESTARTS = 3
ROUNDS_OF_A_STEP = 0.5
"""Looks at both clusters that there are at least, or no one can say that no pod was in both."""
REFUSED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize("steps", [STEPS, pytest.param(AT_LENGTH, marks=pytest.mark.thorough)])
async def test_no_pod_is_ever_in_two_places(
    target_world: TargetWorld, monkeypatch: pytest.MonkeyPatch, steps: int
):
    """A0-12."""
    monkeypatch.setattr("syncer.rules.placement.reschedule_timeouts.RETRY_ALL_SECONDS", 0.3)
    monkeypatch.setattr("syncer.controllers.pods.reschedule._SOON_SECONDS", 0.05)
    world, chance = target_world.world, random.Random(20240)  # noqa: S311 - the same steps each time
    await world.super_node()
    await target_world.granted()
    space = await world.namespace()
    super_space = world.super_namespace(space)
    names = [f"p{number}" for number in range(COUNT)]
    for name in names:
        await world.tenant_client.create(PODS, pod(name), namespace=space)
    seen = ObservedDoubles()
    watching = asyncio.create_task(
        observe((world.super_client, target_world.target_client), super_space, seen)
    )
    moves = 0
    for step in range(steps):
        name, act = chance.choice(names), chance.random()
        with contextlib.suppress(KubeError):
            if act < 0.6:
                for client in (world.super_client, target_world.target_client):
                    with contextlib.suppress(KubeError):
                        status = {"status": {"conditions": [REFUSED]}}
                        await client.patch(
                            PODS, name, status, namespace=super_space, subresource="status"
                        )
                        moves += 1
            elif act < 0.8:
                cluster = chance.choice(["home", target_world.name, "nowhere"])
                forged = {
                    "metadata": {
                        "annotations": {wellknown.ASSIGNED_CLUSTER: f"{cluster}/0123456789abcdef"}
                    }
                }
                await world.tenant_client.patch(PODS, name, forged, namespace=space)
            else:
                await world.tenant_client.delete(PODS, name, namespace=space, grace_seconds=0)
                await world.tenant_client.create(PODS, pod(name), namespace=space)
        if (step + 1) % (steps // RESTARTS) == 0:
            await eventually(world.is_engaged)  # the last restart may wait for its turn yet
            world.session.connection.restart()  # and with it, all that is only remembered
        await asyncio.sleep(0.05)
    assert moves > steps // 5

    async def unrest() -> dict[str, set[str]]:
        tenant_pods = (await world.tenant_client.list(PODS, namespace=space))["items"]
        here, there = (
            await twins(world.super_client, super_space),
            await twins(target_world.target_client, super_space),
        )
        wanted = {each["metadata"]["uid"] for each in tenant_pods}
        found = {
            "without a twin": wanted - here - there,
            "of nobody": (here | there) - wanted,
            "twice": here & there,
        }
        return {what: which for what, which in found.items() if which}

    # A create that was not answered, as on a busy machine, keeps its cluster for UNSURE_SECONDS.
    await eventually(unrest, until=lambda found: not found, within=UNANSWERED_CREATE_SECONDS + 60)
    assert not watching.done(), watching
    watching.cancel()
    assert seen.twice == []
    assert seen.rounds >= ROUNDS_OF_A_STEP * steps
    await leave(target_world, space, names)


async def leave(target_world: TargetWorld, space: str, names: list[str]) -> None:
    """Have nothing seated in this cluster: pods of the next test would wait for it for ever."""
    for name in names:
        await target_world.world.tenant_client.delete(PODS, name, namespace=space, grace_seconds=0)
    await target_world.grant({"name": "home"})
    tenant = target_world.world.tenant

    async def named() -> list[str]:
        found = await target_world.world.super_client.get(
            VIRTUAL_CLUSTERS, tenant.name, namespace=tenant.namespace
        )
        return [each["name"] for each in found["status"].get("targets") or ()]

    await eventually(named, until=lambda found: found == [])
