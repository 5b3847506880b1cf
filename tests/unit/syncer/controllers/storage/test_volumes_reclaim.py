"""Reclaim policy of the volume of a tenant's claim, and the volume after its claim."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import reverted_edits
from syncer.controllers.storage import claims, volumes
from syncer.model.keys import VOLUME
from syncer.rules import registry
from tenancy import wellknown
from tenancy.policies import StorageSpec, TenantPolicySpec
from tests.support.kubeio.described_requests import REQUEST
from tests.support.syncer.sessions import SessionWorld, put

CLAIM = "PersistentVolumeClaim"


class Scene:
    """A bound claim and its volume on both sides."""

    def __init__(self, *, allowed: tuple[str, ...] = ("Retain", "Delete")) -> None:
        policy = TenantPolicySpec(storage=StorageSpec(reclaim_policies=allowed))  # type: ignore[arg-type]
        self.world = SessionWorld(policy)
        self.world.ready()
        self.claim = self.world.super_has(CLAIM, "c", spec={"volumeName": "pv"})
        self.key, self.version = self.world.key(VOLUME, "", "pv"), 100
        self.super_says()

    def super_says(self, policy: str = "Delete", phase: str = "Bound", **spec: Any) -> None:
        """Have the super cluster's volume like this."""
        self.version += 100
        place = {"namespace": self.claim.namespace, "name": "c", "uid": self.claim.uid}
        body = {
            "kind": VOLUME,
            "metadata": {
                "name": "pv",
                "uid": "pv-below",
                "resourceVersion": str(self.version),
            },
            "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": place, **spec},
            "status": {"phase": phase},
        }
        put(self.world.super_cluster.volumes, body)

    def see(self) -> dict[str, Any]:
        """Have the caches show what is there."""
        body = self.world.above.object(VOLUME, "pv")
        put(self.world.session.stores[VOLUME], body)
        self.world.below.catch_up(VOLUME)
        return body

    def set(self, policy: str) -> None:
        """Have the tenant set the reclaim policy."""
        body = self.see()
        spec = {**body["spec"], "persistentVolumeReclaimPolicy": policy}
        version = str(int(body["metadata"]["resourceVersion"]) + 1000)
        metadata = {**body["metadata"], "resourceVersion": version}
        put(self.world.session.stores[VOLUME], {**body, "metadata": metadata, "spec": spec})

    async def sync(self) -> dict[str, Any]:
        """Reconcile until nothing is written. Returns the tenant's volume."""
        for _ in range(4):
            await volumes.reconcile_volume(self.key, self.world.session)
            self.see()
        return self.see()

    def policies(self) -> tuple[str, str]:
        """Return the reclaim policies in the tenant and in the super cluster."""
        below = self.world.below.object(VOLUME, "pv")
        return tuple(  # type: ignore[return-value]
            body["spec"]["persistentVolumeReclaimPolicy"] for body in (self.see(), below)
        )

    def claim_goes(self) -> None:
        """Have the claim deleted on both sides."""
        self.world.super_cluster.stores[CLAIM].discard(self.claim, live=True)


@pytest.mark.parametrize("phase", ["Bound", "Released"])
async def test_a_tenants_reclaim_policy_is_written_to_the_super_volume(phase: str):
    scene = Scene()
    await scene.sync()
    if phase == "Released":
        scene.claim_goes()
        scene.super_says("Delete", phase)
        await scene.sync()
    for policy in ("Retain", "Delete", "Retain"):
        scene.set(policy)
        shown = await scene.sync()
        assert scene.policies() == (policy, policy)
        assert shown["metadata"]["annotations"][wellknown.RECLAIM_POLICY] == policy
        assert shown["status"]["phase"] == phase
    assert scene.world.told() == []
    assert [verb for verb, _, _ in scene.world.below.writes()] == ["patch"] * 3


async def test_an_edit_from_before_a_restart_is_still_an_edit():
    scene = Scene()
    await scene.sync()
    scene.world.session.synced_states.forget(scene.key)
    scene.set("Retain")
    await scene.sync()
    assert scene.policies() == ("Retain", "Retain")


@pytest.mark.parametrize(
    ("allowed", "policy"), [((), "Retain"), (("Retain",), "Recycle"), (("Delete",), "Retain")]
)
async def test_a_policy_that_does_not_list_the_value_reverts_it_with_its_name(allowed, policy):
    scene = Scene(allowed=allowed)
    await scene.sync()
    for _ in range(2):
        scene.set(policy)
        await scene.sync()
        assert scene.policies() == ("Delete", "Delete")
    assert scene.world.told() == [reverted_edits.SYNC_REVERTED]
    message = next(body["message"] for body in scene.world.above.bodies if body.get("reason"))
    assert "spec.storage.reclaimPolicies" in message
    assert "spec.persistentVolumeReclaimPolicy" in message
    assert scene.world.below.writes() == []


async def test_a_change_in_the_super_cluster_wins_and_a_loss_of_retain_is_reported():
    scene = Scene()
    scene.super_says("Delete")
    await scene.sync()
    scene.super_says("Retain")
    await scene.sync()
    assert scene.policies() == ("Retain", "Retain")
    assert scene.world.told() == []
    scene.super_says("Delete")
    await scene.sync()
    assert scene.policies() == ("Delete", "Delete")
    assert scene.world.told() == [volumes.RECLAIM_POLICY_CHANGED]
    assert scene.world.below.writes() == []


async def test_a_super_cluster_that_returns_to_the_tenants_value_is_not_undone():
    """Retain is set by the tenant, and then Delete and Retain in the super cluster."""
    scene = Scene()
    await scene.sync()
    scene.set("Retain")
    await scene.sync()
    for policy in ("Delete", "Retain"):
        scene.super_says(policy)
        await scene.sync()
        assert scene.policies() == (policy, policy)
    assert len(scene.world.below.writes()) == 1


async def test_two_edits_at_once_end_with_the_last():
    scene = Scene()
    await scene.sync()
    scene.set("Retain")
    await volumes.reconcile_volume(scene.key, scene.world.session)
    body = scene.world.above.object(VOLUME, "pv")
    assert body["metadata"]["annotations"][wellknown.RECLAIM_POLICY] == "Delete"
    scene.world.below.catch_up(VOLUME)
    scene.set("Delete")
    await scene.sync()
    assert scene.policies() == ("Delete", "Delete")
    assert scene.world.told() == []


async def test_what_the_super_cluster_refuses_is_reported_and_put_back():
    scene = Scene()
    await scene.sync()
    scene.world.below.refusals["patch"] = errors.Forbidden("no", request=REQUEST)
    scene.set("Retain")
    await scene.sync()
    assert scene.policies() == ("Delete", "Delete")
    assert scene.world.told() == ["SyncFailed"]


async def test_a_volume_is_kept_in_sight_after_its_claim():
    scene = Scene()
    first = await scene.sync()
    scene.claim_goes()
    shown = await scene.sync()
    assert shown["status"]["phase"] == "Released"  # a moment before the super cluster says so
    scene.super_says("Retain", "Released")
    shown = await scene.sync()
    assert shown["status"]["phase"] == "Released"
    assert shown["spec"]["claimRef"] == first["spec"]["claimRef"]
    assert shown["metadata"]["uid"] == first["metadata"]["uid"]
    assert scene.world.told() == []


async def test_a_released_volume_that_the_tenant_deleted_is_not_shown_again():
    scene = Scene()
    await scene.sync()
    scene.claim_goes()
    scene.super_says("Retain", "Released")
    await scene.sync()
    entry = scene.world.session.stores[VOLUME].get("", "pv")
    assert entry is not None
    scene.world.above.lacks(VOLUME, "pv")
    scene.world.session.stores[VOLUME].discard(entry, live=True)
    writes = len(scene.world.above.writes(VOLUME))
    await volumes.reconcile_volume(scene.key, scene.world.session)
    assert len(scene.world.above.writes(VOLUME)) == writes
    assert scene.world.below.writes() == []


@pytest.mark.parametrize(
    "place", [{"namespace": "other-abc123-vc-web", "name": "c", "uid": "x"}, None]
)
async def test_a_volume_that_others_have_by_now_is_taken_out_of_sight(place):
    scene = Scene()
    await scene.sync()
    scene.claim_goes()
    scene.super_says("Retain", "Bound" if place else "Available", claimRef=place)
    scene.world.below.refusals["get"] = AssertionError("nothing is missing")
    await volumes.reconcile_volume(scene.key, scene.world.session)
    writes = [verb for verb, _, _ in scene.world.above.writes(VOLUME)]
    assert writes[-1] == "delete"


async def test_a_volume_that_was_never_shown_is_not_shown_once_released():
    scene = Scene()
    scene.claim_goes()
    scene.super_says("Retain", "Released")
    await volumes.reconcile_volume(scene.key, scene.world.session)
    assert scene.world.above.writes() == []


@pytest.mark.parametrize(
    ("allowed", "asked", "waits"),
    [
        (("Retain", "Delete"), "Retain", True),
        (("Delete",), "Retain", False),  # the policy refuses it, and an Event says so
        (("Retain", "Delete"), "Delete", False),
    ],
)
async def test_a_claim_is_deleted_after_the_reclaim_policy_is_written(allowed, asked, waits):
    """The edit of the volume has no event yet, but the deletion of the claim has."""
    scene = Scene(allowed=allowed)
    shown = await scene.sync()
    spec = {**shown["spec"], "persistentVolumeReclaimPolicy": asked}
    scene.world.above.has(VOLUME, "pv", {**shown, "spec": spec})
    key = scene.world.key(CLAIM, "web", "c")
    reconcile = claims.reconcile_claim(registry.KINDS_BY_NAME[CLAIM], key, scene.world.session)
    if waits:
        with pytest.raises(NotReadyYet, match="reclaim policy"):
            await reconcile
        assert not scene.world.below.writes(CLAIM)
        scene.set(asked)
        await scene.sync()
        assert scene.policies() == (asked, asked)
        reconcile = claims.reconcile_claim(registry.KINDS_BY_NAME[CLAIM], key, scene.world.session)
    await reconcile
    assert scene.world.below.writes(CLAIM) == [("delete", CLAIM, "c")]
