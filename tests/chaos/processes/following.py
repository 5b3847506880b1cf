"""Everything that happens to one kind on one server, told to someone. Its own list and watch.

Owns what is there by UID. What vanished while the watch was broken is told as a deletion, too.
Asks the server with the product's client, but keeps nothing in the product's caches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson

from kubeio import errors
from kubeio.api.client import Client
from kubeio.http import watch_decoder
from tenancy.resources import Resource
from tests.chaos.oracles import Object

KindHandler = Callable[[str, Object], None]
"""Called with ADDED, MODIFIED or DELETED, and the object."""


class KindWatch:
    """One kind on one server."""

    def __init__(self, client: Client, resource: Resource, heard: KindHandler) -> None:
        self.resource = resource
        self.objects: dict[str, Object] = {}
        """By UID."""
        self.lists = 0
        """How often everything was listed."""
        self._client = client
        self._heard = heard

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._follow()
            except errors.KubeError:
                await asyncio.sleep(0.1)

    async def _follow(self) -> None:
        seen: set[str] | None = set()
        async with self._client.watch(
            self.resource, initial_events=True, timeout_seconds=3600
        ) as events:
            async for event in events:
                body = event.decode()
                if event.type != "BOOKMARK":
                    self._take(event.type, body)
                    if seen is not None:
                        seen.add(body["metadata"]["uid"])
                elif watch_decoder.INITIAL_EVENTS_END in (
                    body["metadata"].get("annotations") or {}
                ):
                    for uid in set(self.objects) - (seen or set()):
                        self._take("DELETED", self.objects[uid])
                    seen, self.lists = None, self.lists + 1

    def _take(self, kind: str, body: Object) -> None:
        uid = body["metadata"]["uid"]
        known = self.objects.get(uid)
        if kind == "DELETED":
            self.objects.pop(uid, None)
        else:
            if known == body:
                return
            self.objects[uid] = body
            kind = "ADDED" if known is None else "MODIFIED"
        self._heard(kind, orjson.loads(orjson.dumps(body)))
