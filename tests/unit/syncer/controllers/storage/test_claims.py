"""Reconciler of PersistentVolumeClaims, and pods that wait for them."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.controller.worker import NotReadyYet
from syncer.controllers import cached_objects, sync_down
from syncer.controllers.pods import pod_reconciler
from syncer.controllers.storage import claims
from syncer.handlers.tenant_events import TenantEvents
from syncer.rules import registry
from tenancy import ownership
from tenancy.resources import VOLUME_SNAPSHOTS as SNAPSHOTS
from tenancy.sync_rules.specs import parse_sync_rule
from tests.support.memapi import clusters
from tests.support.syncer.sessions import TENANT, SessionWorld

CLAIM = "PersistentVolumeClaim"


def queued(world: SessionWorld) -> set[tuple[str, str, str]]:
    """Return the keys that wait for a turn."""
    found = set()
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        found.add((key.kind, key.namespace, key.name))
    return found


# --- claims ---------------------------------------------------------------------------------------


def asked(world: SessionWorld, **spec: Any) -> Any:
    """Have a claim above that is not below yet. Returns its key."""
    world.ready()
    wish = {"resources": {"requests": {"storage": "1Gi"}}, **spec}
    world.tenant_has(CLAIM, "c", spec=wish, status={"phase": "Pending"})
    return world.key(CLAIM, "web", "c")


async def test_a_refused_claim_is_reported_once_and_enqueued_by_its_class():
    world = SessionWorld()
    key = asked(world, storageClassName="gold")
    for _ in range(3):
        await claims.reconcile_claim(registry.KINDS_BY_NAME[CLAIM], key, world.session)
    assert world.told() == ["SyncRejected"]
    assert not world.below.writes()
    world.session.work.wake_waiters(world.key("StorageClass", "", "gold"))
    assert len(world.session.queue) == 1


SNAPSHOT_SOURCE = {"apiGroup": SNAPSHOTS.group, "kind": SNAPSHOTS.kind, "name": "s"}


def build_snapshot_world(group: str = SNAPSHOTS.group) -> SessionWorld:
    """Return a world with a SyncRule for snapshots of a group."""
    resource = {"group": group, "version": "v1", "kind": SNAPSHOTS.kind, "plural": SNAPSHOTS.plural}
    spec = {"resource": resource, "direction": "Down", "fields": ["spec.x"]}
    return SessionWorld(rules=[parse_sync_rule({"metadata": {"name": "r"}, "spec": spec})])


@pytest.mark.parametrize("group", ["", "other.example"])
async def test_a_snapshot_fills_nothing_without_a_rule_for_it(group):
    world = build_snapshot_world(group) if group else SessionWorld()
    key = asked(world, dataSource=SNAPSHOT_SOURCE)
    record = ownership.build_owner_annotations(TENANT, "web", "s-uid")
    clusters.define(world.below.cluster, SNAPSHOTS)
    world.below.has("VolumeSnapshot", "s", {"metadata": {"uid": "x", "annotations": record}})
    await claims.reconcile_claim(registry.KINDS_BY_NAME[CLAIM], key, world.session)
    assert world.told() == ["SyncRejected"]
    assert world.below.asked == []


@pytest.mark.parametrize("twin_of", ["", "another-uid"])
@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef"])
async def test_a_claim_is_filled_from_a_snapshot_of_the_tenant_only(twin_of, field):
    world = build_snapshot_world()
    key = asked(world, **{field: SNAPSHOT_SOURCE})
    if twin_of:
        world.super_has(SNAPSHOTS.kind, "s", uid=twin_of)
    for _ in range(2):
        with pytest.raises(NotReadyYet):
            await claims.reconcile_claim(registry.KINDS_BY_NAME[CLAIM], key, world.session)
        world.tenant_has(SNAPSHOTS.kind, "s", spec={})
    assert world.told() == [sync_down.SOURCE_MISSING]
    assert not world.below.writes()
    queued(world)
    world.super_has(SNAPSHOTS.kind, "s", metadata={"resourceVersion": "61"})
    world.session.work.wake_waiters(world.key(SNAPSHOTS.kind, "web", "s"))
    assert (CLAIM, "web", "c") in queued(world)
    await claims.reconcile_claim(registry.KINDS_BY_NAME[CLAIM], key, world.session)
    assert world.below.writes() == [("create", CLAIM, "c")]
    assert world.below.object(CLAIM, "c")["spec"]["dataSource"] == SNAPSHOT_SOURCE


async def test_a_snapshot_of_another_namespace_is_refused():
    world = build_snapshot_world()
    key = asked(world, dataSourceRef={**SNAPSHOT_SOURCE, "namespace": "db"})
    await claims.reconcile_claim(registry.KINDS_BY_NAME[CLAIM], key, world.session)
    assert world.told() == ["SyncRejected"]
    assert "rule data-source-namespace" in world.above.bodies[-1]["message"]
    assert not world.below.writes()


@pytest.mark.parametrize("twin_of", ["", "another-uid"])
async def test_a_claim_is_filled_from_a_proved_twin_only(twin_of):
    world = SessionWorld()
    key = asked(world, dataSource={"kind": CLAIM, "name": "source"})
    world.tenant_has(CLAIM, "source", spec={})
    if twin_of:
        world.super_has(CLAIM, "source", uid=twin_of)
    with pytest.raises(NotReadyYet):
        await claims.reconcile_claim(registry.KINDS_BY_NAME[CLAIM], key, world.session)
    assert not world.below.writes()
    world.super_has(CLAIM, "source", metadata={"resourceVersion": "61"})
    await claims.reconcile_claim(registry.KINDS_BY_NAME[CLAIM], key, world.session)
    assert world.below.writes() == [("create", CLAIM, "c")]


async def test_a_pod_that_names_a_class_is_enqueued_by_it():
    world = SessionWorld()
    world.ready()
    containers = [{"name": "main", "image": "i"}]
    spec = {"containers": containers, "runtimeClassName": "kata"}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    key = world.key("Pod", "web", "p")
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert world.told() == ["SyncRejected"]
    world.session.work.wake_waiters(world.key("RuntimeClass", "", "kata"))
    assert queued(world) == {("Pod", "web", "p")}


def made_for(pod: str) -> dict[str, Any]:
    """Return the metadata of a claim that a controller made for a pod."""
    return {"ownerReferences": [{"kind": "Pod", "uid": f"{pod}-uid", "controller": True}]}


@pytest.mark.parametrize(
    "owners",
    [
        None,  # someone's own claim
        [{"kind": "Pod", "uid": "a-uid", "controller": True}],  # pod a-b with volume c
        [{"kind": "Pod", "uid": "p-uid"}],
        ["p-uid"],
        "p-uid",
    ],
)
async def test_a_pod_waits_for_the_claims_that_are_made_for_its_ephemeral_volumes(owners):
    world = SessionWorld()
    TenantEvents(world.session).subscribe()
    world.ready()
    containers = [{"name": "main", "image": "i"}]
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]
    spec = {"containers": containers, "volumes": volumes}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    key = world.key("Pod", "web", "p")
    with pytest.raises(NotReadyYet):
        await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert world.told() == []
    world.session.queue.drop_group(world.session.tenant.uid)
    world.tenant_has(CLAIM, "p-v", spec={}, metadata={"ownerReferences": owners})
    assert ("Pod", "web", "p") in queued(world)
    with pytest.raises(NotReadyYet):
        await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert world.told() == [cached_objects.NAME_TAKEN]
    assert "rule ephemeral-claim" in world.above.bodies[-1]["message"]
    assert world.below.writes() == []
    world.tenant_has(CLAIM, "p-v", spec={}, metadata=made_for("p") | {"resourceVersion": "51"})
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert world.below.writes() == [("create", "Pod", "p")]


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "v", "persistentVolumeClaim": {"claimName": "stranger"}},
        {"name": "v", "ephemeral": {"volumeClaimTemplate": {}}},
    ],
)
async def test_a_pod_does_not_mount_a_foreign_claim_nor_wait_for_its_own(volume):
    world = SessionWorld()
    world.ready()
    name = "p-v" if "ephemeral" in volume else "stranger"
    spec = {"containers": [{"name": "main", "image": "i"}], "volumes": [volume]}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    world.tenant_has(CLAIM, name, spec={}, metadata=made_for("p"))
    key = world.key("Pod", "web", "p")
    world.below.has(CLAIM, name, {"metadata": {"uid": "x"}})
    with pytest.raises(NotReadyYet):
        await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert not world.below.writes()
    world.below.lacks(CLAIM, name)
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert world.below.writes() == [("create", "Pod", "p")]
