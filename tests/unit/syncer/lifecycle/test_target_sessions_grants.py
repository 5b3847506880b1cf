"""A grant of a target: what counts before it is written down, and when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio.controller.worker import Done
from syncer.controllers.nodes import target_node_reconciler
from syncer.lifecycle import target_sessions as outposts_module
from tenancy import wellknown
from tests.support.syncer.idle import idle
from tests.support.syncer.sessions import TENANT, put, use_tenant_client
from tests.support.syncer.target_sessions import TargetWorldOfTenant, pod_of, running


@pytest.fixture
async def target_world() -> AsyncIterator[TargetWorldOfTenant]:
    async with running() as made:
        yield made


def held_writes(target_world: TargetWorldOfTenant) -> asyncio.Event:
    """Have every write of the status wait until the event is set."""
    going, apply = asyncio.Event(), target_world.world.below.apply

    async def slow(*args: Any, **options: Any) -> Any:
        await going.wait()
        return await apply(*args, **options)

    target_world.world.below.apply = slow  # type: ignore[method-assign]
    return going


async def test_a_first_grant_counts_before_it_is_written_down(target_world: TargetWorldOfTenant):
    going = held_writes(target_world)
    await target_world.declare("c2")
    grants = target_world.world.link.grants
    assert target_world.said() == []
    assert (grants.is_offered("c2"), grants.is_offered("home")) == (True, False)
    going.set()


async def test_a_grant_that_is_withdrawn_ends_before_that_is_written_down(
    target_world: TargetWorldOfTenant,
):
    target_world.ready()
    await target_world.declare("c2", named=("c2",))
    going = held_writes(target_world)
    await target_world.declare("home", named=("c2",))
    assert target_world.said() == []
    assert not target_world.world.link.grants.is_offered("c2")
    target_world.world.link.assignments.assign(
        pod_of(target_world), "c2"
    )  # as something came to light there
    going.set()
    await idle()
    assert target_world.said() == [[], ["c2"]]
    assert target_world.there == ["c2", "home"]


async def test_who_waits_is_looked_at_when_the_grant_changes(target_world: TargetWorldOfTenant):
    target_world.ready()
    await target_world.declare("home", "c2", named=("c2",))
    pod = pod_of(target_world, annotations={wellknown.ASSIGNED_CLUSTER: "c2/0"})
    target_world.world.link.assignments.assign(pod, "c2")
    queue, key = target_world.world.link.queue, target_world.world.key("Placement", "web", "p")

    def taken() -> set[Any]:
        found = set(iter(queue.take, None))
        for each in found:
            queue.done(each)
        return found

    taken()
    target_world.target_sessions.wake()
    await idle()
    assert key not in taken(), "nothing is another"
    await target_world.declare("home", named=("c2",))
    found = taken()
    assert key in found
    assert target_world.sessions["c2"][TENANT.uid].build_key("Pod", "web", "p") in found


async def test_the_node_that_stands_for_a_target_goes_before_the_session_does(
    target_world: TargetWorldOfTenant, monkeypatch: Any
):
    monkeypatch.setattr(outposts_module, "RETRY_SECONDS", 0.01)
    target_world.ready()
    await target_world.declare("home", "c2", named=("c2",))
    metadata = {"name": "target-c2", "uid": "n", "resourceVersion": "5"}
    marked = {**metadata, "annotations": {wellknown.SUPER_CLUSTER: "r1", wellknown.UID: "r1"}}
    shown = put(target_world.world.link.stores["Node"], {"metadata": marked})
    queue = target_world.world.link.queue
    list(iter(queue.take, None))
    await target_world.declare("home", named=("c2",))
    session = target_world.sessions["c2"][TENANT.uid]
    key = session.build_key("Node", "", "target-c2")
    assert target_world.there == ["c2", "home"]
    use_tenant_client(session, target_world.world.above)
    assert await target_node_reconciler.reconcile_target_node(key, session) == Done()
    assert target_world.world.above.writes() == [("delete", "Node", "target-c2")]
    target_world.world.link.stores["Node"].discard(shown, live=True)
    await asyncio.sleep(0.05)
    assert target_world.there == ["home"], "without an event"
    assert target_world.said()[-1] == []


async def test_a_node_of_the_tenants_own_keeps_no_target(target_world: TargetWorldOfTenant):
    target_world.ready()
    await target_world.declare("home", "c2", named=("c2",))
    own = {"metadata": {"name": "target-c2", "uid": "n", "resourceVersion": "5"}}
    put(target_world.world.link.stores["Node"], own)
    await target_world.declare("home", named=("c2",))
    assert target_world.there == ["home"]


async def test_a_target_that_was_never_reached_delays_no_pod_and_is_let_go(
    target_world: TargetWorldOfTenant,
):
    await target_world.declare("home", "c2")
    assert target_world.said() == [["c2"]]
    await target_world.declare("home", "c2", named=("c2",))
    assert target_world.world.link.grants.find_unchecked() == "", (
        "there was nothing before, and is nothing yet"
    )
    await target_world.declare("home", named=("c2",))
    assert target_world.said()[-1] == []


async def test_one_that_was_reached_is_not_taken_for_empty_when_it_is_left(
    target_world: TargetWorldOfTenant,
):
    target_world.ready()
    await target_world.declare("home", "c2")
    del target_world.targets.targets["c2"]
    target_world.targets._notify()
    await idle()
    await target_world.declare("home", named=("c2",))
    assert target_world.world.link.grants.find_unchecked() == "c2"
    assert target_world.said()[-1] == ["c2"]
