"""Every kind that a tenant is shown lives the same life. Each write is counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from msgspec import structs

from kubeio import Object
from syncer.handlers import dispatcher
from syncer.model.keys import (
    ASSIGNMENT,
    DEFAULT_POLICY,
    EVENT,
    LIMIT_RANGE,
    NETWORK_CRD,
    QUOTA_REPORT,
    RESOURCE_QUOTA,
    SERVICE_VARIABLES,
    TENANT_NETWORK,
    TENANT_STATUS,
    TOKEN,
)
from syncer.model.mirrored_kinds import MIRRORS_BY_KIND as MIRRORED
from tenancy import wellknown
from tenancy.policies import NodesSpec
from tenancy.resources import EVENTS, PODS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.storage import force
from tests.integration.syncer.synced_back_samples import SHOWN, MirroredSample, says
from tests.integration.syncer.test_mirrors import EVERYTHING, serve
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.controlplane import AuditMark
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough

APART = {
    EVENT: "is posted and never withdrawn: see the test of Events here",
    TENANT_STATUS: "is not an object",
    ASSIGNMENT: "is where a pod runs, and no object: test_assigned_clusters",
    TOKEN: "is a Secret of the super cluster only: test_synced_back",
    TENANT_NETWORK: "is a definition of the super cluster only: test_networks",
    NETWORK_CRD: "is created once and then the tenant's: test_networks",
    SERVICE_VARIABLES: "is a ConfigMap of the super cluster only: test_services",
    DEFAULT_POLICY: "is a NetworkPolicy of the super cluster only: test_isolation",
    RESOURCE_QUOTA: "is an object of the super cluster only: test_quota",
    LIMIT_RANGE: "is an object of the super cluster only: test_quota",
    QUOTA_REPORT: "is written by the syncer alone: test_quota",
}
SHOWN_KINDS = sorted({*dispatcher._BY_KEY_KIND} - {*APART})


@dataclass(frozen=True)
class MirrorLifecycle:
    """One object of a kind that is shown, and all actors except the syncer."""

    world: SyncerWorld
    sample: MirroredSample
    name: str

    async def shown(self) -> Object:
        """Return what the tenant sees."""
        sample = self.sample
        return await self.world.tenant_client.get(
            sample.resource, self.name, namespace=sample.space
        )

    async def is_seen(self, patch: Object, *, unlike: str = "") -> Object:
        """Wait until the tenant sees an object as a merge patch leaves it."""
        return await eventually(
            self.shown,
            until=lambda body: says(body, patch) and body["metadata"]["uid"] != unlike,
            within=45,
        )

    async def change(self, patch: Object) -> None:
        """Have someone change the super cluster's object."""
        sample = self.sample
        if patch:
            await self.world.super_client.patch(
                sample.resource, self.name, patch, namespace=sample.super_space
            )

    async def edit(self, patch: Object) -> None:
        """Let the tenant change what it sees."""
        sample = self.sample
        await self.world.tenant_client.patch(
            sample.resource, self.name, patch, namespace=sample.space
        )

    async def change_seen(self, patch: Object) -> None:
        """The same, and wait until the tenant sees it."""
        await self.change(patch)
        await self.is_seen(patch)

    async def remove(self) -> None:
        """Have someone delete the super cluster's object."""
        await self.sample.remove(self.world, self.sample, self.name)

    async def make(self, sample: MirroredSample | None = None) -> None:
        """Have someone make it once more."""
        await self.sample.make(self.world, sample or self.sample, self.name)

    async def delete(self) -> None:
        """Let the tenant delete its copy, whatever holds it."""
        if self.sample.resource.kind == "PersistentVolume":
            await force(self.world, self.name)
        else:
            await self.world.tenant_client.delete(
                self.sample.resource, self.name, namespace=self.sample.space
            )

    def verbs(self, since: AuditMark) -> list[str]:
        """Return the syncer's writes in the tenant that took effect."""
        found = []
        for write in self.world.writes("tenant", since):
            plural, _, subresource = write.resource.partition("/")
            is_its = (plural, write.name) == (self.sample.resource.plural, self.name)
            if is_its and write.code < 400:
                found.append(f"{write.verb} {subresource}".strip())
        return found

    @contextlib.asynccontextmanager
    async def costing(self, verbs: tuple[str, ...]) -> AsyncIterator[None]:
        """Count the writes of a block, and of the rest after it."""
        since = self.world.mark("tenant")
        yield
        if self.world.running:
            await self.world.idle()
        assert self.verbs(since) == list(verbs)


@pytest.fixture
async def open_world(world: SyncerWorld) -> AsyncIterator[SyncerWorld]:
    """A world whose tenant sees every class and every node. Both sides serve all kinds."""
    for client in (world.super_client, world.tenant_client):
        await serve(client)
    async with policed(world, structs.replace(EVERYTHING, nodes=NodesSpec(expose="all"))):
        yield world


@pytest.mark.parametrize("kind", SHOWN_KINDS)
async def test_life(open_world: SyncerWorld, kind: str):
    """From the first sight to a name's second owner."""
    await live(open_world, SHOWN[kind], has_mark=kind in MIRRORED)


async def live(world: SyncerWorld, sample: MirroredSample, *, has_mark: bool) -> None:
    """Live the whole life. `has_mark`: the syncer's label is on what the tenant sees."""
    costs = sample.costs
    async with world.syncer():
        since = world.mark("tenant")
        life = MirrorLifecycle(world, sample, await sample.make(world, sample, ""))
        first = await life.is_seen(sample.seen)
        await world.idle()
        assert life.verbs(since) == list(costs.create)
        assert "hidden" not in str(first)
        if has_mark:
            assert first["metadata"]["labels"] == {wellknown.MIRRORED: "true"}
        for patch, cost in ((sample.change, costs.change), (sample.removal, costs.removal)):
            async with life.costing(cost if patch else ()):
                await life.change_seen(patch)
        if sample.edit:
            before = await life.shown()
            async with life.costing(costs.edit):
                await life.edit(sample.edit)
                await eventually(
                    life.shown,
                    until=lambda body: (
                        not says(body, sample.edit) and body.get("spec") == before.get("spec")
                    ),
                )
        if has_mark:
            async with life.costing(("update",)):
                await life.edit({"metadata": {"labels": {wellknown.MIRRORED: None}}})
                await life.is_seen({"metadata": {"labels": {wellknown.MIRRORED: "true"}}})
        async with life.costing(costs.back):
            await life.delete()
            await life.is_seen(sample.seen, unlike=first["metadata"]["uid"])
            await world.idle()
    async with life.costing(costs.change if sample.change else ()):
        await life.change(sample.change)
        async with world.syncer():
            await life.is_seen(sample.change)
            await world.idle()
    if sample.remake is not None:
        async with life.costing(costs.remade):
            await life.remove()
            await life.make(replace(sample, body={**sample.body, **sample.remake}))
            async with world.syncer():
                await life.is_seen(sample.remake)
                await world.idle()
        async with world.syncer(), life.costing(costs.gone):
            await life.remove()
            await gone(life.shown)
        async with life.costing(costs.create):
            await life.make()
            async with world.syncer():
                await life.is_seen(sample.seen)
                await world.idle()
    async with life.costing(()), world.syncer():
        await asyncio.sleep(0.2)
        await world.idle()
    async with life.costing(costs.gone):
        await life.remove()
        async with world.syncer():
            await gone(life.shown)
            await world.idle()


async def test_life_of_an_event(world: SyncerWorld):
    """It is told, told again as it grows, and neither taken back nor repeated."""
    async with world.syncer():
        space, node = await world.namespace(), await world.super_node()
        await world.tenant_client.create(PODS, pod("web"), namespace=space)
        await world.start_pod(space, "web", node)
        twin = await world.twin(PODS, space, "web")
        super_space = twin["metadata"]["namespace"]
        about = {
            "kind": "Pod",
            "namespace": super_space,
            "name": "web",
            "uid": twin["metadata"]["uid"],
        }
        event = {
            "metadata": {"name": "web.1", "namespace": super_space},
            "involvedObject": {"apiVersion": "v1", **about},
            "reason": "BackOff",
            "message": f"{super_space}/web waits",
            "type": "Warning",
            "count": 1,
        }
        since = world.mark("tenant")
        await world.super_client.create(EVENTS, event)

        async def told(count: int) -> Object:
            return await eventually(
                lambda: world.tenant_client.get(EVENTS, "web.1", namespace=space),
                until=lambda found: found["count"] == count,
            )

        assert (await told(1))["message"] == f"{space}/web waits"
        await world.super_client.patch(EVENTS, "web.1", {"count": 2}, namespace=super_space)
        await told(2)
        edit = {"message": "mine"}
        await world.tenant_client.patch(EVENTS, "web.1", edit, namespace=space)
        await asyncio.sleep(0.2)
        await world.idle()
    await world.super_client.patch(EVENTS, "web.1", {"count": 3}, namespace=super_space)
    async with world.syncer():
        await asyncio.sleep(0.2)
        await world.idle()
        await world.super_client.patch(EVENTS, "web.1", {"count": 4}, namespace=super_space)
        await told(4)
        await world.super_client.delete(EVENTS, "web.1", namespace=super_space)
        await asyncio.sleep(0.2)
        await world.idle()
    assert await told(4)
    writes = [
        write.verb
        for write in world.writes("tenant", since)
        if (write.resource, write.name) == ("events", "web.1") and write.code < 400
    ]
    assert writes == ["create", "patch", "patch"]


def test_every_sample_is_of_a_kind_that_is_shown():
    assert {*SHOWN} == {*SHOWN_KINDS}
