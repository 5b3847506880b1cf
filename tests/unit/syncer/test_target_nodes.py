"""The node of a target follows the target's agent, which is a pod of the home cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.worker import Done
from syncer.engine import Engine
from syncer.home_wiring import HomeWiring
from syncer.keys import HOME, NODE, Key
from syncer.special.target_nodes import name_of
from syncer.wiring import SuperWiring
from tenancy import marks
from tests.unit.syncer.sessions import TENANT, put
from tests.unit.syncer.splits import Split


def agent(split: Split, address: str, *, registration: str = "r1", version: int = 70) -> None:
    """Have the pod of an agent, ready, on a node that the tenant sees as well."""
    metadata: dict[str, Any] = {
        "name": "vn-agent-target-c2-x",
        "namespace": "vc-manager",
        "uid": "a",
        "resourceVersion": str(version),
        "labels": {marks.SUPER_CLUSTER: registration, marks.TARGET: "c2"},
    }
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"podIP": address, "phase": "Running", "conditions": conditions}
    body = {"metadata": metadata, "spec": {"nodeName": "n"}, "status": status}
    put(split.link.home.agent_pods, body)


@pytest.fixture
def split() -> Split:
    made = Split()
    target: Any = made.far.target
    target.away_seconds, target.version = lambda: 0.0, "v1.36.4"
    sessions = {HOME: {TENANT.uid: made.session}, "c2": {TENANT.uid: made.far}}
    HomeWiring(made.super_cluster, sessions[HOME], sessions).subscribe()
    made.taken()
    return made


def key(split: Split) -> Key:
    return split.far.key(NODE, "", "target-c2")


async def shown(split: Split) -> list[dict[str, str]]:
    """Reconcile, and return the addresses that were written."""
    engine = Engine({HOME: {TENANT.uid: split.session}, "c2": {TENANT.uid: split.far}})
    assert await engine.reconcile(key(split)) == Done()
    (status,) = [each["status"] for each in split.above.bodies[-2:] if "status" in each]
    return list(status.get("addresses") or ())


async def test_it_is_looked_at_when_its_agent_comes_and_shows_where_that_is(split: Split):
    agent(split, "10.2.0.9")
    assert key(split) in split.taken()
    assert await shown(split) == [{"type": marks.AGENT_ADDRESS, "address": "10.2.0.9"}]
    agent(split, "10.2.0.10", version=71)
    assert key(split) in split.taken()


async def test_the_agent_of_another_target_is_none_of_its_business(split: Split):
    agent(split, "10.2.0.9", registration="r2")
    assert key(split) not in split.taken()
    assert await shown(split) == []


async def test_the_node_that_it_runs_on_has_no_agent_by_it(split: Split):
    """Or logs of the pods at home would be asked for there."""
    agent(split, "10.2.0.9")
    assert split.link.home.agents.on("n") is None
    assert split.session.key(NODE, "", "n") not in split.taken()


def real(*, version: int = 1, **status: Any) -> dict[str, Any]:
    """Return a node of the target's."""
    given = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": f"t{version}"}]
    return {
        "metadata": {"name": "there-1", "uid": "t", "resourceVersion": str(version), "labels": {}},
        "spec": {},
        "status": {"capacity": given, "allocatable": given, "conditions": conditions, **status},
    }


CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "a sign of life": (real(version=2), False),
    "its images": (real(version=2, images=[{"names": ["a"]}]), False),
    "more to give": (real(version=2, allocatable={"cpu": "5"}), True),
    "not ready": (real(version=2, conditions=[{"type": "Ready", "status": "False"}]), True),
    "cordoned": ({**real(version=2), "spec": {"unschedulable": True}}, True),
    "another zone": (
        {
            **real(version=2),
            "metadata": {
                **real(version=2)["metadata"],
                "labels": {"topology.kubernetes.io/zone": "z"},
            },
        },
        True,
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_it_follows_what_the_nodes_there_have_and_nothing_else_of_them(split: Split, what: str):
    """Or a node that joins would be shown with the next look at everything, minutes later."""
    below = split.far.super_cluster
    SuperWiring(below, {TENANT.uid: split.far}).subscribe()
    put(below.nodes, real())
    assert key(split) in split.taken()
    changed, counts = CHANGES[what]
    put(below.nodes, changed)
    assert (key(split) in split.taken()) == counts
    assert split.session.key(NODE, "", name_of(HOME)) not in split.taken()
