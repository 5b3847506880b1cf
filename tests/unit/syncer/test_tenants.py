"""Keeping tenants: pauses that hold, words that stay true, and one tenant's trouble kept apart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio import errors
from kubeio.queue import FairQueue
from syncer import session as sessions
from syncer.keys import Key, group_of
from syncer.tenants import Plan, Tenants
from tenancy import marks
from tests.unit.syncer.sessions import CLUSTER, TENANT, World

SYNCED = {"type": marks.SYNCED, "status": "True", "reason": "Engaged", "message": "x"}
PLAN = Plan(cluster=CLUSTER, kubeconfig=b"", slice="10.96.8.0/22")


@contextlib.asynccontextmanager
async def keeping(world: World, **replaced: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run the keeper of the one tenant for a moment, with parts of it replaced."""
    queue: FairQueue[Key] = FairQueue(name="test", group=group_of, in_flight=8)
    tenants = Tenants(world.super_cluster, queue)
    for name, function in replaced.items():
        setattr(tenants, name, function)
    changed = tenants._changed[TENANT.uid] = asyncio.Event()
    world.super_cluster.virtual_clusters.subscribe(lambda *_: changed.set())
    task = asyncio.ensure_future(tenants._keep(TENANT.uid))
    await asyncio.sleep(0.2)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_virtual_cluster_that_cannot_be_worked_on_ends_no_work():
    world = World()
    world.declared()
    asked = []

    def plan(_: object) -> None:
        asked.append(1)
        raise TypeError("of a shape that nobody thought of")

    async with keeping(world, _plan=plan) as task:
        assert not task.done()
        assert len(asked) == 1  # and it is not asked in a circle


async def test_our_own_words_do_not_cut_a_pause_short():
    world = World()
    world.declared()
    tried = []

    async def engage(*_: object) -> str:
        tried.append(1)
        return "no route"

    async def say(*_: object) -> None:
        world.declared([{**SYNCED, "message": str(len(tried))}])

    async with keeping(world, _plan=lambda _: PLAN, _engage=engage, _say_unreachable=say) as task:
        assert len(tried) == 1
        assert not task.done()


async def test_sessions_that_end_at_once_follow_each_other_slowly():
    world = World()
    world.declared()
    tried = []

    async def engage(*_: object) -> str:
        tried.append(1)
        return ""

    async with keeping(world, _plan=lambda _: PLAN, _engage=engage):
        assert len(tried) == 1


@pytest.mark.parametrize(("before", "told"), [([SYNCED], 1), ([], 0)])
async def test_a_tenant_that_was_followed_and_has_no_credential_is_told_so(before, told):
    world = World()
    world.declared(before)
    async with keeping(world):
        written = world.below.writes("VirtualCluster")
        assert len(written) == told
    for body in world.below.bodies:
        condition = body["status"]["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("False", "TenantUnreachable")


async def test_first_lists_that_a_tenant_refuses_end_the_session_with_the_reason(monkeypatch):
    monkeypatch.setattr(sessions, "UNREACHABLE_SECONDS", 0.02)
    session = World().session
    with pytest.raises(TimeoutError):  # slow is no reason
        await asyncio.wait_for(session._first_lists(), 0.2)
    session._reflectors[3].problem = "403"
    with pytest.raises(errors.Unavailable, match="403"):
        await session._first_lists()


async def test_a_watch_that_broke_is_a_doubt_and_one_that_stays_so_is_told(monkeypatch):
    monkeypatch.setattr(sessions, "UNREACHABLE_SECONDS", 0.1)
    monkeypatch.setattr(sessions, "_LOOK_SECONDS", 0.01)
    session = World().session
    task = asyncio.ensure_future(session._watch_health())
    await asyncio.sleep(0.05)
    assert not session.store_in_doubt
    session._reflectors[2].restarts += 1
    session._reflectors[2].problem = "403"
    await asyncio.sleep(0.05)
    assert session.store_in_doubt
    await asyncio.sleep(0.2)
    assert session.problem == "403"
    session._reflectors[2].problem = ""
    await asyncio.sleep(0.05)
    assert not session.problem
    task.cancel()
