"""Claims that a real binder binds in the super cluster, and their volumes in the tenant."""

from __future__ import annotations

import asyncio
import json

import pytest

from tenancy import wellknown
from tenancy.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from tests.integration.syncer.storage import (
    LEAKS,
    bound_claim,
    claim,
    claim_writes,
    force,
    force_below,
    is_bound,
    phase_is,
    reasons,
    volume_writes,
)
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.thorough


async def test_a_claim_is_bound_and_its_volume_shown(synced: SyncerWorld):
    since = {side: synced.mark(side) for side in ("super", "tenant")}
    space, volume = await bound_claim(synced)
    own = await synced.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space)
    assert own["spec"]["volumeName"] == volume
    assert own["status"]["capacity"] == {"storage": "1Gi"}
    shown = await synced.tenant_client.get(PERSISTENT_VOLUMES, volume)
    assert shown["spec"]["claimRef"]["namespace"] == space
    assert shown["spec"]["claimRef"]["uid"] == own["metadata"]["uid"]
    assert shown["spec"]["csi"] == {"driver": "csi.example", "volumeHandle": volume}
    spelled = json.dumps([own, shown])
    assert not [leak for leak in (*LEAKS, synced.super_namespace(space)) if leak in spelled]
    assert claim_writes(synced, "super", since["super"], space) == ["create persistentvolumeclaims"]
    assert claim_writes(synced, "tenant", since["tenant"], space) == [
        "patch persistentvolumeclaims",
        "patch persistentvolumeclaims/status",
    ]
    assert volume_writes(synced, "tenant", since["tenant"], volume) == [
        "create persistentvolumes",
        "patch persistentvolumes/status",
    ]


async def test_a_bound_claim_grows(synced: SyncerWorld):
    """REL-44: requested in the tenant, done in the super cluster, and reported."""
    space, volume = await bound_claim(synced)
    since = synced.mark("super")
    grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    await synced.tenant_client.patch(PERSISTENT_VOLUME_CLAIMS, "x", grown, namespace=space)
    await eventually(
        lambda: synced.twin(PERSISTENT_VOLUME_CLAIMS, space, "x"),
        until=lambda twin: twin["spec"]["resources"]["requests"]["storage"] == "2Gi",
    )
    super_space = synced.super_namespace(space)
    await synced.super_client.patch(
        PERSISTENT_VOLUMES, volume, {"spec": {"capacity": {"storage": "2Gi"}}}
    )
    condition = {
        "type": "FileSystemResizePending",
        "status": "True",
        "message": f"waits for a pod of {super_space}",
    }
    status = {"status": {"capacity": {"storage": "2Gi"}, "conditions": [condition]}}
    await synced.super_client.patch(
        PERSISTENT_VOLUME_CLAIMS, "x", status, namespace=super_space, subresource="status"
    )
    own = await eventually(
        lambda: synced.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space),
        until=lambda body: body["status"].get("conditions"),
    )
    assert own["status"]["capacity"] == {"storage": "2Gi"}
    assert own["status"]["conditions"][0]["message"] == f"waits for a pod of {space}"
    await eventually(
        lambda: synced.tenant_client.get(PERSISTENT_VOLUMES, volume),
        until=lambda body: body["spec"]["capacity"]["storage"] == "2Gi",
    )
    await synced.idle()
    assert claim_writes(synced, "super", since, space) == ["patch persistentvolumeclaims"]


async def test_what_was_grown_in_the_super_cluster_is_no_fight(synced: SyncerWorld):
    space, _ = await bound_claim(synced)
    since = synced.mark("super")
    grown = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    super_space = synced.super_namespace(space)
    await synced.super_client.patch(PERSISTENT_VOLUME_CLAIMS, "x", grown, namespace=super_space)
    await asyncio.sleep(0.3)
    await synced.idle()
    assert claim_writes(synced, "super", since, space) == []


async def test_a_forged_status_is_put_right(synced: SyncerWorld):
    space, _ = await bound_claim(synced)
    forged = {"status": {"capacity": {"storage": "9Ti"}}}
    await synced.tenant_client.patch(
        PERSISTENT_VOLUME_CLAIMS, "x", forged, namespace=space, subresource="status"
    )
    await eventually(
        lambda: synced.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space),
        until=lambda body: body["status"]["capacity"] == {"storage": "1Gi"},
    )


async def test_a_deleted_claim_leaves_its_volume_in_sight_as_released(synced: SyncerWorld):
    space, volume = await bound_claim(synced)
    since = synced.mark("super")
    await synced.tenant_client.delete(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space)
    await gone(lambda: synced.twin(PERSISTENT_VOLUME_CLAIMS, space, "x"))
    await phase_is(synced, volume, "Released")
    await synced.idle()
    assert claim_writes(synced, "super", since, space) == ["delete persistentvolumeclaims"]
    assert await synced.super_client.get(PERSISTENT_VOLUMES, volume)
    await force_below(synced, volume)
    await gone(lambda: synced.tenant_client.get(PERSISTENT_VOLUMES, volume))


async def test_a_bound_claim_that_was_deleted_while_no_syncer_ran(world: SyncerWorld):
    async with world.syncer():
        space, volume = await bound_claim(world)
    await world.tenant_client.delete(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space)
    await gone(lambda: world.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space))
    async with world.syncer():
        await gone(lambda: world.twin(PERSISTENT_VOLUME_CLAIMS, space, "x"))
        await phase_is(world, volume, "Released")
    await force_below(world, volume)
    async with world.syncer():
        await gone(lambda: world.tenant_client.get(PERSISTENT_VOLUMES, volume))


async def test_a_restart_writes_nothing(world: SyncerWorld):
    async with world.syncer():
        space, volume = await bound_claim(world)
    since = {side: world.mark(side) for side in ("super", "tenant")}
    async with world.syncer():
        await world.idle()
    for side, mark in since.items():
        assert claim_writes(world, side, mark, space) == []
        assert volume_writes(world, side, mark, volume) == []


async def test_a_claim_that_was_deleted_in_the_super_cluster_never_gets_other_storage(
    synced: SyncerWorld,
):
    """REL-44: it waits for its own volume."""
    space, volume = await bound_claim(synced)
    first = await synced.twin(PERSISTENT_VOLUME_CLAIMS, space, "x")
    super_space = synced.super_namespace(space)
    await synced.super_client.delete(PERSISTENT_VOLUME_CLAIMS, "x", namespace=super_space)
    second = await eventually(
        lambda: synced.twin(PERSISTENT_VOLUME_CLAIMS, space, "x"),
        until=lambda twin: twin["metadata"]["uid"] != first["metadata"]["uid"],
    )
    assert second["spec"]["volumeName"] == volume
    await eventually(
        lambda: synced.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space),
        until=lambda body: body["status"]["phase"] != "Bound",
    )
    # The platform administrator gives the volume back, as on any cluster.
    freed = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
    await synced.super_client.patch(PERSISTENT_VOLUMES, volume, freed)
    await is_bound(synced, space, "x")
    await phase_is(synced, volume, "Bound")


async def test_a_claim_whose_volume_is_gone_as_well_is_lost(world: SyncerWorld):
    """REL-44: as Kubernetes calls it."""
    async with world.syncer():
        space, volume = await bound_claim(world)
    super_space = world.super_namespace(space)
    await world.super_client.delete(PERSISTENT_VOLUME_CLAIMS, "x", namespace=super_space)
    await gone(lambda: world.twin(PERSISTENT_VOLUME_CLAIMS, space, "x"))
    await world.super_client.delete(PERSISTENT_VOLUMES, volume)
    await gone(lambda: world.super_client.get(PERSISTENT_VOLUMES, volume))
    since = world.mark("super")
    async with world.syncer():
        await eventually(
            lambda: world.tenant_client.get(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space),
            until=lambda body: body["status"]["phase"] == "Lost",
        )
        await gone(lambda: world.tenant_client.get(PERSISTENT_VOLUMES, volume))
        await world.idle()
    assert claim_writes(world, "super", since, space) == []
    assert await reasons(world, space, "x") == ["SyncRejected"]


async def test_a_class_that_is_not_offered_holds_a_claim_until_it_is(synced: SyncerWorld):
    space, named = await synced.namespace(), fresh_name("later")
    since = synced.mark("super")
    await synced.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, claim("x", named), namespace=space)
    await eventually(lambda: reasons(synced, space, "x"), until=lambda found: found)
    await asyncio.sleep(0.3)
    await synced.idle()
    assert await reasons(synced, space, "x") == ["SyncRejected"]
    assert claim_writes(synced, "super", since, space) == []
    await synced.super_client.create(
        STORAGE_CLASSES, {"metadata": {"name": named}, "provisioner": "csi.example"}
    )
    await eventually(lambda: synced.twin(PERSISTENT_VOLUME_CLAIMS, space, "x"))


async def test_a_volume_of_the_super_cluster_cannot_be_claimed_by_its_name(synced: SyncerWorld):
    space, volume = await synced.namespace(), fresh_name("foreign")
    body = {
        "metadata": {"name": volume},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/srv/pool"},
        },
    }
    await synced.super_client.create(PERSISTENT_VOLUMES, body)
    for name, wish in (
        ("by-name", claim("by-name", "", volumeName=volume)),
        ("by-nothing", claim("by-nothing", "")),
        ("by-labels", claim("by-labels", selector={"matchLabels": {"a": "b"}})),
    ):
        await synced.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, wish, namespace=space)
        await eventually(
            lambda name=name: reasons(synced, space, name),
            until=lambda found: found == ["SyncRejected"],
        )
        assert not await synced.has_twin(PERSISTENT_VOLUME_CLAIMS, space, name)
    live = await synced.super_client.get(PERSISTENT_VOLUMES, volume)
    assert live["status"]["phase"] == "Available"
    await synced.super_client.delete(PERSISTENT_VOLUMES, volume)


async def test_a_claim_is_filled_from_the_tenants_own_claim_only(synced: SyncerWorld):
    space = await synced.namespace()
    super_space = synced.super_namespace(space)
    await synced.super_client.create(
        PERSISTENT_VOLUME_CLAIMS, claim("stranger"), namespace=super_space
    )
    source = {"kind": "PersistentVolumeClaim", "name": "stranger"}
    await synced.tenant_client.create(
        PERSISTENT_VOLUME_CLAIMS, claim("copy", dataSource=source), namespace=space
    )
    await eventually(
        lambda: reasons(synced, space, "copy"), until=lambda found: "DataSourceMissing" in found
    )
    assert not await synced.has_twin(PERSISTENT_VOLUME_CLAIMS, space, "copy")
    await synced.super_client.delete(PERSISTENT_VOLUME_CLAIMS, "stranger", namespace=super_space)
    await gone(lambda: synced.twin(PERSISTENT_VOLUME_CLAIMS, space, "stranger"))
    await synced.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, claim("stranger"), namespace=space)
    twin = await eventually(lambda: synced.twin(PERSISTENT_VOLUME_CLAIMS, space, "copy"))
    assert twin["spec"]["dataSource"] == {**source, "apiGroup": None}


async def test_a_tenants_edits_of_a_shown_volume_are_reverted(synced: SyncerWorld):
    _, volume = await bound_claim(synced)
    first = await synced.tenant_client.get(PERSISTENT_VOLUMES, volume)
    since = synced.mark("tenant")
    edit = {
        "metadata": {"labels": {wellknown.MIRRORED: None, "mine": "1"}},
        "spec": {"capacity": {"storage": "9Ti"}, "mountOptions": ["x"]},
    }
    await synced.tenant_client.patch(PERSISTENT_VOLUMES, volume, edit)
    shown = await eventually(
        lambda: synced.tenant_client.get(PERSISTENT_VOLUMES, volume),
        until=lambda body: body["spec"]["capacity"] == {"storage": "1Gi"},
        within=2,
    )
    assert shown["metadata"]["labels"] == {wellknown.MIRRORED: "true"}
    assert "mountOptions" not in shown["spec"]
    await synced.idle()
    assert volume_writes(synced, "tenant", since, volume) == ["update persistentvolumes"]
    assert await reasons(synced, "default", volume) == ["SyncReverted"]
    await force(synced, volume)
    back = await eventually(
        lambda: synced.tenant_client.get(PERSISTENT_VOLUMES, volume),
        until=lambda body: body["metadata"]["uid"] != first["metadata"]["uid"],
        within=2,
    )
    assert back["spec"] == first["spec"]
    await phase_is(synced, volume, "Bound")


async def test_events_about_a_claim_are_reported(synced: SyncerWorld):
    space, volume = await bound_claim(synced)
    twin = await synced.twin(PERSISTENT_VOLUME_CLAIMS, space, "x")
    super_space = synced.super_namespace(space)
    event = {
        "metadata": {"name": "x.1a2b", "namespace": super_space},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": super_space,
            "name": "x",
            "uid": twin["metadata"]["uid"],
        },
        "reason": "ProvisioningSucceeded",
        "message": f"provisioned volume {volume} for {super_space}/x",
        "type": "Normal",
        "source": {"component": "provisioner"},
    }
    await synced.super_client.create(EVENTS, event)
    told = await eventually(lambda: synced.tenant_client.get(EVENTS, "x.1a2b", namespace=space))
    assert told["message"] == f"provisioned volume {volume} for {space}/x"
