"""Keys of claims, volumes and classes with an old cache, or with a foreign object of the name."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kubeio import errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import cached_objects
from syncer.controllers.storage import volumes
from syncer.handlers.home_events import HomeEvents
from syncer.handlers.tenant_events import TenantEvents
from syncer.model.keys import VOLUME
from syncer.safety.hot_loop_guard import REPEATS_TO_PARK
from syncer.safety.parked_differences import SYNC_PARKED
from tenancy import names, ownership, wellknown
from tenancy.policies import StorageSpec, TenantPolicySpec, TenantVolumes
from tests.support.kubeio.described_requests import REQUEST
from tests.support.syncer.sessions import TENANT, SessionWorld, put

CLAIM = "PersistentVolumeClaim"


NFS = {"nfs": {"server": "nfs.example", "path": "/"}}


SHOWN = {"labels": {wellknown.MIRRORED: "true"}, "annotations": {wellknown.UID: "old"}}


def offering() -> SessionWorld:
    """Return a world whose tenant may write volumes of one server."""
    world = SessionWorld()
    offered = StorageSpec(tenant_volumes=TenantVolumes(nfs_servers=("nfs.example",)))
    policy = TenantPolicySpec(storage=offered)
    world.session.view = dataclasses.replace(world.session.view, policy=policy)
    return world


def below(world: SessionWorld, kind: str, name: str, **fields: Any) -> Entry:
    """Put a class or a volume into the super cluster's cache."""
    store = world.super_cluster.volumes if kind == VOLUME else world.super_cluster.classes[kind]
    metadata = {"name": name, "uid": f"{name}-below", "resourceVersion": "70"}
    metadata |= fields.pop("metadata", {})
    return put(store, {"kind": kind, "metadata": metadata, **fields})


def queued(world: SessionWorld) -> set[tuple[str, str, str]]:
    """Return the keys that wait for a turn."""
    found = set()
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        found.add((key.kind, key.namespace, key.name))
    return found


async def test_a_shown_volume_that_is_put_back_still_reports_its_phase():
    world = SessionWorld()
    claim = world.super_has(CLAIM, "c", spec={"volumeName": "pv"})
    place = {"namespace": claim.namespace, "name": "c", "uid": claim.uid}
    below(world, VOLUME, "pv", spec={"claimRef": place}, status={"phase": "Bound"})
    key = world.key(VOLUME, "", "pv")
    for number in range(REPEATS_TO_PARK + 2):
        metadata = {**SHOWN, "resourceVersion": str(2000 + number)}
        world.tenant_has(
            VOLUME, "pv", namespace="", metadata=metadata, spec={"csi": {"driver": "x"}}
        )
        await volumes.reconcile_volume(key, world.session)
    writes = [verb for verb, _, _ in world.above.writes(VOLUME)]
    assert writes.count("replace") == REPEATS_TO_PARK
    assert writes[-1] == "patch"


# --- volumes --------------------------------------------------------------------------------------


def own_volume(world: SessionWorld, **fields: Any) -> Any:
    """Have a volume above that the tenant wrote, named by a claim. Returns its key."""
    world.ready()
    world.tenant_has(CLAIM, "c", spec={"volumeName": "mine"})
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **NFS}
    world.tenant_has(VOLUME, "mine", namespace="", spec=spec, **fields)
    return world.key(VOLUME, "", "mine")


async def test_a_volume_goes_down_under_a_name_of_its_own():
    world = offering()
    key = own_volume(world)
    await volumes.reconcile_volume(key, world.session)
    keyed = names.build_volume_name(TENANT.uid, "mine")
    assert world.below.writes() == [("create", VOLUME, keyed)]
    reference = world.below.bodies[-1]["spec"]["claimRef"]
    assert reference["namespace"] == world.session.view.get_super_namespace("web")


async def test_a_twin_of_a_volume_that_is_put_back_is_parked_and_reported():
    world = offering()
    key = own_volume(world)
    keyed = names.build_volume_name(TENANT.uid, "mine")
    await volumes.reconcile_volume(key, world.session)
    made = world.below.bodies[-1]
    for number in range(REPEATS_TO_PARK + 3):
        metadata = {**made["metadata"], "uid": "below", "resourceVersion": str(2000 + number)}
        spec = {**made["spec"], "persistentVolumeReclaimPolicy": "Delete"}
        put(world.super_cluster.volumes, {"kind": VOLUME, "metadata": metadata, "spec": spec})
        await volumes.reconcile_volume(key, world.session)
    assert world.below.writes() == [
        ("create", VOLUME, keyed),
        *[("patch", VOLUME, keyed)] * REPEATS_TO_PARK,
    ]
    assert world.told().count(SYNC_PARKED) == 1
    assert "spec.persistentVolumeReclaimPolicy" in world.above.bodies[-1]["message"]


async def test_a_volume_of_another_owner_under_that_name_is_not_touched():
    world = offering()
    key = own_volume(world)
    below(world, VOLUME, names.build_volume_name(TENANT.uid, "mine"), spec={})
    await volumes.reconcile_volume(key, world.session)
    assert not world.below.writes()
    assert world.told() == [cached_objects.NAME_TAKEN]


async def test_a_refusal_is_reported_with_the_tenants_name_of_a_volume():
    world = offering()
    key = own_volume(world)
    keyed = names.build_volume_name(TENANT.uid, "mine")
    said = f'PersistentVolume "{keyed}" is invalid'
    world.below.refusals["create"] = errors.Invalid(said, request=REQUEST, status=422)
    with pytest.raises(errors.Invalid):
        await volumes.reconcile_volume(key, world.session)
    assert world.above.bodies[-1]["message"] == 'PersistentVolume "mine" is invalid'


async def test_a_volume_waits_for_its_claims_namespace():
    world = offering()
    key = own_volume(world)
    gone = world.super_cluster.stores["Namespace"].list()[0]
    world.super_cluster.stores["Namespace"].discard(gone, live=True)
    with pytest.raises(NotReadyYet):
        await volumes.reconcile_volume(key, world.session)
    assert not world.below.writes()
    world.session.work.wake_waiters(world.key("Namespace", "", "web"))
    assert len(world.session.queue) == 2  # the claim waits for it as well


async def test_the_twin_goes_with_its_volume_and_after_proof():
    world = offering()
    keyed = names.build_volume_name(TENANT.uid, "mine")
    record = {
        "labels": ownership.build_owner_labels(TENANT, ""),
        "annotations": {
            **ownership.build_owner_annotations(TENANT, "", "mine-uid"),
            wellknown.VOLUME: "mine",
        },
    }
    entry = below(world, VOLUME, keyed, spec={}, metadata=record)
    key = world.key(VOLUME, "", "mine")
    world.above.has(VOLUME, "mine", {"metadata": {"uid": "mine-uid"}})
    with pytest.raises(NotReadyYet):
        await volumes.reconcile_volume(key, world.session)
    assert not world.below.writes()
    world.above.lacks(VOLUME, "mine")
    world.below.has(
        VOLUME, keyed, {"metadata": {"uid": entry.uid, "resourceVersion": "70", **record}}
    )
    await volumes.reconcile_volume(key, world.session)
    assert world.below.writes() == [("delete", VOLUME, keyed)]


async def test_a_shown_volume_stops_being_bound_before_it_goes():
    world = SessionWorld()
    world.tenant_has(
        VOLUME, "pvc-1", namespace="", metadata=SHOWN, spec={}, status={"phase": "Bound"}
    )
    key = world.key(VOLUME, "", "pvc-1")
    world.below.has(VOLUME, "pvc-1", {"metadata": {"uid": "x"}})
    with pytest.raises(NotReadyYet):
        await volumes.reconcile_volume(key, world.session)
    assert not world.above.writes()
    world.below.lacks(VOLUME, "pvc-1")
    await volumes.reconcile_volume(key, world.session)
    assert [verb for verb, _, _ in world.above.writes()] == ["patch", "delete"]
    assert world.above.bodies[0]["status"] == {"phase": "Released"}


async def test_a_volume_of_the_tenants_own_that_was_deleted_stops_being_bound():
    world = offering()
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    key = own_volume(world, metadata=leaving, status={"phase": "Bound"})
    await volumes.reconcile_volume(key, world.session)
    assert world.above.bodies[0]["status"] == {"phase": "Released"}
    assert not world.below.writes()


# --- who is woken ---------------------------------------------------------------------------------


async def test_the_phase_of_a_volume_that_is_put_back_each_time_is_parked():
    world = offering()
    key = own_volume(world)
    own = world.session.stores[VOLUME].get("", "mine")
    for _ in range(REPEATS_TO_PARK + 2):
        await volumes._write_phase(key, own, "Available", world.session)
    assert len(world.above.writes(VOLUME)) == REPEATS_TO_PARK
    assert world.told() == [SYNC_PARKED]


async def test_what_went_down_as_a_volume_counts_for_the_guard():
    world = offering()
    own_volume(world)
    marked = ownership.build_owner_annotations(TENANT, "", "mine-uid")
    metadata = {
        "labels": ownership.build_owner_labels(TENANT, ""),
        "annotations": {**marked, wellknown.STORE_REVISION: "77"},
    }
    below(world, VOLUME, names.build_volume_name(TENANT.uid, "mine"), metadata=metadata)
    assert 77 in world.link._iterate_stamps()


def test_a_super_volume_enqueues_the_tenant_of_its_claim():
    world = SessionWorld()
    world.ready()
    HomeEvents(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    space = world.session.view.get_super_namespace("web")
    reference = {"claimRef": {"namespace": space, "name": "c", "uid": "x"}}
    below(world, VOLUME, "pvc-1", spec=reference)
    below(world, VOLUME, "foreign", spec={"claimRef": {"namespace": "kube-system", "name": "c"}})
    below(world, VOLUME, "free", spec={})
    assert queued(world) == {(VOLUME, "", "pvc-1"), (CLAIM, "web", "c")}


def test_a_claim_enqueues_the_volume_that_it_names_and_names_no_longer():
    world = SessionWorld()
    TenantEvents(world.session).subscribe()
    world.tenant_has(CLAIM, "c", spec={"volumeName": "mine"})
    assert queued(world) == {(CLAIM, "web", "c"), (VOLUME, "", "mine")}
    world.tenant_has(CLAIM, "d", spec="odd")
    assert queued(world) == {(CLAIM, "web", "d")}


def test_a_tenants_volume_enqueues_the_claim_that_it_names():
    world = SessionWorld()
    TenantEvents(world.session).subscribe()
    reference = {"claimRef": {"namespace": "web", "name": "c"}}
    world.tenant_has(VOLUME, "mine", namespace="", spec=reference)
    assert queued(world) == {(VOLUME, "", "mine"), (CLAIM, "web", "c")}
