"""Every change of a Service's type arrives on real API servers, by as few writes as they allow."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeio import Object
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.resources import SERVICES
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SyncerWorld
from tests.support.controlplane import AuditMark
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough

PORTS = [{"port": 80, "name": "http"}]
NO_ADDRESS = {"clusterIP": None, "clusterIPs": None}
SHAPES: dict[str, Object] = {
    "ClusterIP": {"type": "ClusterIP", "ports": PORTS},
    "headless": {"type": "ClusterIP", "clusterIP": "None", "ports": PORTS},
    "NodePort": {"type": "NodePort", "ports": PORTS},
    "LoadBalancer": {"type": "LoadBalancer", "ports": PORTS},
    "ExternalName": {"type": "ExternalName", "externalName": "example.org", "ports": PORTS},
}
LEGAL = [
    (one, two)
    for one in SHAPES
    for two in SHAPES
    if one != two and ("headless" not in (one, two) or "ExternalName" in (one, two))
]
"""A headless Service gets an address, or loses it, only by way of an external name."""


def set_policy(world: SyncerWorld, **parts: Any) -> None:
    """Have the tenant under another policy from now on."""
    spec = msgspec.convert({**msgspec.to_builtins(BASELINE_POLICY), **parts}, TenantPolicySpec)
    # In place, because the parts of the session hold the view.
    object.__setattr__(world.session.view, "policy", spec)


def become(shape: str) -> Object:
    """Return the merge patch by which a tenant changes a Service into a shape."""
    wanted = {"externalName": None, **SHAPES[shape]}
    if shape == "ExternalName":
        return {"spec": {**wanted, **NO_ADDRESS}}
    return {"spec": wanted}


async def in_step(world: SyncerWorld, space: str) -> tuple[Object, Object]:
    """Wait until a Service and its twin agree in everything that both have. Return both."""
    fields = ("type", "clusterIP", "externalName", "selector", "loadBalancerClass")

    async def both() -> tuple[Object, Object]:
        own = await world.tenant_client.get(SERVICES, "web", namespace=space)
        return own, await world.twin(SERVICES, space, "web")

    def agree(pair: tuple[Object, Object]) -> bool:
        own, twin = (each["spec"] for each in pair)
        ports = [[port.get("nodePort") for port in each.get("ports") or ()] for each in (own, twin)]
        super_spec = {**twin, "externalName": twin.get("externalName", "").rstrip(".") or None}
        return all(own.get(f) == super_spec.get(f) for f in fields) and ports[0] == ports[1]

    await eventually(both, until=agree)
    await world.idle()
    return await both()


async def make(world: SyncerWorld, shape: str, space: str) -> None:
    """Create a Service of a shape."""
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, **SHAPES[shape]}}
    await world.tenant_client.create(SERVICES, body, namespace=space)


def written(world: SyncerWorld, side: str, since: AuditMark) -> list[tuple[str, int]]:
    """Return verb and code of the syncer's writes about Services."""
    found = world.writes(side, since)
    return [(write.verb, write.code) for write in found if write.resource.startswith("services")]


@pytest.mark.parametrize(("before", "after"), LEGAL)
async def test_a_change_that_the_api_allows_is_one_patch(
    synced: SyncerWorld, before: str, after: str
):
    space = await synced.namespace()
    await make(synced, before, space)
    _, old = await in_step(synced, space)
    super_mark, tenant_mark = synced.mark("super"), synced.mark("tenant")
    await synced.tenant_client.patch(SERVICES, "web", become(after), namespace=space)
    own, new = await in_step(synced, space)
    assert new["spec"]["type"] == SHAPES[after]["type"]
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert written(synced, "super", super_mark) == [("patch", 200)]
    assert written(synced, "tenant", tenant_mark) == []
    has_ports = after in ("NodePort", "LoadBalancer")
    assert bool(own["spec"]["ports"][0].get("nodePort")) == has_ports


async def change_unseen(world: SyncerWorld, space: str, *patches: Object) -> None:
    """Have a tenant change a Service in steps that no one follows."""
    for patch in patches:
        await world.tenant_client.patch(SERVICES, "web", patch, namespace=space)


@pytest.mark.parametrize(("before", "after"), [("ClusterIP", "headless"), ("headless", "NodePort")])
async def test_an_address_for_life_that_changed_unseen_means_a_new_twin(
    world: SyncerWorld, before: str, after: str
):
    async with world.syncer():
        space = await world.namespace()
        await make(world, before, space)
        _, old = await in_step(world, space)
    await change_unseen(world, space, become("ExternalName"), become(after))
    since = world.mark("super")
    async with world.syncer():
        _, new = await in_step(world, space)
        await world.idle()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    found = [write for write in written(world, "super", since) if write[0] != "create"]
    assert found == [("patch", 422), ("delete", 200)]


async def test_another_load_balancer_class_means_a_new_twin(synced: SyncerWorld):
    classes = {"loadBalancerClasses": ["example.com/a", "example.com/b"]}
    set_policy(synced, network=classes)
    space = await synced.namespace()
    spec = {**SHAPES["LoadBalancer"], "loadBalancerClass": "example.com/a"}
    await synced.tenant_client.create(
        SERVICES, {"metadata": {"name": "web"}, "spec": spec}, namespace=space
    )
    _, old = await in_step(synced, space)
    session = synced.session
    session.work.is_ready = False  # the two changes are seen as one
    other = {"spec": {**SHAPES["LoadBalancer"], "loadBalancerClass": "example.com/b"}}
    await change_unseen(synced, space, become("ClusterIP"), other)
    store = session.stores["Service"]
    await eventually(
        lambda: store.get(space, "web"), until=lambda entry: b"example.com/b" in entry.body
    )
    session.work.is_ready = True
    session.work.enqueue(session.build_key("Service", space, "web"))
    _, new = await in_step(synced, space)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["spec"]["loadBalancerClass"] == "example.com/b"


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer", "ExternalName"])
async def test_a_refused_type_has_nothing_in_the_super_cluster_and_comes_back(
    synced: SyncerWorld, kind: str
):
    set_policy(synced, network={"serviceTypes": ["ClusterIP"]})
    space = await synced.namespace()
    await make(synced, "ClusterIP", space)
    await in_step(synced, space)
    await synced.tenant_client.patch(SERVICES, "web", become(kind), namespace=space)
    await gone(lambda: synced.twin(SERVICES, space, "web"))
    await synced.idle()
    (told,) = await synced.events(space)
    assert told["reason"] == "SyncRejected"
    assert "service-type" in told["message"]
    assert "spec.type" in told["message"]
    since = synced.mark("super")
    await synced.tenant_client.patch(
        SERVICES, "web", {"metadata": {"labels": {"still": "refused"}}}, namespace=space
    )
    await synced.idle()
    assert written(synced, "super", since) == []
    await synced.tenant_client.patch(SERVICES, "web", become("ClusterIP"), namespace=space)
    own, twin = await in_step(synced, space)
    assert own["spec"]["clusterIP"] == twin["spec"]["clusterIP"]
    assert len(await synced.events(space)) == 1


async def test_a_node_port_that_had_to_be_replaced_is_reported_once(synced: SyncerWorld):
    space = await synced.namespace()
    await make(synced, "NodePort", space)
    own, _ = await in_step(synced, space)
    number = 30083  # the lowest are given to no one who does not ask
    squat = {"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]}
    await synced.super_client.create(
        SERVICES, {"metadata": {"name": f"squat-{number}"}, "spec": squat}, namespace="default"
    )
    ports = [
        {"port": 80, "name": "a", "nodePort": number},
        {"port": 81, "name": "b", "nodePort": own["spec"]["ports"][0]["nodePort"]},
    ]
    await synced.tenant_client.delete(SERVICES, "web", namespace=space)
    await gone(lambda: synced.twin(SERVICES, space, "web"))
    wanted = {"type": "NodePort", "selector": {"app": "web"}, "ports": ports}
    await synced.tenant_client.create(
        SERVICES, {"metadata": {"name": "web"}, "spec": wanted}, namespace=space
    )
    again, _ = await in_step(synced, space)
    given = [port["nodePort"] for port in again["spec"]["ports"]]
    assert given[0] != number
    assert given[1] == ports[1]["nodePort"]
    await eventually(lambda: synced.events(space))
    await synced.idle()
    (told,) = await synced.events(space)
    assert told["reason"] == "NodePortReplaced"
    assert f"spec.ports[0].nodePort {number}" in told["message"]
