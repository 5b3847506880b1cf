"""A collection whose kind comes with a CRD: followed while that is there, and waited for never."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import quote

from kubeio.api.client import Client
from kubeio.cache.crd_reflector import CrdReflector, crd_name
from kubeio.cache.store import Store
from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS, VOLUME_SNAPSHOT_CLASSES
from tests.support.eventually import eventually
from tests.support.memapi import clusters, verbs
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.served import Served

CLASSES = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses"
NAME = "volumesnapshotclasses.snapshot.storage.k8s.io"


@contextlib.asynccontextmanager
async def following(server: Served, told: list[str]):
    """Follow the collection for the length of a block."""
    store = Store()
    async with server.running(), Client(server.endpoint) as client:
        reflector = CrdReflector(
            client, VOLUME_SNAPSHOT_CLASSES, store, on_served=lambda: told.append("served")
        )
        task = asyncio.ensure_future(reflector.run())
        try:
            yield reflector, store
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def make_class(cluster: MemoryCluster, name: str) -> None:
    """Have an object of the kind that the CRD brings."""
    body = {"metadata": {"name": name}}
    verbs.create(cluster, cluster.of(VOLUME_SNAPSHOT_CLASSES), "", body, "test")


def lists_of_classes(server: Served) -> int:
    """Return how often the collection was listed."""
    return sum(target.startswith(f"{CLASSES}?") for target in server.asked)


async def test_it_is_followed_while_its_definition_is_there():
    cluster, told = clusters.fresh("classes", "10.96.0.0/16", accounts=False), []
    server, definitions = Served(cluster), cluster.of(CUSTOM_RESOURCE_DEFINITIONS)
    async with following(server, told) as (reflector, store):
        await asyncio.wait_for(reflector.wait_synced(), 5)
        assert reflector.synced
        assert not store.synced  # absence means nothing
        missing = f"the CustomResourceDefinition {NAME} does not exist"
        assert reflector.describe_unserved() == missing
        assert lists_of_classes(server) == 0
        (watched,) = server.asked
        assert f"fieldSelector={quote(f'metadata.name={NAME}')}" in watched
        clusters.define(cluster, VOLUME_SNAPSHOT_CLASSES)
        make_class(cluster, "gold")
        await eventually(lambda: store.synced and store.get("", "gold") and told == ["served"])
        assert not reflector.describe_unserved()
        there = definitions.get("", NAME)
        changed = verbs.patch(definitions, there, lambda body: {**body, "spec": {}}, {}, "test")
        for name in ("silver", "bronze"):
            make_class(cluster, name)
        seen = await eventually(lambda: store.get("", "bronze") and reflector.revision)
        assert seen == changed.revision + 2 == cluster.revision
        late = {**changed.decode()["metadata"], "resourceVersion": str(changed.revision + 1)}
        server.say("DELETED", {"metadata": late}, CUSTOM_RESOURCE_DEFINITIONS)
        await eventually(lambda: not store.synced and not len(store))
        assert reflector.describe_unserved() == missing
        assert reflector.revision == seen  # a store's revision never seems to go back
        clusters.undefine(cluster, VOLUME_SNAPSHOT_CLASSES)
        clusters.define(cluster, VOLUME_SNAPSHOT_CLASSES)
        make_class(cluster, "gold")
        await eventually(lambda: store.get("", "gold"))
        assert lists_of_classes(server) == 2
        assert not reflector.problem


def test_the_name_of_a_definition():
    assert crd_name(VOLUME_SNAPSHOT_CLASSES) == NAME
