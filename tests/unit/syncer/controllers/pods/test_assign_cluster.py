"""Placing a pod: its record is written first, and what may happen while that is awaited."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter
from syncer.controllers.pods import assign_cluster
from syncer.model.keys import ASSIGNMENT, HOME
from syncer.placement.assignments import UNASSIGNED
from tenancy import wellknown
from tenancy.specs import TargetGrant
from tests.support.syncer.sessions import put
from tests.support.syncer.two_clusters import SplitWorld

THERE = {"type": "virtual-kubelet"}
OWNER = {"kind": "ReplicaSet", "name": "r", "uid": "r-uid", "controller": True}


async def test_a_pod_is_recorded_before_anything_else(split: SplitWorld):
    split.pod(nodeSelector=THERE)
    assert await split.place() == Done()
    (asked,) = split.above.writes()
    assert asked == ("patch", "Pod", "p")
    metadata = split.above.bodies[-1]["metadata"]
    assert (metadata["uid"], metadata["resourceVersion"]) == ("p-uid", "50")
    name, _, digits = split.record().partition("/")
    assert (name, len(digits)) == ("c2", 16)
    assert split.there.writes() == split.below.writes() == []
    assert split.link.assignments.get_cluster(split.pod(version=51, record=split.record())) == "c2"


async def test_a_record_that_is_refused_assigns_no_pod(split: SplitWorld):
    entry = split.pod(nodeSelector=THERE)
    split.above.refusals["patch"] = errors.Conflict("changed")
    with pytest.raises(NotReadyYet):
        await split.place()
    assert split.link.assignments.get_cluster(entry) == UNASSIGNED


async def test_ten_of_one_moment_do_not_all_see_the_same_room(split: SplitWorld):
    requests = {"requests": {"cpu": "1"}}
    for number in range(8):
        split.pod(f"p{number}", containers=[{"name": "c", "resources": requests}])
        await split.place(f"p{number}")
    entries = split.link.stores["Pod"].list()
    seated = [split.link.assignments.get_cluster(entry) for entry in entries]
    assert sorted(seated) == ["c2"] * 4 + [HOME] * 4
    assert split.far.super_cluster.capacity.compute_free()["cpu"] == 0
    split.link.stores["Pod"].discard(entries[seated.index("c2")], live=True)
    assert split.far.super_cluster.capacity.compute_free()["cpu"] == 1, (
        "a promise ends with its pod"
    )


async def test_a_pod_that_goes_nowhere_is_reported_as_a_scheduler_would(split: SplitWorld):
    split.pod(nodeSelector={wellknown.TARGET: "c9"})
    verdict = await split.place()
    assert isinstance(verdict, RequeueAfter)
    assert split.told() == ["FailedScheduling"]
    message = split.above.bodies[-1]["message"]
    assert message.startswith("0/2 clusters are available: ")
    assert "c2 has no node that matches" in message


async def test_a_target_whose_node_is_cordoned_takes_no_more():
    split = SplitWorld()
    split.far.target.refusal = ""  # type: ignore[union-attr]
    status = SimpleNamespace(endpoint="https://192.0.2.8:6443")
    split.far.work.is_ready = True
    split.link.cluster = SimpleNamespace(status=status)  # type: ignore[assignment]
    node = {"metadata": {"name": "target-c2", "uid": "t"}, "spec": {"unschedulable": True}}
    put(split.link.stores["Node"], node)
    split.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    split.pod()
    assert isinstance(await split.place(), RequeueAfter)
    assert split.told() == ["FailedScheduling"]
    message = split.above.bodies[-1]["message"]
    assert message == "0/1 clusters are available: c2 is unschedulable."
    split.above.catch_up("Pod")
    put(split.link.stores["Node"], {"metadata": {**node["metadata"], "resourceVersion": "9"}})
    assert await split.place() == Done()
    assert split.record().startswith("c2/")


@pytest.mark.parametrize(
    "pod",
    [
        {"schedulingGates": [{"name": "g"}]},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
)
async def test_a_pod_that_is_held_or_going_is_not_placed(split: SplitWorld, pod: Any):
    split.pod(**pod)
    assert await split.place() == Done()
    assert split.above.writes() == []


async def test_a_pod_of_before_the_grant_stays_and_is_recorded(split: SplitWorld):
    split.pod()
    split.twin(split.session)
    split.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    await split.place()
    assert split.record().startswith("home/")


# --- what may happen while something is awaited ---------------------------------------------------


async def test_replicas_whose_records_are_on_their_way_are_spread_all_the_same(split: SplitWorld):
    patch = split.above.patch

    async def slow(*args: Any, **options: Any) -> Any:
        for _ in range(20):  # until all of them have chosen
            await asyncio.sleep(0)
        return await patch(*args, **options)

    split.above.patch = slow  # type: ignore[method-assign]
    requests = {"requests": {"cpu": "100m"}}
    names = [f"r{number}" for number in range(10)]
    for name in names:
        split.pod(
            name,
            metadata={"ownerReferences": [OWNER]},
            containers=[{"name": "c", "resources": requests}],
        )
    await asyncio.gather(*(split.place(name) for name in names))
    seated = [
        split.link.assignments.get_cluster(entry) for entry in split.link.stores["Pod"].list()
    ]
    assert sorted(seated) == ["c2"] * 5 + [HOME] * 5
    assert float(split.far.super_cluster.capacity.compute_free()["cpu"]) == 3.5


async def test_a_place_whose_record_is_refused_is_given_back(split: SplitWorld):
    entry = split.pod(nodeSelector=THERE, metadata={"ownerReferences": [OWNER]})
    before = split.far.super_cluster.capacity.compute_free()
    split.above.refusals["patch"] = errors.Conflict("changed")
    with pytest.raises(NotReadyYet):
        await split.place()
    assert split.link.assignments.count_peers(entry, "c2") == 0
    assert split.far.super_cluster.capacity.compute_free() == before


async def test_a_pod_that_goes_while_it_is_recorded_takes_no_cluster(split: SplitWorld):
    pod = split.pod(nodeSelector=THERE)
    patch = split.above.patch

    async def slow(*args: Any, **options: Any) -> Any:
        answer = await patch(*args, **options)
        split.link.stores["Pod"].discard(pod, live=True)
        return answer

    split.above.patch = slow  # type: ignore[method-assign]
    await split.place()
    assignments = split.link.assignments
    assert not assignments.has_pods_in("c2")
    assert not {**assignments._reservations, **assignments._reschedule_states}
    assert not split.far.super_cluster.capacity._reserved
    assert not split.far.pods.has_namespace("web")


async def test_what_was_promised_is_given_back_with_the_link(split: SplitWorld):
    split.pod(nodeSelector=THERE)
    await split.place()
    assert split.far.super_cluster.capacity._reserved
    split.link.assignments.release_all()
    assert not split.far.super_cluster.capacity._reserved


@pytest.mark.parametrize(("node", "cluster"), [("n", HOME), ("target-c2", "c2")])
async def test_a_pod_that_names_its_node_is_recorded_and_made(
    split: SplitWorld, node: str, cluster: str
):
    split.ready()
    pod = split.pod(nodeName=node)
    here = split.session if cluster == HOME else split.far
    with pytest.raises(NotReadyYet, match="record"):
        assign_cluster.check_may_create(pod, here)
    assert split.session.build_key(ASSIGNMENT, "web", "p") in split.taken()
    assert await split.place() == Done()
    assert split.record().startswith(f"{cluster}/")
    assign_cluster.check_may_create(
        split.pod(nodeName=node, record=split.record(), version=51), here
    )
    assert await split.place() == Done()
    assert len(split.above.writes()) == 1, "and never moves"
