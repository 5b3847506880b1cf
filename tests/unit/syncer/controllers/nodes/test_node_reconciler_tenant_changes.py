"""Labels, taints and cordons of a tenant stay on its nodes and apply to its pods."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.controllers.nodes import node_reconciler
from tests.support.syncer.nodes import SUPER_NODE, engaged, made, node_with, pending, work
from tests.support.syncer.sessions import CONTAINERS, SessionWorld, put

HIDDEN = "cloud.example/rack"


def required(twin: dict[str, Any]) -> Any:
    affinity = twin["spec"]["affinity"]["nodeAffinity"]
    return affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


@pytest.mark.parametrize(
    ("labels", "spec", "is_kept"),
    [
        ({}, {}, False),
        ({"mine": "1"}, {}, True),
        ({}, {"unschedulable": True}, True),
        ({}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}, True),
    ],
)
async def test_a_node_with_something_of_its_tenants_stays_without_pods(labels, spec, is_kept):
    world = engaged(SessionWorld())
    node_with(world, spec=spec, **labels)
    world.session.grace_timers.grace_period_seconds = 0
    await node_reconciler.reconcile_node(world.key("Node", "", "n"), world.session)
    assert ("delete", "Node", "n") in world.above.writes() or is_kept
    assert is_kept or not [verb for verb, *_ in world.above.writes() if verb == "apply"]


async def test_a_node_is_written_in_the_version_that_was_looked_at():
    world = engaged(SessionWorld())
    taint = {"key": "k", "effect": "NoSchedule"}
    node_with(world, spec={"taints": [taint]})
    await node_reconciler.reconcile_node(world.key("Node", "", "n"), world.session)
    body = next(body for body in world.above.bodies if "spec" in body)
    assert body["spec"]["taints"] == [taint]
    assert body["metadata"]["resourceVersion"] == str(world.above.revision - 1), "of its status"


async def test_a_taint_that_comes_with_the_answer_to_a_write_is_not_written_over():
    world = engaged(SessionWorld())
    node_with(world)
    put(world.super_cluster.nodes, {**SUPER_NODE, "status": {"capacity": {"cpu": "1"}}})
    pending(world, nodeName="n")
    taint = {"key": "late", "effect": "NoSchedule"}
    apply = world.above.apply

    async def tainted(resource: Any, body: Any, **options: Any) -> Any:
        written = await apply(resource, body, **options)
        return {**written, "spec": {"taints": [taint]}} if "status" in body else written

    world.above.apply = tainted  # type: ignore[method-assign, assignment]
    await node_reconciler.reconcile_node(world.key("Node", "", "n"), world.session)
    status, spec = world.above.bodies[-2:]
    assert "status" in status
    assert spec["spec"]["taints"] == [taint]


async def test_a_pod_for_which_no_node_is_left_is_held_and_reported_as_a_scheduler_would():
    world = engaged(SessionWorld())
    pending(world, nodeSelector={HIDDEN: "7"})
    await work(world)
    assert not world.below.writes()
    body = next(body for body in world.above.bodies if "status" in body)
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "Unschedulable"
    assert f"{HIDDEN}=7" in condition["message"]
    assert world.told() == ["FailedScheduling"]
    told = dict(condition)
    world.tenant_has(
        "Pod",
        "p",
        metadata={"resourceVersion": "5000"},
        spec={"containers": CONTAINERS, "nodeSelector": {HIDDEN: "7"}},
        status={"phase": "Pending", "conditions": [told]},
    )
    writes = len(world.above.writes())
    await work(world)
    assert len(world.above.writes()) == writes, "it says so already"


async def test_a_held_pod_is_looked_at_when_a_node_gets_the_label():
    world = engaged(SessionWorld())
    node_with(world)
    pending(world, nodeSelector={HIDDEN: "7"})
    await work(world)
    taken = drained(world)
    node_with(world, version=901, **{HIDDEN: "7"})
    assert world.key("Pod", "web", "p") in drained(world)
    await work(world)
    assert required(made(world)) == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    ]
    assert taken is not None


def drained(world: SessionWorld) -> list[Any]:
    """Return what is queued, and have it done."""
    found = []
    while (key := world.session.queue.take()) is not None:
        found.append(key)
        world.session.queue.done(key)
    return found


async def test_what_a_tenant_adds_wakes_pods_without_a_node_and_only_when_it_changes():
    world = engaged(SessionWorld())
    node_with(world)
    pending(world)
    pending(world, "bound", nodeName="n")
    drained(world)
    node_with(world, version=901, mine="1")
    pods = [key.name for key in drained(world) if key.kind == "Pod"]
    assert pods == ["p"]
    node_with(world, version=902, mine="1")
    assert not [key for key in drained(world) if key.kind == "Pod"]


async def test_a_label_that_the_super_node_gets_is_the_tenants_own_no_more():
    world = engaged(SessionWorld())
    node_with(world, disk="ssd")
    assert "n" in world.session.node_index.additions.nodes
    labelled = {**SUPER_NODE["metadata"], "resourceVersion": "4", "labels": {"disk": "hdd"}}
    put(world.super_cluster.nodes, {**SUPER_NODE, "metadata": labelled})
    assert not world.session.node_index.additions.nodes
    again = {**labelled, "uid": "made-anew", "labels": {}, "resourceVersion": "5"}
    put(world.super_cluster.nodes, {**SUPER_NODE, "metadata": again})
    assert not world.session.node_index.additions.nodes, "of an earlier node of the name"
