"""Reconciler of Services: addresses, refused changes, and twins that must be recreated."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from syncer.controllers import rejection_events
from syncer.controllers.network import services
from syncer.rules import registry
from tests.support.syncer.reconciles import live, reconcile
from tests.support.syncer.sessions import SessionWorld

# --- Services that cannot be changed --------------------------------------------------------------


def service_pair(world: SessionWorld, own: dict[str, Any], there: dict[str, Any]) -> None:
    """Have a Service and a twin that differ, cached and live."""
    world.ready()
    entry = world.tenant_has("Service", "x", spec=own)
    world.above.has("Service", "x", entry.decode())
    world.super_has("Service", "x", spec=there)
    live(world, "Service")
    world.below.refusals["patch"] = errors.Invalid(
        "no", details={"causes": [{"field": "spec.clusterIPs[0]"}]}
    )


OWN = {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]}


THERE = {**OWN, "clusterIP": "10.96.8.9", "clusterIPs": ["10.96.8.9"]}


async def test_a_twin_that_the_api_cannot_change_is_recreated():
    world = SessionWorld()
    service_pair(world, OWN, THERE)
    await reconcile(world, "Service")
    assert [verb for verb, _, _ in world.below.writes()] == ["patch", "delete"]
    assert world.told() == []


async def test_it_is_not_when_the_tenant_has_changed_its_mind():
    world = SessionWorld()
    service_pair(world, OWN, THERE)
    body = world.above.object("Service", "x")
    world.above.has("Service", "x", {**body, "spec": THERE})
    with pytest.raises(Exception, match="in use"):
        await reconcile(world, "Service")
    assert [verb for verb, _, _ in world.below.writes()] == ["patch"]


async def test_it_is_not_when_another_object_has_the_name():
    world = SessionWorld()
    service_pair(world, OWN, THERE)
    body = world.below.object("Service", "x")
    world.below.has("Service", "x", {**body, "metadata": {**body["metadata"], "uid": "n"}})
    with pytest.raises(Exception, match="in use"):
        await reconcile(world, "Service")
    assert [verb for verb, _, _ in world.below.writes()] == ["patch"]


@pytest.mark.parametrize("spec", [{"ports": [7]}, {"ports": {"a": 1}}, {"clusterIP": {}}, []])
async def test_a_service_without_the_shape_of_one_is_refused_and_stops_no_worker(spec):
    world = SessionWorld()
    world.ready()
    world.tenant_has("Service", "s", spec=spec)
    key = world.key("Service", "web", "s")
    await services.reconcile_service(registry.KINDS_BY_NAME["Service"], key, world.session)
    assert not world.below.writes()
    assert world.told() == ["SyncRejected"]


async def test_a_refused_change_of_a_service_is_reported_and_its_address_goes_up_all_the_same():
    world = SessionWorld()
    world.ready()
    given = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    port = {"port": 80, "protocol": "TCP", "targetPort": 80}
    spec = {"clusterIP": "10.96.8.9", "ports": [port], "type": "LoadBalancer"}
    world.tenant_has("Service", "s", spec={**spec, "selector": {"a": "new"}}, status={})
    world.super_has("Service", "s", spec=spec, status=given)
    world.below.refusals["patch"] = errors.Forbidden("where: admission says no (403)")
    key = world.key("Service", "web", "s")
    with pytest.raises(errors.Forbidden):
        await services.reconcile_service(registry.KINDS_BY_NAME["Service"], key, world.session)
    assert ("patch", "Service", "s") in world.above.writes()
    assert world.told() == [rejection_events.SYNC_FAILED]


@pytest.mark.parametrize(
    ("spec", "goes_down"),
    [
        ({"clusterIP": "10.96.8.9", "clusterIPs": ["10.96.8.9"]}, True),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, True),
        ({"type": "ExternalName", "externalName": "x.example"}, True),
        ({"type": "ClusterIP"}, False),
        ({"clusterIP": "10.96.8.9", "clusterIPs": ["10.96.8.9", "10.96.0.1"]}, False),
        ({"clusterIP": "10.96.0.1"}, False),
    ],
)
async def test_a_service_goes_down_with_addresses_of_the_slice_only(spec, goes_down):
    world = SessionWorld()
    world.ready()
    world.tenant_has("Service", "s", spec=spec, status={})
    key = world.key("Service", "web", "s")
    await services.reconcile_service(registry.KINDS_BY_NAME["Service"], key, world.session)
    assert bool(world.below.writes("Service")) == goes_down


# --- annotations that are not synced --------------------------------------------------------------


INTERNAL = {"service.beta.kubernetes.io/aws-load-balancer-internal": "true"}


def annotated(world: SessionWorld, kind: str, version: str) -> None:
    """Have a Service with an annotation that no policy lists, in a type and a version."""
    spec = {**THERE, "type": kind}
    metadata = {"annotations": INTERNAL, "resourceVersion": version}
    world.tenant_has("Service", "x", metadata=metadata, spec=spec)


def told(world: SessionWorld) -> list[tuple[str, str]]:
    """Return reason and message of each Event."""
    bodies = [body for body in world.above.bodies if body and body.get("reason")]
    return [(body["reason"], body["message"]) for body in bodies]


async def test_an_internal_service_is_synced_without_it_and_a_load_balancer_waits():
    """From ClusterIP to LoadBalancer and back: the twin stays internal, with one Event for each."""
    world = SessionWorld()
    world.ready()
    annotated(world, "ClusterIP", "50")
    await reconcile(world, "Service")
    (made,) = [body for body in world.below.bodies if body and body.get("kind") == "Service"]
    assert not INTERNAL.keys() & made["metadata"]["annotations"].keys()
    world = SessionWorld()
    world.ready()
    there = {key: made["metadata"][key] for key in ("annotations", "labels")}
    world.super_has("Service", "x", metadata=there, spec=made["spec"])
    for kind, version in (("ClusterIP", "51"), ("LoadBalancer", "52"), ("ClusterIP", "53")):
        annotated(world, kind, version)
        await reconcile(world, "Service")
    assert world.below.writes() == []
    (left_out, held) = told(world)
    assert (left_out[0], held[0]) == (rejection_events.ADJUSTED, "SyncRejected")
    for _, message in (left_out, held):
        assert message.startswith(f"metadata.annotations[{next(iter(INTERNAL))}] ")
        assert "spec.metadata.annotations.Service of the TenantPolicy" in message


async def test_a_load_balancer_that_becomes_internal_is_followed():
    world = SessionWorld()
    world.ready()
    annotated(world, "LoadBalancer", "50")
    world.super_has("Service", "x", spec={**THERE, "type": "LoadBalancer"})
    await reconcile(world, "Service")
    assert world.below.writes() == []
    annotated(world, "ClusterIP", "51")
    await reconcile(world, "Service")
    assert [verb for verb, _, _ in world.below.writes()] == ["patch"]
    assert world.told() == ["SyncRejected", rejection_events.ADJUSTED]
