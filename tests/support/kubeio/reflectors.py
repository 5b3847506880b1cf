"""A reflector that runs against a scripted server."""

from __future__ import annotations

import asyncio
import contextlib

from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Store
from kubeio.http import watch_decoder
from tenancy.resources import PODS
from tests.support.faults import misbehaving


def pod(name, version, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "managedFields": [{"manager": "x"}],
            **metadata,
        },
    }


def mark(version):
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": str(version),
            "annotations": {watch_decoder.INITIAL_EVENTS_END: "true"},
        },
    }


def bookmark(version):
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}}


async def begin_with(answer, *pods, version):
    """A streamed list."""
    await answer.begin()
    for pod in pods:
        await answer.event("ADDED", pod)
    await answer.event("BOOKMARK", mark(version))


class WatchScript:
    """Plays one scene for each watch. Lists return `listed`."""

    def __init__(self, *scenes, listed=(), version=0, page=1000):
        self.scenes = list(scenes)
        self.listed = list(listed)
        self.version = version
        self.page = page
        self.lists = 0
        self.watched = []
        self.seconds = []

    async def __call__(self, request, answer):
        if "watch" not in request.query:
            await self._list(request, answer)
            return
        self.watched.append(request.query.get("resourceVersion", "list"))
        self.seconds.append(request.query["timeoutSeconds"])
        if not self.scenes:
            await answer.begin()
            await answer.hang()
        await self.scenes.pop(0)(answer)

    async def _list(self, request, answer):
        self.lists += 1
        at = int(request.query.get("continue", "0"))
        size = min(int(request.query["limit"]), self.page)
        metadata = {"resourceVersion": str(self.version)}
        if at + size < len(self.listed):
            metadata["continue"] = str(at + size)
        items = [
            {key: value for key, value in pod.items() if key not in ("kind", "apiVersion")}
            for pod in self.listed[at : at + size]
        ]
        await answer.json({"kind": "PodList", "metadata": metadata, "items": items})


class ReflectorRun:
    """A running reflector, its store, and the notifications of subscribers."""

    def __init__(self, reflector, store):
        self.reflector = reflector
        self.store = store
        self.told = []
        store.subscribe(self._hear)

    def _hear(self, old, new, live):
        what = "add" if old is None else "delete" if new is None else "change"
        self.told.append((what, (new or old).name, live))

    @property
    def names(self):
        return sorted(entry.name for entry in self.store.list())


@contextlib.asynccontextmanager
async def running(
    script,
    *,
    silence=5.0,
    delays=None,
    rests=False,
    loop_budget=None,
    is_budget_spent=None,
    **options,
):
    async def sleep(seconds):
        if delays is not None:
            delays.append(seconds)
        await asyncio.sleep(3600 if rests else 0)

    store = Store()
    async with misbehaving(script) as server, Client(server.endpoint) as client:
        reflector = Reflector(
            client,
            PODS,
            store,
            ReflectorOptions(idle_timeout=silence, **options),
            loop_budget=loop_budget,
            is_budget_spent=is_budget_spent,
            sleep=sleep,
            backoff=Backoff(base=1.0, ceiling=30.0, chance=lambda: 1.0),
        )
        run = ReflectorRun(reflector, store)
        task = asyncio.ensure_future(reflector.run())
        try:
            yield run
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def forever(answer):
    await answer.hang()


def scene(*pods, version, then=forever):
    async def play(answer):
        await begin_with(answer, *pods, version=version)
        await then(answer)

    return play
