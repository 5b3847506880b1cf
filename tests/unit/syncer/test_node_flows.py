"""What the key of a node does: whom it is shown to, what of it, and how often it is written."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from typing import Any

import pytest

from kubeio import errors
from kubeio.worker import Wait
from syncer import kinds, parking, patrol
from syncer.flows import nodes
from syncer.flows import pods as flow
from syncer.fuse import REPEATS, WRITES
from syncer.home_wiring import HomeWiring
from syncer.wiring import wire_tenant
from tenancy import marks
from tenancy.policies import parse_tenant_policy
from tests.unit.syncer.sessions import CONTAINERS, World, is_counted, put

SUPER_NODE: dict[str, Any] = {
    "metadata": {"name": "n", "uid": "n", "resourceVersion": "3"},
    "spec": {},
    "status": {},
}
ON_NODE = {"nodeName": "n", "containers": CONTAINERS}
EXPOSING_ALL = {"metadata": {"name": "own"}, "spec": {"nodes": {"expose": "all"}}}


async def test_writes_of_a_node_are_counted():
    world = World()
    put(world.super_cluster.nodes, SUPER_NODE)
    world.tenant_has("Pod", "p", spec=ON_NODE)
    world.super_has("Pod", "p", spec=ON_NODE)
    key = world.key("Node", "", "n")
    await nodes.reconcile(key, world.session)
    assert len(world.above.writes("Node")) == 2
    assert is_counted(world, key, 2)


async def test_a_nodes_field_that_the_tenant_leaves_out_is_not_sent_again():
    world = World()
    world.tenant_has("Pod", "p", spec=ON_NODE)
    world.super_has("Pod", "p", spec=ON_NODE)
    key = world.key("Node", "", "n")
    for revision in range(3):
        name = {"name": "n", "uid": "n", "resourceVersion": str(revision + 1)}
        status = {"declaredFeatures": ["x"], "features": {"supplementalGroupsPolicy": True}}
        put(world.super_cluster.nodes, {"metadata": name, "spec": {}, "status": status})
        await nodes.reconcile(key, world.session)
        world.session.expectations.forget()
    sent = [body["status"] for body in world.above.bodies if "status" in body]
    assert ["declaredFeatures" in each for each in sent] == [True, False, False]
    assert ["features" in each for each in sent] == [True, False, False]


async def test_a_node_that_is_put_back_each_time_is_parked_and_told():
    world = World()
    put(world.super_cluster.nodes, {"metadata": {"name": "n", "uid": "n", "resourceVersion": "3"}})
    world.tenant_has("Pod", "p", spec=ON_NODE)
    world.super_has("Pod", "p", spec=ON_NODE)
    key = world.key("Node", "", "n")
    for number in range(REPEATS + 3):
        metadata = {"labels": {marks.VIRTUAL_NODE: "true"}, "resourceVersion": str(2000 + number)}
        world.tenant_has("Node", "n", namespace="", metadata=metadata, spec={}, status={})
        await nodes.reconcile(key, world.session)
    assert len(world.above.writes("Node")) == 2 * REPEATS
    assert set(world.told()) == {parking.REASON}
    assert "Node /n" in parking.sentence(world.link)


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
    world = World()
    put(world.super_cluster.nodes, SUPER_NODE)
    world.tenant_has("Pod", "p", spec=ON_NODE)
    if twin is not None:
        world.super_has("Pod", "p", **twin)
    await nodes.reconcile(world.key("Node", "", "n"), world.session)
    assert bool(world.above.writes("Node")) is is_shown


@pytest.mark.parametrize(("recorded", "is_kept"), [("n", True), ("", False), ("guessed", False)])
async def test_a_finished_pod_keeps_the_node_that_was_shown_and_none_of_its_tenants_making(
    recorded, is_kept
):
    world = World()
    put(world.super_cluster.nodes, SUPER_NODE)
    world.tenant_has("Pod", "p", spec=ON_NODE, status={"phase": "Succeeded"})
    own = {"annotations": {marks.UID: recorded}}
    world.tenant_has("Node", "n", namespace="", metadata=own, spec={}, status={})
    world.session.reminders.linger_seconds = 0
    await nodes.reconcile(world.key("Node", "", "n"), world.session)
    verbs = {verb for verb, *_ in world.above.writes("Node")}
    assert verbs == ({"apply"} if is_kept else set())
    assert set(world.session.view.nodes()) == ({"n"} if is_kept else set())


KEY_OF_POD = ("Pod", "web", "p")


def bound_below(world: World, *names: str) -> None:
    """Have pods that are bound below, to a node that the tenant does not see yet."""
    put(world.super_cluster.nodes, SUPER_NODE)
    for name in names:
        world.tenant_has("Pod", name, spec={"containers": CONTAINERS}, status={"phase": "Pending"})
        world.super_has("Pod", name, spec=ON_NODE)


def shown(world: World, version: int, *, is_whole: bool) -> None:
    """The tenant's watch shows the node."""
    ports = {"daemonEndpoints": {"kubeletEndpoint": {"Port": marks.AGENT_PORT}}}
    metadata = {
        "resourceVersion": str(version),
        "annotations": {marks.UID: "n"},
        "labels": {marks.VIRTUAL_NODE: "true"},
    }
    status = ports if is_whole else {}
    world.tenant_has("Node", "n", namespace="", metadata=metadata, spec={}, status=status)


class Slow:
    """The tenant's API, which takes a node when it is told to."""

    def __init__(self, world: World) -> None:
        self.goes_on = asyncio.Event()
        self._apply = world.above.apply
        world.above.apply = self  # type: ignore[method-assign, assignment]

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        await self.goes_on.wait()
        return await self._apply(*arguments, **options)


async def present(world: World, name: str = "p") -> None:
    """A pod is about to be bound."""
    await nodes.present("n", world.key("Pod", "web", name), world.session)


async def test_a_node_is_made_for_the_first_pod_that_needs_it_and_others_stand_by():
    world = World()
    bound_below(world, "p", "q", "r")
    slow = Slow(world)
    pods = [asyncio.ensure_future(present(world, name)) for name in "pqr"]
    await asyncio.sleep(0)
    assert not any(pod.done() for pod in pods)
    slow.goes_on.set()
    await asyncio.gather(*pods)
    assert world.above.writes() == [("apply", "Node", "n")] * 2
    assert not world.session.reminders.nodes
    assert not world.session.reminders.making_nodes
    await present(world)
    assert len(world.above.writes()) == 2, "what was answered counts until it is shown"


async def test_a_bound_pod_is_bound_in_the_same_run():
    world = World()
    world.ready()
    bound_below(world, "p")
    await flow.reconcile(kinds.BY_NAME["Pod"], world.key(*KEY_OF_POD), world.session)
    written = world.above.writes()[:3]
    assert [(verb, kind) for verb, kind, _ in written] == [
        ("apply", "Node"),
        ("apply", "Node"),
        ("create", "Pod/binding"),
    ]


async def test_a_node_that_cannot_be_made_is_its_own_keys_matter():
    world = World()
    bound_below(world, "p", "q")
    world.above.refusals["apply"] = errors.Unavailable("no answer")
    slow = Slow(world)
    world.session.queue.add(world.key("Pod", "web", "another"))
    pods = [asyncio.ensure_future(present(world, name)) for name in "pq"]
    await asyncio.sleep(0)
    slow.goes_on.set()
    for found in await asyncio.gather(*pods, return_exceptions=True):
        assert isinstance(found, Wait)
    assert len(world.above.writes()) == 1, "the second has waited for the first"
    assert world.session.queue.take() == world.key("Node", "", "n")
    waiting = {world.key("Pod", "web", name) for name in "pq"}
    assert world.session.reminders.waiting_for(world.key("Node", "", "n")) == waiting


def take_no_status(world: World) -> None:
    """Have the tenant's API server fail at the status of what it is sent."""
    apply = world.above.apply

    async def half(resource: Any, body: Any, **options: Any) -> Any:
        if options.get("subresource"):
            raise errors.Unavailable("no answer")
        return await apply(resource, body, **options)

    world.above.apply = half  # type: ignore[method-assign, assignment]


async def test_a_node_of_which_only_half_was_taken_is_not_bound_to():
    world = World()
    bound_below(world, "p")
    take_no_status(world)
    for _ in range(2):
        with pytest.raises(Wait):
            await present(world)
    shown(world, 1001, is_whole=False)  # and so it is after a restart
    with pytest.raises(Wait):
        await present(world)


async def test_a_node_that_was_whole_once_may_be_half_made_the_next_time():
    world = World()
    bound_below(world, "p")
    wire_tenant(world.session)
    await present(world)
    shown(world, world.above.revision, is_whole=True)
    world.session.stores["Node"].discard(world.session.stores["Node"].list()[0], live=True)
    take_no_status(world)
    world.session.reminders.nodes[world.key("Pod", "web", "p")] = "n"
    with pytest.raises(errors.Unavailable):
        await nodes.reconcile(world.key("Node", "", "n"), world.session)
    with pytest.raises(Wait):
        await present(world)


async def test_a_node_whose_status_is_parked_is_not_bound_to(monkeypatch):
    world = World()
    bound_below(world, "p")
    monkeypatch.setattr(parking, "is_parked", lambda part, *_: part.subresource == "status")
    with pytest.raises(Wait):
        await present(world)


async def test_what_the_cache_shows_of_a_node_counts_once_it_has_caught_up():
    world = World()
    bound_below(world, "p")
    wire_tenant(world.session)
    await present(world)
    first, last = world.above.revision - 1, world.above.revision
    shown(world, first, is_whole=False)
    await present(world)
    assert len(world.above.writes()) == 2, "the other half of it is on its way"
    shown(world, last, is_whole=False)  # somebody took its status away
    with pytest.raises(Wait):
        await present(world)


async def test_a_node_that_was_taken_away_is_made_anew():
    world = World()
    bound_below(world, "p")
    wire_tenant(world.session)
    await present(world)
    shown(world, world.above.revision, is_whole=True)
    await present(world)
    assert len(world.above.writes()) == 2
    world.session.stores["Node"].discard(world.session.stores["Node"].list()[0], live=True)
    await present(world)
    assert len(world.above.writes()) == 4


async def test_a_node_that_went_before_the_cache_showed_it_is_made_anew():
    world = World()
    bound_below(world, "p")
    wire_tenant(world.session)
    await present(world)
    shown(world, world.above.revision - 1, is_whole=False)
    world.session.stores["Node"].discard(world.session.stores["Node"].list()[0], live=True)
    await present(world)
    assert len(world.above.writes()) == 4


async def test_no_node_is_made_that_is_gone_below():
    world = World()
    bound_below(world, "p")
    world.super_cluster.nodes.discard(world.super_cluster.nodes.list()[0], live=True)
    with pytest.raises(Wait):
        await present(world)
    assert not world.above.writes()


async def test_a_node_that_flaps_is_not_made_past_its_pause():
    world = World()
    bound_below(world, "p")
    for _ in range(WRITES + 1):
        world.session.fuse.wrote(world.key("Node", "", "n"))
    with pytest.raises(Wait):
        await present(world)
    assert not world.above.writes()


async def test_the_key_of_a_node_waits_for_the_pod_that_makes_it():
    world = World()
    bound_below(world, "p")
    slow = Slow(world)
    pod = asyncio.ensure_future(present(world))
    await asyncio.sleep(0)
    own = asyncio.ensure_future(nodes.reconcile(world.key("Node", "", "n"), world.session))
    slow.goes_on.set()
    await asyncio.gather(pod, own)
    assert len(world.above.writes()) == 2


async def test_a_pod_that_is_stopped_while_it_makes_a_node_leaves_that_to_the_next():
    world = World()
    bound_below(world, "p", "q")
    slow = Slow(world)
    pod = asyncio.ensure_future(present(world))
    other = asyncio.ensure_future(present(world, "q"))
    await asyncio.sleep(0)
    pod.cancel()
    with pytest.raises(Wait):
        await other
    slow.goes_on.set()
    await present(world, "q")
    assert len(world.above.writes()) == 2


async def test_a_node_that_was_removed_does_not_count_as_made():
    world = World()
    bound_below(world, "p")
    wire_tenant(world.session)
    await present(world)
    shown(world, world.above.revision, is_whole=True)
    for store in (world.session.stores["Pod"], world.super_cluster.stores["Pod"]):
        store.discard(store.list()[0], live=True)
    world.session.reminders.linger_seconds = 0
    await nodes.reconcile(world.key("Node", "", "n"), world.session)
    assert world.above.writes()[-1] == ("delete", "Node", "n")
    assert not world.session.reminders.made_nodes


async def test_of_a_pod_that_goes_before_its_node_could_be_shown_nothing_is_remembered():
    """Also where no node's key ever looks who is about to name it."""
    world = World(parse_tenant_policy(EXPOSING_ALL))
    bound_below(world, "p")
    wire_tenant(world.session)
    world.above.refusals["apply"] = errors.Forbidden("a webhook of the tenant's")
    with pytest.raises(Wait):
        await present(world)
    assert world.session.reminders.nodes
    world.session.stores["Pod"].discard(world.session.stores["Pod"].list()[0], live=True)
    assert not world.session.reminders.nodes


# --- what a tenant adds to its nodes --------------------------------------------------------------

HIDDEN = "cloud.example/rack"


def engaged(world: World) -> World:
    """Have the caches tell the session what happens, on both sides."""
    wire_tenant(world.session)
    HomeWiring(world.super_cluster, {"vc-uid": world.session}).subscribe()
    world.ready()
    return world


def node_with(world: World, *, version: int = 900, spec: Any = None, **labels: str) -> None:
    """Show the tenant the super node, with these labels of its own."""
    if world.super_cluster.nodes.get("", "n") is None:
        put(world.super_cluster.nodes, SUPER_NODE)
    metadata = {
        "resourceVersion": str(version),
        "annotations": {marks.UID: "n", marks.TAINTS: ""},
        "labels": {marks.VIRTUAL_NODE: "true", **labels},
    }
    world.tenant_has("Node", "n", namespace="", metadata=metadata, spec=spec or {}, status={})


def pending(world: World, name: str = "p", **spec: Any) -> None:
    """Have a pod that nothing is below of."""
    world.tenant_has(
        "Pod", name, spec={"containers": CONTAINERS, **spec}, status={"phase": "Pending"}
    )


async def work(world: World, name: str = "p") -> None:
    """Work on a pod; the caches show what was written before."""
    world.session.expectations.forget()
    await flow.reconcile(kinds.BY_NAME["Pod"], world.key("Pod", "web", name), world.session)


def made(world: World) -> dict[str, Any]:
    """Return the last pod that was made below."""
    found: dict[str, Any] = world.below.bodies[-1]
    assert found["kind"] == "Pod"
    return found


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
    world = engaged(World())
    node_with(world, spec=spec, **labels)
    world.session.reminders.linger_seconds = 0
    await nodes.reconcile(world.key("Node", "", "n"), world.session)
    assert ("delete", "Node", "n") in world.above.writes() or is_kept
    assert is_kept or not [verb for verb, *_ in world.above.writes() if verb == "apply"]


async def test_a_node_is_written_in_the_version_that_was_looked_at():
    world = engaged(World())
    taint = {"key": "k", "effect": "NoSchedule"}
    node_with(world, spec={"taints": [taint]})
    await nodes.reconcile(world.key("Node", "", "n"), world.session)
    body = next(body for body in world.above.bodies if "spec" in body)
    assert body["spec"]["taints"] == [taint]
    assert body["metadata"]["resourceVersion"] == "900"


async def test_a_taint_that_comes_with_the_answer_to_a_write_is_not_written_over():
    world = engaged(World())
    node_with(world)
    put(world.super_cluster.nodes, {**SUPER_NODE, "status": {"capacity": {"cpu": "1"}}})
    pending(world, nodeName="n")
    taint = {"key": "late", "effect": "NoSchedule"}
    apply = world.above.apply

    async def tainted(resource: Any, body: Any, **options: Any) -> Any:
        written = await apply(resource, body, **options)
        return {**written, "spec": {"taints": [taint]}} if "status" in body else written

    world.above.apply = tainted  # type: ignore[method-assign, assignment]
    await nodes.reconcile(world.key("Node", "", "n"), world.session)
    status, spec = world.above.bodies[-2:]
    assert "status" in status
    assert spec["spec"]["taints"] == [taint]


async def test_a_pod_for_which_no_node_is_left_is_held_and_told_as_a_scheduler_would():
    world = engaged(World())
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
    world = engaged(World())
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


def drained(world: World) -> list[Any]:
    """Return what is queued, and have it done."""
    found = []
    while (key := world.session.queue.take()) is not None:
        found.append(key)
        world.session.queue.done(key)
    return found


async def test_what_a_tenant_adds_wakes_pods_without_a_node_and_only_when_it_changes():
    world = engaged(World())
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
    world = engaged(World())
    node_with(world, disk="ssd")
    assert "n" in world.session.nodes.additions.nodes
    labelled = {**SUPER_NODE["metadata"], "resourceVersion": "4", "labels": {"disk": "hdd"}}
    put(world.super_cluster.nodes, {**SUPER_NODE, "metadata": labelled})
    assert not world.session.nodes.additions.nodes
    again = {**labelled, "uid": "made-anew", "labels": {}, "resourceVersion": "5"}
    put(world.super_cluster.nodes, {**SUPER_NODE, "metadata": again})
    assert not world.session.nodes.additions.nodes, "of an earlier node of the name"


async def twin_waits(world: World, **metadata: Any) -> None:
    world.super_has("Pod", "p", spec={"containers": CONTAINERS}, status={}, metadata=metadata)
    await work(world)


def deleted(world: World) -> bool:
    return ("delete", "Pod", "p") in world.below.writes()


async def test_a_twin_that_waits_is_made_anew_when_its_tenant_says_otherwise():
    world = engaged(World())
    node_with(world)
    pending(world, nodeSelector={"mine": "1"})
    await twin_waits(world)
    assert not deleted(world)
    node_with(world, version=901, mine="1")
    await work(world)
    assert deleted(world)


async def as_made(world: World) -> dict[str, Any]:
    """Have a pod made, and show its twin as it was sent."""
    await work(world)
    body = copy.deepcopy(made(world))
    status = {"phase": "Pending"}
    metadata = {**body["metadata"], "uid": "p-below", "resourceVersion": "60"}
    put(world.super_cluster.stores["Pod"], {**body, "metadata": metadata, "status": status})
    return body


async def test_a_twin_as_it_would_be_made_now_stays_as_it_is():
    world = engaged(World())
    node_with(world, mine="1")
    pending(world, nodeSelector={"mine": "1"})
    assert marks.PLACEMENT in (await as_made(world))["metadata"]["annotations"]
    await work(world)
    assert [verb for verb, *_ in world.below.writes("Pod")] == ["create"]
    node_with(world, version=901)
    await work(world)
    assert deleted(world)


@pytest.mark.parametrize(
    ("spec", "status"),
    [({"nodeName": "n"}, {"phase": "Running"}), ({}, {"phase": "Failed"})],
)
async def test_a_twin_that_runs_or_has_ended_is_never_made_anew(spec, status):
    world = engaged(World())
    node_with(world, spec={"unschedulable": True})
    pending(world)
    world.super_has("Pod", "p", spec={"containers": CONTAINERS, **spec}, status=status)
    with contextlib.suppress(Wait):  # for the node to be shown whole
        await work(world)
    assert not deleted(world)


async def test_a_twin_is_deleted_in_the_version_that_was_looked_at():
    world = engaged(World())
    node_with(world, spec={"unschedulable": True})
    pending(world)
    asked: dict[str, Any] = {}

    async def delete(_: Any, __: str, **options: Any) -> dict[str, Any]:
        asked.update(options)
        return {"kind": "Status"}

    world.below.delete = delete  # type: ignore[method-assign]
    await twin_waits(world)
    assert (asked["uid"], asked["resource_version"]) == ("p-below", "60")


async def test_a_twin_that_comes_back_as_it_was_is_left_in_the_end():
    """A webhook of the super cluster that takes the record off must not spin."""
    world = engaged(World())
    node_with(world, spec={"unschedulable": True})
    pending(world)
    for number in range(REPEATS + 3):
        await twin_waits(world, resourceVersion=str(100 + number))
    deletes = [verb for verb, kind, _ in world.below.writes("Pod") if verb == "delete"]
    assert len(deletes) == REPEATS
    assert parking.REASON in world.told()


async def test_the_patrol_finds_a_twin_that_would_be_made_otherwise():
    world = engaged(World())
    node_with(world)
    pending(world)
    await as_made(world)
    key = world.key("Pod", "web", "p")
    world.session.expectations.forget()
    assert not patrol.differs(key, world.session)
    node_with(world, version=901, spec={"unschedulable": True})
    assert patrol.differs(key, world.session)


# --- a pod whose tenant named the node ------------------------------------------------------------

NO_PORTS = "0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."


def unschedulable(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"phase": "Pending", "conditions": [{**condition, "message": message}]}


async def test_a_pod_that_named_a_node_which_cannot_have_it_has_failed():
    world = engaged(World())
    node_with(world)
    pending(world, nodeName="n")
    status = unschedulable(NO_PORTS)
    world.super_has("Pod", "p", spec={"containers": CONTAINERS}, status=status)
    await work(world)
    assert deleted(world)
    (said,) = [body["status"] for body in world.above.bodies if "status" in body]
    assert (said["phase"], said["reason"]) == ("Failed", "NodePorts")
    assert world.below.writes("Pod") == [("delete", "Pod", "p")]
    # Its twin is gone, and there is no other one.
    world.tenant_has(
        "Pod",
        "p",
        metadata={"resourceVersion": "5000"},
        spec={"containers": CONTAINERS, "nodeName": "n"},
        status=said,
    )
    world.super_cluster.stores["Pod"].discard(
        world.super_cluster.stores["Pod"].list()[0], live=True
    )
    await work(world)
    assert world.below.writes("Pod") == [("delete", "Pod", "p")]


async def test_a_pod_that_named_no_node_waits_for_one():
    world = engaged(World())
    pending(world)
    status = unschedulable(NO_PORTS)
    world.super_has("Pod", "p", spec={"containers": CONTAINERS}, status=status)
    await work(world)
    assert not deleted(world)
    (said,) = [body["status"] for body in world.above.bodies if "status" in body]
    assert said["conditions"][0]["reason"] == "Unschedulable"


async def test_while_deletes_are_held_no_twin_is_replaced_or_ended():
    world = engaged(World())
    world.session.brake.problem = "another store"
    node_with(world, spec={"unschedulable": True})
    pending(world)
    pending(world, "named", nodeName="n")
    status = unschedulable(NO_PORTS)
    for name in ("p", "named"):
        world.super_has("Pod", name, spec={"containers": CONTAINERS}, status=status)
        await work(world, name)
    assert not [verb for verb, *_ in world.below.writes() if verb == "delete"]
    phases = [body["status"].get("phase") for body in world.above.bodies if "status" in body]
    assert "Failed" not in phases


async def test_a_tenant_that_refuses_the_end_of_its_pod_has_it_made_a_few_times_only():
    """Or it would be made and deleted for ever."""
    world = engaged(World())
    node_with(world)
    pending(world, nodeName="n")
    status = unschedulable(NO_PORTS)
    for number in range(12):
        uid, version = f"uid-{number}", str(6000 + number)
        metadata = {"uid": uid, "resourceVersion": version}
        world.super_has(
            "Pod", "p", metadata=metadata, spec={"containers": CONTAINERS}, status=status
        )
        await work(world)
    assert 0 < len(world.below.writes("Pod")) < 12
