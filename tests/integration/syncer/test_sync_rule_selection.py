"""Selection by SyncRules: objects, VirtualClusters, the writer of a status, and the definition."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kubeio import Object
from kubeio.errors import NotFound
from tenancy.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SYNC_RULES,
    VIRTUAL_CLUSTERS,
)
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_sync_rules import (
    EVERY_RULE,
    GROUP,
    RULED,
    build_definition,
    get_resource,
    grant_kinds,
    manage,
    ruled,
    write_definitions,
)
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name

GADGET = get_resource("Gadget")
DEFINITION = f"gadgets.{GROUP}"
LABELS = {"team": "shop"}


async def create(world: SyncerWorld, name: str, space: str, **metadata: Any) -> Object:
    """Create a Gadget as soon as the tenant serves the kind."""
    body = {**RULED["Gadget"].body, "metadata": {"name": name, **metadata}}
    return await eventually(
        lambda: world.tenant_client.create(GADGET, body, namespace=space), within=60
    )


async def is_copied(world: SyncerWorld, name: str, space: str) -> None:
    """Wait for the copy of a Gadget."""
    await eventually(lambda: world.twin(GADGET, space, name), within=60)


async def write_super_status(world: SyncerWorld, name: str, space: str, phase: str) -> None:
    """Write the status of a copy, as a controller of the super cluster does."""
    await world.super_client.patch(
        GADGET,
        name,
        {"status": {"phase": phase}},
        namespace=world.super_namespace(space),
        subresource="status",
    )


async def shows_phase(world: SyncerWorld, name: str, space: str, phase: str) -> None:
    """Wait until the tenant's Gadget has a phase."""
    await eventually(
        lambda: world.tenant_client.get(GADGET, name, namespace=space),
        until=lambda found: (found.get("status") or {}).get("phase") == phase,
    )


@contextlib.asynccontextmanager
async def ending(world: SyncerWorld) -> AsyncIterator[None]:
    """Wait after a block until the syncer has removed the finalizers of its SyncRules."""
    yield
    await eventually(
        lambda: world.super_client.list(SYNC_RULES),
        until=lambda found: not found["items"],
        within=60,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("removal", ["Keep", "Delete"])
async def test_an_object_that_loses_its_label_loses_its_copy(world: SyncerWorld, removal: str):
    """`removalPolicy` is about the end of the rule, so the copy is deleted with each value."""
    selector = {"matchLabels": LABELS}
    async with (
        world.syncer(),
        ending(world),
        ruled(world, "Gadget", selector=selector, removalPolicy=removal),
    ):
        space = await world.namespace()
        await create(world, "bare", space)
        await create(world, "other", space, labels={"team": "other"})
        await create(world, "labelled", space, labels=LABELS)
        await is_copied(world, "labelled", space)
        await world.idle()
        assert not await world.has_twin(GADGET, space, "bare")
        assert not await world.has_twin(GADGET, space, "other")
        label = {"metadata": {"labels": LABELS}}
        await world.tenant_client.patch(GADGET, "bare", label, namespace=space)
        await is_copied(world, "bare", space)
        unlabel = {"metadata": {"labels": {"team": None}}}
        await world.tenant_client.patch(GADGET, "labelled", unlabel, namespace=space)
        await gone(lambda: world.twin(GADGET, space, "labelled"))
        await world.tenant_client.patch(GADGET, "labelled", label, namespace=space)
        await is_copied(world, "labelled", space)


async def label_cluster(world: SyncerWorld, labels: dict[str, str | None]) -> None:
    """Change labels of the VirtualCluster, and do what vc-manager then does."""
    await world.super_client.patch(
        VIRTUAL_CLUSTERS,
        world.tenant.name,
        {"metadata": {"labels": labels}},
        namespace=world.tenant.namespace,
    )


@pytest.mark.thorough
async def test_a_rule_is_for_the_virtual_clusters_that_it_selects(
    world: SyncerWorld, super_plane: LocalControlPlane, tmp_path: Path
):
    """Two tenants have the same policy. A label of the VirtualCluster makes the difference."""
    selector = {"matchLabels": LABELS}
    await label_cluster(world, {**LABELS})
    async with (
        own_world(super_plane, tmp_path / fresh_name("tenant")) as other,
        world.syncer(),
        policed(other, EVERY_RULE),
        ending(world),
        ruled(world, "Gadget", virtualClusterSelector=selector, removalPolicy="Delete"),
    ):
        await grant_kinds(other)
        await manage(other)
        with pytest.raises(NotFound):
            await other.tenant_client.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        definition = build_definition("Gadget")
        await other.tenant_client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        space, other_space = await world.namespace(), await other.namespace()
        await create(world, "g", space)
        await create(other, "g", other_space)
        await is_copied(world, "g", space)
        await eventually(
            lambda: other.super_client.get(NAMESPACES, other.super_namespace(other_space)),
            within=60,
        )
        await asyncio.sleep(1)
        await world.idle()
        assert not await other.has_twin(GADGET, other_space, "g")

        await label_cluster(other, {**LABELS})
        await manage(other)
        await is_copied(other, "g", other_space)
        await label_cluster(world, dict.fromkeys(LABELS))
        await gone(lambda: world.twin(GADGET, space, "g"), within=60)
        await world.tenant_client.get(GADGET, "g", namespace=space)  # the tenant's object stays
        assert await other.has_twin(GADGET, other_space, "g")


@pytest.mark.thorough
async def test_a_status_of_the_tenant_itself_stays(world: SyncerWorld):
    """`statusOwner: Tenant` shows no status of the super cluster, and copies none to it."""
    async with ruled(world, "Gadget", statusOwner="Tenant"), world.syncer():
        space = await world.namespace()
        await create(world, "g", space)
        await is_copied(world, "g", space)
        since = world.mark("tenant")
        await write_super_status(world, "g", space, "Theirs")
        own = {"status": {"phase": "Mine"}}
        await world.tenant_client.patch(GADGET, "g", own, namespace=space, subresource="status")
        await world.tenant_client.patch(GADGET, "g", RULED["Gadget"].change, namespace=space)
        await eventually(
            lambda: world.twin(GADGET, space, "g"),
            until=lambda twin: twin["spec"]["options"]["a"] == "changed",
        )
        await world.idle()
        await shows_phase(world, "g", space, "Mine")
        assert (await world.twin(GADGET, space, "g"))["status"] == {"phase": "Theirs"}
        writes = world.writes("tenant", since)
        assert [each for each in writes if each.resource.startswith("gadgets")] == []


def build_other_definition() -> Object:
    """Return a CRD of the tenant with another schema. It accepts the same objects."""
    found = copy.deepcopy(build_definition("Gadget"))
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"] = {**schema["spec"], "properties": {"size": {"type": "string"}}}
    return found


async def define(world: SyncerWorld, definition: Object) -> None:
    """Let the tenant change its CRD."""
    live = await world.tenant_client.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
    changed = {**live, "spec": definition["spec"]}
    await world.tenant_client.replace(CUSTOM_RESOURCE_DEFINITIONS, changed)


async def undefine(world: SyncerWorld) -> None:
    """Delete the CRD of the tenant."""
    try:
        await world.tenant_client.delete(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
    except NotFound:
        return
    await gone(lambda: world.tenant_client.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION))


@pytest.mark.thorough
async def test_a_tenant_brings_its_own_definition(
    world: SyncerWorld, monkeypatch: pytest.MonkeyPatch
):
    """With an equal schema objects and statuses are synced. With another one nothing is.

    The API server checks rights at the begin of a watch, so the watches are short here.
    """
    monkeypatch.setattr("kubeio.cache.reflector._WATCH_SECONDS_RANGE", (1, 1))
    await undefine(world)  # an earlier test's copy
    await world.tenant_client.create(CUSTOM_RESOURCE_DEFINITIONS, build_definition("Gadget"))
    try:
        async with ruled(world, "Gadget", definition="Equal"), world.syncer():
            space = await world.namespace()
            await create(world, "g", space)
            await is_copied(world, "g", space)
            await write_super_status(world, "g", space, "Ready")
            await shows_phase(world, "g", space, "Ready")
            found = await world.tenant_client.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
            assert not found["metadata"].get("labels"), "the definition stays the tenant's own"

            await define(world, build_other_definition())
            (message,) = await write_definitions(world)
            assert f"SyncRule gadgets: the CRD {DEFINITION} in the tenant" in message
            assert "Give it the schema of the super cluster, or delete it" in message
            assert "objects of Gadget are not synced" in message
            await asyncio.sleep(3)  # the running watch ends
            await create(world, "late", space)
            await world.tenant_client.patch(GADGET, "g", RULED["Gadget"].change, namespace=space)
            await write_super_status(world, "g", space, "Changed")
            await asyncio.sleep(2)
            await world.idle()
            assert not await world.has_twin(GADGET, space, "late")
            twin = await world.twin(GADGET, space, "g")
            assert twin["spec"] == RULED["Gadget"].body["spec"], "an earlier copy stays"
            await shows_phase(world, "g", space, "Ready")

            await define(world, build_definition("Gadget"))
            await manage(world)
            await is_copied(world, "late", space)
            await eventually(
                lambda: world.twin(GADGET, space, "g"),
                until=lambda twin: twin["spec"]["options"]["a"] == "changed",
                within=60,
            )
            await shows_phase(world, "g", space, "Changed")
    finally:
        await undefine(world)
