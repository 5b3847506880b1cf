"""The tenant's own volumes: bound to its own claims only, and only what is offered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio import Object
from tenancy import names, wellknown
from tenancy.policies import StorageSpec, TenantPolicySpec, TenantVolumes
from tenancy.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from tests.integration.syncer.storage import (
    claim,
    claim_writes,
    force,
    is_bound,
    phase_is,
    reasons,
    volume_writes,
)
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.thorough

SERVER = "nfs.example"
OFFERED = TenantPolicySpec(storage=StorageSpec(tenant_volumes=TenantVolumes(nfs_servers=(SERVER,))))


@pytest.fixture
async def offered(world: SyncerWorld) -> AsyncIterator[SyncerWorld]:
    """A world whose tenant may write volumes of one NFS server. No syncer runs yet."""
    async with policed(world, OFFERED):
        yield world


@pytest.fixture
async def offering(offered: SyncerWorld) -> AsyncIterator[SyncerWorld]:
    """The same, with a syncer that has come to rest."""
    async with offered.syncer():
        yield offered


def own_volume(name: str, **source: Any) -> Object:
    """Return a volume that a tenant writes."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "5Gi"},
            "storageClassName": "manual",
            **(source or {"nfs": {"server": SERVER, "path": "/exports/a"}}),
        },
    }


def own_claim(volume: str) -> Object:
    """Return a claim that names a volume."""
    return claim("x", "manual", accessModes=["ReadWriteMany"], volumeName=volume)


async def test_a_volume_of_the_tenants_own_is_bound_to_its_claim_only(offering: SyncerWorld):
    world, space, volume = offering, await offering.namespace(), fresh_name("own")
    super_name = names.build_volume_name(world.tenant.uid, volume)
    since = {side: world.mark(side) for side in ("super", "tenant")}
    await world.tenant_client.create(PERSISTENT_VOLUMES, own_volume(volume))
    await phase_is(world, volume, "Available")
    assert not await exists_in_super(world, super_name)
    await world.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, own_claim(volume), namespace=space)
    own = await is_bound(world, space, "x")
    shown = await phase_is(world, volume, "Bound")
    await world.idle()
    assert shown["spec"]["claimRef"]["uid"] == own["metadata"]["uid"]
    assert shown["spec"]["storageClassName"] == "manual"
    twin = await world.super_client.get(PERSISTENT_VOLUMES, super_name)
    assert twin["spec"]["nfs"] == {"server": SERVER, "path": "/exports/a"}
    assert twin["spec"]["claimRef"]["namespace"] == world.super_namespace(space)
    assert twin["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume_writes(world, "super", since["super"], super_name) == ["create persistentvolumes"]
    assert claim_writes(world, "super", since["super"], space) == ["create persistentvolumeclaims"]
    assert volume_writes(world, "tenant", since["tenant"], volume) == [
        "patch persistentvolumes/status",
        "patch persistentvolumes",
        "patch persistentvolumes/status",
    ]
    drift = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
    await world.super_client.patch(PERSISTENT_VOLUMES, super_name, drift)
    await eventually(
        lambda: world.super_client.get(PERSISTENT_VOLUMES, super_name),
        until=lambda body: body["spec"]["persistentVolumeReclaimPolicy"] == "Retain",
    )
    await world.tenant_client.delete(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space)
    await phase_is(world, volume, "Released")
    await world.tenant_client.delete(PERSISTENT_VOLUMES, volume)
    await gone(lambda: world.super_client.get(PERSISTENT_VOLUMES, super_name))
    await gone(lambda: world.tenant_client.get(PERSISTENT_VOLUMES, volume))


async def exists_in_super(world: SyncerWorld, volume: str) -> bool:
    """Return whether there is a super volume."""
    found = await world.super_client.list(PERSISTENT_VOLUMES)
    return any(item["metadata"]["name"] == volume for item in found["items"])


async def test_a_volume_that_names_its_claim_is_bound_as_well(offering: SyncerWorld):
    world, space, volume = offering, await offering.namespace(), fresh_name("own")
    body = own_volume(volume)
    body["spec"]["claimRef"] = {"namespace": space, "name": "x"}
    await world.tenant_client.create(PERSISTENT_VOLUMES, body)
    wish = claim("x", "manual", accessModes=["ReadWriteMany"])
    await world.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, wish, namespace=space)
    own = await is_bound(world, space, "x")
    assert own["spec"]["volumeName"] == volume
    await phase_is(world, volume, "Bound")


async def test_a_released_volume_is_free_once_the_tenant_releases_it(offering: SyncerWorld):
    world, space, volume = offering, await offering.namespace(), fresh_name("own")
    await world.tenant_client.create(PERSISTENT_VOLUMES, own_volume(volume))
    await world.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, own_claim(volume), namespace=space)
    await is_bound(world, space, "x")
    await phase_is(world, volume, "Bound")
    await world.tenant_client.delete(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space)
    await phase_is(world, volume, "Released")
    await gone(lambda: world.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space))
    await world.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, own_claim(volume), namespace=space)
    await asyncio.sleep(0.3)
    await world.idle()
    waiting = await world.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space)
    assert waiting["status"]["phase"] == "Pending"
    await world.tenant_client.patch(PERSISTENT_VOLUMES, volume, {"spec": {"claimRef": None}})
    await is_bound(world, space, "x")
    await phase_is(world, volume, "Bound")


@pytest.mark.parametrize(
    "source",
    [
        {"hostPath": {"path": "/srv/pool"}},
        {"nfs": {"server": "other.example", "path": "/"}},
        {"csi": {"driver": "csi.example", "volumeHandle": "h"}},
        {"iscsi": {"targetPortal": "192.0.2.1:3260", "iqn": "iqn.2026-01.example:a", "lun": 0}},
    ],
    ids=lambda source: next(iter(source)),
)
async def test_other_volumes_of_a_tenant_are_refused_with_one_event(offering: SyncerWorld, source):
    world, space, volume = offering, await offering.namespace(), fresh_name("own")
    since = world.mark("super")
    await world.tenant_client.create(PERSISTENT_VOLUMES, own_volume(volume, **source))
    await world.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, own_claim(volume), namespace=space)
    await eventually(
        lambda: reasons(world, "default", volume), until=lambda found: found == ["SyncRejected"]
    )
    await eventually(
        lambda: reasons(world, space, "x"), until=lambda found: found == ["SyncRejected"]
    )
    await asyncio.sleep(0.3)
    await world.idle()
    assert await reasons(world, "default", volume) == ["SyncRejected"]
    assert (
        volume_writes(world, "super", since, names.build_volume_name(world.tenant.uid, volume))
        == []
    )
    assert claim_writes(world, "super", since, space) == []


async def test_an_own_volume_that_was_recreated_while_no_syncer_ran(offered: SyncerWorld):
    world, volume = offered, fresh_name("own")
    super_name = names.build_volume_name(world.tenant.uid, volume)
    async with world.syncer():
        space = await world.namespace()
        await world.tenant_client.create(PERSISTENT_VOLUMES, own_volume(volume))
        await world.tenant_client.create(
            PERSISTENT_VOLUME_CLAIMS, own_claim(volume), namespace=space
        )
        await is_bound(world, space, "x")
        await phase_is(world, volume, "Bound")
    old = await world.super_client.get(PERSISTENT_VOLUMES, super_name)
    await world.tenant_client.delete(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space)
    await gone(lambda: world.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space))
    await force(world, volume)
    made = await world.tenant_client.create(PERSISTENT_VOLUMES, own_volume(volume))
    await world.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, own_claim(volume), namespace=space)
    async with world.syncer():
        await is_bound(world, space, "x")
        await phase_is(world, volume, "Bound")
    new = await world.super_client.get(PERSISTENT_VOLUMES, super_name)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["metadata"]["annotations"][wellknown.UID] == made["metadata"]["uid"]
