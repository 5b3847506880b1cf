"""A restore by vc-manager, as the syncer sees it: disconnected meanwhile, deletes held after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubeio import Object
from syncer.safety.store_guard import StoreGuard
from tenancy import wellknown
from tenancy.resources import NAMESPACES, SERVICES, VIRTUAL_CLUSTERS
from tests.chaos.processes import snapshots
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_services import service
from tests.integration.syncer.test_store_guard import (
    confirm_deletes,
    deletes,
    furnish,
    held,
    held_store,
    released,
)
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually
from vcmanager.reconcilers.snapshots.restore import EPOCH_STEP

REQUEST = "first@2026-03-01T12:00:00Z"


@pytest.fixture
async def own(super_plane, tmp_path: Path) -> AsyncIterator[SyncerWorld]:
    """A tenant whose store the test replaces."""
    async with own_world(super_plane, tmp_path / "tenant") as world:
        yield world


async def report(world: SyncerWorld, phase: str, request: str | None = REQUEST) -> None:
    """Write what vc-manager writes during a restore."""
    name, namespace = world.tenant.name, world.tenant.namespace
    status = {"status": {"restore": {"request": REQUEST, "phase": phase}}}
    await world.super_client.patch(
        VIRTUAL_CLUSTERS, name, status, namespace=namespace, subresource="status"
    )
    body: Object = {"metadata": {"annotations": {wellknown.RESTORE_SNAPSHOT: request}}}
    await world.super_client.patch(VIRTUAL_CLUSTERS, name, body, namespace=namespace)


async def disconnected_for(world: SyncerWorld) -> str | None:
    """Return `status.disconnectedForRestore`. None when the field is absent."""
    found = await world.super_client.get(
        VIRTUAL_CLUSTERS, world.tenant.name, namespace=world.tenant.namespace
    )
    return found["status"].get("disconnectedForRestore")


async def leave_epoch(_: StoreGuard) -> None:
    """Stand for the 15 s in which the epoch is not increased yet."""


async def test_a_restore_within_seconds_of_a_write_holds_deletes_until_a_person_confirms(
    own: SyncerWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """REL-74, T2-38: the epoch was not increased since the snapshot, and the revision is bumped."""
    async with own.syncer():
        space = await furnish(own)
        await snapshots.save(own.tenant_plane, tmp_path / "s.db")
        counting = StoreGuard.advance_epoch
        monkeypatch.setattr(StoreGuard, "advance_epoch", leave_epoch)
        await own.tenant_client.create(SERVICES, service("late"), namespace=space)
        await eventually(lambda: own.twin(SERVICES, space, "late"))
        since = own.mark("super")

        await report(own, "Checking")
        await asyncio.sleep(0.5)
        assert own.is_engaged()  # the tenant runs while its snapshot is checked
        await report(own, "Stopping")
        condition = await eventually(
            lambda: own.condition(wellknown.SYNCED),
            until=lambda found: found is not None and found["reason"] == wellknown.RESTORING,
        )
        assert REQUEST in condition["message"]
        assert await disconnected_for(own) == REQUEST
        monkeypatch.setattr(StoreGuard, "advance_epoch", counting)

        await snapshots.restore(
            own.tenant_plane, tmp_path / "s.db", "restored", bump=snapshots.BUMP
        )
        root = await own.super_client.get(NAMESPACES, own.tenant.root)
        epoch = int(root["metadata"]["annotations"][wellknown.STORE_EPOCH])
        raised = {wellknown.STORE_EPOCH: str(epoch + EPOCH_STEP)}
        await own.super_client.patch(
            NAMESPACES, own.tenant.root, {"metadata": {"annotations": raised}}
        )
        await own.tenant_plane.restart_on_store("restored")
        await report(own, "Complete", None)

        message = await held(own)
        assert "older copy" in message
        assert await disconnected_for(own) is None
        await asyncio.sleep(1)
        assert deletes(own, since) == []
        assert await own.has_twin(SERVICES, space, "late")
        store = await held_store(own)
        assert store is not None
        await confirm_deletes(own, store["uid"])
        await released(own)
        await gone(lambda: own.twin(SERVICES, space, "late"), within=60)
        assert await own.has_twin(SERVICES, space, "web")
