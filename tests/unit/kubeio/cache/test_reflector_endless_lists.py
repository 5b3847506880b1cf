"""A server whose pages have no end is given up and told of. Nothing is taken from it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Store
from tenancy.resources import CONFIG_MAPS
from tests.support.eventually import eventually
from tests.support.faults import misbehaving


def item(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "5"}}


class EndlessLists:
    """Refuses to stream. Has `pages` pages, or no last one, and `barren` of them are empty."""

    def __init__(self, *, pages: int = 0, barren: int = 0) -> None:
        self.pages, self.barren = pages, barren
        self.asked = 0
        self.lists = 0

    async def __call__(self, request, answer):
        if "watch" in request.query:
            if "sendInitialEvents" in request.query:
                await answer.status(422, "Invalid")
                return
            await answer.begin()
            await answer.hang()
        self.asked += 1
        number = int(request.query.get("continue") or 0)
        self.lists += not number
        metadata = {"resourceVersion": "9"}
        if number + 1 != self.pages:
            metadata["continue"] = str(number + 1)
        items = [] if 0 < number <= self.barren else [item(f"c{number if self.pages else 0}")]
        await answer.json({"kind": "ConfigMapList", "metadata": metadata, "items": items})


@contextlib.asynccontextmanager
async def following(server):
    store = Store()
    async with misbehaving(server) as found, Client(found.endpoint) as client:
        reflector = Reflector(client, CONFIG_MAPS, store, backoff=Backoff(base=0.001, ceiling=0.01))
        running = asyncio.ensure_future(reflector.run())
        try:
            yield reflector, store
        finally:
            running.cancel()
            await asyncio.wait((running,))


@pytest.mark.parametrize("barren", [0, 10**9])
async def test_pages_without_an_end_are_given_up(barren):
    server = EndlessLists(barren=barren)
    async with following(server) as (reflector, store):
        await eventually(lambda: "does not end" in reflector.problem)
        await eventually(lambda: server.lists > 1)
        assert server.asked > 100
        assert not reflector.synced
        assert not store.synced
        assert store.list() == []


async def test_pages_with_nothing_on_them_are_allowed():
    server = EndlessLists(pages=60, barren=50)
    async with following(server) as (reflector, store):
        await reflector.wait_synced()
        assert reflector.restarts == 0
        assert len(store.list()) == 10
