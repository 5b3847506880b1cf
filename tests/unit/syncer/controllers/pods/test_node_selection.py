"""A twin that waits for a node is created again when its tenant says otherwise."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest

from kubeio.controller.worker import NotReadyYet
from syncer.handlers import resync
from syncer.safety.hot_loop_guard import REPEATS_TO_PARK
from syncer.safety.parked_differences import SYNC_PARKED
from syncer.safety.store_guard import StoreProblem
from tenancy import wellknown
from tests.support.syncer.nodes import (
    engaged,
    made,
    node_with,
    pending,
    unschedulable,
    work,
)
from tests.support.syncer.sessions import CONTAINERS, SessionWorld, put


async def twin_waits(world: SessionWorld, **metadata: Any) -> None:
    world.super_has("Pod", "p", spec={"containers": CONTAINERS}, status={}, metadata=metadata)
    await work(world)


def deleted(world: SessionWorld) -> bool:
    return ("delete", "Pod", "p") in world.below.writes()


async def test_a_twin_that_waits_is_recreated_when_its_tenant_differs():
    world = engaged(SessionWorld())
    node_with(world)
    pending(world, nodeSelector={"mine": "1"})
    await twin_waits(world)
    assert not deleted(world)
    node_with(world, version=901, mine="1")
    world.below.catch_up("Pod")
    await work(world)
    assert deleted(world)


async def as_made(world: SessionWorld) -> dict[str, Any]:
    """Have a pod made, and show its twin as it was sent."""
    await work(world)
    body = copy.deepcopy(made(world))
    status = {"phase": "Pending"}
    metadata = {**body["metadata"], "uid": "p-below", "resourceVersion": "60"}
    put(world.super_cluster.stores["Pod"], {**body, "metadata": metadata, "status": status})
    return body


async def test_a_twin_as_it_would_be_made_now_stays_as_it_is():
    world = engaged(SessionWorld())
    node_with(world, mine="1")
    pending(world, nodeSelector={"mine": "1"})
    assert wellknown.NODE_CHOICE in (await as_made(world))["metadata"]["annotations"]
    await work(world)
    assert [verb for verb, *_ in world.below.writes("Pod")] == ["create"]
    node_with(world, version=901)
    await work(world)
    assert deleted(world)


@pytest.mark.parametrize(
    ("spec", "status"),
    [({"nodeName": "n"}, {"phase": "Running"}), ({}, {"phase": "Failed"})],
)
async def test_a_twin_that_runs_or_has_ended_is_never_recreated(spec, status):
    world = engaged(SessionWorld())
    node_with(world, spec={"unschedulable": True})
    pending(world)
    world.super_has("Pod", "p", spec={"containers": CONTAINERS, **spec}, status=status)
    with contextlib.suppress(NotReadyYet):  # for the node to be shown whole
        await work(world)
    assert not deleted(world)


async def test_a_twin_is_deleted_in_the_version_that_was_looked_at():
    world = engaged(SessionWorld())
    node_with(world, spec={"unschedulable": True})
    pending(world)
    asked: dict[str, Any] = {}

    async def delete(_: Any, __: str, **options: Any) -> dict[str, Any]:
        asked.update(options)
        return {"kind": "Status"}

    world.below.delete = delete  # type: ignore[method-assign]
    await twin_waits(world)
    assert (asked["uid"], asked["resource_version"]) == ("p-below", "60")


async def test_a_twin_that_comes_back_as_it_was_is_left_in_the_end():
    """A webhook of the super cluster that takes the record off must not spin."""
    world = engaged(SessionWorld())
    node_with(world, spec={"unschedulable": True})
    pending(world)
    for number in range(REPEATS_TO_PARK + 3):
        await twin_waits(world, resourceVersion=str(100 + number))
    deletes = [verb for verb, kind, _ in world.below.writes("Pod") if verb == "delete"]
    assert len(deletes) == REPEATS_TO_PARK
    assert SYNC_PARKED in world.told()


async def test_the_resync_finds_a_twin_that_would_be_made_otherwise():
    world = engaged(SessionWorld())
    node_with(world)
    pending(world)
    await as_made(world)
    key = world.key("Pod", "web", "p")
    world.session.expectations.clear()
    assert not resync.has_work(key, world.session)
    node_with(world, version=901, spec={"unschedulable": True})
    assert resync.has_work(key, world.session)


NO_PORTS = "0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."


async def test_a_pod_that_named_a_node_which_cannot_have_it_has_failed():
    world = engaged(SessionWorld())
    node_with(world)
    pending(world, nodeName="n")
    status = unschedulable(NO_PORTS)
    world.super_has("Pod", "p", spec={"containers": CONTAINERS}, status=status)
    await work(world)
    assert deleted(world)
    (said,) = [body["status"] for body in world.above.bodies if "status" in body]
    assert (said["phase"], said["reason"]) == ("Failed", "NodePorts")
    assert world.below.writes("Pod") == [("delete", "Pod", "p")]
    # Its twin is gone, and there is no other one.
    world.tenant_has(
        "Pod",
        "p",
        metadata={"resourceVersion": "5000"},
        spec={"containers": CONTAINERS, "nodeName": "n"},
        status=said,
    )
    world.super_cluster.stores["Pod"].discard(
        world.super_cluster.stores["Pod"].list()[0], live=True
    )
    await work(world)
    assert world.below.writes("Pod") == [("delete", "Pod", "p")]


async def test_a_pod_that_named_no_node_waits_for_one():
    world = engaged(SessionWorld())
    pending(world)
    status = unschedulable(NO_PORTS)
    world.super_has("Pod", "p", spec={"containers": CONTAINERS}, status=status)
    await work(world)
    assert not deleted(world)
    (said,) = [body["status"] for body in world.above.bodies if "status" in body]
    assert said["conditions"][0]["reason"] == "Unschedulable"


async def test_while_deletes_are_held_no_twin_is_replaced_or_ended():
    world = engaged(SessionWorld())
    world.session.store_guard.problem = StoreProblem("another store")
    node_with(world, spec={"unschedulable": True})
    pending(world)
    pending(world, "named", nodeName="n")
    status = unschedulable(NO_PORTS)
    for name in ("p", "named"):
        world.super_has("Pod", name, spec={"containers": CONTAINERS}, status=status)
        await work(world, name)
    assert not [verb for verb, *_ in world.below.writes() if verb == "delete"]
    phases = [body["status"].get("phase") for body in world.above.bodies if "status" in body]
    assert "Failed" not in phases


async def test_a_tenant_that_refuses_the_end_of_its_pod_has_it_made_a_few_times_only():
    """Otherwise it would be created and deleted again and again."""
    world = engaged(SessionWorld())
    node_with(world)
    pending(world, nodeName="n")
    status = unschedulable(NO_PORTS)
    for number in range(12):
        uid, version = f"uid-{number}", str(6000 + number)
        metadata = {"uid": uid, "resourceVersion": version}
        world.super_has(
            "Pod", "p", metadata=metadata, spec={"containers": CONTAINERS}, status=status
        )
        with contextlib.suppress(NotReadyYet):  # the cache shows no write
            await work(world)
    assert 0 < len(world.below.writes("Pod")) < 12
