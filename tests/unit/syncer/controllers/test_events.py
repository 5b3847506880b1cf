"""Events of a pod that name a node to which it is bound at the same moment."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from syncer.controllers import events
from syncer.handlers.super_events import SuperEvents
from syncer.model.keys import EVENT, Key
from tests.support.syncer.sessions import SessionWorld, put

SPEC = {"containers": [{"name": "main", "image": "i"}]}


async def told(world: SessionWorld) -> str:
    """Have the Event of a binding told. Returns its message, or nothing when it was not told."""
    await events.reconcile_event(queued(world), world.session)
    assert not world.session.event_memory._pending
    assert not world.session.event_memory._deadlines
    return str(world.above.bodies[-1]["message"]) if world.above.bodies else ""


def queued(world: SessionWorld) -> Key:
    """Have the Event of a binding come. Returns its key."""
    space = world.session.view.get_super_namespace("web")
    event = {
        "metadata": {"name": "p.1", "namespace": space},
        "involvedObject": {"kind": "Pod", "namespace": space, "name": "p", "uid": "p-below"},
        "reason": "Scheduled",
        "message": f"Successfully assigned {space}/p to node-1",
    }
    key = world.key(EVENT, "web", "p.1")
    world.session.event_memory.queue_event(key, event)
    return key


def world_with(cached: dict[str, Any] | None, live: dict[str, Any] | None) -> SessionWorld:
    """Return a world with a node that the tenant is not shown yet, and a pod's two states.

    Each is a PodSpec's part, or None where there is no pod. `uid` makes the live one another pod.
    """
    world = SessionWorld()
    put(world.super_cluster.nodes, {"metadata": {"name": "node-1", "uid": "n"}})
    entry = world.super_has("Pod", "p", spec={**SPEC, **(cached or {})})
    twin = entry.decode()
    if cached is None:
        world.super_cluster.stores["Pod"].discard(entry, live=True)
    if live is not None:
        metadata = {**twin["metadata"], "uid": live.get("uid", twin["metadata"]["uid"])}
        spec = {field: value for field, value in live.items() if field != "uid"}
        world.below.has("Pod", "p", {**twin, "metadata": metadata, "spec": spec})
    return world


ON = {"nodeName": "node-1"}


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


def reads(world: SessionWorld) -> int:
    return len([verb for verb, _, _ in world.below.asked if verb == "get"])


@pytest.mark.parametrize("cached", [None, {}], ids=["not made", "not bound"])
async def test_an_event_waits_for_the_news_of_its_pod_and_reads_nothing(cached):
    """The news wakes it, in the low lane, whatever else of the pod had come before."""
    world = world_with(cached, {**ON})
    sessions = {world.session.tenant.uid: world.session}
    SuperEvents(world.super_cluster, sessions).subscribe()
    key, queue = queued(world), world.session.queue
    await events.reconcile_event(key, world.session)
    assert world.session.event_memory._pending
    world.super_has("Pod", "p", spec=SPEC, metadata={"resourceVersion": "61"})
    assert key in taken(world)
    await events.reconcile_event(key, world.session)
    assert world.session.event_memory._pending, "it is there, and not bound yet"
    assert queue.take() is None
    world.super_has("Pod", "p", spec={**SPEC, **ON}, metadata={"resourceVersion": "62"})
    other = world.key("Service", "web", "s")
    queue.add(other)
    order = taken(world)
    assert order.index(other) < order.index(key), "it has gone before others"
    await events.reconcile_event(key, world.session)
    assert world.above.bodies[-1]["message"] == "Successfully assigned web/p to node-1"
    assert not world.session.event_memory._pending
    assert not world.session.event_memory._deadlines
    assert reads(world) == 0


def taken(world: SessionWorld) -> list[Key]:
    """Take every key whose turn it is, and give it back."""
    found: list[Key] = []
    while (key := world.session.queue.take()) is not None:
        found.append(key)
        world.session.queue.done(key)
    return found


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
