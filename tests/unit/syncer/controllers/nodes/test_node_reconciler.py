"""The reconcile of a node: the tenants that see it, the fields they see, and the writes."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any, Self

import pytest

from syncer.controllers import parked_writes, reverted_edits
from syncer.controllers.nodes import node_reconciler
from syncer.safety.hot_loop_guard import REPEATS_TO_PARK
from syncer.safety.parked_differences import SYNC_PARKED
from tenancy import wellknown
from tests.support.syncer.nodes import ON_NODE, SUPER_NODE
from tests.support.syncer.sessions import CONTAINERS, SessionWorld, is_counted, put


async def test_writes_of_a_node_are_counted():
    world = SessionWorld()
    put(world.super_cluster.nodes, SUPER_NODE)
    world.tenant_has("Pod", "p", spec=ON_NODE)
    world.super_has("Pod", "p", spec=ON_NODE)
    key = world.key("Node", "", "n")
    await node_reconciler.reconcile_node(key, world.session)
    assert len(world.above.writes("Node")) == 2
    assert is_counted(world, key, 2)


async def test_a_nodes_field_that_the_tenant_leaves_out_is_not_sent_again():
    world = SessionWorld()
    world.tenant_has("Pod", "p", spec=ON_NODE)
    world.super_has("Pod", "p", spec=ON_NODE)
    key = world.key("Node", "", "n")
    apply = world.above.apply

    async def older(*arguments: Any, **options: Any) -> Any:
        answer = await apply(*arguments, **options)
        for field in ("declaredFeatures", "features"):
            answer.get("status", {}).pop(field, None)
        return answer

    world.above.apply = older  # type: ignore[method-assign, assignment]
    for revision in range(3):
        name = {"name": "n", "uid": "n", "resourceVersion": str(revision + 1)}
        status = {"declaredFeatures": ["x"], "features": {"supplementalGroupsPolicy": True}}
        put(world.super_cluster.nodes, {"metadata": name, "spec": {}, "status": status})
        await node_reconciler.reconcile_node(key, world.session)
        world.session.expectations.clear()
    sent = [body["status"] for body in world.above.bodies if "status" in body]
    assert ["declaredFeatures" in each for each in sent] == [True, False, False]
    assert ["features" in each for each in sent] == [True, False, False]


class Noon(datetime):
    """A clock that stands still: a second that passes would make another condition."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(2026, 1, 1, 12, tzinfo=tz)


async def test_a_node_that_is_put_back_each_time_is_parked_and_reported(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(node_reconciler, "datetime", Noon)
    world = SessionWorld()
    put(world.super_cluster.nodes, {"metadata": {"name": "n", "uid": "n", "resourceVersion": "3"}})
    world.tenant_has("Pod", "p", spec=ON_NODE)
    world.super_has("Pod", "p", spec=ON_NODE)
    key = world.key("Node", "", "n")
    for number in range(REPEATS_TO_PARK + 3):
        metadata = {
            "labels": {wellknown.VIRTUAL_NODE: "true"},
            "resourceVersion": str(2000 + number),
        }
        world.tenant_has("Node", "n", namespace="", metadata=metadata, spec={}, status={})
        await node_reconciler.reconcile_node(key, world.session)
    assert len(world.above.writes("Node")) == 2 * REPEATS_TO_PARK
    assert set(world.told()) == {reverted_edits.SYNC_REVERTED, SYNC_PARKED}
    assert "Node /n" in parked_writes.format_parked_message(world.link)


@pytest.mark.parametrize(
    ("twin", "is_shown"),
    [
        (None, False),
        ({"spec": {"containers": CONTAINERS}}, False),
        ({"spec": {**ON_NODE, "nodeName": "other"}}, False),
        ({"spec": ON_NODE, "uid": "an-earlier-pod"}, False),
        ({"spec": ON_NODE}, True),
    ],
)
async def test_a_pod_that_only_names_a_node_does_not_show_it(twin, is_shown):
    world = SessionWorld()
    put(world.super_cluster.nodes, SUPER_NODE)
    world.tenant_has("Pod", "p", spec=ON_NODE)
    if twin is not None:
        world.super_has("Pod", "p", **twin)
    await node_reconciler.reconcile_node(world.key("Node", "", "n"), world.session)
    assert bool(world.above.writes("Node")) is is_shown


@pytest.mark.parametrize(("recorded", "is_kept"), [("n", True), ("", False), ("guessed", False)])
async def test_a_finished_pod_keeps_the_node_that_was_shown_and_none_of_its_tenants_making(
    recorded, is_kept
):
    world = SessionWorld()
    put(world.super_cluster.nodes, SUPER_NODE)
    world.tenant_has("Pod", "p", spec=ON_NODE, status={"phase": "Succeeded"})
    own = {"annotations": {wellknown.UID: recorded}}
    world.tenant_has("Node", "n", namespace="", metadata=own, spec={}, status={})
    world.session.grace_timers.grace_period_seconds = 0
    await node_reconciler.reconcile_node(world.key("Node", "", "n"), world.session)
    verbs = {verb for verb, *_ in world.above.writes("Node")}
    assert verbs == ({"apply"} if is_kept else set())
    assert set(world.session.view.list_shown_nodes()) == ({"n"} if is_kept else set())
