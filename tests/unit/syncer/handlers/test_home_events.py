"""Keys that a change in the home cluster enqueues."""

from __future__ import annotations

import orjson
import pytest

from kubeio.cache.store import parse_entry
from syncer.clusters.ruled_caches import RuledWatch
from syncer.handlers import dependents
from syncer.handlers.home_events import HomeEvents
from tenancy.sync_rules.specs import parse_sync_rule
from tests.support.syncer.nodes import node
from tests.support.syncer.sessions import TENANT, SessionWorld, put
from tests.support.syncer.woken_keys import queued

PLAIN = {"podSelector": {}}


def test_a_pod_in_the_super_cluster_enqueues_the_budgets_of_its_namespace_once():
    world = SessionWorld()
    HomeEvents(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    world.tenant_has("PodDisruptionBudget", "b")
    world.tenant_has("PodDisruptionBudget", "c", namespace="db")
    made = world.super_has("Pod", "p")
    assert queued(world, "PodDisruptionBudget") == ["b"]
    world.super_has("Pod", "p", metadata={"resourceVersion": "61"})
    assert queued(world, "PodDisruptionBudget") == []
    dependents.enqueue_budgets_of_pod(world.session, "web", made, None)
    assert queued(world, "PodDisruptionBudget") == ["b"]


def test_new_ranges_enqueue_what_must_leave_them_out():
    world = SessionWorld()
    HomeEvents(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    world.tenant_has("NetworkPolicy", "p", spec=PLAIN)
    put(world.super_cluster.nodes, node("a", "192.0.2.7", "10.244.0.0/24"))
    assert queued(world, "NetworkPolicy") == ["p"]


def test_a_budget_is_looked_at_when_another_one_selects_something_else():
    world = SessionWorld()
    HomeEvents(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    for name in ("x", "y"):
        world.tenant_has("PodDisruptionBudget", name)
    world.super_has("PodDisruptionBudget", "x", spec={"selector": {}})
    assert len(world.session.queue) == 2


@pytest.mark.parametrize(("namespace", "expected"), [("web", ["c"]), ("of-another", [])])
def test_an_object_of_one_owner_enqueues_a_key_of_that_tenant_only(namespace, expected):
    spec = {
        "resource": {"group": "example.io", "version": "v1", "kind": "Widget", "plural": "widgets"},
        "direction": "Mirror",
        "fields": ["spec.size"],
        "mirrorOwner": {"path": "spec.owner"},
    }
    rule = parse_sync_rule({"metadata": {"name": "widgets", "uid": "r"}, "spec": spec})
    world = SessionWorld(rules=[rule])
    world.ready()
    world.super_cluster.ruled._watches["widgets"] = RuledWatch(rule, (), ())
    HomeEvents(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    below = world.session.view.get_super_namespace(namespace)
    body = {"metadata": {"name": "c", "uid": "i"}, "spec": {"owner": {"namespace": below}}}
    world.super_cluster.ruled._on_source("Widget", None, parse_entry(orjson.dumps(body)))
    assert queued(world, "Widget") == expected
