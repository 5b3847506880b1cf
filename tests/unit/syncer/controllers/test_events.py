"""Events of a pod that name a node to which it is bound at the same moment."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from syncer.controllers import events
from tests.support.syncer.pod_events import ON, queued, reads, world_with
from tests.support.syncer.sessions import SessionWorld


async def told(world: SessionWorld) -> str:
    """Have the Event of a binding told. Returns its message, or nothing when it was not told."""
    await events.reconcile_event(queued(world), world.session)
    assert not world.session.event_memory._pending
    assert not world.session.event_memory._deadlines
    return str(world.above.bodies[-1]["message"]) if world.above.bodies else ""


@pytest.mark.parametrize(
    ("cached", "live", "node", "reads"),
    [
        pytest.param(ON, None, "node-1", 0, id="bound"),
        pytest.param({}, {**ON}, "node-1", 1, id="bound, but the cache is behind"),
        pytest.param(None, {**ON}, "node-1", 1, id="made, but the cache is behind"),
        pytest.param({}, {}, "another-node", 1, id="not bound"),
        pytest.param({}, {**ON, "uid": "x"}, "another-node", 1, id="another pod of the name"),
        pytest.param({}, None, "another-node", 1, id="gone"),
        pytest.param(None, None, "", 1, id="never seen"),
        pytest.param(None, {**ON, "uid": "x"}, "", 1, id="never seen, another pod of the name"),
    ],
)
async def test_a_pods_own_node_is_named(monkeypatch, cached, live, node: str, reads: int):
    """A missing object is read live once no key waits for its events."""
    monkeypatch.setattr(events, "EVENT_WAIT_SECONDS", 0.0)
    world = world_with(cached, live)
    assert await told(world) == (f"Successfully assigned web/p to {node}" if node else "")
    assert len([verb for verb, _, _ in world.below.asked if verb == "get"]) == reads


@pytest.mark.parametrize("side", ["below", "above"])
async def test_an_event_is_kept_until_it_is_reported(monkeypatch: pytest.MonkeyPatch, side: str):
    monkeypatch.setattr(events, "EVENT_WAIT_SECONDS", 0.0)
    world = world_with({}, {**ON})
    key = queued(world)
    with monkeypatch.context() as broken:

        async def unavailable(*_: Any, **__: Any) -> dict[str, Any]:
            raise errors.ServerError("try again")

        verb = {"below": "get", "above": "create"}[side]
        broken.setattr(getattr(world, side), verb, unavailable)
        with pytest.raises(errors.Unavailable):
            await events.reconcile_event(key, world.session)
    await events.reconcile_event(key, world.session)
    assert world.above.bodies[-1]["message"] == "Successfully assigned web/p to node-1"
    assert not world.session.event_memory._pending


async def test_an_event_without_news_is_read_for_when_its_time_is_over(monkeypatch):
    """It is counted from the first look, and what else happens to the pod makes it no longer."""
    world = world_with({}, {**ON})
    now = 100.0
    monkeypatch.setattr(world.session.event_memory, "_clock", lambda: now)
    key, queue = queued(world), world.session.queue
    await events.reconcile_event(key, world.session)
    due = queue.snapshot()["delayed"]
    assert due == {str(key): pytest.approx(events.EVENT_WAIT_SECONDS, abs=1.0)}
    now += events.EVENT_WAIT_SECONDS - 1
    queued(world)
    await events.reconcile_event(key, world.session)
    assert (reads(world), world.above.bodies) == (0, [])
    now += 1
    await events.reconcile_event(key, world.session)
    assert reads(world) == 1
    assert world.above.bodies[-1]["message"] == "Successfully assigned web/p to node-1"
