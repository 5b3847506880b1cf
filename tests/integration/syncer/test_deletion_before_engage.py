"""A VirtualCluster that is deleted before it was ever engaged is let go of as well.

Hazard: vc-manager waits for that word for as long as a syncer holds the Lease.
"""

from __future__ import annotations

import pytest

from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually
from tests.support.names import fresh_name


async def deleted(world: SyncerWorld, name: str) -> None:
    """Declare a VirtualCluster that has nothing, and delete it."""
    body = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": name, "namespace": "default", "finalizers": [wellknown.FINALIZER]},
        "spec": {"clusterVersionName": "nope"},
    }
    await world.super_client.create(VIRTUAL_CLUSTERS, body)
    await world.super_client.delete(VIRTUAL_CLUSTERS, name, namespace="default")


async def let_go(world: SyncerWorld, name: str) -> None:
    async def reason() -> str:
        body = await world.super_client.get(VIRTUAL_CLUSTERS, name, namespace="default")
        found = (
            conditions.find_condition(
                (body.get("status") or {}).get("conditions"), wellknown.SYNCED
            )
            or {}
        )
        return f"{found.get('status')} {found.get('reason')}"

    await eventually(reason, until=lambda said: said == "False Disengaged", within=30)
    free = {"metadata": {"finalizers": None}}
    await world.super_client.patch(VIRTUAL_CLUSTERS, name, free, namespace="default")


@pytest.mark.parametrize("length", [10, 63], ids=["half made", "with a name that no tenant has"])
async def test_one_that_was_never_engaged_is_let_go_of(world: SyncerWorld, length: int):
    before, during = (fresh_name("vc").ljust(length, "x") for _ in range(2))
    await deleted(world, before)
    async with world.syncer(engaged=False):
        await let_go(world, before)
        await deleted(world, during)
        await let_go(world, during)
