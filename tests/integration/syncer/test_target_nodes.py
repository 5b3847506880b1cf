"""The one node that stands for a target in a tenant, by two real API servers."""

from __future__ import annotations

import contextlib
from decimal import Decimal

import pytest

from kubeio.errors import NotFound
from tenancy import wellknown
from tenancy.quantities import format_quantity
from tenancy.resources import NODES, VIRTUAL_CLUSTERS
from tests.integration.syncer import target_world as target_worlds
from tests.integration.syncer.target_world import TargetWorld
from tests.integration.syncer.test_assigned_clusters import own_plane, second, target_world, tenant
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tests.support.own_address import needs_address

__all__ = ["own_plane", "second", "target_world", "tenant"]

pytestmark = needs_address


async def test_the_node_that_stands_for_it_reports_what_there_is(target_world: TargetWorld):
    """A0-08."""
    await target_world.granted()
    node = await target_world.world.tenant_client.get(NODES, target_world.node)
    labels = node["metadata"]["labels"]
    assert (labels["type"], labels[wellknown.TARGET]) == ("virtual-kubelet", target_world.name)
    assert (labels["kubernetes.io/role"], labels["node-role.kubernetes.io/agent"]) == ("agent", "")
    ready = await eventually(
        lambda: target_world.world.tenant_client.get(NODES, target_world.node),
        until=lambda found: found["status"].get("capacity"),
    )
    assert (ready["status"]["allocatable"]["cpu"], ready["status"]["allocatable"]["pods"]) == (
        "4",
        "110",
    )
    assert (
        ready["status"]["nodeInfo"]["kubeletVersion"] == await target_world.target_client.version()
    )
    (condition,) = ready["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    status = (
        await target_world.world.super_client.get(
            VIRTUAL_CLUSTERS,
            target_world.world.tenant.name,
            namespace=target_world.world.tenant.namespace,
        )
    )["status"]
    assert target_world.name in {each["name"] for each in status["targets"]}


async def test_the_node_that_stands_for_it_is_written_when_it_changes_and_nothing_else(
    target_world: TargetWorld,
):
    """Writes that change nothing slow the key down, and a taint of before keeps pods off longer."""
    world = target_world.world
    await target_world.granted()
    before = await eventually(
        lambda: world.tenant_client.get(NODES, target_world.node),
        until=lambda found: found["status"].get("capacity"),
    )
    await world.idle()
    mark = world.mark("tenant")
    session = world.running[-1].tenants.sessions[target_world.name][world.tenant.uid]
    for _ in range(3):
        session.work.enqueue(session.build_key("Node", "", target_world.node))
        await world.idle()
    assert [w for w in world.writes("tenant", mark) if w.resource.startswith("nodes")] == []

    long_ago = [{**before["status"]["conditions"][0], "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    aged = {"status": {"conditions": long_ago}}
    await world.tenant_client.patch(NODES, target_world.node, aged, subresource="status")
    await has_room(target_world, pods="120")
    try:
        after = await eventually(
            lambda: world.tenant_client.get(NODES, target_world.node),
            until=lambda found: found["status"]["capacity"]["pods"] == "120",
        )
    finally:
        await has_room(target_world, pods="110")
    (ready,) = after["status"]["conditions"]
    assert ready["lastTransitionTime"] == "2026-01-01T00:00:00Z"


async def test_a_zone_that_is_no_longer_all_of_it_is_taken_off_its_node(
    target_world: TargetWorld,
):
    """Otherwise pods that ask for it would run in another one."""
    zone = "topology.kubernetes.io/zone"
    world, other = target_world.world, fresh_name("n")
    await target_world.target_client.patch(
        NODES, target_worlds.NODE, {"metadata": {"labels": {zone: "z1"}}}
    )
    try:
        await target_world.granted({"name": target_world.name})
        await target_world.wait_node_label(zone, "z1")
        own = {"metadata": {"labels": {"disk": "fast"}}}
        await world.tenant_client.patch(NODES, target_world.node, own)
        await target_worlds.has_node(target_world.target_client, other)
        await target_world.wait_node_label(zone, None)
        assert (await world.tenant_client.get(NODES, target_world.node))["metadata"]["labels"][
            "disk"
        ] == "fast"
    finally:
        await target_world.target_client.patch(
            NODES, target_worlds.NODE, {"metadata": {"labels": {zone: None}}}
        )
        with contextlib.suppress(NotFound):
            await target_world.target_client.delete(NODES, other)


async def has_room(target_world: TargetWorld, **room: str) -> None:
    """Have the node there say what it has."""
    await target_world.target_client.patch(
        NODES, target_worlds.NODE, {"status": {"capacity": room}}, subresource="status"
    )


@pytest.mark.parametrize(
    "number", ["0", "0.25", "5.5", "4", "1000", "1500", "8000000000", "8589934592", "1e18", "1e21"]
)
async def test_amounts_are_written_as_an_api_server_writes_them(
    target_world: TargetWorld, number: str
):
    """A value that the server changes would be written again and again."""
    text = format_quantity(Decimal(number))
    name = fresh_name("n")
    made = await target_world.target_client.create(NODES, {"metadata": {"name": name}})
    status = {"status": {"capacity": {"memory": text}}}
    found = await target_world.target_client.patch(NODES, name, status, subresource="status")
    await target_world.target_client.delete(NODES, name, uid=made["metadata"]["uid"])
    assert found["status"]["capacity"]["memory"] == text
