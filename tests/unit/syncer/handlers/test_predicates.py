"""Events of a pod that queue its key: all but the echoes of the syncer's writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kubeio import errors
from syncer.controllers.pods import pod_reconciler
from syncer.handlers.dispatcher import Dispatcher
from syncer.model.keys import HOME
from syncer.rules.pods import pod_build
from syncer.rules.registry import KINDS_BY_NAME
from syncer.safety.expectations import ClusterSide
from tests.support.syncer.sessions import CONTAINERS, TENANT, SessionWorld, put
from tests.support.syncer.woken_keys import ON_NODE, wired, woken


@pytest.fixture
def world():
    return wired()


def tenant_pod(world: SessionWorld, version: str, **metadata: Any) -> None:
    """The tenant's watch tells of the pod."""
    metadata = {"resourceVersion": version, "generation": 1, **metadata}
    world.tenant_has("Pod", "p", metadata=metadata, spec=ON_NODE)


def super_pod(world: SessionWorld, version: str, **metadata: Any) -> None:
    """The super cluster's watch tells of the twin."""
    metadata = {"resourceVersion": version, **metadata}
    world.super_has("Pod", "p", metadata=metadata, spec=ON_NODE)


def wrote(world: SessionWorld, side: ClusterSide, version: str) -> None:
    """A write of ours was answered, and all of it taken."""
    key = world.key("Pod", "web", "p")
    world.session.expectations.expect_update(side, key, version, taken=True)


def test_what_others_do_wakes_and_our_own_echo_does_not(world):
    tenant_pod(world, "50")
    assert woken(world)
    wrote(world, ClusterSide.SUPER, "60")
    super_pod(world, "60")
    assert not woken(world)
    super_pod(world, "61")
    assert woken(world)
    wrote(world, ClusterSide.TENANT, "52")
    tenant_pod(world, "52")
    assert not woken(world)
    tenant_pod(world, "53", labels={"a": "1"})
    assert woken(world)


def test_a_pod_that_went_while_its_twin_was_made_is_not_forgotten(world):
    tenant_pod(world, "50")
    entry = world.session.stores["Pod"].get("web", "p")
    world.session.stores["Pod"].discard(entry, live=True)
    woken(world)
    wrote(world, ClusterSide.SUPER, "60")
    super_pod(world, "60")
    assert woken(world)


def test_a_pod_of_the_same_name_that_came_while_the_twin_was_made_is_not_taken_for_the_old(world):
    tenant_pod(world, "50", uid="another")
    woken(world)
    wrote(world, ClusterSide.SUPER, "60")
    super_pod(world, "60")  # the twin of the first
    assert woken(world)


def test_the_end_of_a_pod_wakes_as_long_as_there_is_something_in_the_super_cluster(world):
    for there in (True, False):
        tenant_pod(world, "50")
        if there:
            super_pod(world, "60")
        woken(world)
        entry = world.session.stores["Pod"].get("web", "p")
        world.session.stores["Pod"].discard(entry, live=True)
        assert woken(world) is there
        if there:
            below = world.super_cluster.stores["Pod"].list()[0]
            world.super_cluster.stores["Pod"].discard(below, live=True)
            woken(world)


MARKED = {"deletionTimestamp": "2026-11-22T00:00:00Z"}


@pytest.mark.parametrize(("grace", "reads"), [(30, 1), (0, 0)])
async def test_a_pod_is_let_go_without_a_look_only_after_the_last_word_of_its_kubelet(
    world, grace, reads
):
    """A twin that lost its labels while it was on its way out seems to be gone, too."""
    tenant_pod(world, "50", deletionGracePeriodSeconds=30, **MARKED)
    super_pod(world, "60", deletionGracePeriodSeconds=grace, **MARKED)
    twin = world.super_cluster.stores["Pod"].list()[0]
    world.super_cluster.stores["Pod"].discard(twin, live=True)
    await pod_reconciler.reconcile_pod(
        KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
    )
    assert [asked[0] for asked in world.below.asked] == ["get"] * reads
    assert world.above.writes("Pod") == [("delete", "Pod", "p")]


async def test_a_running_pod_is_compared_again_when_either_side_reports_something_else(world):
    """A changed status alone does not."""
    key, compared = world.key("Pod", "web", "p"), world.session.pod_memory._in_sync
    metadata = {"name": "p", "namespace": "web", "uid": "p-uid", "labels": {"a": "1"}}
    made = pod_build.build_metadata({"metadata": metadata, "spec": ON_NODE}, TENANT, "below")
    twin = {"labels": made["labels"], "annotations": made["annotations"]}
    edited = {**twin, "labels": {**twin["labels"], "a": "2"}}

    async def writes() -> int:
        before = len(world.below.writes("Pod"))
        await pod_reconciler.reconcile_pod(KINDS_BY_NAME["Pod"], key, world.session)
        world.session.expectations.clear()
        return len(world.below.writes("Pod")) - before

    tenant_pod(world, "50", labels={"a": "1"})
    super_pod(world, "60", **twin)
    assert await writes() == 0
    assert key in compared
    tenant_pod(world, "51", labels={"a": "1"})
    super_pod(world, "61", **twin)
    before = compared[key]
    assert await writes() == 0
    assert compared[key] is before, "nothing was compared"
    super_pod(world, "62", **edited)
    assert await writes() == 1
    super_pod(world, "63", **twin)
    tenant_pod(world, "52", labels={"a": "3"})
    assert await writes() == 1
    entry = world.session.stores["Pod"].get("web", "p")
    world.session.stores["Pod"].discard(entry, live=True)
    assert key not in compared


NO_TIME = {**MARKED, "deletionGracePeriodSeconds": 0}
SOME_TIME = {**MARKED, "deletionGracePeriodSeconds": 30}


class EarlyEvents:
    """A client's method that lets events come before it answers."""

    def __init__(self, world: SessionWorld, side: str, method: str) -> None:
        self.events: list[Callable[[str], None]] = []
        """What the watches tell before the answer, each given the version that was written."""
        self._api = getattr(world, side)
        self._ask = getattr(self._api, method)
        setattr(self._api, method, self)

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        answer = await self._ask(*arguments, **options)
        for event in self.events:
            event(str(self._api.revision))
        return answer


async def work(world: SessionWorld) -> bool:
    """Work on pod p as a worker does. Tells whether it is wanted again at once."""
    key = world.key("Pod", "web", "p")
    world.session.queue.add(key)
    assert world.session.queue.take() == key
    await Dispatcher({HOME: {TENANT.uid: world.session}}).reconcile(key)
    world.session.queue.done(key)
    return woken(world)


RUNNING = {"phase": "Running", "startTime": "2026-11-22T00:00:00Z", "conditions": []}


def carried(world: SessionWorld, version: str, **more: Any) -> None:
    """The tenant's watch tells of the pod with the status that its twin has."""
    metadata = {"resourceVersion": version, "generation": 1, **more}
    world.tenant_has("Pod", "p", metadata=metadata, spec=ON_NODE, status=RUNNING)


def running(world: SessionWorld) -> None:
    """A pod whose twin says more than it does."""
    tenant_pod(world, "50")
    twin = pod_build.build_metadata(
        world.session.stores["Pod"].get("web", "p").decode(), TENANT, "below"
    )
    metadata = {"labels": twin["labels"], "annotations": twin["annotations"]}
    world.super_has("Pod", "p", metadata=metadata, spec=ON_NODE, status=RUNNING)
    woken(world)


async def test_an_echo_that_comes_before_its_answer_enqueues_nothing(world):
    running(world)
    answering = EarlyEvents(world, "above", "patch")
    answering.events.append(partial(carried, world))
    assert not await work(world)
    assert len(world.above.writes("Pod")) == 1
    assert not await work(world)
    assert len(world.above.writes("Pod")) == 1, "the status was there"


@pytest.mark.parametrize(
    "events",
    [
        lambda world: [lambda version: carried(world, str(int(version) - 1), labels={"a": "1"})],
        lambda world: [
            lambda version: carried(world, version),
            lambda version: carried(world, str(int(version) + 1), labels={"a": "1"}),
        ],
        lambda world: [lambda version: super_pod(world, version)],
    ],
    ids=["another's", "both", "of-the-other-side"],
)
async def test_what_others_do_while_a_write_is_under_way_wakes_when_that_is_done(world, events):
    running(world)
    answering = EarlyEvents(world, "above", "patch")
    answering.events += events(world)
    key = world.key("Pod", "web", "p")
    world.session.queue.add(key)
    world.session.queue.take()
    await Dispatcher({HOME: {TENANT.uid: world.session}}).reconcile(key)
    world.session.expectations.clear()  # whatever echo is still to come wakes in its own time
    world.session.queue.done(key)
    is_wanted = woken(world)
    delayed = world.session.queue.snapshot()["delayed"]
    assert is_wanted or str(key) in delayed


async def test_what_others_do_wakes_after_a_write_that_failed_as_well(world):
    running(world)
    answering = EarlyEvents(world, "above", "patch")

    async def refused(*_: Any, **__: Any) -> Any:
        carried(world, "70", labels={"a": "1"})
        raise errors.Unavailable("no answer")

    answering._ask = refused
    with pytest.raises(errors.Unavailable):
        await work(world)
    world.session.queue.done(world.key("Pod", "web", "p"))
    assert woken(world)


async def test_a_twin_whose_pod_went_while_it_was_made_is_looked_at_though_its_echo_was_early(
    world,
):
    world.ready()
    spec = {"containers": CONTAINERS}
    pod = world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    woken(world)
    answering = EarlyEvents(world, "below", "create")

    def gone(_: str) -> None:
        world.session.stores["Pod"].discard(pod, live=True)

    answering.events += [gone, partial(super_pod, world)]
    assert await work(world)


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_pod_that_is_only_kept_by_a_finalizer_takes_the_twin_along_that_is_in_the_making(
    world, is_answered
):
    spec = {"containers": CONTAINERS}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    woken(world)

    def marked(_: str) -> None:
        metadata = {"resourceVersion": "51", **NO_TIME}
        world.tenant_has("Pod", "p", metadata=metadata, spec=spec, status={"phase": "Pending"})

    answering = EarlyEvents(world, "below", "create")
    answering.events += [] if is_answered else [marked]
    is_wanted = await work(world)
    if is_answered:
        marked("")
    super_pod(world, str(world.below.revision))
    assert is_wanted or woken(world)


async def test_an_event_before_the_echo_of_our_last_write_waits_for_that(world):
    tenant_pod(world, "50")
    super_pod(world, "60")
    woken(world)
    wrote(world, ClusterSide.TENANT, "52")
    super_pod(world, "61")
    assert not woken(world)
    assert str(world.key("Pod", "web", "p")) in world.session.queue.snapshot()["delayed"]
    tenant_pod(world, "52")
    assert woken(world)
    assert not world.session.queue.snapshot()["delayed"]


@pytest.mark.parametrize(
    ("has_twin", "metadata", "is_woken"),
    [(False, NO_TIME, False), (True, NO_TIME, True), (False, SOME_TIME, True)],
)
def test_a_pod_with_nothing_in_the_super_cluster_and_no_time_left_enqueues_nothing(
    world, has_twin, metadata, is_woken
):
    tenant_pod(world, "50")
    if has_twin:
        super_pod(world, "60")
    woken(world)
    tenant_pod(world, "51", **metadata)
    assert woken(world) is is_woken


@pytest.mark.parametrize(
    ("of_pod", "of_twin", "status", "is_woken"),
    [
        (SOME_TIME, (SOME_TIME, NO_TIME), {}, False),
        (SOME_TIME, (SOME_TIME, NO_TIME), {"phase": "Failed"}, True),
        (SOME_TIME, (SOME_TIME, {**NO_TIME, "annotations": {"a": "1"}}), {}, True),
        (SOME_TIME, (SOME_TIME, {**NO_TIME, "labels": {}}), {}, True),
        (SOME_TIME, ({}, NO_TIME), {}, True),
        ({}, (SOME_TIME, NO_TIME), {}, True),
        (SOME_TIME, (SOME_TIME, {**SOME_TIME, "deletionGracePeriodSeconds": 10}), {}, True),
    ],
    ids=["less-time", "status", "annotation", "label", "just-marked", "pod-lives", "some-time"],
)
def test_a_twin_that_only_has_less_time_left_is_looked_at_when_it_is_gone(
    world, of_pod, of_twin, status, is_woken
):
    before, now = of_twin
    tenant_pod(world, "50", **of_pod)
    super_pod(world, "60", **before)
    woken(world)
    labels = world.super_cluster.stores["Pod"].list()[0].labels
    if now.get("labels") is not None:
        now = {**now, "labels": {**labels, "another": "one"}}
    metadata = {"resourceVersion": "61", **now}
    more = {"status": status} if status else {}
    world.super_has("Pod", "p", metadata=metadata, spec=ON_NODE, **more)
    assert woken(world) is is_woken
    twin = world.super_cluster.stores["Pod"].list()[0]
    world.super_cluster.stores["Pod"].discard(twin, live=True)
    assert woken(world)


async def test_a_pod_that_is_bound_and_runs_at_once_is_worked_on_once(world):
    put(world.super_cluster.nodes, {"metadata": {"name": "n", "uid": "n", "resourceVersion": "3"}})
    unbound = {"containers": CONTAINERS}
    pod = {"metadata": {"resourceVersion": "50"}, "spec": unbound, "status": {"phase": "Pending"}}
    world.tenant_has("Pod", "p", **pod)
    twin = pod_build.build_metadata(
        world.session.stores["Pod"].get("web", "p").decode(), TENANT, "below"
    )
    metadata = {"labels": twin["labels"], "annotations": twin["annotations"]}
    bound = {"containers": CONTAINERS, "nodeName": "n"}
    status = {**RUNNING, "conditions": [{"type": "PodScheduled", "status": "True"}]}
    world.super_has("Pod", "p", metadata=metadata, spec=bound, status=status)
    woken(world)
    assert not await work(world)
    assert [verb for verb, *_ in world.above.writes()][-2:] == ["create", "patch"]
    for version in (world.above.revision - 1, world.above.revision):
        world.tenant_has("Pod", "p", metadata={"resourceVersion": str(version)}, spec=bound)
        assert not woken(world)


def test_nothing_is_queued_for_a_tenant_that_is_let_go(world):
    world.session.work.is_ready = False
    tenant_pod(world, "50")
    super_pod(world, "60")
    assert world.session.queue.take() is None
