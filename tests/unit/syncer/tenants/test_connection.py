"""One tenant in two super clusters: what its sessions have in common, and what each has alone."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest
from structlog.testing import capture_logs

from syncer.clusters.super_cluster import SuperCluster
from syncer.handlers.resync import Resync
from syncer.model.keys import HOME, TENANT_STATUS, Key
from syncer.safety.hot_loop_guard import WriteOutcome, WriteScope
from syncer.tenants.session import Session
from tests.support.syncer.sessions import TENANT, RecordingClient, SessionWorld


@pytest.fixture
def world() -> SessionWorld:
    """A tenant at home and at c2."""
    return SessionWorld()


@pytest.fixture
def far(world: SessionWorld) -> Session:
    """Objects of the tenant in c2."""
    below = SuperCluster(RecordingClient(), name="c2")  # type: ignore[arg-type]
    made = Session(world.link, below, tenant_slice=ipaddress.ip_network("10.96.8.0/22"))
    world.link.add_session(made)
    made.work.is_ready = True
    return made


def taken(world: SessionWorld) -> list[Key]:
    """Return what the queue gives out."""
    return list(iter(world.link.queue.take, None))


def test_what_the_tenant_wrote_is_reported_once_however_many_sessions_there_are(
    world: SessionWorld, far: Session
):
    world.link.enqueue_status()
    world.link.request_store_check()
    assert taken(world) == [world.key(TENANT_STATUS, "", "")]


def test_what_is_parked_anywhere_is_reported(world: SessionWorld, far: Session):
    for session in (world.session, far):
        part = WriteScope(session.build_key("Pod", "web", "p"), "super")
        for _ in range(6):
            session.hot_loop_guard.count_attempt(
                part, b"d", lambda: WriteOutcome("spec.x", is_accepted=False)
            )
    assert {part.key.super_cluster for part in world.link.list_parked()} == {HOME, "c2"}


def test_what_a_tenant_refused_is_tried_again_in_every_share_of_the_queue(
    world: SessionWorld, far: Session, monkeypatch: pytest.MonkeyPatch
):
    keys = {session.build_key("Pod", "web", "p") for session in (world.session, far)}
    for key in keys:
        world.link.queue.add_rate_limited(key)
    refusals = world.link.client.refused_writes
    monkeypatch.setattr(refusals, "describe_refused", lambda: "writes of pods are rejected: no")
    world.link._monitor_refusals()
    assert keys <= set(taken(world))


async def test_nothing_is_taken_anywhere_while_one_session_ends_what_it_has_in_hand(
    world: SessionWorld, far: Session
):
    for session in (world.session, far):
        session.work.keys_in_work.start()
        session.work.enqueue(session.build_key("Pod", "web", "p"))
    ending = asyncio.ensure_future(world.link.drain())
    await asyncio.sleep(0)
    assert not world.session.work.is_ready
    assert not far.work.is_ready
    world.session.work.keys_in_work.finish()
    await asyncio.sleep(0.01)
    assert not ending.done()
    far.work.keys_in_work.finish()
    await asyncio.wait_for(ending, 1)
    assert taken(world) == []


async def test_the_resync_goes_round_all_sessions(
    world: SessionWorld, far: Session, monkeypatch: pytest.MonkeyPatch
):
    seen: list[Session] = []

    async def look(_: Resync, session: Session) -> int:
        seen.append(session)
        return 0

    monkeypatch.setattr(Resync, "resync_session", look)
    sessions = {HOME: {TENANT.uid: world.session}, "c2": {TENANT.uid: far}}
    with capture_logs() as said:
        rounds = asyncio.ensure_future(Resync(sessions, period_seconds=0.01).run())
        await asyncio.sleep(0.05)
        rounds.cancel()
    assert seen[:2] == [world.session, far]
    assert (said[0]["event"], said[0]["sessions"], said[0]["keys"]) == ("resync.finished", 2, 0)
