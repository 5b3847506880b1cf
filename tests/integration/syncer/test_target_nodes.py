"""The one node that stands for a target in a tenant, by two real API servers."""

from __future__ import annotations

import contextlib
from decimal import Decimal

import pytest

from kubeio.errors import NotFound
from tenancy import wellknown
from tenancy.quantities import format_quantity
from tenancy.resources import NODES, VIRTUAL_CLUSTERS
from tests.integration.syncer import far as fars
from tests.integration.syncer.far import TargetWorld
from tests.integration.syncer.test_seats import far, own_plane, second, tenant
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tests.support.own_address import needs_address

__all__ = ["far", "own_plane", "second", "tenant"]

pytestmark = needs_address


async def test_the_node_that_stands_for_it_says_what_there_is(far: TargetWorld):
    """A0-08."""
    await far.granted()
    node = await far.world.tenant_client.get(NODES, far.node)
    labels = node["metadata"]["labels"]
    assert (labels["type"], labels[wellknown.TARGET]) == ("virtual-kubelet", far.name)
    assert (labels["kubernetes.io/role"], labels["node-role.kubernetes.io/agent"]) == ("agent", "")
    ready = await eventually(
        lambda: far.world.tenant_client.get(NODES, far.node),
        until=lambda found: found["status"].get("capacity"),
    )
    assert (ready["status"]["allocatable"]["cpu"], ready["status"]["allocatable"]["pods"]) == (
        "4",
        "110",
    )
    assert ready["status"]["nodeInfo"]["kubeletVersion"] == await far.there.version()
    (condition,) = ready["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    status = (
        await far.world.super_client.get(
            VIRTUAL_CLUSTERS, far.world.tenant.name, namespace=far.world.tenant.namespace
        )
    )["status"]
    assert far.name in {each["name"] for each in status["targets"]}


async def test_the_node_that_stands_for_it_is_written_when_it_changes_and_no_more(far: TargetWorld):
    """Writes that change nothing slow the key down, and a taint of before keeps pods off longer."""
    world = far.world
    await far.granted()
    before = await eventually(
        lambda: world.tenant_client.get(NODES, far.node),
        until=lambda found: found["status"].get("capacity"),
    )
    await world.idle()
    mark = world.mark("tenant")
    session = world.running[-1].tenants.sessions[far.name][world.tenant.uid]
    for _ in range(3):
        session.enqueue(session.build_key("Node", "", far.node))
        await world.idle()
    assert [w for w in world.writes("tenant", mark) if w.resource.startswith("nodes")] == []

    long_ago = [{**before["status"]["conditions"][0], "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    aged = {"status": {"conditions": long_ago}}
    await world.tenant_client.patch(NODES, far.node, aged, subresource="status")
    await has_room(far, pods="120")
    try:
        after = await eventually(
            lambda: world.tenant_client.get(NODES, far.node),
            until=lambda found: found["status"]["capacity"]["pods"] == "120",
        )
    finally:
        await has_room(far, pods="110")
    (ready,) = after["status"]["conditions"]
    assert ready["lastTransitionTime"] == "2026-01-01T00:00:00Z"


async def test_a_zone_that_is_not_all_of_it_any_more_is_taken_off_its_node(far: TargetWorld):
    """Or pods that ask for it would run in another one."""
    zone = "topology.kubernetes.io/zone"
    world, other = far.world, fresh_name("n")
    await far.there.patch(NODES, fars.NODE, {"metadata": {"labels": {zone: "z1"}}})
    try:
        await far.granted({"name": far.name})
        await far.above_label(zone, "z1")
        own = {"metadata": {"labels": {"disk": "fast"}}}
        await world.tenant_client.patch(NODES, far.node, own)
        await fars.has_node(far.there, other)
        await far.above_label(zone, None)
        assert (await world.tenant_client.get(NODES, far.node))["metadata"]["labels"][
            "disk"
        ] == "fast"
    finally:
        await far.there.patch(NODES, fars.NODE, {"metadata": {"labels": {zone: None}}})
        with contextlib.suppress(NotFound):
            await far.there.delete(NODES, other)


async def has_room(far: TargetWorld, **room: str) -> None:
    """Have the node there say what it has."""
    await far.there.patch(NODES, fars.NODE, {"status": {"capacity": room}}, subresource="status")


@pytest.mark.parametrize(
    "number", ["0", "0.25", "5.5", "4", "1000", "1500", "8000000000", "8589934592", "1e18", "1e21"]
)
async def test_amounts_are_written_as_an_api_server_writes_them(far: TargetWorld, number: str):
    """What comes back as something else would be written again and again."""
    text = format_quantity(Decimal(number))
    name = fresh_name("n")
    made = await far.there.create(NODES, {"metadata": {"name": name}})
    status = {"status": {"capacity": {"memory": text}}}
    found = await far.there.patch(NODES, name, status, subresource="status")
    await far.there.delete(NODES, name, uid=made["metadata"]["uid"])
    assert found["status"]["capacity"]["memory"] == text
