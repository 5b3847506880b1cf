"""Watches of one tenant's connection: first lists, outages, and writes that the tenant refuses."""

from __future__ import annotations

import asyncio

import pytest

from kubeio import errors
from kubeio.cache.crd_reflector import OptionalReflector
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Store
from kubeio.config import loading
from kubeio.controller.fair_queue import FairQueue
from syncer.lifecycle.tenant_manager import Plan, Tenants
from syncer.model.keys import Key, group_of
from syncer.safety.circuit_breaker import FAILURES
from syncer.tenants import connection as links
from tenancy.resources import PODS
from tests.support.eventually import eventually
from tests.support.syncer.sessions import CLUSTER, TENANT, World
from tests.support.syncer.two_clusters import Split, key_of

PLAN = Plan(cluster=CLUSTER, kubeconfig=b"", slice="10.96.8.0/22")


async def test_first_lists_that_a_tenant_refuses_end_the_session_with_the_reason(monkeypatch):
    monkeypatch.setattr(links, "UNREACHABLE_SECONDS", 0.02)
    link = World().link
    with pytest.raises(TimeoutError):  # slow is no reason
        await asyncio.wait_for(link._first_lists(), 0.2)
    link._reflectors[3].problem = "403"
    with pytest.raises(errors.Unavailable, match="403"):
        await link._first_lists()


async def test_what_a_link_promised_to_its_pods_ends_with_it(monkeypatch):
    world = World()
    promised = world.super_cluster.inventory._promised
    before = []

    async def run(link: links.Link) -> None:
        link.seats.promise("u", world.super_cluster.inventory, {})
        before.append(dict(promised))

    async def nothing(_: object) -> None:
        return

    monkeypatch.setattr(links.Link, "run", run)
    monkeypatch.setattr(links.Link, "drained", nothing)
    monkeypatch.setattr(loading, "tenant_kubeconfig", lambda *_, **__: world.link.client)
    queue: FairQueue[Key] = FairQueue(name="test", group=group_of, in_flight=8)
    keeper = Tenants(world.super_cluster, queue)
    monkeypatch.setattr(links, "TenantClient", lambda *_, **__: world.above)
    await asyncio.wait_for(keeper._engage(TENANT.uid, PLAN), 5)
    assert (before, promised) == ([{"u": {}}], {})


class Watch:
    """A watch whose first list comes when the test says so."""

    resource, problem = "things", ""

    def __init__(self) -> None:
        self.is_open = False
        self.listed = asyncio.Event()

    async def run(self) -> None:
        self.is_open = True

    @property
    def synced(self) -> bool:
        return self.listed.is_set()

    async def wait_synced(self) -> None:
        await self.listed.wait()


async def test_few_tenants_open_their_watches_together_and_a_slow_one_loses_its_turn(monkeypatch):
    """REL-78: a hundred at once would keep the loop from renewing the lease."""
    monkeypatch.setattr(links, "TURN_SECONDS", 0.2)
    turns, watches = asyncio.Semaphore(1), [Watch(), Watch(), Watch()]
    async with asyncio.TaskGroup() as group:
        opening = []
        for watch in watches:
            link = World().link
            link._turns, link._reflectors = turns, (watch,)
            opening.append(group.create_task(link._watch(group)))
        await asyncio.sleep(0.05)
        assert [watch.is_open for watch in watches] == [True, False, False]
        watches[0].listed.set()
        await asyncio.sleep(0.05)
        assert [watch.is_open for watch in watches] == [True, True, False]
        await asyncio.sleep(0.3)  # the second never answers
        assert watches[2].is_open
        assert not opening[1].done()
        for watch in watches:
            watch.listed.set()


async def test_a_watch_that_broke_is_a_doubt_and_one_that_stays_so_is_told(monkeypatch):
    monkeypatch.setattr(links, "UNREACHABLE_SECONDS", 0.1)
    monkeypatch.setattr(links, "_LOOK_SECONDS", 0.01)
    link = World().link
    task = asyncio.ensure_future(link._watch_health())
    await asyncio.sleep(0.05)
    assert not link.store_in_doubt
    link._reflectors[2].restarts += 1
    link._reflectors[2].problem = "403"
    await asyncio.sleep(0.05)
    assert link.store_in_doubt
    await asyncio.sleep(0.2)
    assert link.problem == "403"
    link._reflectors[2].problem = ""
    await asyncio.sleep(0.05)
    assert not link.problem
    task.cancel()


@pytest.mark.parametrize("who", ["tenant", "target"])
async def test_what_failed_in_an_outage_is_tried_as_soon_as_it_is_over(monkeypatch, who):
    """Its own delay has grown to minutes; REL-15."""
    monkeypatch.setattr(links, "_LOOK_SECONDS", 0.01)
    split = Split()
    link, session = split.link, split.far
    patient = link._reflectors[2] if who == "tenant" else session.target
    key = key_of(session)
    for _ in range(12):
        link.queue.retry(key)
    task = asyncio.ensure_future(link._watch_health())
    await asyncio.sleep(0.05)
    patient.problem = "Connection refused"
    await asyncio.sleep(0.05)
    assert str(key) in link.queue.snapshot()["delayed"]
    patient.problem = ""
    await asyncio.sleep(0.05)
    assert str(key) not in link.queue.snapshot()["delayed"]
    assert link.queue.failures(key) == 0
    task.cancel()


async def test_a_watch_that_stands_again_wakes_the_others_and_the_breaker(monkeypatch):
    """REL-15: each waits for half a minute of its own meanwhile."""
    for name in ("_LOOK_SECONDS", "_SOON_SECONDS"):
        monkeypatch.setattr(links, name, 0.01)
    link = World().link
    hurried: list[Reflector] = []

    def hurry(watch: Reflector, returned: float) -> None:
        hurried.append(watch)

    monkeypatch.setattr(Reflector, "hurry", hurry)
    task = asyncio.ensure_future(link._watch_returns())
    first, second = link._reflectors[:2]
    optional = next(each for each in link._reflectors if isinstance(each, OptionalReflector))
    optional._inner = Reflector(link.client, PODS, Store())  # its kind is served
    for watch in (first, second, optional._inner):
        watch.problem = "Connection refused"
    for _ in range(FAILURES):
        link.client.breaker.failed()
    await asyncio.sleep(0.05)
    assert hurried == []
    first.problem = ""
    await eventually(lambda: hurried)
    assert {second, optional._definition, optional._inner} <= set(hurried)
    assert link.client.breaker.is_open
    second.problem = ""
    await eventually(lambda: not link.client.breaker.is_open)
    task.cancel()


async def test_what_a_tenant_refused_is_tried_by_a_few_and_by_all_once_it_takes_writes(monkeypatch):
    world = World()
    link, session = world.link, world.session
    refusals, queue = link.client.refused_writes, link.queue
    monkeypatch.setattr(refusals, "problem", lambda: "writes of pods are refused: no")
    keys = [session.key("Pod", "web", f"p{number}") for number in range(5)]
    for key in keys:
        for _ in range(8):
            queue.retry(key)
    link._notice_refusals()
    assert link.refusing
    tried = {key for key in iter(queue.take, None) if key.kind == "Pod"}
    assert len(tried) == 2
    for key in tried:
        queue.done(key)
        queue.retry(key)
    monkeypatch.setattr(refusals, "problem", lambda: "")
    link._notice_refusals()
    assert not link.refusing
    assert {key for key in iter(queue.take, None) if key.kind == "Pod"} == set(keys)
    assert [queue.failures(key) for key in keys] == [0] * 5
