"""A lost, restored or frozen store of a tenant leads to no wrong delete in the super cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubeio.api.client import Client
from syncer.safety import store_guard
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS, SERVICES, VIRTUAL_CLUSTERS
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.objects import pod
from tests.integration.syncer.rights import grant
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_services import service
from tests.integration.syncer.test_sync_rules import (
    RULED,
    get_resource,
    grant_kinds,
    manage,
    ruled,
)
from tests.integration.syncer.world import SyncerWorld
from tests.support.controlplane import AuditMark
from tests.support.eventually import eventually


@pytest.fixture
async def own(super_plane, tmp_path: Path) -> AsyncIterator[SyncerWorld]:
    """A tenant whose store the test may break."""
    async with own_world(super_plane, tmp_path / "tenant") as world:
        yield world


async def held(world: SyncerWorld) -> str:
    """Wait until deletes are held and return the condition's message."""
    condition = await eventually(
        lambda: world.condition(wellknown.DELETES_HELD),
        until=lambda found: found is not None and found["status"] == "True",
        within=60,
    )
    return condition["message"]


async def held_store(world: SyncerWorld) -> dict[str, str] | None:
    """Return `status.heldStore` of the VirtualCluster. None when the field is absent."""
    body = await world.super_client.get(
        VIRTUAL_CLUSTERS, world.tenant.name, namespace=world.tenant.namespace
    )
    return body["status"].get("heldStore")


async def released(world: SyncerWorld) -> None:
    """Wait until deletes are no longer held."""
    await eventually(
        lambda: world.condition(wellknown.DELETES_HELD),
        until=lambda found: found is not None and found["status"] == "False",
        within=60,
    )


async def wipe_store(world: SyncerWorld) -> None:
    """Restart the tenant on an empty etcd, with the syncer's rights as vc-manager writes them."""
    from syncer.rbac import TENANT_RBAC_RULES  # noqa: PLC0415 - as vc-manager would

    await world.tenant_plane.restart_on_store("empty")
    async with Client(world.tenant_plane.endpoint) as client:
        await grant(client, TENANT_RBAC_RULES)


async def confirm_deletes(world: SyncerWorld, uid: str) -> None:
    """Confirm the deletes of a store, as `kubectl vc confirm-deletes` does."""
    confirm = {"metadata": {"annotations": {wellknown.CONFIRM_DELETES: uid}}}
    await world.super_client.patch(
        VIRTUAL_CLUSTERS, world.tenant.name, confirm, namespace=world.tenant.namespace
    )


async def furnish(world: SyncerWorld) -> str:
    """Create a running pod and a Service with copies, and wait for a later mark of the store."""
    space, node = await world.namespace(), await world.super_node()
    await world.tenant_client.create(SERVICES, service("web"), namespace=space)
    await world.tenant_client.create(PODS, pod("web"), namespace=space)
    await world.start_pod(space, "web", node)
    await eventually(lambda: world.twin(SERVICES, space, "web"))
    world.session.connection.enqueue_status()
    await eventually(lambda: not world.session.store_guard.is_count_due)
    await world.idle()
    return space


def deletes(world: SyncerWorld, since: AuditMark) -> list[object]:
    """Return the syncer's deletes in the super cluster."""
    return [write for write in world.writes("super", since) if write.verb == "delete"]


async def test_an_empty_store_deletes_nothing_until_a_person_confirms(own: SyncerWorld):
    """REL-18: the etcd of the tenant was wiped."""
    async with own.syncer():
        space = await furnish(own)
        since = own.mark("super")
        await wipe_store(own)
        message = await held(own)
        new = await own.tenant_client.get(NAMESPACES, "kube-system")
        assert await held_store(own) == {"uid": new["metadata"]["uid"]}
        assert f"kubectl vc confirm-deletes {own.tenant.name}" in message
        await asyncio.sleep(1)
        assert deletes(own, since) == []
        assert await own.has_twin(PODS, space, "web")

        await confirm_deletes(own, new["metadata"]["uid"])
        super_space = own.super_namespace(space)
        await gone(lambda: own.super_client.get(SERVICES, "web", namespace=super_space), within=60)
        await eventually(lambda: own.twin(PODS, space, "web"))  # its kubelet lets it go in time
        await released(own)
        body = await own.super_client.get(
            VIRTUAL_CLUSTERS, own.tenant.name, namespace=own.tenant.namespace
        )
        assert wellknown.CONFIRM_DELETES not in body["metadata"].get("annotations", {})
        assert "heldStore" not in body["status"]
        # The new store is followed like any.
        space = await own.namespace()
        await own.tenant_client.create(SERVICES, service("fresh"), namespace=space)
        await eventually(lambda: own.twin(SERVICES, space, "fresh"))


@pytest.mark.thorough
async def test_an_empty_store_deletes_no_copy_of_a_ruled_kind(own: SyncerWorld):
    """REL-18: the new store has neither the objects of SyncRules nor their CRDs."""
    kinds = {get_resource(kind): sample.body for kind, sample in RULED.items()}

    async def list_copies(space: str) -> list[str]:
        return [each.kind for each in kinds if await own.has_twin(each, space, "x")]

    async with ruled(own, *RULED), own.syncer():
        space = await furnish(own)
        for kind, body in kinds.items():
            named = {**body, "metadata": {"name": "x"}}
            await eventually(
                lambda kind=kind, named=named: own.tenant_client.create(
                    kind, named, namespace=space
                ),
                within=60,
            )
        await eventually(lambda: list_copies(space), until=lambda found: found == [*RULED])
        await own.idle()
        since = own.mark("super")
        await wipe_store(own)
        await held(own)
        await grant_kinds(own)
        await manage(own)  # the new store has the CRDs, and no object of them
        for kind in kinds:
            await eventually(lambda kind=kind: own.tenant_client.list(kind), within=30)
        await asyncio.sleep(2)
        assert deletes(own, since) == []
        assert await list_copies(space) == [*RULED]

        new = await own.tenant_client.get(NAMESPACES, "kube-system")
        await confirm_deletes(own, new["metadata"]["uid"])
        await eventually(lambda: list_copies(space), until=lambda found: not found)


async def test_the_old_stores_return_ends_the_hold(own: SyncerWorld, monkeypatch):
    monkeypatch.setattr("syncer.controllers.tenant_status.HELD_RETRY_SECONDS", 0.5)
    async with own.syncer():
        space = await furnish(own)
        since = own.mark("super")
        await wipe_store(own)
        await held(own)
        await own.tenant_plane.restart_on_store("store")
        await released(own)
        assert deletes(own, since) == []
        await own.tenant_client.delete(SERVICES, "web", namespace=space)
        await gone(lambda: own.twin(SERVICES, space, "web"), within=60)


async def test_a_restored_backup_holds_deletes_while_the_syncer_was_away(own: SyncerWorld):
    """REL-17: its revision is lower. With a raised revision, the epoch would still differ."""
    async with own.syncer():
        first = await furnish(own)
    await own.tenant_plane.copy_store("backup")
    async with own.syncer():
        second = await furnish(own)
    since = own.mark("super")
    await own.tenant_plane.restart_on_store("backup")
    async with own.syncer():
        message = await held(own)
        assert "older copy" in message
        await asyncio.sleep(0.5)
        assert deletes(own, since) == []
        assert await own.has_twin(PODS, second, "web")
        # Creates go on, and what both stores have is followed.
        await own.tenant_client.create(SERVICES, service("late"), namespace=first)
        await eventually(lambda: own.twin(SERVICES, first, "late"), within=30)


async def test_the_epoch_alone_reports_a_backup_whose_revision_was_bumped(own: SyncerWorld):
    """REL-17: the revision went on, the epoch went back."""
    async with own.syncer():
        await furnish(own)
    await own.tenant_plane.copy_store("backup")
    async with own.syncer():
        await furnish(own)
    await own.tenant_plane.restart_on_store("backup")
    # As after `etcdutl snapshot restore --bump-revision`: more writes than the record knows.
    root = {"metadata": {"annotations": {wellknown.STORE_REVISION: "1"}}}
    await own.super_client.patch(NAMESPACES, own.tenant.root, root)
    async with own.syncer():
        assert "epoch" in await held(own)


async def test_a_removed_mark_holds_deletes(own: SyncerWorld):
    async with own.syncer():
        await furnish(own)
    await own.tenant_client.delete(CONFIG_MAPS, store_guard.CONFIG_MAP, namespace="kube-system")
    async with own.syncer():
        message = await held(own)
        assert f"ConfigMap kube-system/{store_guard.CONFIG_MAP} is missing" in message
        assert "its revision did not decrease" in message


async def test_an_epoch_ahead_of_the_record_is_accepted_by_a_confirmation(own: SyncerWorld):
    async with own.syncer():
        space = await furnish(own)
    forged = {"data": {store_guard.EPOCH_KEY: "9" * 19}}
    await own.tenant_client.patch(
        CONFIG_MAPS, store_guard.CONFIG_MAP, forged, namespace="kube-system"
    )
    async with own.syncer():
        message = await held(own)
        assert f"is {'9' * 19}, which the syncer did not write" in message
        assert f"kubectl vc confirm-deletes {own.tenant.name}" in message
        store = await held_store(own)
        assert store is not None
        await confirm_deletes(own, store["uid"])
        await released(own)
        await eventually(own.is_engaged)
        await own.tenant_client.delete(SERVICES, "web", namespace=space)
        await gone(lambda: own.twin(SERVICES, space, "web"), within=60)


async def test_a_silent_tenant_is_waited_for_and_reported(own: SyncerWorld, monkeypatch):
    """REL-15: its API server is stopped for some seconds."""
    monkeypatch.setattr("syncer.tenants.connection.UNREACHABLE_SECONDS", 1.0)
    monkeypatch.setattr("syncer.tenants.connection._HEALTH_CHECK_SECONDS", 0.2)
    async with own.syncer():
        space = await furnish(own)
        since = own.mark("super")
        await own.tenant_plane.stop()
        condition = await eventually(
            lambda: own.condition(wellknown.SYNCED),
            until=lambda found: found is not None and found["status"] == "False",
            within=30,
        )
        assert condition["reason"] == "TenantUnreachable"
        await own.report(space, "web", phase="Running", message="still here")
        await own.tenant_plane.start()
        await eventually(
            lambda: own.condition(wellknown.SYNCED),
            until=lambda found: found is not None and found["status"] == "True",
            within=60,
        )
        await eventually(
            lambda: own.tenant_client.get(PODS, "web", namespace=space),
            until=lambda body: body["status"].get("message") == "still here",
            within=60,
        )
        assert deletes(own, since) == []


async def test_a_deleted_virtual_cluster_is_let_go_of(own: SyncerWorld):
    async with own.syncer():
        await furnish(own)
        name, space = own.tenant.name, own.tenant.namespace
        hold = {"metadata": {"finalizers": ["tenancy.x-k8s.io/vc-manager"]}}
        await own.super_client.patch(VIRTUAL_CLUSTERS, name, hold, namespace=space)
        await own.super_client.delete(VIRTUAL_CLUSTERS, name, namespace=space)
        condition = await eventually(
            lambda: own.condition(wellknown.SYNCED),
            until=lambda found: found is not None and found["status"] == "False",
        )
        assert condition["reason"] == "Disengaged"
        since = own.mark("super")
        await own.tenant_client.create(PODS, pod("late"), namespace="default")
        await asyncio.sleep(0.5)
        written = own.writes("super", since)
        assert [write for write in written if write.namespace.startswith(own.tenant.root)] == []
        assert own.tenant.uid not in own.running[-1].tenants.connections
        free = {"metadata": {"finalizers": None}}
        await own.super_client.patch(VIRTUAL_CLUSTERS, name, free, namespace=space)
        await gone(lambda: own.super_client.get(VIRTUAL_CLUSTERS, name, namespace=space))
