"""ConfigMaps and Secrets of a megabyte: they go down whole, and are not in memory."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from kubeio import Object
from tenancy.resources import CONFIG_MAPS, PODS, SECRETS, Resource
from tests.integration.syncer.objects import pod
from tests.integration.syncer.world import SYNCER, SyncerWorld
from tests.support.controlplane import AuditMark
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough

OBJECTS = 4
MEGABYTE = 1_000_000


def large(resource: Resource, name: str, letter: str) -> Object:
    """Return an object with one large value, and a small one."""
    if resource is CONFIG_MAPS:
        values = {"data": {"large": letter * MEGABYTE, "COLOUR": "red"}}
    else:
        encoded = base64.b64encode(letter.encode() * (MEGABYTE * 3 // 4)).decode()
        values = {"data": {"large": encoded, "COLOUR": "cmVk"}}
    return {"metadata": {"name": name, "annotations": {"note": "a"}}, **values}


def reads(world: SyncerWorld, since: dict[str, AuditMark]) -> list[str]:
    """Return the syncer's single reads of ConfigMaps and Secrets of tests, on both sides."""
    found: list[str] = []
    for side, plane in (("super", world.super_plane), ("tenant", world.tenant_plane)):
        for event in plane.audit_events(since[side]):
            at: Any = event.get("objectRef") or {}
            user: Any = event["user"]
            is_get = (user["username"], event["verb"]) == (SYNCER, "get")
            if is_get and str(at.get("name")).startswith("large-"):
                found.append(f"{side} {at['name']}")
    return found


def marks_of(world: SyncerWorld) -> dict[str, AuditMark]:
    """Return this moment in both audit logs."""
    return {side: world.mark(side) for side in ("super", "tenant")}


@pytest.mark.parametrize("resource", [CONFIG_MAPS, SECRETS], ids=lambda found: found.kind)
async def test_they_go_down_whole_and_only_their_digests_are_kept(
    world: SyncerWorld, resource: Resource
):
    names = [f"large-{number}" for number in range(OBJECTS)]
    kind = "configMap" if resource is CONFIG_MAPS else "secret"
    key = "name" if resource is CONFIG_MAPS else "secretName"
    volumes = [{"name": name, kind: {key: name}} for name in names]
    ref = "configMapRef" if resource is CONFIG_MAPS else "secretRef"
    user = pod("user", volumes=volumes)
    user["spec"]["containers"][0]["envFrom"] = [{ref: {"name": names[0]}}]
    async with world.syncer():
        space = await world.namespace()
        bodies = {name: large(resource, name, "a") for name in names}
        for body in bodies.values():
            await world.tenant_client.create(resource, body, namespace=space)
        await world.tenant_client.create(PODS, user, namespace=space)
        await eventually(lambda: world.twin(PODS, space, "user"), within=30)
        for name in names:
            twin = await world.twin(resource, space, name)
            assert twin["data"] == bodies[name]["data"]
        await world.idle()
        # At rest nothing of them is in memory, on either side.
        kept = [
            *world.session.stores[resource.kind].list(space),
            *world.session.twins.get_store(resource.kind).list(world.super_namespace(space)),
        ]
        assert len([entry for entry in kept if entry.name in names]) == 2 * OBJECTS
        assert sum(len(entry.body) for entry in kept) < 100_000
        assert not [entry for entry in kept if b"aaaaaaaa" in entry.body]
        # A change is read once on each side and written once.
        since = marks_of(world)
        changed = large(resource, names[0], "b")
        await world.tenant_client.patch(
            resource, names[0], {"data": changed["data"]}, namespace=space
        )
        await eventually(
            lambda: world.twin(resource, space, names[0]),
            until=lambda twin: twin["data"] == changed["data"],
        )
        await world.idle()
        assert sorted(reads(world, since)) == [f"super {names[0]}", f"tenant {names[0]}"]
        # So is a value that another writer changed in the super cluster.
        super_space = world.super_namespace(space)
        drift = {"data": {"large": None}}
        await world.super_client.patch(resource, names[1], drift, namespace=super_space)
        await eventually(
            lambda: world.twin(resource, space, names[1]),
            until=lambda twin: twin["data"] == bodies[names[1]]["data"],
        )
        # What only the super cluster says of it, however long, is kept.
        note = "n" * 5000
        since = marks_of(world)
        await world.super_client.patch(
            resource,
            names[2],
            {"metadata": {"annotations": {"operator.example/note": note}}},
            namespace=super_space,
        )
        await asyncio.sleep(0.3)
        await world.idle()
        assert reads(world, since) == []
        await world.tenant_client.patch(
            resource, names[2], {"metadata": {"annotations": {"note": "b"}}}, namespace=space
        )
        twin = await eventually(
            lambda: world.twin(resource, space, names[2]),
            until=lambda found: found["metadata"]["annotations"]["note"] == "b",
        )
        assert twin["metadata"]["annotations"]["operator.example/note"] == note
        assert twin["data"] == bodies[names[2]]["data"]
        await world.idle()
    since = marks_of(world)
    async with world.syncer():
        await asyncio.sleep(0.5)
        await world.idle()
        for key_ in list(world.session.all_keys.list_keys()):
            world.session.queue.add(key_)
        await world.idle()
    assert reads(world, since) == []
    writes = [write for write in world.writes("super", since["super"]) if write.name in names]
    assert writes == []
    await world.tenant_client.delete(PODS, "user", namespace=space)
