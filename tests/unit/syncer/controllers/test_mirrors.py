"""Reconciler of mirrored kinds: StorageClasses and the like in the tenant."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import mirrors, parked_writes, reverted_edits
from syncer.model.keys import VOLUME
from syncer.safety.hot_loop_guard import REPEATS_TO_PARK
from syncer.safety.parked_differences import SYNC_PARKED
from tenancy import wellknown
from tests.support.syncer.sessions import SessionWorld, put

SHOWN = {"labels": {wellknown.MIRRORED: "true"}, "annotations": {wellknown.UID: "old"}}


def below(world: SessionWorld, kind: str, name: str, **fields: Any) -> Entry:
    """Put a class or a volume into the super cluster's cache."""
    store = world.super_cluster.volumes if kind == VOLUME else world.super_cluster.classes[kind]
    metadata = {"name": name, "uid": f"{name}-below", "resourceVersion": "70"}
    metadata |= fields.pop("metadata", {})
    return put(store, {"kind": kind, "metadata": metadata, **fields})


# --- classes --------------------------------------------------------------------------------------


async def test_a_class_that_is_only_missing_from_a_cache_stays():
    world = SessionWorld()
    world.tenant_has("StorageClass", "gold", namespace="", metadata=SHOWN)
    key = world.key("StorageClass", "", "gold")
    world.below.has("StorageClass", "gold", {"metadata": {"uid": "old"}})
    with pytest.raises(NotReadyYet):
        await mirrors.reconcile_mirror(key, world.session)
    assert not world.above.writes()
    world.below.lacks("StorageClass", "gold")
    await mirrors.reconcile_mirror(key, world.session)
    assert world.above.writes() == [("delete", "StorageClass", "gold")]


async def test_a_class_of_the_tenants_own_is_never_removed():
    world = SessionWorld()
    world.tenant_has("StorageClass", "mine", namespace="")
    await mirrors.reconcile_mirror(world.key("StorageClass", "", "mine"), world.session)
    assert not world.above.writes()
    assert not world.below.asked


async def test_what_cannot_be_changed_is_recreated():
    world = SessionWorld()
    below(world, "StorageClass", "gold", provisioner="p")
    key = world.key("StorageClass", "", "gold")
    world.tenant_has("StorageClass", "gold", namespace="", metadata=SHOWN, provisioner="q")
    world.above.refusals["replace"] = errors.Invalid("updates are forbidden")
    await mirrors.reconcile_mirror(key, world.session)
    assert [verb for verb, _, _ in world.above.writes()] == ["replace", "delete"]
    deleting = {**SHOWN, "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2000"}
    world.tenant_has("StorageClass", "gold", namespace="", metadata=deleting, provisioner="q")
    await mirrors.reconcile_mirror(key, world.session)
    assert [verb for verb, _, _ in world.above.writes()] == ["replace", "delete", "replace"]


async def test_a_kind_that_the_tenant_does_not_serve_is_left_alone():
    world = SessionWorld()
    below(world, "VolumeSnapshotClass", "gold", driver="d")
    await mirrors.reconcile_mirror(world.key("VolumeSnapshotClass", "", "gold"), world.session)
    assert not world.above.asked
    world.session.stores["VolumeSnapshotClass"].synced = True
    await mirrors.reconcile_mirror(world.key("VolumeSnapshotClass", "", "gold"), world.session)
    assert world.above.writes() == [("create", "VolumeSnapshotClass", "gold")]


async def test_a_class_that_is_put_back_each_time_is_parked_and_reported():
    world = SessionWorld()
    below(world, "StorageClass", "gold", provisioner="p")
    key = world.key("StorageClass", "", "gold")
    for number in range(REPEATS_TO_PARK + 3):
        annotated = {**SHOWN, "annotations": {wellknown.UID: "gold-below", "hook": "x"}}
        version = {"resourceVersion": str(2000 + number)}
        world.tenant_has(
            "StorageClass", "gold", namespace="", metadata={**annotated, **version}, provisioner="p"
        )
        await mirrors.reconcile_mirror(key, world.session)
    assert (
        world.above.writes("StorageClass")
        == [("replace", "StorageClass", "gold")] * REPEATS_TO_PARK
    )
    assert world.told() == [reverted_edits.SYNC_REVERTED, SYNC_PARKED]
    assert "metadata.annotations.hook" in world.above.bodies[-1]["message"]
    assert "StorageClass /gold" in parked_writes.format_parked_message(world.link)
