"""Every plain kind lives the same life; writes are counted, so that flapping shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from kubeio import Object
from syncer import kinds
from syncer.kinds import Life
from tenancy import marks
from tenancy.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS, SERVICES, Resource
from tests.integration.syncer.conftest import World, pod
from tests.integration.syncer.test_pods import gone
from tests.support.eventually import eventually
from tests.support.names import fresh_name


@dataclass(frozen=True)
class Case:
    """How one kind is made, changed and read."""

    resource: Resource
    body: Object
    change: Object
    """Merge patch by the tenant."""
    removal: Object
    """Merge patch that takes a field away."""
    drift: Object
    """Merge patch by somebody below."""
    at: tuple[str, ...]
    """The field that `change`, `removal` and `drift` are about."""

    def value(self, found: Object) -> Any:
        """Return the field."""
        for key in self.at:
            found = found.get(key) or {}
        return found


CASES = (
    Case(
        resource=CONFIG_MAPS,
        body={"data": {"a": "1", "b": "2"}},
        change={"data": {"a": "changed"}},
        removal={"data": {"b": None}},
        drift={"data": {"a": "drifted"}},
        at=("data",),
    ),
    Case(
        resource=SECRETS,
        body={"data": {"a": "MQ==", "b": "Mg=="}, "type": "Opaque"},
        change={"data": {"a": "Mw=="}},
        removal={"data": {"b": None}},
        drift={"data": {"a": "NA=="}},
        at=("data",),
    ),
    Case(
        resource=SERVICES,
        body={"spec": {"selector": {"a": "1", "b": "2"}, "ports": [{"port": 80}]}},
        change={"spec": {"selector": {"a": "changed"}}},
        removal={"spec": {"selector": {"b": None}}},
        drift={"spec": {"selector": {"a": "drifted"}}},
        at=("spec", "selector"),
    ),
)
BY_KIND = pytest.mark.parametrize("case", CASES, ids=lambda case: case.resource.kind)


def test_every_plain_kind_has_a_case():
    special = {Life.POD, Life.NAMESPACE}
    wanted = {row.resource.kind for row in kinds.KINDS if row.life not in special}
    assert {case.resource.kind for case in CASES} == wanted


async def use(world: World, space: str) -> None:
    """Have a pod that refers to the objects of all cases by the name `x`."""
    volumes = [
        {"name": "c", "configMap": {"name": "x", "optional": True}},
        {"name": "s", "secret": {"secretName": "x", "optional": True}},
    ]
    await world.above.create(PODS, pod("user", volumes=volumes), namespace=space)
    if world.running:
        await eventually(lambda: world.twin(PODS, space, "user"))
        await world.idle()


async def make(world: World, case: Case, space: str) -> Object:
    """Create the object of a case."""
    body = {**case.body, "metadata": {"name": "x", "labels": {"team": "a"}}}
    return await world.above.create(case.resource, body, namespace=space)


async def in_step(world: World, case: Case, space: str) -> Object:
    """Wait until the twin shows what the tenant's object says."""
    own = await world.above.get(case.resource, "x", namespace=space)
    return await eventually(
        lambda: world.twin(case.resource, space, "x"),
        until=lambda twin: (
            case.value(twin) == case.value(own)
            and twin["metadata"]["annotations"][marks.UID] == own["metadata"]["uid"]
        ),
    )


def verbs(world: World, case: Case, since: int, space: str) -> list[str]:
    """Return the syncer's writes below about the object of a case."""
    return [
        write.verb
        for write in world.writes("super", since)
        if write.resource == case.resource.plural
        and write.namespace == world.super_namespace(space)
        and write.name == "x"
    ]


@BY_KIND
async def test_created_changed_and_deleted(synced: World, case: Case):
    space = await synced.namespace()
    await use(synced, space)
    since = synced.mark("super")
    verb = "update" if case.resource is not SERVICES else "patch"
    await make(synced, case, space)
    twin = await in_step(synced, case, space)
    assert twin["metadata"]["labels"]["team"] == "a"
    for patch in (case.change, case.removal):
        await synced.above.patch(case.resource, "x", patch, namespace=space)
        await in_step(synced, case, space)
        await synced.idle()
    await synced.above.delete(case.resource, "x", namespace=space)
    await gone(lambda: synced.twin(case.resource, space, "x"))
    await synced.idle()
    assert verbs(synced, case, since, space) == ["create", verb, verb, "delete"]


@BY_KIND
async def test_drift_and_deletion_below_are_repaired(synced: World, case: Case):
    space = await synced.namespace()
    await use(synced, space)
    await make(synced, case, space)
    await in_step(synced, case, space)
    await synced.idle()
    since = synced.mark("super")
    below = synced.super_namespace(space)
    await synced.below.patch(case.resource, "x", case.drift, namespace=below)
    await in_step(synced, case, space)
    await synced.below.patch(
        case.resource, "x", {"metadata": {"labels": {"team": "b"}}}, namespace=below
    )
    await eventually(
        lambda: synced.twin(case.resource, space, "x"),
        until=lambda twin: twin["metadata"]["labels"]["team"] == "a",
    )
    first = await synced.twin(case.resource, space, "x")
    await synced.below.delete(case.resource, "x", namespace=below)
    await eventually(
        lambda: synced.twin(case.resource, space, "x"),
        until=lambda twin: twin["metadata"]["uid"] != first["metadata"]["uid"],
    )
    await synced.idle()
    assert len(verbs(synced, case, since, space)) == 3


@BY_KIND
async def test_marks_of_the_super_cluster_stay(synced: World, case: Case):
    space = await synced.namespace()
    await use(synced, space)
    await make(synced, case, space)
    await in_step(synced, case, space)
    since = synced.mark("super")
    below = synced.super_namespace(space)
    mark = {"metadata": {"annotations": {"operator.example/checked": "yes"}}}
    await synced.below.patch(case.resource, "x", mark, namespace=below)
    await asyncio.sleep(0.3)
    await synced.idle()
    assert verbs(synced, case, since, space) == []


@BY_KIND
async def test_deleted_while_nobody_looked(world: World, case: Case):
    async with world.syncer():
        space = await world.namespace()
        await use(world, space)
        await make(world, case, space)
        await in_step(world, case, space)
    await world.above.delete(case.resource, "x", namespace=space)
    async with world.syncer():
        await gone(lambda: world.twin(case.resource, space, "x"))


@BY_KIND
async def test_made_anew_under_the_same_name_while_nobody_looked(world: World, case: Case):
    async with world.syncer():
        space = await world.namespace()
        await use(world, space)
        await make(world, case, space)
        old = await in_step(world, case, space)
    await world.above.delete(case.resource, "x", namespace=space)
    await make(world, case, space)
    since = world.mark("super")
    async with world.syncer():
        new = await in_step(world, case, space)
        await world.idle()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert verbs(world, case, since, space) == ["delete", "create"]


@BY_KIND
async def test_in_a_namespace_with_a_very_long_name(synced: World, case: Case):
    space = await synced.namespace(f"{fresh_name('long')}-{'y' * 50}"[:63])
    await use(synced, space)
    await make(synced, case, space)
    await in_step(synced, case, space)


@BY_KIND
async def test_a_foreign_object_of_the_name_is_left_alone(synced: World, case: Case):
    space = await synced.namespace()
    await use(synced, space)
    foreign = {**case.body, "metadata": {"name": "x"}}
    below = synced.super_namespace(space)
    made = await synced.below.create(case.resource, foreign, namespace=below)
    since = synced.mark("super")
    await make(synced, case, space)
    found = await eventually(
        lambda: synced.above.list(EVENTS, namespace=space), until=lambda events: events["items"]
    )
    assert {item["reason"] for item in found["items"]} == {"NameTaken"}
    await synced.above.delete(case.resource, "x", namespace=space)
    await asyncio.sleep(0.2)
    await synced.idle()
    still = await synced.twin(case.resource, space, "x")
    assert still["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert set(verbs(synced, case, since, space)) <= {"create"}
