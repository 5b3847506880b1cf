"""A collection whose kind comes with a CRD: followed while that is there, and waited for never."""

from __future__ import annotations

import asyncio
import contextlib

from kubeio.api.client import Client
from kubeio.cache.crd_reflector import OptionalReflector, definition_of
from kubeio.cache.store import Store
from kubeio.http import watch_decoder
from tenancy.resources import VOLUME_SNAPSHOT_CLASSES
from tests.support.eventually import eventually
from tests.support.faults import misbehaving

CLASSES = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses"
NAME = "volumesnapshotclasses.snapshot.storage.k8s.io"


def thing(name: str, version: int) -> dict[str, object]:
    """Return an object of whatever kind."""
    metadata = {"name": name, "uid": f"{name}-{version}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata}


def mark(version: int) -> dict[str, object]:
    """Return the bookmark that ends a streamed list."""
    marked = {watch_decoder.INITIAL_EVENTS_END: "true"}
    metadata = {"resourceVersion": str(version), "annotations": marked}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata}


class Server:
    """Serves the CRD as the test moves it, and the collection with one object."""

    def __init__(self) -> None:
        self.moves: asyncio.Queue[tuple[str, dict[str, object]]] = asyncio.Queue()
        self.asked: list[str] = []
        self.selected = ""

    async def __call__(self, request, answer) -> None:
        self.asked.append(request.path)
        await answer.begin()
        if request.path == CLASSES:
            await answer.event("ADDED", thing("gold", 20))
            await answer.event("BOOKMARK", mark(20))
            await answer.hang()
        self.selected = request.query.get("fieldSelector", "")
        await answer.event("BOOKMARK", mark(10))
        while True:
            await answer.event(*await self.moves.get())


@contextlib.asynccontextmanager
async def following(server: Server, told: list[str]):
    """Follow the collection for the length of a block."""
    store = Store()
    async with misbehaving(server) as running, Client(running.endpoint) as client:
        reflector = OptionalReflector(
            client, VOLUME_SNAPSHOT_CLASSES, store, on_served=lambda: told.append("served")
        )
        task = asyncio.ensure_future(reflector.run())
        try:
            yield reflector, store
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_it_is_followed_while_its_definition_is_there():
    server, told = Server(), []
    async with following(server, told) as (reflector, store):
        await asyncio.wait_for(reflector.wait_synced(), 5)
        assert reflector.synced
        assert not store.synced  # absence means nothing
        await asyncio.sleep(0.1)
        assert CLASSES not in server.asked
        assert server.selected == f"metadata.name={NAME}"
        server.moves.put_nowait(("ADDED", thing(NAME, 11)))
        await eventually(lambda: store.synced and store.get("", "gold") and told == ["served"])
        assert reflector.revision == 20
        server.moves.put_nowait(("MODIFIED", thing(NAME, 11) | {"changed": True}))
        server.moves.put_nowait(("DELETED", thing(NAME, 12)))
        await eventually(lambda: not store.synced and not len(store))
        assert reflector.revision == 20  # a store's revision never seems to go back
        server.moves.put_nowait(("ADDED", thing(NAME, 13)))
        await eventually(lambda: store.get("", "gold"))
        assert server.asked.count(CLASSES) == 2
        assert not reflector.problem


def test_the_name_of_a_definition():
    assert definition_of(VOLUME_SNAPSHOT_CLASSES) == NAME
