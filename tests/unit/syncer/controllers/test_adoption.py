"""Twins that someone took our labels from."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers.pods import tokens
from syncer.handlers.dispatcher import Dispatcher
from syncer.handlers.home_events import HomeEvents
from syncer.model.keys import HOME, TOKEN, Key
from syncer.model.references import ACCOUNT_TOKEN, ObjectReference
from syncer.rules.pods.token_specs import TokenSpec
from syncer.safety.expectations import ClusterSide
from tenancy import ownership
from tests.support.syncer.sessions import CONTAINERS, TENANT, TOKEN_MARKS, SessionWorld

BODIES: dict[str, dict[str, Any]] = {
    "ConfigMap": {"data": {"k": "v"}},
    "Service": {"spec": {"clusterIP": "10.96.8.9", "ports": [{"port": 80}]}},
    "Pod": {"spec": {"containers": CONTAINERS}, "status": {}},
    "Namespace": {},
}


def wired() -> SessionWorld:
    """Return a world whose super cluster's events reach the session."""
    world = SessionWorld()
    HomeEvents(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    return world


def stripped(world: SessionWorld, entry: Entry, kind: str, *, live: bool = True) -> None:
    """Take the labels from a twin: it is there, and not in the cache."""
    body = entry.decode()
    del body["metadata"]["labels"]
    world.super_cluster.stores[kind].discard(entry, live=live)
    world.below.has(kind, entry.name, body)


async def run(world: SessionWorld, key: Key) -> None:
    await Dispatcher({HOME: {TENANT.uid: world.session}}).reconcile(key)


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("kind", BODIES)
async def test_a_twin_that_lost_its_labels_gets_them_back_though_no_one_needs_it(
    kind: str, live: bool
):
    world = wired()
    entry = world.super_has(kind, "a", **BODIES[kind])
    key = world.key(kind, "", "web") if kind == "Namespace" else world.key(kind, "web", "a")
    stripped(world, entry, kind, live=live)
    assert key in set(world.session.all_keys.list_keys())
    with pytest.raises(NotReadyYet):
        await run(world, key)
    (written,) = world.below.bodies
    assert written["metadata"]["uid"] == entry.uid
    assert (
        ownership.build_owner_labels(TENANT, "web").items() <= written["metadata"]["labels"].items()
    )
    world.super_cluster.stores[kind].put(entry, live=True)
    assert not world.session.lost_twins.list_vanished_keys()


@pytest.mark.parametrize("what", ["gone", "a stranger's", "being deleted"])
async def test_what_is_gone_or_no_twin_is_looked_at_once(what: str):
    world = wired()
    entry = world.super_has("ConfigMap", "a")
    stripped(world, entry, "ConfigMap")
    body = world.below.object("ConfigMap", "a")
    if what == "gone":
        world.below.lacks("ConfigMap", "a")
    elif what == "a stranger's":
        del body["metadata"]["annotations"]
        world.below.has("ConfigMap", "a", body)
    else:
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        world.below.has("ConfigMap", "a", body)
    key = world.key("ConfigMap", "web", "a")
    await run(world, key)
    await run(world, key)
    assert world.below.asked == [("get", "ConfigMap", "a")]
    assert key not in set(world.session.all_keys.list_keys())


async def test_what_we_deleted_and_what_went_by_itself_is_not_looked_for():
    world = wired()
    entry = world.super_has("ConfigMap", "a")
    key = world.key("ConfigMap", "web", "a")
    world.session.expectations.expect_delete(ClusterSide.SUPER, key, entry)
    world.super_cluster.stores["ConfigMap"].discard(entry, live=True)
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    entry = world.super_has("Pod", "p", metadata=going, **BODIES["Pod"])
    world.super_cluster.stores["Pod"].discard(entry, live=True)
    await run(world, key)
    await run(world, world.key("Pod", "web", "p"))
    assert world.below.asked == []


@pytest.mark.parametrize("is_needed", [True, False])
async def test_a_token_without_labels_is_seen_again_and_so_renewed(is_needed: bool):
    world = wired()
    world.ready()
    token = TokenSpec(namespace="web", account="robot", account_uid="robot-uid")
    metadata = {"annotations": TOKEN_MARKS}
    entry = world.super_has(
        "Secret", token.secret_name, uid="robot-uid", metadata=metadata, type="Opaque"
    )
    key = world.key(TOKEN, "web", token.secret_name)
    stripped(world, entry, "Secret")
    if is_needed:
        world.session.pods.references.set("web", "p", {ObjectReference(ACCOUNT_TOKEN, "robot")})
        assert tokens.get_missing_token_key(token, world.session) == key
        status = {"token": "t", "expirationTimestamp": "2030-01-01T00:00:00Z"}
        world.above.answers["create ServiceAccount/token"] = {"status": status}
        world.below.refusals["create"] = errors.AlreadyExists("there is one")
    with pytest.raises(NotReadyYet):
        await run(world, key)
    written = world.below.bodies[-1]
    assert (
        ownership.build_owner_labels(TENANT, "web").items() <= written["metadata"]["labels"].items()
    )
