"""Watches of one tenant's connection: first lists, outages, and writes that the tenant refuses."""

from __future__ import annotations

import asyncio

import pytest

from kubeio import errors
from kubeio.cache.crd_reflector import CrdReflector
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Store
from kubeio.config import loading
from kubeio.controller.fair_queue import FairQueue, QueueOptions
from syncer.lifecycle.supervisor import SupervisedLoop
from syncer.lifecycle.tenant_manager import TenantManager
from syncer.lifecycle.tenant_plan import TenantPlan
from syncer.model.keys import Key, build_group
from syncer.safety.circuit_breaker import FAILURES_TO_OPEN
from syncer.tenants import connection as links
from tenancy.resources import PODS
from tests.support.eventually import eventually
from tests.support.syncer.sessions import CLUSTER, TENANT, SessionWorld
from tests.support.syncer.two_clusters import SplitWorld, key_of

PLAN = TenantPlan(cluster=CLUSTER, kubeconfig=b"", service_range="10.96.8.0/22")


async def test_first_lists_that_a_tenant_refuses_end_the_session_with_the_reason(monkeypatch):
    monkeypatch.setattr(links, "UNREACHABLE_SECONDS", 0.02)
    link = SessionWorld().link
    with pytest.raises(TimeoutError):  # slow is no reason
        await asyncio.wait_for(link._wait_first_lists(), 0.2)
    link._reflectors[3].problem = "403"
    with pytest.raises(errors.Unavailable, match="403"):
        await link._wait_first_lists()


async def test_what_a_link_promised_to_its_pods_ends_with_it(monkeypatch):
    world = SessionWorld()
    promised = world.super_cluster.capacity._reserved
    before = []

    async def run(link: links.TenantConnection) -> None:
        link.assignments.reserve_assigned("u", world.super_cluster.capacity, {})
        before.append(dict(promised))

    async def nothing(_: object) -> None:
        return

    monkeypatch.setattr(links.TenantConnection, "run", run)
    monkeypatch.setattr(links.TenantConnection, "drain", nothing)
    monkeypatch.setattr(loading, "load_tenant_kubeconfig", lambda *_, **__: world.link.client)
    queue: FairQueue[Key] = FairQueue(QueueOptions(name="test", max_in_flight=8), group=build_group)
    keeper = TenantManager(world.super_cluster, queue)
    monkeypatch.setattr(links, "TenantClient", lambda *_, **__: world.above)
    loop = SupervisedLoop("tenant", max_retry_seconds=1.0)
    await asyncio.wait_for(keeper._run_connection(TENANT.uid, PLAN, loop), 5)
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
    monkeypatch.setattr(links, "FIRST_LISTS_TURN_SECONDS", 0.2)
    turns, watches = asyncio.Semaphore(1), [Watch(), Watch(), Watch()]
    async with asyncio.TaskGroup() as group:
        opening = []
        for watch in watches:
            link = SessionWorld().link
            link._loop_budget, link._reflectors = turns, (watch,)
            opening.append(group.create_task(link._start_watches(group)))
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


async def test_a_watch_that_broke_is_a_doubt_and_one_that_stays_so_is_reported(monkeypatch):
    monkeypatch.setattr(links, "UNREACHABLE_SECONDS", 0.1)
    monkeypatch.setattr(links, "_HEALTH_CHECK_SECONDS", 0.01)
    link = SessionWorld().link
    task = asyncio.ensure_future(link._monitor_health())
    await asyncio.sleep(0.05)
    assert not link.must_check_store
    link._reflectors[2].restarts += 1
    link._reflectors[2].problem = "403"
    await asyncio.sleep(0.05)
    assert link.must_check_store
    await asyncio.sleep(0.2)
    assert link.problem == "403"
    link._reflectors[2].problem = ""
    await asyncio.sleep(0.05)
    assert not link.problem
    task.cancel()


@pytest.mark.parametrize("who", ["tenant", "target"])
async def test_what_failed_in_an_outage_is_tried_as_soon_as_it_is_over(monkeypatch, who):
    """Its own delay has grown to minutes. REL-15."""
    monkeypatch.setattr(links, "_HEALTH_CHECK_SECONDS", 0.01)
    split = SplitWorld()
    link, session = split.link, split.far
    patient = link._reflectors[2] if who == "tenant" else session.target
    key = key_of(session)
    for _ in range(12):
        link.queue.add_rate_limited(key)
    task = asyncio.ensure_future(link._monitor_health())
    await asyncio.sleep(0.05)
    patient.problem = "Connection refused"
    await asyncio.sleep(0.05)
    assert str(key) in link.queue.snapshot()["delayed"]
    patient.problem = ""
    await asyncio.sleep(0.05)
    assert str(key) not in link.queue.snapshot()["delayed"]
    assert link.queue.count_requeues(key) == 0
    task.cancel()


async def test_a_watch_that_stands_again_enqueues_the_others_and_the_breaker(monkeypatch):
    """REL-15: each waits for half a minute of its own meanwhile."""
    for name in ("_HEALTH_CHECK_SECONDS", "_FAST_HEALTH_CHECK_SECONDS"):
        monkeypatch.setattr(links, name, 0.01)
    link = SessionWorld().link
    hurried: list[Reflector] = []

    def hurry(watch: Reflector, returned: float) -> None:
        hurried.append(watch)

    monkeypatch.setattr(Reflector, "retry_now", hurry)
    task = asyncio.ensure_future(link._monitor_recovery())
    first, second = link._reflectors[:2]
    optional = next(each for each in link._reflectors if isinstance(each, CrdReflector))
    optional._inner = Reflector(link.client, PODS, Store())  # its kind is served
    for watch in (first, second, optional._inner):
        watch.problem = "Connection refused"
    for _ in range(FAILURES_TO_OPEN):
        link.client.breaker.count_failure()
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
    world = SessionWorld()
    link, session = world.link, world.session
    refusals, queue = link.client.refused_writes, link.queue
    monkeypatch.setattr(refusals, "describe_refused", lambda: "writes of pods are rejected: no")
    keys = [session.build_key("Pod", "web", f"p{number}") for number in range(5)]
    for key in keys:
        for _ in range(8):
            queue.add_rate_limited(key)
    link._monitor_refusals()
    assert link.refused_writes_problem
    tried = {key for key in iter(queue.take, None) if key.kind == "Pod"}
    assert len(tried) == 2
    for key in tried:
        queue.done(key)
        queue.add_rate_limited(key)
    monkeypatch.setattr(refusals, "describe_refused", lambda: "")
    link._monitor_refusals()
    assert not link.refused_writes_problem
    assert {key for key in iter(queue.take, None) if key.kind == "Pod"} == set(keys)
    assert [queue.count_requeues(key) for key in keys] == [0] * 5
