"""Twins of objects that a rule refuses: deleted, or left as they are."""

from __future__ import annotations

from typing import Any

from syncer.handlers.resync import has_work
from syncer.rules import registry
from syncer.rules.network.endpoint_slices import MANAGED_BY, SELECTOR_CONTROLLER, SERVICE_NAME
from syncer.safety.proven_deletes import DeleteTarget
from tests.support.syncer.reconciles import live, reconcile
from tests.support.syncer.sessions import SessionWorld
from tests.support.syncer.tenant_views import policy

PLAIN = {"podSelector": {}}


def with_policy(world: SessionWorld, **spec: Any) -> None:
    """Have the session's tenant under another policy."""
    object.__setattr__(world.session.view, "policy", policy(**spec))


def slice_of(world: SessionWorld, address: str, **fields: Any) -> None:
    """Have a slice of a Service without selector."""
    metadata = {"labels": {SERVICE_NAME: "away"}, **fields}
    endpoints = [{"addresses": [address]}]
    world.tenant_has(
        "EndpointSlice", "x", metadata=metadata, addressType="IPv4", endpoints=endpoints
    )


async def test_a_refused_address_takes_what_went_down_before():
    world = SessionWorld()
    world.ready()
    slice_of(world, "127.0.0.1")
    world.super_has("EndpointSlice", "x", addressType="IPv4", endpoints=[])
    live(world, "EndpointSlice")
    assert has_work(world.key("EndpointSlice", "web", "x"), world.session)
    await reconcile(world, "EndpointSlice")
    assert world.below.writes() == [("delete", "EndpointSlice", "x")]
    assert world.told() == ["SyncRejected"]
    await reconcile(world, "EndpointSlice")
    assert world.told() == ["SyncRejected"]


async def test_a_refused_type_takes_the_service_and_its_address_away():
    world = SessionWorld()
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
    world = SessionWorld()
    world.ready()
    world.tenant_has("NetworkPolicy", "x", spec={"podSelector": {"matchLabels": ["k8s.io/a"]}})
    world.super_has("NetworkPolicy", "x", spec=PLAIN)
    await reconcile(world, "NetworkPolicy")
    assert world.below.writes() == []
    assert world.told() == ["SyncRejected"]


async def test_a_slice_that_its_watch_leaves_out_counts_as_gone():
    """Its label was changed while no one looked: absent from the cache, alive in the tenant."""
    world = SessionWorld()
    world.ready()
    world.super_has("EndpointSlice", "x", addressType="IPv4", endpoints=[])
    live(world, "EndpointSlice")
    hidden = {MANAGED_BY: SELECTOR_CONTROLLER}
    metadata = {"uid": "x-uid", "resourceVersion": "70", "labels": hidden}
    world.above.has("EndpointSlice", "x", {"metadata": metadata})
    world.above.has(
        "Namespace", "kube-system", {"metadata": {"uid": "7b0a5f0e-0000-4000-8000-000000000001"}}
    )
    await reconcile(world, "EndpointSlice")
    assert world.below.writes() == [("delete", "EndpointSlice", "x")]


def test_nothing_is_hidden_unless_a_row_specifies_so():
    for row in registry.KINDS:
        assert row.is_hidden({}) is False
    assert DeleteTarget._field_defaults["is_hidden"]({"labels": {}}) is False
