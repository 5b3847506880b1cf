"""Effects of a change on other keys, of a refusal, and reasons to recreate a twin."""

from __future__ import annotations

import pytest

from syncer.handlers import dependents
from syncer.handlers.tenant_events import TenantEvents
from tests.support.syncer.sessions import SessionWorld, put
from tests.support.syncer.woken_keys import queued

CHOSEN = {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}
PLAIN = {"podSelector": {}}


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
