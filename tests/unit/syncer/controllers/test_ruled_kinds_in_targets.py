"""Copies of SyncRules that follow pods, with a home cluster and a target in memory."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import Entry, parse_entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter
from syncer.controllers import ruled_kinds
from syncer.handlers.dispatcher import Dispatcher
from syncer.handlers.home_events import HomeEvents
from syncer.handlers.resync import has_work
from syncer.handlers.target_events import TargetEvents
from syncer.model.keys import HOME, Key
from syncer.safety.store_guard import StoreRecord
from syncer.tenants.session import Session
from tenancy import ownership
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from tests.support.memapi import clusters
from tests.support.syncer.sessions import TENANT, put
from tests.support.syncer.two_clusters import SplitWorld

RESOURCE = {"group": "example.io", "version": "v1", "kind": "Widget", "plural": "widgets"}


def build_rule(**spec: Any) -> SyncRule:
    """Return a rule whose copies follow pods."""
    found = {
        "resource": RESOURCE,
        "direction": "Down",
        "placement": "WithPods",
        "fields": ["spec.size"],
        "references": [{"path": "spec.config", "kinds": ["ConfigMap"]}],
        "statusFields": ["status.phase"],
        **spec,
    }
    return parse_sync_rule({"metadata": {"name": "widgets", "uid": "r"}, "spec": found})


def build_world(**spec: Any) -> SplitWorld:
    """Return a world with one rule, and a namespace that is ready in both clusters."""
    world = SplitWorld([build_rule(**spec)])
    world.ready()
    HomeEvents(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    TargetEvents(world.far.target, {TENANT.uid: world.far}).subscribe()
    for session in (world.session, world.far):
        session.grace_timers.grace_period_seconds = 0
    space = world.session.stores["Namespace"].get("", "web")
    assert space is not None
    has_namespace(world, "web", space.uid)
    return world


def has_namespace(world: SplitWorld, name: str, uid: str) -> None:
    """Have the namespace in the target, as in the home cluster."""
    for kind in ("Namespace", "ServiceAccount", "NetworkPolicy", "ConfigMap"):
        home = world.super_cluster.stores[kind]
        below = world.far.view.get_super_namespace(name)
        for entry in home.list("" if kind == "Namespace" else below):
            body = entry.decode()
            labels, marks = (
                ownership.build_owner_labels(world.far.tenant, name),
                ownership.build_owner_annotations(world.far.tenant, name, uid),
            )
            body["metadata"]["labels"] = {**body["metadata"]["labels"], **labels}
            body["metadata"]["annotations"] = {**body["metadata"]["annotations"], **marks}
            put(world.far.super_cluster.stores[kind], body)


def has(world: SplitWorld, name: str = "x", **spec: Any) -> Entry:
    """Have a tenant object on its server and in the cache."""
    entry = world.tenant_has("Widget", name, spec=spec)
    world.above.has("Widget", name, entry.decode())
    return entry


def has_copy(world: SplitWorld, session: Session, **fields: Any) -> Entry:
    """Have the copy of `x` in a super cluster and in its cache."""
    metadata = {
        "name": "x",
        "namespace": session.view.get_super_namespace("web"),
        "uid": f"x-in-{session.name}",
        "resourceVersion": "60",
        "labels": ownership.build_owner_labels(session.tenant, "web"),
        "annotations": ownership.build_owner_annotations(session.tenant, "web", "x-uid"),
    }
    body = {"kind": "Widget", "metadata": metadata, **fields}
    (world.below if session.is_home else world.there).has("Widget", "x", body)
    return put(session.twins.get_store("Widget"), body)


async def reconcile(session: Session, name: str = "x", kind: str = "Widget") -> object:
    """Reconcile one key as the dispatcher does."""
    engine = Dispatcher({session.name: {TENANT.uid: session}})
    return await engine.reconcile(session.build_key(kind, "web", name))


async def reconcile_both(world: SplitWorld) -> None:
    """Reconcile the object in both clusters."""
    for session in (world.session, world.far):
        await reconcile(session)


def catch_up(world: SplitWorld, session: Session) -> None:
    """Have the cache show the copy as it is in the super cluster."""
    client = world.below if session.is_home else world.there
    copy = parse_entry(orjson.dumps(client.object("Widget", "x")))
    session.twins.get_store("Widget").put(copy, live=True)


def take_all(world: SplitWorld) -> set[Key]:
    """Return all queued keys. The queue gives out a few of a tenant at once."""
    found: set[Key] = set()
    while taken := world.taken():
        found |= taken
    return found


def list_clusters(world: SplitWorld) -> list[str]:
    """Return the clusters in which the copy was created."""
    clients = {HOME: world.below, "c2": world.there}
    return [
        name
        for name, client in clients.items()
        if ("create", "Widget", "x") in client.writes("Widget")
    ]


@pytest.mark.parametrize(
    ("placement", "record", "clusters"),
    [
        ("WithPods", "c2/0", ["c2"]),
        ("WithPods", "home/0", [HOME]),
        ("WithPods", None, []),
        ("Home", "c2/0", [HOME]),
        ("Home", None, [HOME]),
    ],
)
async def test_a_copy_is_where_pods_of_its_namespace_are(placement, record, clusters):
    world = build_world(placement=placement)
    if record:
        world.pod(record=record)
    has(world, size="s")
    await reconcile(world.session)
    if placement == "WithPods":
        await reconcile(world.far)
    assert list_clusters(world) == clusters


async def test_a_copy_in_a_target_has_the_marks_of_its_registration():
    world = build_world()
    world.pod(record="c2/0")
    has(world, size="s")
    await reconcile(world.far)
    copy = world.there.object("Widget", "x")
    assert copy["spec"] == {"size": "s"}
    assert world.far.tenant.owns(copy["metadata"])
    assert not world.session.tenant.owns(copy["metadata"])


async def test_pods_that_come_and_go_queue_the_objects_of_their_namespace():
    world = build_world()
    has(world, size="s")
    take_all(world)
    pod = world.pod(record="c2/0")
    key = world.far.build_key("Widget", "web", "x")
    assert key in take_all(world)
    world.link.stores["Pod"].discard(pod, live=True)
    assert key in take_all(world)
    world.pod("q", record="home/0")
    assert world.session.build_key("Widget", "web", "x") in take_all(world)


async def test_a_copy_leaves_with_the_last_pod_also_if_that_ends_later_there():
    world = build_world()
    pod = world.pod(record="c2/0")
    has(world, size="s")
    has_copy(world, world.far, spec={"size": "s"})
    twin = world.twin(world.far)
    world.link.stores["Pod"].discard(pod, live=True)
    await reconcile(world.far)
    catch_up(world, world.far)
    deletes = [each for each in world.there.writes("Widget") if each[0] == "delete"]
    assert not deletes, "its pod still runs there"
    take_all(world)
    world.far.twins.get_store("Pod").discard(twin, live=True)
    assert world.far.build_key("Widget", "web", "x") in take_all(world)
    await reconcile(world.far)
    assert world.there.writes("Widget")[-1][0] == "delete"


async def test_a_copy_keeps_its_grace_period_and_the_brake():
    """REL-18: while the tenant's etcd is not the known one, nothing is deleted in a target."""
    world = build_world()
    has(world, size="s")
    copy = has_copy(world, world.far, spec={"size": "s"})
    world.far.grace_timers.grace_period_seconds = 30
    assert isinstance(await reconcile(world.far), RequeueAfter)
    assert not world.there.writes("Widget")
    world.far.grace_timers.grace_period_seconds = 0
    world.link.store_guard._record = StoreRecord(uid="another-store", revision=1)
    own = world.link.stores["Widget"].get("web", "x")
    assert own is not None
    world.above.lacks("Widget", "x")
    world.link.stores["Widget"].discard(own, live=False)
    with pytest.raises(NotReadyYet):
        await reconcile(world.far)
    assert not world.there.writes("Widget")
    assert world.far.twins.get_store("Widget").get(*copy.key) is not None


@pytest.mark.parametrize(("policy", "is_left"), [("Keep", True), ("Delete", False)])
async def test_a_rule_that_no_longer_applies_ends_its_copies_in_a_target(
    monkeypatch, policy, is_left
):
    """The rule still exists, and this tenant's policy does not select it."""
    world = SplitWorld()
    rule = build_rule(removalPolicy=policy)
    caches = world.far.super_cluster.ruled
    caches.prepare(rule).synced = True
    monkeypatch.setattr(caches, "get_rule", lambda _: rule)
    clusters.define(world.there.cluster, rule.resource)
    has_copy(world, world.far, spec={"size": "s"})
    await reconcile(world.far)
    assert (not world.there.writes("Widget")) is is_left


async def test_a_copy_stays_while_a_pod_waits_for_its_cluster():
    """After a restart no pod has a cluster, and no copy must go because of that."""
    world = build_world()
    pod = world.pod()
    has(world, size="s")
    has_copy(world, world.session, spec={"size": "s"})
    assert isinstance(await reconcile(world.session), RequeueAfter)
    assert not world.below.writes("Widget")
    world.link.assignments.reassign(pod, "c2")
    await reconcile(world.session)
    assert world.below.writes("Widget")[-1][0] == "delete"


async def test_the_status_comes_from_the_target():
    world = build_world()
    world.pod(record="c2/0")
    has(world, size="s")
    has_copy(world, world.far, spec={"size": "s"}, status={"phase": "Ready", "key": "k"})
    await reconcile(world.far)
    catch_up(world, world.far)
    await reconcile(world.far)
    assert world.above.object("Widget", "x")["status"] == {"phase": "Ready"}


async def test_the_status_of_two_copies_comes_from_the_home_cluster():
    world = build_world()
    world.pod(record="c2/0")
    world.pod("q", record="home/0")
    has(world, size="s")
    has_copy(world, world.far, spec={"size": "s"}, status={"phase": "There"})
    copy = has_copy(world, world.session, spec={"size": "s"}, status={"phase": "Home"})
    for _ in range(2):
        await reconcile_both(world)
        for session in (world.session, world.far):
            catch_up(world, session)
    assert world.above.object("Widget", "x")["status"] == {"phase": "Home"}
    entry = parse_entry(orjson.dumps(world.above.object("Widget", "x")))
    world.link.stores["Widget"].put(entry, live=True)
    far_key = world.far.build_key("Widget", "web", "x")
    assert not has_work(far_key, world.far)
    take_all(world)
    last = world.session.twins.get_store("Widget").get(*copy.key)
    assert last is not None
    world.session.twins.get_store("Widget").discard(last, live=True)
    assert far_key in take_all(world)
    assert has_work(far_key, world.far)
    await reconcile(world.far)
    assert world.above.object("Widget", "x")["status"] == {"phase": "There"}


async def test_the_status_of_a_cluster_that_owns_it_again_is_no_edit_of_the_tenant():
    world = build_world()
    world.pod(record="c2/0")
    has(world, size="s")
    has_copy(world, world.far, spec={"size": "s"}, status={"phase": "There"})
    await reconcile(world.far)
    catch_up(world, world.far)

    async def follow(phase: str) -> None:
        entry = parse_entry(orjson.dumps(world.above.object("Widget", "x")))
        world.link.stores["Widget"].put(entry, live=True)
        await reconcile_both(world)
        assert world.above.object("Widget", "x")["status"] == {"phase": phase}

    await follow("There")
    world.pod("q", record="home/0")
    copy = has_copy(world, world.session, spec={"size": "s"}, status={"phase": "Home"})
    await reconcile(world.session)
    catch_up(world, world.session)
    await follow("Home")
    last = world.session.twins.get_store("Widget").get(*copy.key)
    assert last is not None
    world.session.twins.get_store("Widget").discard(last, live=True)
    world.session.work.is_ready = False
    await follow("There")
    assert world.told() == []


async def test_what_an_object_names_is_in_the_target_while_its_copy_is():
    world = build_world()
    has(world, config={"name": "settings"})
    has(world, "y", config={"name": "shared", "namespace": "other"})
    world.tenant_has("Namespace", "other", namespace="")
    other = world.session.stores["Namespace"].get("", "other")
    assert other is not None
    views = (world.session.view, world.far.view)
    assert [each.is_referenced("ConfigMap", "web", "settings") for each in views] == [False, False]
    take_all(world)
    pod = world.pod(record="c2/0")
    assert [each.is_referenced("ConfigMap", "web", "settings") for each in views] == [False, True]
    assert world.far.scope.is_concerned("Namespace", other)
    queued = take_all(world)
    for kind, namespace, name in (
        ("ConfigMap", "web", "settings"),
        ("ConfigMap", "other", "shared"),
        ("Namespace", "", "other"),
    ):
        assert world.far.build_key(kind, namespace, name) in queued
    world.link.stores["Pod"].discard(pod, live=True)
    assert not world.far.view.is_referenced("ConfigMap", "web", "settings")
    assert not world.far.scope.is_concerned("Namespace", other)


async def test_a_target_that_does_not_serve_the_kind_is_reported_once(monkeypatch):
    world = build_world()
    world.pod(record="c2/0")
    has(world, size="s")
    world.far.twins.get_store("Widget").synced = False
    assert isinstance(await reconcile(world.far), RequeueAfter)
    assert world.told() == [], "the first list may still be on its way"
    caches = world.far.super_cluster.ruled
    monkeypatch.setattr(caches, "describe_unserved", lambda _: "the secret host is unknown")
    for _ in range(2):
        assert isinstance(await reconcile(world.far), RequeueAfter)
    assert world.told() == [ruled_kinds.NOT_SERVED]
    assert "target-c2" in str(world.above.bodies)
    assert "secret host" not in str(world.above.bodies)
    assert not world.there.writes("Widget")
    world.tenant_has("ConfigMap", "c", data={"a": "b"})
    assert isinstance(await reconcile(world.far, "c", "ConfigMap"), Done)


async def test_a_kind_that_a_target_begins_to_serve_is_queued():
    world = build_world()
    world.pod(record="c2/0")
    has(world, size="s")
    take_all(world)
    world.far.super_cluster.ruled._handle_complete("Widget")
    assert world.far.build_key("Widget", "web", "x") in take_all(world)


async def test_an_unreachable_target_keeps_its_copies():
    world = build_world()
    world.pod(record="c2/0")
    has(world, size="s")
    world.far.target.problem = "silent"
    assert isinstance(await reconcile(world.far), Done)
    assert not world.there.writes()


async def test_an_object_waits_for_its_namespace_in_the_target():
    world = build_world()
    world.pod(record="c2/0")
    has(world, size="s")
    world.far.twins.get_store("Namespace").clear()
    with pytest.raises(NotReadyYet):
        await reconcile(world.far)
    assert world.far.build_key("Namespace", "", "web") in take_all(world)
