"""Classes and drivers of the super cluster in the tenant: whose they are, and which are shown."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import NotFound
from syncer.model.mirrored_kinds import MIRRORS
from tenancy import wellknown
from tenancy.policies import ClassFilter, SyncSpec, TenantPolicySpec
from tenancy.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    VOLUME_SNAPSHOT_CLASSES,
)
from tests.integration.syncer.synced_back_samples import SHOWN, MirroredSample
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.controlplane import AuditMark
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.thorough

ALL = ClassFilter(names=("*",))
EVERYTHING = TenantPolicySpec(
    sync=SyncSpec(
        storage_classes=ALL,
        ingress_classes=ALL,
        volume_snapshot_classes=ALL,
        csi_drivers=ALL,
        priority_classes=ALL,
        runtime_classes=ALL,
    )
)
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


CASES = tuple(SHOWN[row.resource.kind] for row in MIRRORS)
BY_KIND = pytest.mark.parametrize("case", CASES, ids=lambda case: case.resource.kind)

_TEXTS = {"type": "string"}
DEFINITION = {
    "metadata": {
        "name": "volumesnapshotclasses.snapshot.storage.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://example.com/test"},
    },
    "spec": {
        "group": "snapshot.storage.k8s.io",
        "scope": "Cluster",
        "names": {
            "plural": "volumesnapshotclasses",
            "singular": "volumesnapshotclass",
            "kind": "VolumeSnapshotClass",
            "listKind": "VolumeSnapshotClassList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["driver", "deletionPolicy"],
                        "properties": {
                            "driver": {
                                **_TEXTS,
                                "x-kubernetes-validations": [
                                    {"rule": "self == oldSelf", "message": "is immutable"}
                                ],
                            },
                            "deletionPolicy": _TEXTS,
                            "parameters": {"type": "object", "additionalProperties": _TEXTS},
                        },
                    }
                },
            }
        ],
    },
}


async def serve(client: Client) -> None:
    """Have a cluster serve snapshot classes."""
    with contextlib.suppress(NotFound):
        await client.get(CUSTOM_RESOURCE_DEFINITIONS, str(DEFINITION["metadata"]["name"]))
        return
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
    await eventually(lambda: client.list(VOLUME_SNAPSHOT_CLASSES))


async def stop_serving(client: Client) -> None:
    """Have a cluster no longer serve them."""
    name = str(DEFINITION["metadata"]["name"])
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
    await gone(lambda: client.get(CUSTOM_RESOURCE_DEFINITIONS, name))


@pytest.fixture
async def open_world(world: SyncerWorld) -> AsyncIterator[SyncerWorld]:
    """A world whose tenant sees every class. Both sides serve all kinds."""
    for client in (world.super_client, world.tenant_client):
        await serve(client)
    async with policed(world, EVERYTHING):
        yield world


@pytest.fixture
async def mirrored(open_world: SyncerWorld) -> AsyncIterator[SyncerWorld]:
    """The same, with a syncer that has come to rest."""
    async with open_world.syncer():
        yield open_world


async def make(world: SyncerWorld, case: MirroredSample, name: str = "") -> str:
    """Create the super object of a case."""
    return await case.make(world, case, name)


async def seen(world: SyncerWorld, case: MirroredSample, name: str, *, unlike: str = "") -> Object:
    """Wait until the tenant sees the object of a case. `unlike`: with another UID than this."""
    return await eventually(
        lambda: world.tenant_client.get(case.resource, name, namespace=case.space),
        until=lambda found: found["metadata"]["uid"] != unlike,
    )


def verbs(world: SyncerWorld, case: MirroredSample, since: AuditMark, name: str) -> list[str]:
    """Return the syncer's writes in the tenant about an object, refused ones apart."""
    return [
        write.verb
        for write in world.writes("tenant", since)
        if write.resource == case.resource.plural and write.name == name and write.code < 400
    ]


@BY_KIND
async def test_a_tenants_own_of_the_name_is_left_alone(mirrored: SyncerWorld, case: MirroredSample):
    await leave_own_alone(mirrored, case)


async def leave_own_alone(mirrored: SyncerWorld, case: MirroredSample) -> None:
    """Have a tenant's own object with the name of a shown one. The syncer runs."""
    name, space = fresh_name("own"), case.space
    own = {**case.head, **case.body, "metadata": {"name": name, "labels": {"mine": "1"}}}
    made = await eventually(
        lambda: mirrored.tenant_client.create(case.resource, own, namespace=space)
    )
    since = mirrored.mark("tenant")
    await make(mirrored, case, name)

    async def told() -> list[Any]:
        found = await mirrored.tenant_client.list(
            EVENTS, field_selector=f"involvedObject.name={name}"
        )
        return list(found["items"])

    events = await eventually(told, until=lambda items: items)
    await asyncio.sleep(0.3)
    await mirrored.idle()
    assert [event["reason"] for event in await told()] == ["NameTaken"]
    assert events[0]["involvedObject"]["uid"] == made["metadata"]["uid"]
    live = await mirrored.tenant_client.get(case.resource, name, namespace=space)
    assert live["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    await case.remove(mirrored, case, name)
    await asyncio.sleep(0.3)
    await mirrored.idle()
    assert verbs(mirrored, case, since, name) == []
    assert await mirrored.tenant_client.get(case.resource, name, namespace=space)
    # The offered one takes the place as soon as the tenant deletes its own.
    await make(mirrored, case, name)
    await mirrored.tenant_client.delete(case.resource, name, namespace=space)
    found = await seen(mirrored, case, name, unlike=made["metadata"]["uid"])
    assert wellknown.UID in found["metadata"]["annotations"]
    await case.remove(mirrored, case, name)
    await gone(lambda: mirrored.tenant_client.get(case.resource, name, namespace=space))


@BY_KIND
async def test_only_what_the_policy_shows(world: SyncerWorld, case: MirroredSample):
    for client in (world.super_client, world.tenant_client):
        await serve(client)
    name = await make(world, case)
    async with policed(world, EVERYTHING), world.syncer():
        await seen(world, case, name)
    by_label = ClassFilter(match_labels={"tier": "gold"})
    fields = (
        "storage_classes",
        "ingress_classes",
        "volume_snapshot_classes",
        "csi_drivers",
        "priority_classes",
        "runtime_classes",
    )
    labelled = SyncSpec(**dict.fromkeys(fields, by_label))
    async with policed(world, TenantPolicySpec(sync=labelled)), world.syncer():
        await world.idle()
        assert await seen(world, case, name)
        await world.super_client.patch(
            case.resource, name, {"metadata": {"labels": {"tier": None}}}
        )
        await gone(lambda: world.tenant_client.get(case.resource, name))


async def test_the_systems_priority_classes_are_each_clusters_own(mirrored: SyncerWorld):
    found = await mirrored.tenant_client.get(PRIORITY_CLASSES, "system-node-critical")
    assert wellknown.MIRRORED not in (found["metadata"].get("labels") or {})
    assert wellknown.UID not in (found["metadata"].get("annotations") or {})


async def test_the_default_class_is_the_tenants_default(mirrored: SyncerWorld):
    name = fresh_name("default")
    body = {
        "metadata": {"name": name, "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": "csi.example",
    }
    await mirrored.super_client.create(STORAGE_CLASSES, body)
    found = await eventually(lambda: mirrored.tenant_client.get(STORAGE_CLASSES, name))
    assert found["metadata"]["annotations"][DEFAULT_CLASS] == "true"
    await mirrored.super_client.delete(STORAGE_CLASSES, name)
    await gone(lambda: mirrored.tenant_client.get(STORAGE_CLASSES, name))


async def test_a_kind_that_either_side_begins_or_stops_to_serve(world: SyncerWorld):
    """REL-45."""
    case = next(case for case in CASES if case.resource is VOLUME_SNAPSHOT_CLASSES)
    for client in (world.super_client, world.tenant_client):
        await serve(client)
        await stop_serving(client)
    async with policed(world, EVERYTHING), world.syncer():
        await serve(world.super_client)
        name = await make(world, case)
        await asyncio.sleep(0.5)
        await world.idle()
        await serve(world.tenant_client)
        await seen(world, case, name)
        await stop_serving(world.tenant_client)
        await asyncio.sleep(0.5)
        assert world.is_engaged()
        await serve(world.tenant_client)
        await seen(world, case, name)
        await stop_serving(world.super_client)
        await gone(lambda: world.tenant_client.get(case.resource, name))
