"""What keys of claims, volumes and classes do when a cache is behind or a stranger was first."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kubeio import errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Wait
from syncer.controllers import mirrors, parked_writes, sync_down
from syncer.controllers.pods import pod_reconciler
from syncer.controllers.storage import claims, volumes
from syncer.handlers import tenant_events
from syncer.handlers.home_events import HomeWiring
from syncer.model.keys import VOLUME
from syncer.rules import registry
from syncer.safety.hot_loop_guard import REPEATS
from tenancy import names, ownership, wellknown
from tenancy.policies import Storage, TenantPolicySpec, TenantVolumes
from tests.unit.syncer.sessions import TENANT, World, put

CLAIM = "PersistentVolumeClaim"
NFS = {"nfs": {"server": "nfs.example", "path": "/"}}
SHOWN = {"labels": {wellknown.MIRRORED: "true"}, "annotations": {wellknown.UID: "old"}}


def offering() -> World:
    """Return a world whose tenant may write volumes of one server."""
    world = World()
    offered = Storage(tenant_volumes=TenantVolumes(nfs_servers=("nfs.example",)))
    policy = TenantPolicySpec(storage=offered)
    world.session.view = dataclasses.replace(world.session.view, policy=policy)
    return world


def below(world: World, kind: str, name: str, **fields: Any) -> Entry:
    """Put a class or a volume into the super cluster's cache."""
    store = world.super_cluster.volumes if kind == VOLUME else world.super_cluster.classes[kind]
    metadata = {"name": name, "uid": f"{name}-below", "resourceVersion": "70"}
    metadata |= fields.pop("metadata", {})
    return put(store, {"kind": kind, "metadata": metadata, **fields})


def queued(world: World) -> set[tuple[str, str, str]]:
    """Return the keys that wait for a turn."""
    found = set()
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        found.add((key.kind, key.namespace, key.name))
    return found


# --- classes --------------------------------------------------------------------------------------


async def test_a_class_that_is_only_missing_from_a_cache_stays():
    world = World()
    world.tenant_has("StorageClass", "gold", namespace="", metadata=SHOWN)
    key = world.key("StorageClass", "", "gold")
    world.below.objects["StorageClass", "gold"] = {"metadata": {"uid": "old"}}
    with pytest.raises(Wait):
        await mirrors.reconcile(key, world.session)
    assert not world.above.writes()
    world.below.objects.clear()
    await mirrors.reconcile(key, world.session)
    assert world.above.writes() == [("delete", "StorageClass", "gold")]


async def test_a_class_of_the_tenants_own_is_never_removed():
    world = World()
    world.tenant_has("StorageClass", "mine", namespace="")
    await mirrors.reconcile(world.key("StorageClass", "", "mine"), world.session)
    assert not world.above.writes()
    assert not world.below.asked


async def test_what_cannot_be_changed_is_made_anew():
    world = World()
    below(world, "StorageClass", "gold", provisioner="p")
    key = world.key("StorageClass", "", "gold")
    world.tenant_has("StorageClass", "gold", namespace="", metadata=SHOWN, provisioner="q")
    world.above.refusals["replace"] = errors.Invalid("updates are forbidden")
    await mirrors.reconcile(key, world.session)
    assert [verb for verb, _, _ in world.above.writes()] == ["replace", "delete"]
    deleting = {**SHOWN, "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2000"}
    world.tenant_has("StorageClass", "gold", namespace="", metadata=deleting, provisioner="q")
    await mirrors.reconcile(key, world.session)
    assert [verb for verb, _, _ in world.above.writes()] == ["replace", "delete", "replace"]


async def test_a_kind_that_the_tenant_does_not_serve_is_left_alone():
    world = World()
    below(world, "VolumeSnapshotClass", "gold", driver="d")
    await mirrors.reconcile(world.key("VolumeSnapshotClass", "", "gold"), world.session)
    assert not world.above.asked
    world.session.stores["VolumeSnapshotClass"].synced = True
    await mirrors.reconcile(world.key("VolumeSnapshotClass", "", "gold"), world.session)
    assert world.above.writes() == [("create", "VolumeSnapshotClass", "gold")]


# --- claims ---------------------------------------------------------------------------------------


def asked(world: World, **spec: Any) -> Any:
    """Have a claim above that is not below yet; returns its key."""
    world.ready()
    wish = {"resources": {"requests": {"storage": "1Gi"}}, **spec}
    world.tenant_has(CLAIM, "c", spec=wish, status={"phase": "Pending"})
    return world.key(CLAIM, "web", "c")


async def test_a_refused_claim_is_told_once_and_woken_by_its_class():
    world = World()
    key = asked(world, storageClassName="gold")
    for _ in range(3):
        await claims.reconcile(registry.BY_NAME[CLAIM], key, world.session)
    assert world.told() == ["SyncRejected"]
    assert not world.below.writes()
    world.session.wake(world.key("StorageClass", "", "gold"))
    assert len(world.session.queue) == 1


async def test_a_snapshot_fills_nothing_as_none_goes_down():
    world = World()
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    key = asked(world, dataSource=source)
    record = ownership.annotations(TENANT, "web", "s-uid")
    world.below.objects["VolumeSnapshot", "s"] = {"metadata": {"uid": "x", "annotations": record}}
    await claims.reconcile(registry.BY_NAME[CLAIM], key, world.session)
    assert world.told() == ["SyncRejected"]
    assert world.below.asked == []


@pytest.mark.parametrize("twin_of", ["", "another-uid"])
async def test_a_claim_is_filled_from_a_proved_twin_only(twin_of):
    world = World()
    key = asked(world, dataSource={"kind": CLAIM, "name": "source"})
    world.tenant_has(CLAIM, "source", spec={})
    if twin_of:
        world.super_has(CLAIM, "source", uid=twin_of)
    with pytest.raises(Wait):
        await claims.reconcile(registry.BY_NAME[CLAIM], key, world.session)
    assert not world.below.writes()
    world.super_has(CLAIM, "source", metadata={"resourceVersion": "61"})
    await claims.reconcile(registry.BY_NAME[CLAIM], key, world.session)
    assert world.below.writes() == [("create", CLAIM, "c")]


async def test_a_pod_that_names_a_class_is_woken_by_it():
    world = World()
    world.ready()
    containers = [{"name": "main", "image": "i"}]
    spec = {"containers": containers, "runtimeClassName": "kata"}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    key = world.key("Pod", "web", "p")
    await pod_reconciler.reconcile(registry.BY_NAME["Pod"], key, world.session)
    assert world.told() == ["SyncRejected"]
    world.session.wake(world.key("RuntimeClass", "", "kata"))
    assert queued(world) == {("Pod", "web", "p")}


def made_for(pod: str) -> dict[str, Any]:
    """Return the metadata of a claim that a controller made for a pod."""
    return {"ownerReferences": [{"kind": "Pod", "uid": f"{pod}-uid", "controller": True}]}


@pytest.mark.parametrize(
    "owners",
    [
        None,  # somebody's own claim
        [{"kind": "Pod", "uid": "a-uid", "controller": True}],  # pod a-b with volume c
        [{"kind": "Pod", "uid": "p-uid"}],
        ["p-uid"],
        "p-uid",
    ],
)
async def test_a_pod_waits_for_the_claims_that_are_made_for_its_ephemeral_volumes(owners):
    world = World()
    tenant_events.wire_tenant(world.session)
    world.ready()
    containers = [{"name": "main", "image": "i"}]
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]
    spec = {"containers": containers, "volumes": volumes}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    key = world.key("Pod", "web", "p")
    with pytest.raises(Wait):
        await pod_reconciler.reconcile(registry.BY_NAME["Pod"], key, world.session)
    assert world.told() == []
    world.session.queue.drop_group(world.session.tenant.uid)
    world.tenant_has(CLAIM, "p-v", spec={}, metadata={"ownerReferences": owners})
    assert ("Pod", "web", "p") in queued(world)
    with pytest.raises(Wait):
        await pod_reconciler.reconcile(registry.BY_NAME["Pod"], key, world.session)
    assert world.told() == [sync_down.NAME_TAKEN]
    assert "rule ephemeral-claim" in world.above.bodies[-1]["message"]
    assert world.below.writes() == []
    world.tenant_has(CLAIM, "p-v", spec={}, metadata=made_for("p") | {"resourceVersion": "51"})
    await pod_reconciler.reconcile(registry.BY_NAME["Pod"], key, world.session)
    assert world.below.writes() == [("create", "Pod", "p")]


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "v", "persistentVolumeClaim": {"claimName": "stranger"}},
        {"name": "v", "ephemeral": {"volumeClaimTemplate": {}}},
    ],
)
async def test_a_pod_does_not_mount_a_strangers_claim_nor_wait_for_its_own(volume):
    world = World()
    world.ready()
    name = "p-v" if "ephemeral" in volume else "stranger"
    spec = {"containers": [{"name": "main", "image": "i"}], "volumes": [volume]}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    world.tenant_has(CLAIM, name, spec={}, metadata=made_for("p"))
    key = world.key("Pod", "web", "p")
    world.below.objects[CLAIM, name] = {"metadata": {"uid": "x"}}
    with pytest.raises(Wait):
        await pod_reconciler.reconcile(registry.BY_NAME["Pod"], key, world.session)
    assert not world.below.writes()
    world.below.objects.clear()
    await pod_reconciler.reconcile(registry.BY_NAME["Pod"], key, world.session)
    assert world.below.writes() == [("create", "Pod", "p")]


async def test_a_class_that_is_put_back_each_time_is_parked_and_told():
    world = World()
    below(world, "StorageClass", "gold", provisioner="p")
    key = world.key("StorageClass", "", "gold")
    for number in range(REPEATS + 3):
        annotated = {**SHOWN, "annotations": {wellknown.UID: "gold-below", "hook": "x"}}
        version = {"resourceVersion": str(2000 + number)}
        world.tenant_has(
            "StorageClass", "gold", namespace="", metadata={**annotated, **version}, provisioner="p"
        )
        await mirrors.reconcile(key, world.session)
    assert world.above.writes("StorageClass") == [("replace", "StorageClass", "gold")] * REPEATS
    assert world.told() == [parked_writes.REASON]
    assert "metadata.annotations.hook" in world.above.bodies[-1]["message"]
    assert "StorageClass /gold" in parked_writes.sentence(world.link)


async def test_a_shown_volume_that_is_put_back_still_tells_its_phase():
    world = World()
    claim = world.super_has(CLAIM, "c", spec={"volumeName": "pv"})
    place = {"namespace": claim.namespace, "name": "c", "uid": claim.uid}
    below(world, VOLUME, "pv", spec={"claimRef": place}, status={"phase": "Bound"})
    key = world.key(VOLUME, "", "pv")
    for number in range(REPEATS + 2):
        metadata = {**SHOWN, "resourceVersion": str(2000 + number)}
        world.tenant_has(
            VOLUME, "pv", namespace="", metadata=metadata, spec={"csi": {"driver": "x"}}
        )
        await volumes.reconcile(key, world.session)
    writes = [verb for verb, _, _ in world.above.writes(VOLUME)]
    assert writes.count("replace") == REPEATS
    assert writes[-1] == "patch"


# --- volumes --------------------------------------------------------------------------------------


def own_volume(world: World, **fields: Any) -> Any:
    """Have a volume above that the tenant wrote, named by a claim; returns its key."""
    world.ready()
    world.tenant_has(CLAIM, "c", spec={"volumeName": "mine"})
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **NFS}
    world.tenant_has(VOLUME, "mine", namespace="", spec=spec, **fields)
    return world.key(VOLUME, "", "mine")


async def test_a_volume_goes_down_under_a_name_of_its_own():
    world = offering()
    key = own_volume(world)
    await volumes.reconcile(key, world.session)
    keyed = names.volume(TENANT.uid, "mine")
    assert world.below.writes() == [("create", VOLUME, keyed)]
    reference = world.below.bodies[-1]["spec"]["claimRef"]
    assert reference["namespace"] == world.session.view.super_namespace("web")


async def test_a_twin_of_a_volume_that_is_put_back_is_parked_and_told():
    world = offering()
    key = own_volume(world)
    keyed = names.volume(TENANT.uid, "mine")
    await volumes.reconcile(key, world.session)
    made = world.below.bodies[-1]
    for number in range(REPEATS + 3):
        metadata = {**made["metadata"], "uid": "below", "resourceVersion": str(2000 + number)}
        spec = {**made["spec"], "persistentVolumeReclaimPolicy": "Delete"}
        put(world.super_cluster.volumes, {"kind": VOLUME, "metadata": metadata, "spec": spec})
        await volumes.reconcile(key, world.session)
    assert world.below.writes() == [
        ("create", VOLUME, keyed),
        *[("patch", VOLUME, keyed)] * REPEATS,
    ]
    assert world.told().count(parked_writes.REASON) == 1
    assert "spec.persistentVolumeReclaimPolicy" in world.above.bodies[-1]["message"]


async def test_a_volume_of_somebody_else_under_that_name_is_not_touched():
    world = offering()
    key = own_volume(world)
    below(world, VOLUME, names.volume(TENANT.uid, "mine"), spec={})
    await volumes.reconcile(key, world.session)
    assert not world.below.writes()
    assert world.told() == [sync_down.NAME_TAKEN]


async def test_a_refusal_is_told_with_the_tenants_name_of_a_volume():
    world = offering()
    key = own_volume(world)
    keyed = names.volume(TENANT.uid, "mine")
    said = f'PersistentVolume "{keyed}" is invalid'
    world.below.refusals["create"] = errors.Invalid(f"POST: {said} (422)", said=said)
    with pytest.raises(errors.Invalid):
        await volumes.reconcile(key, world.session)
    assert world.above.bodies[-1]["message"] == 'PersistentVolume "mine" is invalid'


async def test_a_volume_waits_for_its_claims_namespace():
    world = offering()
    key = own_volume(world)
    gone = world.super_cluster.stores["Namespace"].list()[0]
    world.super_cluster.stores["Namespace"].discard(gone, live=True)
    with pytest.raises(Wait):
        await volumes.reconcile(key, world.session)
    assert not world.below.writes()
    world.session.wake(world.key("Namespace", "", "web"))
    assert len(world.session.queue) == 2  # the claim waits for it as well


async def test_the_twin_goes_with_its_volume_and_after_proof():
    world = offering()
    keyed = names.volume(TENANT.uid, "mine")
    record = {
        "labels": ownership.labels(TENANT, ""),
        "annotations": {
            **ownership.annotations(TENANT, "", "mine-uid"),
            wellknown.VOLUME: "mine",
        },
    }
    entry = below(world, VOLUME, keyed, spec={}, metadata=record)
    key = world.key(VOLUME, "", "mine")
    world.above.objects[VOLUME, "mine"] = {"metadata": {"uid": "mine-uid"}}
    with pytest.raises(Wait):
        await volumes.reconcile(key, world.session)
    assert not world.below.writes()
    world.above.objects.clear()
    world.above.objects["Namespace", "kube-system"] = {
        "metadata": {"uid": "7b0a5f0e-0000-4000-8000-000000000001"}
    }
    world.below.objects[VOLUME, keyed] = {
        "metadata": {"uid": entry.uid, "resourceVersion": "70", **record}
    }
    await volumes.reconcile(key, world.session)
    assert world.below.writes() == [("delete", VOLUME, keyed)]


async def test_a_shown_volume_stops_being_bound_before_it_goes():
    world = World()
    world.tenant_has(
        VOLUME, "pvc-1", namespace="", metadata=SHOWN, spec={}, status={"phase": "Bound"}
    )
    key = world.key(VOLUME, "", "pvc-1")
    world.below.objects[VOLUME, "pvc-1"] = {"metadata": {"uid": "x"}}
    with pytest.raises(Wait):
        await volumes.reconcile(key, world.session)
    assert not world.above.writes()
    world.below.objects.clear()
    await volumes.reconcile(key, world.session)
    assert [verb for verb, _, _ in world.above.writes()] == ["patch", "delete"]
    assert world.above.bodies[0]["status"] == {"phase": "Released"}


async def test_a_volume_of_the_tenants_own_that_was_deleted_stops_being_bound():
    world = offering()
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    key = own_volume(world, metadata=leaving, status={"phase": "Bound"})
    await volumes.reconcile(key, world.session)
    assert world.above.bodies[0]["status"] == {"phase": "Released"}
    assert not world.below.writes()


# --- who is woken ---------------------------------------------------------------------------------


async def test_the_phase_of_a_volume_that_is_put_back_each_time_is_parked():
    world = offering()
    key = own_volume(world)
    own = world.session.stores[VOLUME].get("", "mine")
    for _ in range(REPEATS + 2):
        await volumes._say_phase(key, own, "Available", world.session)
    assert len(world.above.writes(VOLUME)) == REPEATS
    assert world.told() == [parked_writes.REASON]


async def test_what_went_down_as_a_volume_counts_for_the_brake():
    world = offering()
    own_volume(world)
    marked = ownership.annotations(TENANT, "", "mine-uid")
    metadata = {
        "labels": ownership.labels(TENANT, ""),
        "annotations": {**marked, wellknown.STORE_REVISION: "77"},
    }
    below(world, VOLUME, names.volume(TENANT.uid, "mine"), metadata=metadata)
    assert 77 in world.link._stamps()


def test_a_super_volume_wakes_the_tenant_of_its_claim():
    world = World()
    world.ready()
    HomeWiring(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    space = world.session.view.super_namespace("web")
    reference = {"claimRef": {"namespace": space, "name": "c", "uid": "x"}}
    below(world, VOLUME, "pvc-1", spec=reference)
    below(world, VOLUME, "foreign", spec={"claimRef": {"namespace": "kube-system", "name": "c"}})
    below(world, VOLUME, "free", spec={})
    assert queued(world) == {(VOLUME, "", "pvc-1"), (CLAIM, "web", "c")}


def test_a_claim_wakes_the_volume_that_it_names_and_names_no_longer():
    world = World()
    tenant_events.wire_tenant(world.session)
    world.tenant_has(CLAIM, "c", spec={"volumeName": "mine"})
    assert queued(world) == {(CLAIM, "web", "c"), (VOLUME, "", "mine")}
    world.tenant_has(CLAIM, "d", spec="odd")
    assert queued(world) == {(CLAIM, "web", "d")}


def test_a_tenants_volume_wakes_the_claim_that_it_names():
    world = World()
    tenant_events.wire_tenant(world.session)
    reference = {"claimRef": {"namespace": "web", "name": "c"}}
    world.tenant_has(VOLUME, "mine", namespace="", spec=reference)
    assert queued(world) == {(VOLUME, "", "mine"), (CLAIM, "web", "c")}
