"""Keys of kinds that SyncRules declare, with two API servers in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest

from kubeio.cache.store import Store, parse_entry
from kubeio.controller.worker import NotReadyYet
from syncer.clusters.home_ruled_caches import OWNER_INDEX, list_owners
from syncer.controllers.sync_down import SOURCE_MISSING
from syncer.handlers import dependents
from syncer.handlers.dispatcher import Dispatcher
from syncer.handlers.tenant_events import TenantEvents
from syncer.model.keys import HOME
from tenancy.sync_rules.specs import parse_sync_rule
from tests.support.syncer.reconciles import reconcile
from tests.support.syncer.sessions import TENANT, SessionWorld

RESOURCE = {"group": "example.io", "version": "v1", "kind": "Widget", "plural": "widgets"}

SYNCED = {"sync": "yes"}


def build_world(**spec: Any) -> SessionWorld:
    """Return a world with one rule and a namespace that is ready."""
    found = {
        "resource": RESOURCE,
        "direction": "Down",
        "fields": ["spec.size"],
        "references": [{"path": "spec.to", "kinds": ["Secret", "Service"]}],
        "statusFields": ["status.phase"],
        **spec,
    }
    rule = parse_sync_rule({"metadata": {"name": "widgets", "uid": "r"}, "spec": found})
    world = SessionWorld(rules=[rule])
    world.ready()
    TenantEvents(world.session).subscribe()
    return world


def has(world: SessionWorld, **spec: Any) -> None:
    """Have a tenant object on its server and in the cache."""
    entry = world.tenant_has("Widget", "x", spec=spec)
    world.above.has("Widget", "x", entry.decode())


async def reconcile_twice(world: SessionWorld) -> None:
    """Reconcile, have the caches follow the super cluster, and reconcile again."""
    await reconcile(world, "Widget")
    copy = parse_entry(orjson.dumps(world.below.object("Widget", "x")))
    world.super_cluster.stores["Widget"].put(copy, live=True)
    await reconcile(world, "Widget")


async def test_an_object_is_copied_with_its_references_rewritten():
    world = build_world()
    has(world, size="s", to={"kind": "Service", "name": "web", "namespace": "other"})
    await reconcile(world, "Widget")
    twin = world.below.object("Widget", "x")
    below = world.session.view.get_super_namespace("other")
    assert twin["spec"] == {
        "size": "s",
        "to": {"kind": "Service", "name": "web", "namespace": below},
    }


async def test_an_unlisted_field_is_refused_with_an_event():
    world = build_world()
    has(world, size="s", admin=True)
    await reconcile(world, "Widget")
    assert not world.below.writes("Widget")
    events = [each for each in world.above.bodies if each and each.get("kind") == "Event"]
    assert [each["reason"] for each in events] == ["SyncRejected"]
    assert "spec.admin" in str(events[0])
    assert "SyncRule widgets" in str(events[0])


async def test_the_listed_status_comes_back_and_drift_is_reverted():
    world = build_world()
    has(world, size="s")
    twin = world.super_has(
        "Widget", "x", spec={"size": "other", "extra": 1}, status={"phase": "Ready", "key": "k"}
    )
    world.below.has("Widget", "x", twin.decode())
    await reconcile(world, "Widget")
    assert world.below.object("Widget", "x")["spec"] == {"size": "s", "extra": 1}
    store = world.super_cluster.stores["Widget"]
    store.put(parse_entry(orjson.dumps(world.below.object("Widget", "x"))), live=True)
    await reconcile(world, "Widget")
    assert world.above.object("Widget", "x")["status"] == {"phase": "Ready"}


async def test_no_text_of_a_status_names_the_super_namespace():
    """A rule shows a whole status, whose fields have no known meaning."""
    world = build_world(statusFields=["status.**"], statusReferences=[])
    has(world, size="s")
    below = world.session.view.get_super_namespace("web")
    status = {"url": f"http://x.{below}.svc", "conditions": [{"type": "Ready", "message": below}]}
    twin = world.super_has("Widget", "x", spec={"size": "s"}, status=status)
    world.below.has("Widget", "x", twin.decode())
    await reconcile_twice(world)
    shown = world.above.object("Widget", "x")["status"]
    assert shown == {
        "url": "http://x.web.svc",
        "conditions": [{"type": "Ready", "message": "web"}],
    }


async def test_a_reference_in_a_status_is_in_the_tenants_names():
    world = build_world(statusReferences=["status.at", "status.from"])
    has(world, size="s", to={"kind": "Service", "name": "s", "namespace": "other"})
    other, foreign = map(world.session.view.get_super_namespace, ("other", "unknown"))
    status = {"at": {"name": "s", "namespace": other}, "from": {"namespace": foreign}}
    twin = world.super_has("Widget", "x", spec={"size": "s"}, status=status)
    world.below.has("Widget", "x", twin.decode())
    await reconcile_twice(world)
    assert world.above.object("Widget", "x")["status"] == {
        "at": {"name": "s", "namespace": "other"},
        "from": {"namespace": "another-namespace"},
    }


async def test_the_selector_of_a_rule_chooses_objects_by_their_labels():
    world = build_world(selector={"matchLabels": {"sync": "yes"}})
    has(world, size="s")
    await reconcile(world, "Widget")
    assert not world.below.writes("Widget")
    metadata = {"labels": SYNCED, "resourceVersion": "51"}
    entry = world.tenant_has("Widget", "x", spec={"size": "s"}, metadata=metadata)
    world.above.has("Widget", "x", entry.decode())
    await reconcile_twice(world)
    assert world.below.object("Widget", "x")["spec"] == {"size": "s"}
    entry = world.tenant_has("Widget", "x", spec={"size": "s"}, metadata={"resourceVersion": "52"})
    world.above.has("Widget", "x", entry.decode())
    await reconcile(world, "Widget")
    assert world.below.writes("Widget")[-1][0] == "delete"


async def test_the_status_of_a_tenant_that_owns_it_is_left_alone():
    world = build_world(statusOwner="Tenant")
    has(world, size="s")
    twin = world.super_has("Widget", "x", spec={"size": "s"}, status={"phase": "Ready"})
    world.below.has("Widget", "x", twin.decode())
    await reconcile_twice(world)
    assert not world.above.writes("Widget")


async def test_a_closed_field_in_a_map_withdraws_the_copy_of_an_earlier_version():
    world = build_world(fields=["spec.*"], references=[])
    has(world, size="s", hostNetwork=True)
    twin = world.super_has("Widget", "x", spec={"size": "s", "hostNetwork": True})
    world.below.has("Widget", "x", twin.decode())
    await reconcile(world, "Widget")
    assert world.told() == ["SyncRejected"]
    assert world.below.writes("Widget")[-1][0] == "delete"


async def test_nothing_is_concluded_while_a_cache_is_incomplete():
    world = build_world()
    world.super_has("Widget", "x", spec={"size": "s"})
    world.session.stores["Widget"].synced = False
    await reconcile(world, "Widget")
    assert not world.below.writes()


async def test_secrets_that_an_object_names_are_needed():
    world = build_world()
    has(world, size="s", to={"name": "key"})
    assert world.session.view.is_referenced("Secret", "web", "key")
    entry = world.session.stores["Widget"].get("web", "x")
    assert entry is not None
    world.session.stores["Widget"].discard(entry, live=True)
    assert not world.session.view.is_referenced("Secret", "web", "key")


async def test_an_offered_object_is_shown_read_only():
    shown = {"sourceNamespace": "infra", "tenantNamespace": "web"}
    world = build_world(direction="Mirror", references=[], statusFields=[], mirror=shown)
    caches = world.super_cluster.ruled
    rule = world.link.ruled.rules[0]
    source = Store()
    caches._sources[rule.resource.kind] = source
    source.synced = True
    metadata = {"name": "x", "namespace": "infra", "uid": "i", "resourceVersion": "5"}
    body = {"metadata": metadata, "spec": {"size": "s", "secret": "k"}}
    source.put(parse_entry(orjson.dumps(body)), live=True)
    await reconcile(world, "Widget")
    shown_x = world.above.object("Widget", "x")
    assert shown_x["spec"] == {"size": "s"}
    assert shown_x["metadata"]["namespace"] == "web"
    assert not world.below.writes()


CLAIM = "PersistentVolumeClaim"


@pytest.mark.parametrize("twin_of", ["", "another-uid"])
async def test_an_object_that_names_a_claim_waits_for_the_tenants_own(twin_of):
    """A controller of the super cluster would find a foreign claim by its name."""
    reference = {"path": "spec.claim", "kinds": [CLAIM], "form": "Name"}
    world = build_world(references=[reference])
    has(world, claim="data")
    if twin_of:
        world.super_has(CLAIM, "data", uid=twin_of)
    for _ in range(2):
        with pytest.raises(NotReadyYet):
            await reconcile(world, "Widget")
        world.tenant_has(CLAIM, "data", spec={})
    assert not world.below.writes("Widget")
    assert world.told() == [SOURCE_MISSING]
    assert "spec.claim: the claim data is not" in str(world.above.bodies)
    world.super_has(CLAIM, "data", metadata={"resourceVersion": "61"})
    await reconcile(world, "Widget")
    assert world.below.object("Widget", "x")["spec"] == {"claim": "data"}


@pytest.mark.parametrize("spec", [{"size": "s"}, {"size": "s", "class": ""}])
async def test_an_object_without_a_required_reference_is_refused(spec):
    reference = {"path": "spec.class", "kinds": ["VolumeSnapshotClass"], "form": "Name"}
    world = build_world(references=[{**reference, "required": True}])
    has(world, **spec)
    await reconcile(world, "Widget")
    assert not world.below.writes("Widget")
    assert world.told() == ["SyncRejected"]
    assert "spec.class must be set" in str(world.above.bodies)


async def test_an_offered_object_is_shown_with_its_status():
    world = build_world(
        direction="Mirror",
        references=[],
        statusFields=["status.addresses[].value", "status.conditions[].type"],
        mirror={"sourceNamespace": "infra", "tenantNamespace": "web"},
    )
    source = Store()
    world.super_cluster.ruled._sources["Widget"] = source
    source.synced = True
    metadata = {"name": "x", "namespace": "infra", "uid": "i", "resourceVersion": "5"}
    status = {
        "addresses": [{"value": "198.51.100.7", "type": "IPAddress"}],
        "conditions": [{"type": "Ready"}],
        "secret": "k",
    }
    body = {"metadata": metadata, "spec": {"size": "s"}, "status": status}
    source.put(parse_entry(orjson.dumps(body)), live=True)
    for _ in range(2):  # the status follows the object
        await reconcile(world, "Widget")
        shown = parse_entry(orjson.dumps(world.above.object("Widget", "x")))
        world.session.stores["Widget"].put(shown, live=True)
    expected = {"addresses": [{"value": "198.51.100.7"}], "conditions": [{"type": "Ready"}]}
    assert world.above.object("Widget", "x")["status"] == expected
    written = len(world.above.writes())
    await reconcile(world, "Widget")
    assert len(world.above.writes()) == written


def show_content(world: SessionWorld, name: str, owner: dict[str, Any]) -> None:
    """Have an object of the super cluster that a tenant's copy owns."""
    spec = {"size": "s", "secret": "k", "owner": {"uid": "below", **owner}}
    body = {"metadata": {"name": name, "uid": "i", "resourceVersion": "5"}, "spec": spec}
    caches = world.super_cluster.ruled
    source = caches._sources.setdefault("Widget", Store())
    source.set_index(OWNER_INDEX, partial(list_owners, world.link.ruled.rules[0]))
    source.synced = True
    source.put(parse_entry(orjson.dumps(body)), live=True)


async def test_an_object_of_one_owner_is_shown_to_that_tenant_only():
    world = build_world(
        direction="Mirror", references=[], statusFields=[], mirrorOwner={"path": "spec.owner"}
    )
    get_below = world.session.view.get_super_namespace
    show_content(world, "own", {"kind": "Snapshot", "name": "s", "namespace": get_below("web")})
    foreign = parse_entry(orjson.dumps({"metadata": {"name": "other-web", "uid": "o"}}))
    world.super_cluster.stores["Namespace"].put(foreign, live=True)
    show_content(world, "foreign", {"kind": "Snapshot", "name": "s", "namespace": "other-web"})
    show_content(world, "absent", {"kind": "Snapshot", "name": "s", "namespace": get_below("x")})
    show_content(world, "unowned", {})
    listed = {key for key in world.session.all_keys.list_keys() if key.kind == "Widget"}
    assert {key.name for key in listed} == {"own"}
    engine = Dispatcher({HOME: {TENANT.uid: world.session}})
    for name in ("own", "foreign", "absent", "unowned"):
        await engine.reconcile(world.key("Widget", "", name))
    assert world.above.object("Widget", "own")["spec"] == {
        "size": "s",
        "owner": {"kind": "Snapshot", "name": "s", "namespace": "web"},
    }
    assert world.above.writes("Widget") == [("create", "Widget", "own")]


async def test_routes_wait_for_the_object_that_they_name():
    world = build_world(references=[{"path": "spec.to", "kinds": ["Widget"]}])
    has(world, size="s")
    while (early := world.session.queue.take()) is not None:
        world.session.queue.done(early)
    dependents.enqueue_users_of_kind(world.session, "Widget")
    key = world.session.queue.take()
    assert key is not None
    assert (key.kind, key.name) == ("Widget", "x")
