"""A pod that is bound below makes its node, and is bound above once that is there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import NotReadyYet
from syncer.controllers.nodes import node_reconciler
from syncer.controllers.pods import pod_reconciler as flow
from syncer.handlers.tenant_events import TenantEvents
from syncer.rules import registry
from syncer.safety.hot_loop_guard import WRITES_PER_WINDOW
from tenancy import wellknown
from tenancy.policies import parse_tenant_policy
from tests.support.syncer.nodes import ON_NODE, SUPER_NODE
from tests.support.syncer.sessions import CONTAINERS, SessionWorld, put

EXPOSING_ALL = {"metadata": {"name": "own"}, "spec": {"nodes": {"expose": "all"}}}
KEY_OF_POD = ("Pod", "web", "p")


def bound_below(world: SessionWorld, *names: str) -> None:
    """Have pods that are bound below, to a node that the tenant does not see yet."""
    put(world.super_cluster.nodes, SUPER_NODE)
    for name in names:
        world.tenant_has("Pod", name, spec={"containers": CONTAINERS}, status={"phase": "Pending"})
        world.super_has("Pod", name, spec=ON_NODE)


def shown(world: SessionWorld, version: int, *, is_whole: bool) -> None:
    """The tenant's watch shows the node."""
    ports = {"daemonEndpoints": {"kubeletEndpoint": {"Port": wellknown.AGENT_PORT}}}
    metadata = {
        "resourceVersion": str(version),
        "annotations": {wellknown.UID: "n"},
        "labels": {wellknown.VIRTUAL_NODE: "true"},
    }
    status = ports if is_whole else {}
    world.tenant_has("Node", "n", namespace="", metadata=metadata, spec={}, status=status)


class SlowTenantApi:
    """The tenant's API, which takes a node when it is told to."""

    def __init__(self, world: SessionWorld) -> None:
        self.goes_on = asyncio.Event()
        self._apply = world.above.apply
        world.above.apply = self  # type: ignore[method-assign, assignment]

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        await self.goes_on.wait()
        return await self._apply(*arguments, **options)


async def present(world: SessionWorld, name: str = "p") -> None:
    """A pod is about to be bound."""
    await node_reconciler.ensure_node("n", world.key("Pod", "web", name), world.session)


async def with_node() -> SessionWorld:
    """Have a node that was made for its first pod, and is not in the cache yet."""
    world = SessionWorld()
    bound_below(world, "p")
    TenantEvents(world.session).subscribe()
    await present(world)
    return world


async def test_a_node_is_made_for_the_first_pod_that_needs_it_and_others_stand_by():
    world = SessionWorld()
    bound_below(world, "p", "q", "r")
    slow = SlowTenantApi(world)
    pods = [asyncio.ensure_future(present(world, name)) for name in "pqr"]
    await asyncio.sleep(0)
    assert not any(pod.done() for pod in pods)
    slow.goes_on.set()
    await asyncio.gather(*pods)
    assert world.above.writes() == [("apply", "Node", "n")] * 2
    assert not world.session.node_memory._awaited
    assert not world.session.node_memory._in_creation
    await present(world)
    assert len(world.above.writes()) == 2, "what was answered counts until it is shown"


async def test_a_bound_pod_is_bound_in_the_same_run():
    world = SessionWorld()
    world.ready()
    bound_below(world, "p")
    await flow.reconcile_pod(registry.KINDS_BY_NAME["Pod"], world.key(*KEY_OF_POD), world.session)
    written = world.above.writes()[:3]
    assert [(verb, kind) for verb, kind, _ in written] == [
        ("apply", "Node"),
        ("apply", "Node"),
        ("create", "Pod/binding"),
    ]


async def test_a_node_that_cannot_be_made_is_its_own_keys_matter():
    world = SessionWorld()
    bound_below(world, "p", "q")
    world.above.refusals["apply"] = errors.Unavailable("no answer")
    slow = SlowTenantApi(world)
    world.session.queue.add(world.key("Pod", "web", "another"))
    pods = [asyncio.ensure_future(present(world, name)) for name in "pq"]
    await asyncio.sleep(0)
    slow.goes_on.set()
    for found in await asyncio.gather(*pods, return_exceptions=True):
        assert isinstance(found, NotReadyYet)
    assert len(world.above.writes()) == 1, "the second has waited for the first"
    assert world.session.queue.take() == world.key("Node", "", "n")
    waiting = {world.key("Pod", "web", name) for name in "pq"}
    assert world.session.work.waiters.pop_waiters(world.key("Node", "", "n")) == waiting


def take_no_status(world: SessionWorld) -> None:
    """Have the tenant's API server fail at the status of what it is sent."""
    apply = world.above.apply

    async def half(resource: Any, body: Any, **options: Any) -> Any:
        if options.get("subresource"):
            raise errors.Unavailable("no answer")
        return await apply(resource, body, **options)

    world.above.apply = half  # type: ignore[method-assign, assignment]


async def test_a_node_of_which_only_half_was_taken_is_not_bound_to():
    world = SessionWorld()
    bound_below(world, "p")
    take_no_status(world)
    for _ in range(2):
        with pytest.raises(NotReadyYet):
            await present(world)
    shown(world, 1001, is_whole=False)  # and so it is after a restart
    with pytest.raises(NotReadyYet):
        await present(world)


async def test_a_node_that_was_whole_once_may_be_half_made_the_next_time():
    world = await with_node()
    shown(world, world.above.revision, is_whole=True)
    world.session.stores["Node"].discard(world.session.stores["Node"].list()[0], live=True)
    take_no_status(world)
    world.session.node_memory._awaited[world.key("Pod", "web", "p")] = "n"
    with pytest.raises(errors.Unavailable):
        await node_reconciler.reconcile_node(world.key("Node", "", "n"), world.session)
    with pytest.raises(NotReadyYet):
        await present(world)


async def test_a_node_whose_status_is_parked_is_not_bound_to(monkeypatch):
    world = SessionWorld()
    bound_below(world, "p")
    monkeypatch.setattr(world.session.parked, "has", lambda part, *_: part.subresource == "status")
    with pytest.raises(NotReadyYet):
        await present(world)


async def test_what_the_cache_shows_of_a_node_counts_once_it_has_caught_up():
    world = await with_node()
    first, last = world.above.revision - 1, world.above.revision
    shown(world, first, is_whole=False)
    await present(world)
    assert len(world.above.writes()) == 2, "the other half of it is on its way"
    shown(world, last, is_whole=False)  # someone took its status away
    with pytest.raises(NotReadyYet):
        await present(world)


async def test_a_node_that_was_taken_away_is_recreated():
    world = await with_node()
    shown(world, world.above.revision, is_whole=True)
    await present(world)
    assert len(world.above.writes("Node")) == 2
    world.session.stores["Node"].discard(world.session.stores["Node"].list()[0], live=True)
    await present(world)
    assert len(world.above.writes("Node")) == 4


async def test_a_node_that_went_before_the_cache_showed_it_is_recreated():
    world = await with_node()
    shown(world, world.above.revision - 1, is_whole=False)
    world.session.stores["Node"].discard(world.session.stores["Node"].list()[0], live=True)
    await present(world)
    assert len(world.above.writes("Node")) == 4


async def test_no_node_is_made_that_is_gone_in_the_super_cluster():
    world = SessionWorld()
    bound_below(world, "p")
    world.super_cluster.nodes.discard(world.super_cluster.nodes.list()[0], live=True)
    with pytest.raises(NotReadyYet):
        await present(world)
    assert not world.above.writes()


async def test_a_node_that_flaps_is_not_made_past_its_pause():
    world = SessionWorld()
    bound_below(world, "p")
    for _ in range(WRITES_PER_WINDOW + 1):
        world.session.hot_loop_guard.count_write(world.key("Node", "", "n"))
    with pytest.raises(NotReadyYet):
        await present(world)
    assert not world.above.writes()


async def test_the_key_of_a_node_waits_for_the_pod_that_makes_it():
    world = SessionWorld()
    bound_below(world, "p")
    slow = SlowTenantApi(world)
    pod = asyncio.ensure_future(present(world))
    await asyncio.sleep(0)
    own = asyncio.ensure_future(
        node_reconciler.reconcile_node(world.key("Node", "", "n"), world.session)
    )
    slow.goes_on.set()
    await asyncio.gather(pod, own)
    assert len(world.above.writes()) == 2


async def test_a_pod_that_is_stopped_while_it_makes_a_node_leaves_that_to_the_next():
    world = SessionWorld()
    bound_below(world, "p", "q")
    slow = SlowTenantApi(world)
    pod = asyncio.ensure_future(present(world))
    other = asyncio.ensure_future(present(world, "q"))
    await asyncio.sleep(0)
    pod.cancel()
    with pytest.raises(NotReadyYet):
        await other
    slow.goes_on.set()
    await present(world, "q")
    assert len(world.above.writes()) == 2


async def test_a_node_that_was_removed_does_not_count_as_made():
    world = await with_node()
    shown(world, world.above.revision, is_whole=True)
    for store in (world.session.stores["Pod"], world.super_cluster.stores["Pod"]):
        store.discard(store.list()[0], live=True)
    world.session.grace_timers.grace_period_seconds = 0
    await node_reconciler.reconcile_node(world.key("Node", "", "n"), world.session)
    assert world.above.writes()[-1] == ("delete", "Node", "n")
    assert not world.session.node_memory._created


async def test_of_a_pod_that_goes_before_its_node_could_be_shown_nothing_is_remembered():
    """Also where no node's key ever looks who is about to name it."""
    world = SessionWorld(parse_tenant_policy(EXPOSING_ALL))
    bound_below(world, "p")
    TenantEvents(world.session).subscribe()
    world.above.refusals["apply"] = errors.Forbidden("a webhook of the tenant's")
    with pytest.raises(NotReadyYet):
        await present(world)
    assert world.session.node_memory._awaited
    world.session.stores["Pod"].discard(world.session.stores["Pod"].list()[0], live=True)
    assert not world.session.node_memory._awaited
