"""The first and the last of many pods queue their shared objects: a node, or a dependency."""

from __future__ import annotations

import orjson
import pytest

from kubeio.cache.store import parse_entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers.pods import pod_reconciler
from syncer.rules.registry import KINDS_BY_NAME
from syncer.safety.expectations import ClusterSide
from tenancy import wellknown
from tests.support.syncer.sessions import CONTAINERS, SessionWorld, put
from tests.support.syncer.woken_keys import ON_NODE, wired, woken


@pytest.fixture
def world():
    return wired()


def nodes_woken(world: SessionWorld) -> int:
    """Take all keys. Return how many of them were those of nodes."""
    taken = []
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        taken.append(key.kind)
    return taken.count("Node")


@pytest.mark.parametrize(
    ("uid", "is_shown"),
    [("n", True), ("", False), ("anew", False)],
    ids=["shown", "not-shown", "made-anew-below"],
)
def test_of_the_pods_on_a_node_that_is_shown_the_first_and_the_last_enqueue_it(
    world, uid, is_shown
):
    def on_node(name: str) -> int:
        entry = parse_entry(
            orjson.dumps(
                {
                    "metadata": {"name": name, "namespace": "web", "uid": name},
                    "spec": ON_NODE,
                }
            )
        )
        world.session.stores["Pod"].put(entry, live=True)
        return nodes_woken(world)

    def gone(name: str) -> int:
        world.session.stores["Pod"].discard(world.session.stores["Pod"].get("web", name), live=True)
        return nodes_woken(world)

    put(world.super_cluster.nodes, {"metadata": {"name": "n", "uid": uid, "resourceVersion": "3"}})
    if uid:
        recorded = {"annotations": {wellknown.UID: "n"}}
        world.tenant_has("Node", "n", namespace="", metadata=recorded, spec={}, status={})
        nodes_woken(world)
    assert [on_node(name) for name in "abc"] == [1, 1 - is_shown, 1 - is_shown]
    assert [gone(name) for name in "abc"] == [1 - is_shown, 1, 1]
    assert not world.session.pods.has_pods_on_node("n")


def kinds_woken(world: SessionWorld) -> set[str]:
    """Take all keys. Return the kinds of those that are no pods'."""
    taken = set()
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        taken.add(key.kind)
    return taken - {"Pod"}


def test_of_the_pods_that_need_an_object_the_first_and_the_last_enqueue_it(world):
    volumes = [
        {"name": "a", "configMap": {"name": "x"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "x"}},
    ]
    spec = {"containers": CONTAINERS, "volumes": volumes}
    both, claim = {"ConfigMap", "PersistentVolumeClaim"}, {"PersistentVolumeClaim"}
    store, below = world.session.stores["Pod"], world.super_cluster.stores["Pod"]

    def came(name: str) -> set[str]:
        metadata = {"name": name, "namespace": "web", "uid": f"{name}-uid", "resourceVersion": "1"}
        store.put(parse_entry(orjson.dumps({"metadata": metadata, "spec": spec})), live=True)
        return kinds_woken(world)

    def went(name: str) -> set[str]:
        store.discard(store.get("web", name), live=True)
        return kinds_woken(world)

    def ended(name: str) -> set[str]:
        entry = below.get(world.session.view.get_super_namespace("web"), name)
        below.discard(entry, live=True)
        return kinds_woken(world)

    assert [came(name) for name in "abc"] == [both, claim, claim]
    for name in "abc":
        world.super_has("Pod", name, spec=spec)
    kinds_woken(world)
    assert ended("a") == claim, "others need it"
    assert [went(name) for name in "abc"] == [claim, both, both]
    assert ended("b") == both, "it may go now"


@pytest.mark.parametrize("state", ["absent", "in hand", "awaited", "shown"])
async def test_what_a_pod_needs_is_queued_once_and_goes_before_others(world, state):
    config = world.key("ConfigMap", "web", "x")
    world.tenant_has("ConfigMap", "x", data={"a": "1"})
    spec = {"containers": CONTAINERS, "volumes": [{"name": "a", "configMap": {"name": "x"}}]}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    woken(world)
    queue = world.session.queue
    if state == "in hand":
        queue.add(config)
        queue.take()
    if state == "shown":  # before its answer, and someone has changed it since
        world.super_has("ConfigMap", "x", metadata={"resourceVersion": "61"}, data={"a": "2"})
        woken(world)
    if state in ("awaited", "shown"):
        world.session.expectations.expect_update(ClusterSide.SUPER, config, "60")
    queue.add(world.key("Pod", "web", "another"))
    with pytest.raises(NotReadyYet):
        await pod_reconciler.reconcile_pod(
            KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
        )
    is_queued = queue.take() == config
    assert is_queued is (state in ("absent", "shown"))
    if state == "in hand":
        queue.done(config)
        assert queue.take() is None, "it is not wanted once more"


async def test_a_token_that_is_being_written_is_not_queued_by_each_pod(world):
    token = {"serviceAccountToken": {"path": "t", "expirationSeconds": 7200}}
    volumes = [{"name": "t", "projected": {"sources": [token]}}]
    world.tenant_has("ServiceAccount", "default")
    spec = {"containers": CONTAINERS, "volumes": volumes}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    woken(world)
    for is_queued in (True, False):
        with pytest.raises(NotReadyYet):
            await pod_reconciler.reconcile_pod(
                KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
            )
        taken = world.session.queue.take()
        assert (taken is not None) is is_queued
        if taken is not None:
            assert taken.kind == "Token"
            world.session.queue.done(taken)
            world.session.expectations.expect_update(ClusterSide.SUPER, taken, "60")
