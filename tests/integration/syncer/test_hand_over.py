"""Two syncers and one Lease: the one that works is killed, or frozen and woken, in mid-burst."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from syncer.app import USER_AGENT
from tenancy import wellknown
from tenancy.resources import PODS
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.objects import pod
from tests.integration.syncer.rights import grant_lease
from tests.integration.syncer.world import HOME, SYNCER, SyncerWorld
from tests.support.alerts import firing
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tests.support.replicas import GOAL, PATIENCE, ReplicaPair, SentWrite, SyncerProcess

pytestmark = pytest.mark.thorough

BURST = 200
DOWN = "VirtualClusterSyncerDown"
BY_DESIGN = {"namespaces", "configmaps", "virtualclusters/status"}
"""The syncer that engages a tenant increments the epoch on both sides, and logs that."""


@dataclass(frozen=True)
class TwoSyncers:
    """A tenant and two syncers."""

    world: SyncerWorld
    pair: ReplicaPair
    start: Callable[[str], SyncerProcess]

    async def burst(self, space: str, prefix: str) -> list[str]:
        """Create pods in the tenant faster than they can be carried down."""
        names = [f"{prefix}-{number}" for number in range(BURST)]
        tenant_client = self.world.tenant_client
        await asyncio.gather(
            *(tenant_client.create(PODS, pod(name), namespace=space) for name in names)
        )
        return names

    async def super_pods(self, space: str) -> set[str]:
        """Return the names of the super pods."""
        found = await self.world.super_client.list(
            PODS, namespace=self.world.super_namespace(space)
        )
        return {each["metadata"]["name"] for each in found["items"]}

    async def some_are_below(self, space: str) -> None:
        """Wait for the first ones."""
        await eventually(lambda: self.super_pods(space), within=PATIENCE)

    async def all_are_below(self, space: str, names: Sequence[str]) -> None:
        """Wait for the last one."""
        wanted = set(names)
        await eventually(lambda: self.super_pods(space), until=wanted.issubset, within=PATIENCE)


@pytest.fixture
async def stage(super_plane: LocalControlPlane, tmp_path: Path) -> AsyncIterator[TwoSyncers]:
    async with own_world(super_plane, tmp_path / fresh_name("tenant")) as world:
        await grant_lease(world)
        kubeconfig = super_plane.kubeconfig(SYNCER, group="")
        one, two = (started(name, tmp_path, kubeconfig) for name in ("one", "two"))
        pair = ReplicaPair(
            (one, two),
            client=world.super_client,
            lease=(HOME, wellknown.SYNCER),
            agent=USER_AGENT,
            planes=(super_plane, world.tenant_plane),
        )
        try:
            yield TwoSyncers(world, pair, partial(started, folder=tmp_path, kubeconfig=kubeconfig))
        finally:
            await pair.stop()


def started(name: str, folder: Path, kubeconfig: bytes) -> SyncerProcess:
    """Start a syncer in a pod of that name. A second time, it is that pod's container again."""
    return SyncerProcess("syncer", name, folder, kubeconfig, env={"POD_UID": f"uid-{name}"})


def touched(writes: Sequence[SentWrite]) -> set[tuple[str, str, str]]:
    """Return the objects that writes have changed."""
    return {
        write.place for write in writes if write.was_accepted and write.resource not in BY_DESIGN
    }


async def test_a_holder_that_is_killed_is_followed_and_nothing_is_written_twice(stage: TwoSyncers):
    """REL-01, REL-50: in mid-burst, by another process."""
    world, pair = stage.world, stage.pair
    holder, standby = await pair.settled()
    space = await world.namespace()
    assert DOWN in firing(await standby.scrape())
    assert DOWN not in firing(await standby.scrape(), await holder.scrape())
    before, marked = await pair.lease(), pair.mark()
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(stage.burst(space, "killed"))
        await stage.some_are_below(space)
        killed = time.time()
        holder.process.kill()
    assert len(await stage.super_pods(space)) < BURST, "the holder was too fast to be killed"
    await stage.all_are_below(space, creating.result())
    print(f"hand-over {pair.hand_over(standby, killed, marked):.1f} s (goal {GOAL:.0f})")
    after = await pair.lease()
    assert after["holderIdentity"].startswith(f"{standby.name}_")
    assert after["leaseTransitions"] == before["leaseTransitions"] + 1
    first, second = (pair.writes(replica, marked) for replica in (holder, standby))
    made = Counter(
        write.place for write in (*first, *second) if write.verb == "create" and write.was_accepted
    )
    assert [place for place, count in made.items() if count != 1] == []
    assert touched(first)
    assert touched(second)
    assert touched(first) & touched(second) == set()
    assert DOWN not in firing(await standby.scrape())


async def test_a_container_that_is_started_again_goes_on_with_its_lease(stage: TwoSyncers):
    """REL-01: it need not wait for what its dead process left, and nothing is written twice."""
    world, pair = stage.world, stage.pair
    holder, standby = await pair.settled()
    await standby.process.stop()
    space = await world.namespace()
    before, marked = await pair.lease(), pair.mark()
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(stage.burst(space, "crashed"))
        await stage.some_are_below(space)
        holder.process.kill()
    assert len(await stage.super_pods(space)) < BURST, "the holder was too fast to be killed"
    again = stage.start(holder.name)
    try:
        await stage.all_are_below(space, creating.result())
        after = await pair.lease()
    finally:
        await again.process.stop()
    for field in ("holderIdentity", "leaseTransitions"):
        assert after[field] == before[field]
    assert after["acquireTime"] > before["acquireTime"]
    made = Counter(
        write.place
        for write in pair.writes(again, marked)
        if write.verb == "create" and write.was_accepted
    )
    assert len(made) >= BURST
    assert [place for place, count in made.items() if count != 1] == []


async def test_a_holder_that_slept_through_its_lease_writes_nothing_when_it_wakes(
    stage: TwoSyncers,
):
    """REL-12, REL-50: not one request after it woke."""
    world, pair = stage.world, stage.pair
    holder, standby = await pair.settled()
    space = await world.namespace()
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(stage.burst(space, "frozen"))
        await stage.some_are_below(space)
        holder.process.pause()
    assert len(await stage.super_pods(space)) < BURST, "the holder was too fast to be frozen"
    await eventually(pair.holder, until=standby.name.__eq__, within=PATIENCE)
    await stage.all_are_below(space, creating.result())
    # Work for the syncer that continues: more than its workers, and all of it done already.
    await stage.all_are_below(space, await stage.burst(space, "more"))
    marked = pair.mark()
    holder.process.resume()
    await eventually(lambda: holder.process.has_ended, within=PATIENCE)
    assert pair.writes(holder, marked) == []
    assert holder.lost_its_lease()
    await stage.all_are_below(space, await stage.burst(space, "last"))
    assert await pair.holder() == standby.name
