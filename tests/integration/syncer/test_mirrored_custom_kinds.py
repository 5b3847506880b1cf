"""Kinds of SyncRules with the direction Mirror live the same life as built-in mirrored kinds."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest

from kubeio import Object
from kubeio.errors import NotFound
from tenancy.resources import Resource
from tenancy.sync_rules import rights
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from tests.integration.syncer import test_kinds_synced_back
from tests.integration.syncer.synced_back_samples import (
    MirroredSample,
    TenantWriteCounts,
    make_it,
)
from tests.integration.syncer.test_kinds_synced_back import MirrorLifecycle
from tests.integration.syncer.test_mirrors import leave_own_alone, make
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_sync_rules import (
    GROUP,
    build_definition,
    build_rule,
    declared,
    ensure_definitions,
    grant,
)
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough

STATUS = {"phase": "Ready", "token": "hidden"}
OWNER = {"kind": "Claim", "name": "c", "namespace": "default"}
"""Reference to a copy of the tenant. The namespace is translated when the object is created."""
LABELS = {"tier": "gold"}
RULES: Mapping[str, Object] = {
    "Brand": {},
    "Shelf": {"mirror": {"sourceNamespace": "kube-public", "tenantNamespace": "default"}},
    "Receipt": {"mirrorOwner": {"path": "spec.claimRef"}},
}
"""A kind without namespaces, a kind with namespaces, and a kind whose objects have one owner."""


async def make_with_status(world: SyncerWorld, sample: MirroredSample, name: str) -> str:
    """Create a super object, and write its status as its controller does."""
    body = copy.deepcopy(sample.body)
    if "claimRef" in body["spec"]:
        body["spec"]["claimRef"]["namespace"] = world.super_namespace("default")
    name = await make_it(world, replace(sample, body=body), name)
    await world.super_client.patch(
        sample.resource,
        name,
        {"status": STATUS},
        namespace=sample.super_space,
        subresource="status",
    )
    return name


def build_sample(kind: str, **fields: str) -> MirroredSample:
    """Return the sample of a kind. The field `driver` of an object cannot be changed."""
    spec: Object = {"tier": "a", "driver": "x"}
    body, shown = ({**spec, "token": value} for value in ("hidden", None))
    if "mirrorOwner" in RULES[kind]:
        spec["claimRef"] = OWNER
        body["claimRef"], shown["claimRef"] = (
            {**OWNER, "uid": value} for value in ("hidden", None)
        )
    with_status = ("create", "patch status")
    return MirroredSample(
        resource=Resource(GROUP, "v1", f"{kind.lower()}s", kind, "mirror" in RULES[kind]),
        body={"spec": body},
        seen={"spec": shown, "status": {"phase": "Ready", "token": None}},
        change={"spec": {"tier": "b", "note": "n"}},
        removal={"spec": {"tier": "a", "note": None}},
        edit={"spec": {"tier": "mine", "token": "mine"}},
        remake={"spec": {**spec, "driver": "y"}},
        costs=TenantWriteCounts(
            create=with_status, back=with_status, remade=("delete", *with_status)
        ),
        make=make_with_status,
        **fields,
    )


SAMPLES = {
    "Brand": build_sample("Brand"),
    "Shelf": build_sample("Shelf", super_space="kube-public", space="default"),
    "Receipt": build_sample("Receipt"),
}
BY_KIND = pytest.mark.parametrize("kind", SAMPLES)


def build_shown_definition(kind: str) -> Object:
    """Return the CRD of a kind. Its field `driver` cannot be changed."""
    found = build_definition(kind)
    found["spec"]["scope"] = "Namespaced" if SAMPLES[kind].space else "Cluster"
    validation = {"rule": "self == oldSelf", "message": "is immutable"}
    driver = {"type": "string", "x-kubernetes-validations": [validation]}
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"] = {**schema["spec"], "properties": {"driver": driver}}
    return found


def build_mirror_rule(kind: str) -> Object:
    """Return the SyncRule of a kind."""
    fields = ["spec.tier", "spec.driver", "spec.note"]
    return build_rule(
        kind,
        direction="Mirror",
        fields=fields,
        statusFields=["status.phase"],
        selector={"matchLabels": LABELS},
        **RULES[kind],
    )


@contextlib.asynccontextmanager
async def mirrored(world: SyncerWorld) -> AsyncIterator[list[SyncRule]]:
    """Have the SyncRules of all kinds here for a block."""
    bodies = [build_mirror_rule(kind) for kind in RULES]
    await ensure_definitions(world, map(build_shown_definition, RULES))
    await grant(world, rights.build_super_rules(map(parse_sync_rule, bodies)))
    async with declared(world, bodies) as rules:
        yield rules


def has_kinds(world: SyncerWorld) -> bool:
    """Return whether the session has all kinds here, and has listed them in the tenant."""
    return world.is_engaged() and all(
        kind in world.session.ruled_mirrors and world.session.stores[kind].synced for kind in RULES
    )


@pytest.fixture
async def shown(world: SyncerWorld) -> AsyncIterator[SyncerWorld]:
    """A world with the rules, and a syncer that has come to rest."""
    async with mirrored(world), world.syncer():
        await eventually(lambda: has_kinds(world), within=60)
        yield world


@BY_KIND
async def test_life(world: SyncerWorld, kind: str):
    """The life-cycle test of built-in mirrored kinds, with a status."""
    async with mirrored(world):
        await test_kinds_synced_back.live(world, SAMPLES[kind], has_mark=True)


@BY_KIND
async def test_a_tenants_own_of_the_name_is_left_alone(shown: SyncerWorld, kind: str):
    await leave_own_alone(shown, SAMPLES[kind])


@BY_KIND
async def test_labels_select_and_a_status_cannot_be_forged(shown: SyncerWorld, kind: str):
    sample = SAMPLES[kind]
    life = MirrorLifecycle(shown, sample, await make(shown, sample))
    await life.is_seen(sample.seen)
    since = shown.mark("tenant")
    status = {"status": {"phase": "Forged", "token": "mine"}}
    await shown.tenant_client.patch(
        sample.resource, life.name, status, namespace=sample.space, subresource="status"
    )
    await life.is_seen({"status": {"phase": "Ready"}})
    await shown.idle()
    assert life.verbs(since) == ["patch status"]
    await life.change({"metadata": {"labels": {"tier": None}}})
    await gone(life.shown)
    await life.change({"metadata": {"labels": LABELS}})
    await life.is_seen(sample.seen)
    await life.remove()
    await gone(life.shown)


async def test_an_object_is_shown_to_its_owner_only(shown: SyncerWorld):
    """The reference names another tenant, then this one, and then another one again."""
    sample = SAMPLES["Receipt"]
    life = MirrorLifecycle(shown, sample, await make(shown, sample))
    await life.is_seen(sample.seen)
    theirs, ours = (
        {"spec": {"claimRef": {"namespace": space}}}
        for space in ("default-eeeeee-other-web", shown.super_namespace("default"))
    )
    await life.change(theirs)
    await gone(life.shown)
    await life.change(ours)
    await life.is_seen(sample.seen)
    foreign = await make_it(shown, sample, "")  # names a namespace of the super cluster itself
    await asyncio.sleep(0.3)
    await shown.idle()
    with pytest.raises(NotFound):
        await shown.tenant_client.get(sample.resource, foreign)


async def test_a_restart_writes_nothing(world: SyncerWorld):
    async with mirrored(world):
        async with world.syncer():
            names = {kind: await make(world, sample) for kind, sample in SAMPLES.items()}
            for kind, sample in SAMPLES.items():
                found = await MirrorLifecycle(world, sample, names[kind]).is_seen(sample.seen)
                assert "hidden" not in str(found)
            await world.idle()
        since = world.mark("tenant")
        async with world.syncer():
            await eventually(lambda: has_kinds(world), within=60)
            await asyncio.sleep(0.5)
            await world.idle()
        plurals = {sample.resource.plural for sample in SAMPLES.values()}
        assert [
            write
            for write in world.writes("tenant", since)
            if write.resource.partition("/")[0] in plurals
        ] == []
