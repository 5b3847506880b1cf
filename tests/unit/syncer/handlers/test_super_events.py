"""Events of a pod that wait for a change of the pod in the super cluster."""

from __future__ import annotations

import pytest

from syncer.controllers import events
from syncer.handlers.super_events import SuperEvents
from syncer.model.keys import Key
from tests.support.syncer.pod_events import ON, SPEC, queued, reads, world_with
from tests.support.syncer.sessions import SessionWorld


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
