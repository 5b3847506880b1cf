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
async def yard() -> AsyncIterator[TargetWorldOfTenant]:
    async with running() as made:
        yield made


def held_writes(yard: TargetWorldOfTenant) -> asyncio.Event:
    """Have every write of the status wait until the event is set."""
    going, apply = asyncio.Event(), yard.world.below.apply

    async def slow(*args: Any, **options: Any) -> Any:
        await going.wait()
        return await apply(*args, **options)

    yard.world.below.apply = slow  # type: ignore[method-assign]
    return going


async def test_a_first_grant_counts_before_it_is_written_down(yard: TargetWorldOfTenant):
    going = held_writes(yard)
    await yard.declare("c2")
    grants = yard.world.link.grants
    assert yard.said() == []
    assert (grants.is_offered("c2"), grants.is_offered("home")) == (True, False)
    going.set()


async def test_a_grant_that_is_withdrawn_ends_before_that_is_written_down(
    yard: TargetWorldOfTenant,
):
    yard.ready()
    await yard.declare("c2", named=("c2",))
    going = held_writes(yard)
    await yard.declare("home", named=("c2",))
    assert yard.said() == []
    assert not yard.world.link.grants.is_offered("c2")
    yard.world.link.assignments.assign(pod_of(yard), "c2")  # as something came to light there
    going.set()
    await idle()
    assert yard.said() == [[], ["c2"]]
    assert yard.there == ["c2", "home"]


async def test_who_waits_is_looked_at_when_the_grant_changes(yard: TargetWorldOfTenant):
    yard.ready()
    await yard.declare("home", "c2", named=("c2",))
    pod = pod_of(yard, annotations={wellknown.ASSIGNED_CLUSTER: "c2/0"})
    yard.world.link.assignments.assign(pod, "c2")
    queue, key = yard.world.link.queue, yard.world.key("Placement", "web", "p")

    def taken() -> set[Any]:
        found = set(iter(queue.take, None))
        for each in found:
            queue.done(each)
        return found

    taken()
    yard.outposts.wake()
    await idle()
    assert key not in taken(), "nothing is another"
    await yard.declare("home", named=("c2",))
    found = taken()
    assert key in found
    assert yard.sessions["c2"][TENANT.uid].build_key("Pod", "web", "p") in found


async def test_the_node_that_stands_for_a_target_goes_before_the_session_does(
    yard: TargetWorldOfTenant, monkeypatch: Any
):
    monkeypatch.setattr(outposts_module, "RETRY_SECONDS", 0.01)
    yard.ready()
    await yard.declare("home", "c2", named=("c2",))
    metadata = {"name": "target-c2", "uid": "n", "resourceVersion": "5"}
    marked = {**metadata, "annotations": {wellknown.SUPER_CLUSTER: "r1", wellknown.UID: "r1"}}
    shown = put(yard.world.link.stores["Node"], {"metadata": marked})
    queue = yard.world.link.queue
    list(iter(queue.take, None))
    await yard.declare("home", named=("c2",))
    session = yard.sessions["c2"][TENANT.uid]
    key = session.build_key("Node", "", "target-c2")
    assert yard.there == ["c2", "home"]
    use_tenant_client(session, yard.world.above)
    assert await target_node_reconciler.reconcile_target_node(key, session) == Done()
    assert yard.world.above.writes() == [("delete", "Node", "target-c2")]
    yard.world.link.stores["Node"].discard(shown, live=True)
    await asyncio.sleep(0.05)
    assert yard.there == ["home"], "with nobody telling"
    assert yard.said()[-1] == []


async def test_a_node_of_the_tenants_own_keeps_no_target(yard: TargetWorldOfTenant):
    yard.ready()
    await yard.declare("home", "c2", named=("c2",))
    own = {"metadata": {"name": "target-c2", "uid": "n", "resourceVersion": "5"}}
    put(yard.world.link.stores["Node"], own)
    await yard.declare("home", named=("c2",))
    assert yard.there == ["home"]


async def test_a_target_that_was_never_reached_delays_no_pod_and_is_let_go(
    yard: TargetWorldOfTenant,
):
    await yard.declare("home", "c2")
    assert yard.said() == [["c2"]]
    await yard.declare("home", "c2", named=("c2",))
    assert yard.world.link.grants.find_unchecked() == "", (
        "there was nothing before, and is nothing yet"
    )
    await yard.declare("home", named=("c2",))
    assert yard.said()[-1] == []


async def test_one_that_was_reached_is_not_taken_for_empty_when_it_is_left(
    yard: TargetWorldOfTenant,
):
    yard.ready()
    await yard.declare("home", "c2")
    del yard.targets.targets["c2"]
    yard.targets._notify()
    await idle()
    await yard.declare("home", named=("c2",))
    assert yard.world.link.grants.find_unchecked() == "c2"
    assert yard.said()[-1] == ["c2"]
