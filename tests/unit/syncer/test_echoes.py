"""Which events of a pod wake its key: all but the ones that only repeat what we wrote."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.expectations import Side
from syncer.flows import pods
from syncer.kinds import BY_NAME
from syncer.special import pod_build
from syncer.wiring import SuperWiring, wire_tenant
from tests.unit.syncer.sessions import TENANT, World

ON_NODE = {"nodeName": "n", "containers": []}


@pytest.fixture
def world():
    """A wired session whose queue is empty."""
    found = World()
    found.ready()
    wire_tenant(found.session)
    SuperWiring(found.super_cluster, {found.session.tenant.uid: found.session}).subscribe()
    return found


def woken(world: World) -> bool:
    """Take all keys; tells whether that of pod p was among them."""
    taken = []
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        taken.append(key)
    return world.key("Pod", "web", "p") in taken


def tenant_pod(world: World, version: str, **metadata: Any) -> None:
    """The tenant's watch tells of the pod."""
    metadata = {"resourceVersion": version, "generation": 1, **metadata}
    world.tenant_has("Pod", "p", metadata=metadata, spec=ON_NODE)


def super_pod(world: World, version: str, **metadata: Any) -> None:
    """The super cluster's watch tells of the twin."""
    metadata = {"resourceVersion": version, **metadata}
    world.super_has("Pod", "p", metadata=metadata, spec=ON_NODE)


def wrote(world: World, side: Side, version: str) -> None:
    """A write of ours was answered, and all of it taken."""
    key = world.key("Pod", "web", "p")
    world.session.expectations.wrote(side, key, version, taken=True)


def test_what_others_do_wakes_and_our_own_echo_does_not(world):
    tenant_pod(world, "50")
    assert woken(world)
    wrote(world, Side.SUPER, "60")
    super_pod(world, "60")
    assert not woken(world)
    super_pod(world, "61")
    assert woken(world)
    wrote(world, Side.TENANT, "52")
    tenant_pod(world, "52")
    assert not woken(world)
    tenant_pod(world, "53", labels={"a": "1"})
    assert woken(world)


def test_a_pod_that_went_while_its_twin_was_made_is_not_forgotten(world):
    tenant_pod(world, "50")
    entry = world.session.stores["Pod"].get("web", "p")
    world.session.stores["Pod"].discard(entry, live=True)
    woken(world)
    wrote(world, Side.SUPER, "60")
    super_pod(world, "60")
    assert woken(world)


def test_a_pod_of_the_same_name_that_came_while_the_twin_was_made_is_not_taken_for_the_old(world):
    tenant_pod(world, "50", uid="another")
    woken(world)
    wrote(world, Side.SUPER, "60")
    super_pod(world, "60")  # the twin of the first
    assert woken(world)


def test_the_end_of_a_pod_wakes_as_long_as_there_is_something_below(world):
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
    await pods.reconcile(BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session)
    assert [asked[0] for asked in world.below.asked] == ["get"] * reads
    assert world.above.writes("Pod") == [("delete", "Pod", "p")]


async def test_a_running_pod_is_compared_again_when_either_side_says_something_else(world):
    """And not when a status is all that is another."""
    key, compared = world.key("Pod", "web", "p"), world.session.reminders.compared
    metadata = {"name": "p", "namespace": "web", "uid": "p-uid", "labels": {"a": "1"}}
    made = pod_build.build_metadata({"metadata": metadata, "spec": ON_NODE}, TENANT, "below")
    twin = {"labels": made["labels"], "annotations": made["annotations"]}
    edited = {**twin, "labels": {**twin["labels"], "a": "2"}}

    async def writes() -> int:
        before = len(world.below.writes("Pod"))
        await pods.reconcile(BY_NAME["Pod"], key, world.session)
        world.session.expectations.forget()
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
