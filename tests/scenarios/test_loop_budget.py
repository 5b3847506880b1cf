"""Runs, watches and sessions share the turns of one loop, and the shared watches never wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.crd_reflector import CrdReflector
from kubeio.config import loading
from kubeio.config.endpoint import Endpoint
from kubeio.controller.fair_queue import FairQueue, QueueOptions
from kubeio.loop_budget import ITERATION_SECONDS, LoopBudget
from syncer.app import Syncer, SyncerOptions
from syncer.clusters.super_cluster import SHARED_WATCH_SECONDS, SuperCluster
from syncer.lifecycle.supervisor import SupervisedLoop
from syncer.lifecycle.tenant_manager import TenantManager
from syncer.lifecycle.tenant_plan import TenantPlan
from syncer.model.keys import Key, build_group
from tests.support.syncer.sessions import CLUSTER, SessionWorld


def test_runs_and_shared_watches_have_the_same_turns():
    client = Client(Endpoint(server="https://super.example:6443"))
    program = Syncer(client, SyncerOptions(namespace="vc", port=0, identity="one", version="0"))
    assert program.queue.loop_budget is program.home.loop_budget


async def test_what_all_tenants_share_is_read_for_longer_than_what_is_one_tenants():
    now = 0.0
    world = SessionWorld()
    turns = world.super_cluster.loop_budget
    turns._clock = lambda: now

    def all_over(reflectors: Any) -> set[bool]:
        return {r._is_budget_spent() for r in reflectors if not isinstance(r, CrdReflector)}

    shared, own = world.super_cluster.reflectors, world.link._reflectors
    assert all_over(own) | all_over(shared) == {False}
    now = ITERATION_SECONDS
    assert all_over(own) == {True}
    assert all_over(shared) == {False}
    now = SHARED_WATCH_SECONDS
    assert all_over(shared) == {True}, "all of them together have one portion"
    for each in (*shared, *own):
        if isinstance(each, CrdReflector):
            assert each._definition._is_budget_spent is each._is_budget_spent
            assert each._is_budget_spent()
    await asyncio.sleep(0)
    assert all_over(shared) == {False}


async def test_other_clusters_wait_for_their_turn_as_tenants_do():
    now = 0.0
    turns = LoopBudget(clock=lambda: now)
    client = Client(Endpoint(server="https://super.example:6443"))
    far = SuperCluster(client, name="far", registration="r1", loop_budget=turns)
    assert {each._is_budget_spent() for each in far.reflectors} == {False}
    now = ITERATION_SECONDS
    assert {each._is_budget_spent() for each in far.reflectors} == {True}


async def test_each_session_is_made_in_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch):
    now, turn, made = 0.0, 0, []
    world = SessionWorld()
    world.super_cluster.loop_budget._clock = lambda: now
    queue: FairQueue[Key] = FairQueue(QueueOptions(name="test"), group=build_group)
    keeper = TenantManager(world.super_cluster, queue)

    def slow(*_: object, **__: object) -> None:
        nonlocal now
        now += 1.0
        made.append(turn)
        raise errors.CredentialsError("as good as any end")

    async def tick() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(loading, "load_tenant_kubeconfig", slow)
    ticking = asyncio.ensure_future(tick())
    plan = TenantPlan(cluster=CLUSTER, kubeconfig=b"", service_range="10.96.8.0/22")
    async with asyncio.timeout(10):
        loop = SupervisedLoop("tenant", max_retry_seconds=1.0)
        await asyncio.gather(
            *(keeper._run_connection(str(number), plan, loop) for number in range(10))
        )
    ticking.cancel()
    assert len(made) == len(set(made)) == 10
