"""Effects of a change on other keys, of a refusal, and reasons to recreate a twin."""

from __future__ import annotations

import pytest

from syncer.handlers import dependents
from syncer.handlers.home_events import HomeEvents
from syncer.handlers.tenant_events import TenantEvents
from tests.support.syncer.nodes import node
from tests.support.syncer.sessions import TENANT, SessionWorld, put

CHOSEN = {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}


PLAIN = {"podSelector": {}}


def queued(world: SessionWorld, kind: str) -> list[str]:
    """Return the names of the waiting keys of a kind, and forget them all."""
    found = []
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        if key.kind == kind:
            found.append(key.name)
    return sorted(found)


# --- dependents -----------------------------------------------------------------------------------


def test_a_namespace_enqueues_the_policies_that_select_namespaces():
    world = SessionWorld()
    TenantEvents(world.session).subscribe()
    world.tenant_has("NetworkPolicy", "chosen", spec=CHOSEN)
    world.tenant_has("NetworkPolicy", "plain", spec=PLAIN)
    queued(world, "NetworkPolicy")
    space = world.tenant_has("Namespace", "other", namespace="")
    assert queued(world, "NetworkPolicy") == ["chosen"]
    labels = {"labels": {"a": "b"}}
    changed = {**labels, "resourceVersion": "51"}
    world.tenant_has("Namespace", "other", namespace="", metadata=changed)
    assert queued(world, "NetworkPolicy") == ["chosen"]
    untouched = {**labels, "resourceVersion": "52"}
    world.tenant_has("Namespace", "other", namespace="", metadata=untouched)
    assert queued(world, "NetworkPolicy") == []
    world.session.stores["Namespace"].discard(space, live=True)
    assert queued(world, "NetworkPolicy") == ["chosen"]


@pytest.mark.parametrize("before", ["ExternalName", "ClusterIP", None])
@pytest.mark.parametrize("after", ["ExternalName", "ClusterIP", None])
def test_a_service_with_an_external_name_enqueues_the_ingresses_of_its_namespace(before, after):
    """SEC-51: the policy decides whether they may name it."""
    world = SessionWorld()
    TenantEvents(world.session).subscribe()
    world.tenant_has("Ingress", "i", spec={})
    world.tenant_has("Ingress", "elsewhere", namespace="other", spec={})
    entry = None
    if before is not None:
        entry = world.tenant_has("Service", "s", spec={"type": before})
    queued(world, "Ingress")
    if after is not None:
        changed = {"resourceVersion": "77"}
        world.tenant_has("Service", "s", spec={"type": after}, metadata=changed)
    elif entry is not None:
        world.session.stores["Service"].discard(entry, live=True)
    expected = ["i"] if "ExternalName" in (before, after) else []
    assert queued(world, "Ingress") == expected


def test_an_ingress_needs_its_secrets_for_as_long_as_it_names_them():
    world = SessionWorld()
    TenantEvents(world.session).subscribe()
    view = world.session.view
    entry = world.tenant_has("Ingress", "i", spec={"tls": [{"secretName": "cert"}]})
    assert view.is_referenced("Secret", "web", "cert")
    assert queued(world, "Secret") == ["cert"]
    changed = {"resourceVersion": "51"}
    entry = world.tenant_has(
        "Ingress", "i", spec={"tls": [{"secretName": "next"}]}, metadata=changed
    )
    assert queued(world, "Secret") == ["cert", "next"]
    world.session.stores["Ingress"].discard(entry, live=True)
    assert not view.is_referenced("Secret", "web", "next")


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


@pytest.mark.parametrize(
    ("change", "is_queued"),
    [
        ({}, False),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
        ({"metadata": {"labels": {"app": "other"}}}, True),
    ],
)
def test_a_budget_is_looked_at_when_what_it_counts_changes(change, is_queued):
    world = SessionWorld()
    world.tenant_has("PodDisruptionBudget", "x")
    old = world.super_has("Pod", "p", status={})
    body = old.decode()
    metadata = {**body["metadata"], "resourceVersion": "61", **change.get("metadata", {})}
    new = put(world.super_cluster.stores["Pod"], {**body, **change, "metadata": metadata})
    dependents.enqueue_budgets_of_pod(world.session, "web", old, new)
    assert len(world.session.queue) == is_queued


def test_a_budget_is_looked_at_when_another_one_selects_something_else():
    world = SessionWorld()
    HomeEvents(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    for name in ("x", "y"):
        world.tenant_has("PodDisruptionBudget", name)
    world.super_has("PodDisruptionBudget", "x", spec={"selector": {}})
    assert len(world.session.queue) == 2
