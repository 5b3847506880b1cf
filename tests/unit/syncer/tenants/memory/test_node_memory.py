"""Memory about virtual nodes: fields that a tenant's API does not know, and creations."""

from __future__ import annotations

import asyncio

from syncer.model.keys import HOME, Key
from syncer.tenants.memory import node_memory
from tests.support.syncer.clocks import Clock
from tests.support.syncer.idle import idle

POD = Key("vc", HOME, "Pod", "web", "p")


def test_a_field_that_a_tenant_leaves_out_is_tried_again_after_a_while():
    clock = Clock()
    memory = node_memory.NodeMemory(clock)
    assert not memory.is_field_unknown("declaredFeatures")
    memory.record_unknown_fields(["declaredFeatures"])
    assert memory.is_field_unknown("declaredFeatures")
    assert not memory.is_field_unknown("features")
    clock.now += node_memory.UNKNOWN_FIELD_SECONDS
    assert not memory.is_field_unknown("declaredFeatures")


async def test_one_reconcile_of_a_node_runs_at_a_time():
    memory, running = node_memory.NodeMemory(Clock()), []

    async def reconcile(name: str, end: asyncio.Event) -> None:
        async with memory.reserve("n"):
            running.append(name)
            await end.wait()

    first, second = asyncio.Event(), asyncio.Event()
    tasks = [asyncio.ensure_future(reconcile("a", first))]
    tasks.append(asyncio.ensure_future(reconcile("b", second)))
    await idle()
    assert running == ["a"]
    assert memory.get_creation("n") is not None
    first.set()
    await idle()
    assert running == ["a", "b"]
    second.set()
    await asyncio.gather(*tasks)
    assert memory.get_creation("n") is None


def test_a_pod_may_be_forgotten_while_the_waiting_pods_are_listed():
    memory = node_memory.NodeMemory(Clock())
    for name in ("p", "q"):
        memory.add_awaited(POD._replace(name=name), "n")
    for pod, node in memory.iterate_awaited():
        assert node == "n"
        memory.forget_pod(pod)
    assert not list(memory.iterate_awaited())
