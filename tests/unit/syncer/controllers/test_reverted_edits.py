"""Edits of objects that the super cluster owns, kind by kind: reverted, and with one Event."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from syncer.controllers import mirrors, reverted_edits, sync_down
from syncer.controllers.network import cluster_ips
from syncer.controllers.nodes import node_reconciler
from syncer.controllers.pods import pod_reconciler
from syncer.controllers.storage import volumes
from syncer.handlers import tenant_events
from syncer.model.keys import ADDRESS, NODE, VOLUME, Key
from syncer.model.mirrored_kinds import MIRRORS
from syncer.rules import registry
from syncer.rules.registry import SyncDirection
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.policies import ClassFilter, NodesSpec, StorageSpec, SyncSpec, TenantPolicySpec
from tests.support.syncer.sessions import CONTAINERS, SessionWorld, put

Body = dict[str, Any]
CLAIM = "PersistentVolumeClaim"
EVERY = ClassFilter(names=("*",))
POLICY = TenantPolicySpec(
    sync=SyncSpec(priority_classes=EVERY, runtime_classes=EVERY), nodes=NodesSpec(expose="all")
)


class Edit(NamedTuple):
    """One edit of an object that is shown, or whose status is synced back."""

    kind: str
    super_body: Body
    """The super cluster's object, without metadata."""
    news: Body
    """A later change of it."""
    edit: Body
    """The tenant's change."""
    path: str
    """The field that the Event must name."""
    own_body: Body | None = None
    """The tenant's object, of a kind that is synced."""

    @property
    def namespace(self) -> str:
        """The namespace of the tenant's object."""
        return "web" if self.own_body else ""


BALANCER = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
PORTS = {"clusterIP": "10.96.8.9", "type": "LoadBalancer", "ports": [{"port": 80}]}
CLAIMED = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
EDITS = (
    Edit(
        "StorageClass",
        {"provisioner": "p", "reclaimPolicy": "Delete"},
        {"reclaimPolicy": "Retain"},
        {"reclaimPolicy": "Recycle"},
        "reclaimPolicy",
    ),
    Edit("PriorityClass", {"value": 7}, {"value": 8}, {"value": 9}, "value"),
    Edit("RuntimeClass", {"handler": "h"}, {"handler": "i"}, {"handler": "j"}, "handler"),
    Edit(
        "IngressClass",
        {"spec": {"controller": "c"}},
        {"spec": {"controller": "d"}},
        {"spec": {"controller": "e"}},
        "spec.controller",
    ),
    Edit(
        "CSIDriver",
        {"spec": {"podInfoOnMount": True}},
        {"spec": {"podInfoOnMount": False}},
        {"spec": {"podInfoOnMount": True, "attachRequired": True}},
        "spec.attachRequired",
    ),
    Edit(
        "VolumeSnapshotClass",
        {"driver": "d", "deletionPolicy": "Delete"},
        {"deletionPolicy": "Retain"},
        {"driver": "e"},
        "driver",
    ),
    Edit(
        VOLUME,
        {
            "spec": {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete"},
            "status": {"phase": "Bound"},
        },
        {"spec": {"capacity": {"storage": "2Gi"}}},
        {"spec": {"capacity": {"storage": "9Ti"}}},
        "spec.capacity.storage",
    ),
    Edit(
        NODE,
        {"metadata": {"labels": {"disk": "fast"}}, "status": {"capacity": {"cpu": "4"}}},
        {"metadata": {"labels": {"disk": "slow"}}},
        {"metadata": {"labels": {"disk": "none"}}},
        "metadata.labels.disk",
    ),
    Edit(
        NODE,
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        "status.conditions[Ready].status",
    ),
    Edit(
        "Pod",
        {"spec": {"containers": CONTAINERS}, "status": {"phase": "Running", "podIP": "10.0.0.1"}},
        {"status": {"podIP": "10.0.0.2"}},
        {"status": {"podIP": "10.0.0.3"}},
        "status.podIP",
        {"spec": {"containers": CONTAINERS}},
    ),
    Edit(
        "Service",
        {"spec": PORTS, "status": BALANCER},
        {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}}},
        {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.3"}]}}},
        "status.loadBalancer.ingress[192.0.2.",
        {"spec": PORTS},
    ),
    Edit(
        "Ingress",
        {"spec": {"rules": [{"host": "a.example"}]}, "status": BALANCER},
        {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}}},
        {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.3"}]}}},
        "status.loadBalancer.ingress[192.0.2.",
        {"spec": {"rules": [{"host": "a.example"}]}},
    ),
    Edit(
        CLAIM,
        {"spec": CLAIMED, "status": {"phase": "Pending", "capacity": {"storage": "1Gi"}}},
        {"status": {"capacity": {"storage": "2Gi"}}},
        {"status": {"capacity": {"storage": "9Ti"}}},
        "status.capacity.storage",
        {"spec": CLAIMED},
    ),
)
IDS = [f"{each.kind}-{each.path.partition('.')[0]}" for each in EDITS]


def merged(body: Body, change: Body) -> Body:
    found = dict(body)
    for key, value in change.items():
        before = found.get(key)
        both = isinstance(value, dict) and isinstance(before, dict)
        found[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return found


class Scene:
    """A tenant, its super cluster, and one object of either."""

    def __init__(self, edit: Edit) -> None:
        self.world, self.edit = SessionWorld(POLICY), edit
        self.below, self.revision = edit.super_body, 0
        self.key = self.world.key(edit.kind, edit.namespace, "x")
        self.world.ready()
        store = self.world.session.stores.get(edit.kind)
        assert store is not None
        store.synced = True

    @property
    def session(self) -> Session:
        """The session of the tenant."""
        return self.world.session

    def super_says(self, change: Body | None = None) -> None:
        """Have the super cluster's object as it is first, or with a change."""
        self.revision += 1
        self.below, edit = merged(self.below, change or {}), self.edit
        body = {key: value for key, value in self.below.items() if key != "metadata"}
        version = {"resourceVersion": str(10_000 * self.revision)}
        metadata = {**self.below.get("metadata", {}), **version}
        if edit.own_body:
            row = registry.KINDS_BY_NAME[edit.kind]
            own = self.session.stores[edit.kind].get("web", "x")
            assert own is not None
            if row.build is not registry.build_not_generic and "spec" in body:
                body["spec"] = row.build(own.decode(), self.session.view)["spec"]
            self.world.super_has(edit.kind, "x", metadata=metadata, **body)
            return
        home = self.world.super_cluster
        if edit.kind == VOLUME:
            claim = self.world.super_has(CLAIM, "c", spec={"volumeName": "x"})
            place = {"namespace": claim.namespace, "name": "c", "uid": claim.uid}
            body["spec"] = {**body["spec"], "claimRef": place}
        stores = {VOLUME: home.volumes, NODE: home.nodes, **home.classes}
        head = {"kind": edit.kind, "metadata": {"name": "x", "uid": "x-below", **metadata}}
        put(stores[edit.kind], {**head, **body})

    def tenant_makes(self) -> None:
        """Have the tenant's object, of a kind that is synced."""
        if self.edit.own_body:
            self.world.tenant_has(self.edit.kind, "x", **self.edit.own_body)
            self.world.above.has(
                self.edit.kind, "x", {**self.edit.own_body, "metadata": {"namespace": "web"}}
            )

    def see(self) -> Body:
        """Have the tenant's cache show what is there."""
        body = self.world.above.object(self.edit.kind, "x")
        put(self.session.stores[self.edit.kind], body)
        return body

    def tenant_says(self, change: Body) -> None:
        """Have someone in the tenant change the object."""
        body = merged(self.world.above.object(self.edit.kind, "x"), change)
        version = int(body["metadata"]["resourceVersion"]) + 1000
        body["metadata"] = {**body["metadata"], "resourceVersion": str(version)}
        put(self.session.stores[self.edit.kind], body)

    async def sync(self) -> None:
        """Reconcile until nothing is written, as the echoes have it."""
        for _ in range(4):
            await RECONCILERS[self.edit.kind](self.key, self.session)
            self.world.below.catch_up(self.edit.kind)
            self.see()

    def told(self) -> list[Body]:
        """Return the Events that report an edit."""
        return [
            body
            for body in self.world.above.bodies
            if (body or {}).get("reason") == reverted_edits.SYNC_REVERTED
        ]


Reconciler = Callable[[Key, Session], Awaitable[object]]


def _plain(kind: str) -> Reconciler:
    row = registry.KINDS_BY_NAME[kind]
    if kind == "Pod":
        return lambda key, session: pod_reconciler.reconcile_pod(row, key, session)
    return lambda key, session: sync_down.reconcile(row, key, session)


RECONCILERS: dict[str, Reconciler] = {
    VOLUME: volumes.reconcile_volume,
    NODE: node_reconciler.reconcile_node,
    **{row.resource.kind: mirrors.reconcile_mirror for row in MIRRORS},
    **{kind: _plain(kind) for kind in ("Pod", "Service", "Ingress", CLAIM)},
}


def test_every_kind_that_is_shown_or_synced_back_is_in_the_table():
    up = {kind.resource.kind for kind in registry.KINDS if kind.direction is SyncDirection.DOWN_UP}
    shown = {row.resource.kind for row in MIRRORS}
    assert {each.kind for each in EDITS} == {*up, *shown, NODE, VOLUME}


@pytest.mark.parametrize("edit", EDITS, ids=IDS)
async def test_an_edit_is_reverted_with_one_event_and_news_are_not(edit: Edit):
    scene = Scene(edit)
    scene.tenant_makes()
    scene.super_says()
    await scene.sync()
    assert scene.told() == []
    await scene.sync()
    scene.super_says(edit.news)
    await scene.sync()
    assert scene.told() == []
    right = strip(scene.see())
    for _ in range(2):
        scene.tenant_says(edit.edit)
        await scene.sync()
        assert strip(scene.see()) == right
    (event,) = scene.told()
    assert edit.path in event["message"]
    assert event["type"] == "Warning"
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["namespace"]) == (edit.kind, "x", edit.namespace)
    assert "administrator" in event["message"] or "super cluster" in event["message"]
    assert scene.world.session.view.tenant.root not in event["message"]


def strip(body: Body) -> Body:
    """Return an object without what every write changes."""
    metadata = {
        key: value
        for key, value in body["metadata"].items()
        if key not in ("resourceVersion", "managedFields", "generation")
    }
    return {**body, "metadata": metadata}


SHOWN = [each for each in EDITS if not each.own_body]


@pytest.mark.parametrize("manager", ["kubectl-edit", wellknown.SYNCER])
@pytest.mark.parametrize("edit", SHOWN, ids=[f"{each.kind}-{each.path}" for each in SHOWN])
async def test_an_edit_during_a_restart_is_reported_by_its_field_manager(edit: Edit, manager: str):
    scene = Scene(edit)
    scene.super_says()
    await scene.sync()
    scene.session.synced_states.forget(scene.key)
    scene.tenant_says(edit.edit)
    body = scene.world.above.object(edit.kind, "x")
    entry = {"manager": manager, "operation": "Update", "fieldsV1": as_fields(edit.edit)}
    managed = {**body, "metadata": {**body["metadata"], "managedFields": [entry]}}
    scene.world.above.has(edit.kind, "x", managed)
    await scene.sync()
    told = [event["message"] for event in scene.told()]
    assert len(told) == (manager != wellknown.SYNCER)
    assert all(edit.path in message for message in told)


def as_fields(value: Any) -> Body:
    """Return the record of a manager that set these fields."""
    if isinstance(value, dict):
        return {f"f:{key}": as_fields(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return {f'k:{{"type":"{item["type"]}"}}': as_fields(item) for item in value}
    return {}


@pytest.mark.parametrize(
    "edit", SHOWN, ids=[name for name in IDS if name.split("-")[0] in {e.kind for e in SHOWN}]
)
async def test_a_shown_object_that_was_deleted_is_made_again_with_an_event(edit: Edit):
    scene = Scene(edit)
    scene.super_says()
    await scene.sync()
    tenant_events.TenantEvents(scene.session).subscribe()
    gone = scene.session.stores[edit.kind].get("", "x")
    assert gone is not None
    scene.world.above.lacks(edit.kind, "x")
    scene.session.stores[edit.kind].discard(gone, live=True)
    await scene.sync()
    (event,) = scene.told()
    assert "created again" in event["message"]


async def test_an_address_whose_reservation_was_deleted_is_reserved_again_with_an_event():
    scene = SessionWorld()
    address = "10.96.8.77"
    holder = {"parentRef": {"resource": "services", "namespace": "other", "name": "s"}}
    body = {"metadata": {"name": address, "uid": "a", "resourceVersion": "5"}, "spec": holder}
    put(scene.super_cluster.addresses, body)
    key = scene.key(ADDRESS, "", address)
    scene.session.synced_states.record_deletion(key)
    await cluster_ips.reconcile_address(key, scene.session)
    assert scene.told() == [reverted_edits.SYNC_REVERTED]
    assert not scene.session.synced_states.pop_deletion(key)


# --- what is no edit ------------------------------------------------------------------------------


async def test_what_a_tenant_adds_to_a_node_is_no_edit():
    edit = next(each for each in EDITS if each.kind == NODE)
    scene = Scene(edit)
    scene.super_says()
    await scene.sync()
    checked = {"type": "example.com/Checked", "status": "True"}
    added = {
        "metadata": {"labels": {"mine": "1"}, "annotations": {"mine": "1"}},
        "spec": {"unschedulable": True, "taints": [{"key": "own", "effect": "NoSchedule"}]},
        "status": {"conditions": [*scene.see()["status"]["conditions"], checked]},
    }
    scene.tenant_says(added)
    writes = len(scene.world.above.writes(NODE))
    for _ in range(3):
        await node_reconciler.reconcile_node(scene.key, scene.session)
    assert scene.told() == []
    assert len(scene.world.above.writes(NODE)) <= writes + 1


async def test_a_condition_of_a_controller_is_no_edit():
    edit = next(each for each in EDITS if each.kind == "Pod")
    scene = Scene(edit)
    scene.tenant_makes()
    scene.super_says()
    await scene.sync()
    writes = len(scene.world.above.writes("Pod"))
    own = {"type": "example.com/Checked", "status": "True"}
    scene.tenant_says({"status": {"conditions": [own]}})
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], scene.key, scene.session)
    assert scene.told() == []
    assert len(scene.world.above.writes("Pod")) == writes


async def test_a_policy_change_is_no_edit():
    edit = next(each for each in EDITS if each.kind == NODE)
    scene = Scene(edit)
    scene.super_says()
    await scene.sync()
    nodes = structs.replace(POLICY.nodes, view="Minimal")
    policy = structs.replace(POLICY, nodes=nodes)
    scene.session.view = dataclasses.replace(scene.session.view, policy=policy)
    await scene.sync()
    assert scene.told() == []


# --- a status without a twin is another controller's ----------------------------------------------


@pytest.mark.parametrize("kind", ["Service", "Ingress"])
async def test_a_refused_object_without_a_twin_keeps_the_status_of_others(kind: str):
    edit = next(each for each in EDITS if each.kind == kind)
    spec = {
        "Service": {**PORTS, "loadBalancerClass": "example.com/own"},
        "Ingress": {**(edit.own_body or {})["spec"], "ingressClassName": "own"},
    }[kind]
    world = SessionWorld(POLICY)
    world.ready()
    put(
        world.super_cluster.classes["IngressClass"],
        {"kind": "IngressClass", "metadata": {"name": "own", "uid": "o", "resourceVersion": "1"}},
    )
    none = structs.replace(POLICY.sync, ingress_classes=ClassFilter())
    policy = structs.replace(POLICY, sync=none)
    world.session.view = dataclasses.replace(world.session.view, policy=policy)
    world.tenant_has(kind, "x", spec=spec, status=BALANCER)
    key = world.key(kind, "web", "x")
    for _ in range(3):
        await RECONCILERS[kind](key, world.session)
    assert world.above.writes(kind) == []
    assert world.told() == ["SyncRejected"]
    world.super_has(kind, "x", spec=edit.super_body["spec"], status=BALANCER)
    await RECONCILERS[kind](key, world.session)
    assert [verb for verb, _, _ in world.above.writes(kind)] == ["patch"]
    assert [verb for verb, _, _ in world.below.writes(kind)] == ["delete"]


def test_the_policy_names_what_may_be_set():
    assert StorageSpec().reclaim_policies == ("Retain", "Delete")
    assert wellknown.RECLAIM_POLICY
