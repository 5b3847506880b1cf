"""Owners of fields in a tenant: conditions of others stay, edits are kept or reported."""

from __future__ import annotations

import asyncio

from msgspec import structs

from kubeio import Object
from syncer.controllers.reverted_edits import SYNC_REVERTED
from tenancy import wellknown
from tenancy.policies import BASELINE_POLICY, StorageSpec
from tenancy.resources import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.storage import bound_claim, is_bound, offer_class, phase_is, reasons
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.eventually import eventually

CHECKED = {"type": "example.com/Checked", "status": "True", "reason": "Ok"}
RETAIN = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
DELETE = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}


async def test_a_condition_of_a_controller_stays_on_a_pod(synced: SyncerWorld):
    """FC-16: through two changes of readiness."""
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("app"), namespace=space)
    await synced.start_pod(space, "app", node)
    await synced.tenant_client.patch(
        PODS,
        "app",
        {"status": {"conditions": [CHECKED]}},
        kind="strategic",
        namespace=space,
        subresource="status",
    )
    for ready in ("False", "True"):
        status = running_status("app")
        conditions = [
            {**each, "status": ready} if each["type"] == "Ready" else each
            for each in status["conditions"]
        ]
        await synced.report(space, "app", **{**status, "conditions": conditions})
        own = await eventually(
            lambda: synced.tenant_client.get(PODS, "app", namespace=space),
            until=lambda body, ready=ready: _said(body).get("Ready") == ready,
        )
        assert _said(own)[CHECKED["type"]] == "True"
    since = synced.mark("tenant")
    await asyncio.sleep(0.5)
    await synced.idle()
    assert not [write for write in synced.writes("tenant", since) if write.name == "app"]
    assert await reasons(synced, space, "app") == []


def _said(body: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in body["status"]["conditions"]}


async def test_a_reclaim_policy_is_honoured_and_the_volume_outlives_its_claim(synced: SyncerWorld):
    """FC-26."""
    space, volume = await bound_claim(synced)
    for change in (DELETE, RETAIN):
        await synced.tenant_client.patch(PERSISTENT_VOLUMES, volume, change)
        await eventually(
            lambda: synced.super_client.get(PERSISTENT_VOLUMES, volume),
            until=lambda body, change=change: (
                body["spec"]["persistentVolumeReclaimPolicy"]
                == change["spec"]["persistentVolumeReclaimPolicy"]
            ),
        )
    await synced.idle()
    shown = await synced.tenant_client.get(PERSISTENT_VOLUMES, volume)
    assert shown["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert shown["metadata"]["annotations"][wellknown.RECLAIM_POLICY] == "Retain"
    await synced.tenant_client.delete(PERSISTENT_VOLUME_CLAIMS, "x", namespace=space)
    await gone(lambda: synced.twin(PERSISTENT_VOLUME_CLAIMS, space, "x"))
    kept = await phase_is(synced, volume, "Released")
    assert kept["metadata"]["uid"] == shown["metadata"]["uid"]
    assert await synced.super_client.get(PERSISTENT_VOLUMES, volume)
    assert SYNC_REVERTED not in await reasons(synced, "default", volume)
    await synced.tenant_client.delete(PERSISTENT_VOLUMES, volume)
    await gone(lambda: synced.tenant_client.get(PERSISTENT_VOLUMES, volume))
    await synced.idle()
    assert await synced.super_client.get(PERSISTENT_VOLUMES, volume)


async def test_a_policy_may_keep_the_reclaim_policy_to_itself(world: SyncerWorld):
    closed = structs.replace(BASELINE_POLICY, storage=StorageSpec(reclaim_policies=("Retain",)))
    async with policed(world, closed), world.syncer():
        _, volume = await bound_claim(world)
        await world.tenant_client.patch(PERSISTENT_VOLUMES, volume, DELETE)
        await eventually(
            lambda: reasons(world, "default", volume), until=lambda found: SYNC_REVERTED in found
        )
        shown = await eventually(
            lambda: world.tenant_client.get(PERSISTENT_VOLUMES, volume),
            until=lambda body: body["spec"]["persistentVolumeReclaimPolicy"] == "Retain",
        )
        assert shown["status"]["phase"] == "Bound"
        super_volume = await world.super_client.get(PERSISTENT_VOLUMES, volume)
        assert super_volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


async def test_an_edit_of_a_class_is_put_back_with_one_event(synced: SyncerWorld):
    name = await offer_class(synced)
    await synced.idle()
    for _ in range(2):
        await synced.tenant_client.patch(STORAGE_CLASSES, name, {"allowVolumeExpansion": False})
        await eventually(
            lambda: synced.tenant_client.get(STORAGE_CLASSES, name),
            until=lambda body: body.get("allowVolumeExpansion") is True,
        )
        await synced.idle()
    found = await eventually(
        lambda: synced.tenant_client.list(EVENTS, field_selector=f"involvedObject.name={name}"),
        until=lambda listed: listed["items"],
    )
    (event,) = found["items"]
    assert (event["reason"], event["type"]) == (SYNC_REVERTED, "Warning")
    assert "allowVolumeExpansion" in event["message"]
    assert "platform administrator" in event["message"]


async def test_news_of_the_super_cluster_are_no_edit(synced: SyncerWorld):
    name = await offer_class(synced)
    await synced.super_client.patch(STORAGE_CLASSES, name, {"allowVolumeExpansion": False})
    await eventually(
        lambda: synced.tenant_client.get(STORAGE_CLASSES, name),
        until=lambda body: not body.get("allowVolumeExpansion"),
    )
    await synced.idle()
    assert await reasons(synced, "default", name) == []
    space, _ = await bound_claim(synced)
    await is_bound(synced, space, "x")
    assert SYNC_REVERTED not in await reasons(synced, space, "x")


async def test_an_edit_while_no_syncer_ran_is_reported_and_news_are_not(world: SyncerWorld):
    async with world.syncer():
        edited, changed = await offer_class(world), await offer_class(world)
        await world.idle()
    await world.tenant_client.patch(STORAGE_CLASSES, edited, {"allowVolumeExpansion": False})
    await world.super_client.patch(STORAGE_CLASSES, changed, {"allowVolumeExpansion": False})
    async with world.syncer():
        for name, wanted in ((edited, True), (changed, False)):
            await eventually(
                lambda name=name: world.tenant_client.get(STORAGE_CLASSES, name),
                until=lambda body, wanted=wanted: bool(body.get("allowVolumeExpansion")) is wanted,
            )
        await eventually(lambda: reasons(world, "default", edited), until=lambda found: found)
        await world.idle()
    assert await reasons(world, "default", edited) == [SYNC_REVERTED]
    assert await reasons(world, "default", changed) == []
