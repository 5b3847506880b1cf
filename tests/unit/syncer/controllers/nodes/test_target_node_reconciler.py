"""The node of a target follows the target's agent, which is a pod of the home cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.controller.worker import Done
from syncer.handlers import dependents
from syncer.handlers.dispatcher import Dispatcher
from syncer.handlers.home_events import HomeEvents
from syncer.handlers.target_events import TargetEvents
from syncer.model.keys import HOME, NODE, Key
from syncer.rules.placement.target_node import build_node_name
from tenancy import wellknown
from tests.support.syncer.sessions import TENANT, put
from tests.support.syncer.two_clusters import SplitWorld


def agent(split: SplitWorld, address: str, *, registration: str = "r1", version: int = 70) -> None:
    """Have the pod of an agent, ready, on a node that the tenant sees as well."""
    metadata: dict[str, Any] = {
        "name": "vn-agent-target-c2-x",
        "namespace": "vc-manager",
        "uid": "a",
        "resourceVersion": str(version),
        "labels": {wellknown.SUPER_CLUSTER: registration, wellknown.TARGET: "c2"},
    }
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"podIP": address, "phase": "Running", "conditions": conditions}
    body = {"metadata": metadata, "spec": {"nodeName": "n"}, "status": status}
    put(split.link.home_cluster.agent_pods, body)


@pytest.fixture
def split() -> SplitWorld:
    made = SplitWorld()
    target: Any = made.far.target
    target.get_unreachable_seconds, target.version = lambda: 0.0, "v1.36.4"
    sessions = {HOME: {TENANT.uid: made.session}, "c2": {TENANT.uid: made.far}}
    HomeEvents(made.super_cluster, sessions[HOME], sessions).subscribe()
    made.taken()
    return made


def key(split: SplitWorld) -> Key:
    return split.far.build_key(NODE, "", "target-c2")


async def shown(split: SplitWorld) -> list[dict[str, str]]:
    """Reconcile, and return the addresses that were written."""
    engine = Dispatcher({HOME: {TENANT.uid: split.session}, "c2": {TENANT.uid: split.far}})
    assert await engine.reconcile(key(split)) == Done()
    (status,) = [each["status"] for each in split.above.bodies[-2:] if "status" in each]
    return list(status.get("addresses") or ())


async def test_it_is_looked_at_when_its_agent_comes_and_shows_where_that_is(split: SplitWorld):
    agent(split, "10.2.0.9")
    assert key(split) in split.taken()
    assert await shown(split) == [{"type": wellknown.AGENT_ADDRESS, "address": "10.2.0.9"}]
    agent(split, "10.2.0.10", version=71)
    assert key(split) in split.taken()


async def test_the_agent_of_another_target_is_none_of_its_business(split: SplitWorld):
    agent(split, "10.2.0.9", registration="r2")
    assert key(split) not in split.taken()
    assert await shown(split) == []


async def test_the_node_that_it_runs_on_has_no_agent_by_it(split: SplitWorld):
    """Otherwise logs of the pods at home would be requested there."""
    agent(split, "10.2.0.9")
    assert split.link.home_cluster.agents.get_for_node("n") is None
    assert split.session.build_key(NODE, "", "n") not in split.taken()


def real(**status: Any) -> dict[str, Any]:
    """Return a node of the target's."""
    given = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": f"t{len(status)}"}]
    version = {"resourceVersion": str(len(status))}
    return {
        "metadata": {"name": "there-1", "uid": "t", "labels": {}, **version},
        "spec": {},
        "status": {"capacity": given, "allocatable": given, "conditions": conditions, **status},
    }


def placed(**labels: str) -> dict[str, Any]:
    """Return it with labels."""
    made = real(a=1)
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


LESS = {"cpu": "4", "memory": "7Gi", "pods": "110"}
CHANGES: dict[str, tuple[dict[str, Any] | None, bool]] = {
    "a sign of life": (real(a=1), False),
    "its images": (real(images=[{"names": ["a"]}]), False),
    "a label of its own": (placed(disk="fast"), False),
    "less to give": (real(allocatable=LESS), True),
    "less in all": (real(capacity=LESS), True),
    "not ready": (real(conditions=[{"type": "Ready", "status": "False"}]), True),
    "cordoned": ({**real(a=1), "spec": {"unschedulable": True}}, True),
    "another zone": (placed(**{"topology.kubernetes.io/zone": "z"}), True),
    "another region": (placed(**{"topology.kubernetes.io/region": "r"}), True),
    "gone": (None, True),
}


@pytest.mark.parametrize("what", CHANGES)
def test_it_follows_what_the_nodes_there_have_and_nothing_else_of_them(
    split: SplitWorld, monkeypatch: pytest.MonkeyPatch, what: str
):
    """Otherwise a node that joins would be shown with the next resync only, minutes later."""
    monkeypatch.setattr(dependents, "NODE_BATCH_SECONDS", 0.0)
    below = split.far.super_cluster
    TargetEvents(split.far.target, {TENANT.uid: split.far}).subscribe()
    before = put(below.nodes, real())
    assert key(split) in split.taken()
    changed, counts = CHANGES[what]
    if changed is None:
        below.nodes.discard(before, live=True)
    else:
        put(below.nodes, changed)
    assert split.taken() == ({key(split)} if counts else set())


async def test_what_its_nodes_do_in_a_moment_is_one_look(split: SplitWorld):
    below = split.far.super_cluster
    TargetEvents(split.far.target, {TENANT.uid: split.far}).subscribe()
    for number in range(50):
        put(below.nodes, real(allocatable={"cpu": str(number)}))
    assert split.taken() == set()
    assert list(split.link.queue.snapshot()["delayed"]) == [str(key(split))]


async def test_the_home_cluster_has_no_such_node(
    split: SplitWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dependents, "NODE_BATCH_SECONDS", 0.0)
    put(split.super_cluster.nodes, real())
    assert split.session.build_key(NODE, "", build_node_name(HOME)) not in split.taken()
