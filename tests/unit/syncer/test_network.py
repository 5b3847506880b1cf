"""What a change means for others, what a refusal takes away, and what a twin is made anew for."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.cache.store import Store
from kubeio.controller.worker import Again
from syncer.controllers.disruption_budgets import UNHEALTHY_SECONDS
from syncer.handlers import dependents
from syncer.handlers.dispatcher import Engine
from syncer.handlers.home_events import HomeWiring
from syncer.handlers.resync import differs
from syncer.handlers.tenant_events import wire_tenant
from syncer.model.keys import HOME
from syncer.model.references import Ref, References, user_of
from syncer.model.super_cidrs import SuperRanges, networks
from syncer.rules import registry
from syncer.rules.network.endpoint_slices import (
    MANAGED_BY,
    SELECTOR_CONTROLLER,
    SERVICE_NAME,
)
from syncer.safety.proven_deletes import Target
from syncer.tenants.grace_timers import LINGER_SECONDS
from tests.unit.syncer.sessions import TENANT, World, put
from tests.unit.syncer.special.views import policy

CHOSEN = {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}
PLAIN = {"podSelector": {}}


def queued(world: World, kind: str) -> list[str]:
    """Return the names of the waiting keys of a kind, and forget them all."""
    found = []
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        if key.kind == kind:
            found.append(key.name)
    return sorted(found)


def with_policy(world: World, **spec: Any) -> None:
    """Have the session's tenant under another policy."""
    object.__setattr__(world.session.view, "policy", policy(**spec))


# --- ripples --------------------------------------------------------------------------------------


def test_a_namespace_wakes_the_policies_that_select_namespaces():
    world = World()
    wire_tenant(world.session)
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


def test_an_ingress_needs_its_secrets_for_as_long_as_it_names_them():
    world = World()
    wire_tenant(world.session)
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


def test_a_pod_and_an_ingress_of_one_name_are_two_users():
    references, ref = References(), Ref("Secret", "cert")
    references.set("web", "x", [ref])
    references.set("web", user_of("Ingress", "x"), [ref])
    references.set("web", "x", [])
    assert references.is_used("web", ref)
    assert references.users("web", ref) == {"Ingress/x"}


def test_a_pod_below_wakes_the_budgets_of_its_namespace_once():
    world = World()
    HomeWiring(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    world.tenant_has("PodDisruptionBudget", "b")
    world.tenant_has("PodDisruptionBudget", "c", namespace="db")
    made = world.super_has("Pod", "p")
    assert queued(world, "PodDisruptionBudget") == ["b"]
    world.super_has("Pod", "p", metadata={"resourceVersion": "61"})
    assert queued(world, "PodDisruptionBudget") == []
    dependents.super_pod_changed(world.session, "web", made, None)
    assert queued(world, "PodDisruptionBudget") == ["b"]


# --- addresses of the super cluster ---------------------------------------------------------------


def node(name: str, address: str, pods: str, version: str = "1") -> dict[str, Any]:
    """Return a node with an address and a range of pods."""
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": version},
        "spec": {"podCIDR": pods, "podCIDRs": [pods]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ]
        },
    }


def test_the_ranges_follow_nodes_and_service_ranges():
    nodes, cidrs, calls = Store(), Store(), []
    ranges = SuperRanges(nodes, cidrs)
    ranges.subscribe(lambda: calls.append(1))
    put(nodes, node("a", "192.0.2.7", "10.244.0.0/24"))
    last = put(nodes, node("b", "192.0.2.8", "10.244.1.0/24"))
    put(nodes, node("b", "192.0.2.8", "10.244.1.0/24", version="2"))
    put(cidrs, {"metadata": {"name": "k", "uid": "k"}, "spec": {"cidrs": ["10.96.0.0/16"]}})
    assert len(calls) == 3
    found = ranges.current()
    assert found.pods == networks(("10.244.0.0/23",))
    assert found.nodes == networks(("192.0.2.7", "192.0.2.8"))
    assert found.services == networks(("10.96.0.0/16",))
    nodes.discard(last, live=True)
    assert ranges.current().pods == networks(("10.244.0.0/24",))


def test_a_node_without_any_address_says_nothing():
    nodes = Store()
    ranges = SuperRanges(nodes, Store())
    put(nodes, {"metadata": {"name": "a", "uid": "a"}, "status": {"addresses": [{"address": 7}]}})
    put(nodes, node("b", "not-an-address", ""))
    assert ranges.current().nodes == ()


def test_new_ranges_wake_what_must_leave_them_out():
    world = World()
    HomeWiring(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    world.tenant_has("NetworkPolicy", "p", spec=PLAIN)
    put(world.super_cluster.nodes, node("a", "192.0.2.7", "10.244.0.0/24"))
    assert queued(world, "NetworkPolicy") == ["p"]


# --- what a refusal takes away --------------------------------------------------------------------


async def reconcile(world: World, kind: str, name: str = "x") -> object:
    """Work on one key as the engine does."""
    engine = Engine({HOME: {TENANT.uid: world.session}})
    return await engine.reconcile(world.key(kind, "web", name))


def slice_of(world: World, address: str, **fields: Any) -> None:
    """Have a slice of a Service without selector."""
    metadata = {"labels": {SERVICE_NAME: "away"}, **fields}
    endpoints = [{"addresses": [address]}]
    world.tenant_has(
        "EndpointSlice", "x", metadata=metadata, addressType="IPv4", endpoints=endpoints
    )


def live(world: World, kind: str) -> None:
    """Have the super cluster answer for the twin `x` as the cache shows it."""
    entry = world.super_cluster.stores[kind].get(world.session.view.super_namespace("web"), "x")
    assert entry is not None
    world.below.objects[kind, "x"] = entry.decode()


async def test_a_refused_address_takes_what_went_down_before():
    world = World()
    world.ready()
    slice_of(world, "127.0.0.1")
    world.super_has("EndpointSlice", "x", addressType="IPv4", endpoints=[])
    live(world, "EndpointSlice")
    assert differs(world.key("EndpointSlice", "web", "x"), world.session)
    await reconcile(world, "EndpointSlice")
    assert world.below.writes() == [("delete", "EndpointSlice", "x")]
    assert world.told() == ["SyncRejected"]
    await reconcile(world, "EndpointSlice")
    assert world.told() == ["SyncRejected"]


async def test_a_refused_type_takes_the_service_and_its_address_away():
    world = World()
    world.ready()
    with_policy(world, network={"serviceTypes": ["ClusterIP"]})
    spec = {"type": "LoadBalancer", "clusterIP": "10.96.8.9", "ports": [{"port": 80}]}
    status = {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}}
    world.tenant_has("Service", "x", spec=spec, status=status)
    world.super_has("Service", "x", spec=spec, status=status)
    live(world, "Service")
    await reconcile(world, "Service")
    assert world.below.writes() == [("delete", "Service", "x")]
    assert world.told() == ["SyncRejected"]
    patched = [body for body in world.above.bodies if "status" in (body or {})]
    assert [body["status"] for body in patched] == [{"loadBalancer": {"ingress": None}}]


async def test_a_merely_rejected_policy_leaves_the_last_good_one_in_force():
    world = World()
    world.ready()
    world.tenant_has("NetworkPolicy", "x", spec={"podSelector": {"matchLabels": {"k8s.io/a": "b"}}})
    world.super_has("NetworkPolicy", "x", spec=PLAIN)
    await reconcile(world, "NetworkPolicy")
    assert world.below.writes() == []
    assert world.told() == ["SyncRejected"]


async def test_a_slice_that_its_watch_leaves_out_counts_as_gone():
    """Its label was changed while nobody looked: absent from the cache, alive in the tenant."""
    world = World()
    world.ready()
    world.super_has("EndpointSlice", "x", addressType="IPv4", endpoints=[])
    live(world, "EndpointSlice")
    hidden = {MANAGED_BY: SELECTOR_CONTROLLER}
    metadata = {"uid": "x-uid", "resourceVersion": "70", "labels": hidden}
    world.above.objects["EndpointSlice", "x"] = {"metadata": metadata}
    world.above.objects["Namespace", "kube-system"] = {
        "metadata": {"uid": "7b0a5f0e-0000-4000-8000-000000000001"}
    }
    await reconcile(world, "EndpointSlice")
    assert world.below.writes() == [("delete", "EndpointSlice", "x")]


def test_nothing_is_hidden_unless_a_row_says_so():
    for row in registry.KINDS:
        assert row.is_hidden({}) is False
    assert Target._field_defaults["is_hidden"]({"labels": {}}) is False


# --- Services that cannot be changed --------------------------------------------------------------


def service_pair(world: World, own: dict[str, Any], there: dict[str, Any]) -> None:
    """Have a Service and a twin that differ, cached and live."""
    world.ready()
    entry = world.tenant_has("Service", "x", spec=own)
    world.above.objects["Service", "x"] = entry.decode()
    world.super_has("Service", "x", spec=there)
    live(world, "Service")
    world.below.refusals["patch"] = errors.Invalid(
        "no", details={"causes": [{"field": "spec.clusterIPs[0]"}]}
    )


OWN = {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]}
THERE = {**OWN, "clusterIP": "10.96.8.9", "clusterIPs": ["10.96.8.9"]}


async def test_a_twin_that_the_api_cannot_change_is_made_anew():
    world = World()
    service_pair(world, OWN, THERE)
    await reconcile(world, "Service")
    assert [verb for verb, _, _ in world.below.writes()] == ["patch", "delete"]
    assert world.told() == []


async def test_it_is_not_when_the_tenant_has_changed_its_mind():
    world = World()
    service_pair(world, OWN, THERE)
    body = world.above.objects["Service", "x"]
    world.above.objects["Service", "x"] = {**body, "spec": THERE}
    with pytest.raises(Exception, match="in use"):
        await reconcile(world, "Service")
    assert [verb for verb, _, _ in world.below.writes()] == ["patch"]


async def test_it_is_not_when_another_object_has_the_name():
    world = World()
    service_pair(world, OWN, THERE)
    body = world.below.objects["Service", "x"]
    world.below.objects["Service", "x"] = {**body, "metadata": {**body["metadata"], "uid": "n"}}
    with pytest.raises(Exception, match="in use"):
        await reconcile(world, "Service")
    assert [verb for verb, _, _ in world.below.writes()] == ["patch"]


# --- budgets are lowered slowly -------------------------------------------------------------------


@pytest.mark.parametrize(("unready", "seconds"), [(0, LINGER_SECONDS), (1, UNHEALTHY_SECONDS)])
async def test_a_budget_is_raised_at_once_and_lowered_after_a_while(unready, seconds):
    world = World()
    world.ready()
    now = 100.0
    world.session.grace_timers._clock = lambda: now
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 2}
    status = {"desiredHealthy": 2, "observedGeneration": 1}
    world.tenant_has("PodDisruptionBudget", "x", spec=spec, status=status)
    world.super_has("PodDisruptionBudget", "x", spec={"minAvailable": 2, "selector": {}})
    for number in range(2 + unready):
        entry = world.super_has("Pod", f"p{number}")
        body = entry.decode()
        body["metadata"] |= {"labels": {**entry.labels, "app": "web"}, "resourceVersion": "61"}
        ready = {"type": "Ready", "status": "True" if number < 2 else "False"}
        body["status"] = {"conditions": [ready]}
        put(world.super_cluster.stores["Pod"], body)
    waits = await reconcile(world, "PodDisruptionBudget")
    assert isinstance(waits, Again)
    now += seconds - 1
    waits = await reconcile(world, "PodDisruptionBudget")
    assert isinstance(waits, Again)
    assert world.below.writes() == []
    now += 1
    await reconcile(world, "PodDisruptionBudget")
    assert world.below.writes() == [("replace", "PodDisruptionBudget", "x")]
    assert world.below.bodies[-1]["spec"]["minAvailable"] == 1


@pytest.mark.parametrize(
    ("change", "is_queued"),
    [
        ({}, False),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
        ({"metadata": {"labels": {"app": "other"}}}, True),
    ],
)
def test_a_budget_is_looked_at_when_what_it_counts_changes(change, is_queued):
    world = World()
    world.tenant_has("PodDisruptionBudget", "x")
    old = world.super_has("Pod", "p", status={})
    body = old.decode()
    metadata = {**body["metadata"], "resourceVersion": "61", **change.get("metadata", {})}
    new = put(world.super_cluster.stores["Pod"], {**body, **change, "metadata": metadata})
    dependents.super_pod_changed(world.session, "web", old, new)
    assert len(world.session.queue) == is_queued


def test_a_budget_is_looked_at_when_another_one_selects_something_else():
    world = World()
    HomeWiring(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    for name in ("x", "y"):
        world.tenant_has("PodDisruptionBudget", name)
    world.super_has("PodDisruptionBudget", "x", spec={"selector": {}})
    assert len(world.session.queue) == 2
