"""Pods made and deleted in tenants from inside, and when each was Ready and gone there.

Owns the loads and their stamps. It works on the store itself, so that neither a generator's
requests nor an observer's watches take processor time that the measured syncer should have. Hazard:
stamps are of this process's clock, and late by as much as its loop is.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tenancy.resources import PODS
from tests.support.load_shapes import LoadShape
from tests.support.memapi import verbs
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.watches import Object

_AT_ONCE = 2
"""Pods made or deleted in one turn of the loop when there is no rate: requests come in between."""
NAMESPACE = "default"
USER = "load"


@dataclass(eq=False)
class PodLoad:
    """Pods that are made together."""

    tenants: Sequence[int]
    names: list[str]
    sent: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def tenant_of(self, number: int) -> int:
        """Return whose pod the one of a number is."""
        return self.tenants[number % len(self.tenants)]

    async def until(self, stamps: dict[str, float]) -> None:
        """Wait until every pod has a stamp."""
        while len(stamps) < len(self.names):
            self.moved.clear()
            await self.moved.wait()


class PodLoads:
    """All loads of the tenants of one process."""

    def __init__(self, tenants: Sequence[MemoryCluster], shape: LoadShape) -> None:
        self._tenants = tenants
        self._shape = shape
        self._by_prefix: dict[str, PodLoad] = {}
        self._by_name: dict[str, PodLoad] = {}
        self._churning: dict[str, asyncio.Event] = {}
        for tenant in tenants:
            tenant.of(PODS).listeners.append(self._seen)

    async def create(
        self, prefix: str, tenants: Sequence[int], pods: int, per_second: float
    ) -> dict[str, Any]:
        """Make pods in tenants in turn, and wait until all are Ready there."""
        load = PodLoad(tenants, [f"{prefix}{number:05}" for number in range(pods)])
        self._by_prefix[prefix] = load
        self._by_name |= dict.fromkeys(load.names, load)
        begun = time.monotonic()
        for number, name in enumerate(load.names):
            await _turn(number, begun, per_second)
            self._make(load, number, name)
        sent = time.monotonic()
        await load.until(load.ready)
        late: dict[int, list[float]] = {}
        sent_at: dict[int, list[float]] = {}
        for number, name in enumerate(load.names):
            milliseconds = 1e3 * (load.ready[name] - load.sent[name])
            late.setdefault(load.tenant_of(number), []).append(milliseconds)
            sent_at.setdefault(load.tenant_of(number), []).append(load.sent[name])
        ended = max(load.ready.values())
        return {
            "sent_s": sent - begun,
            "took_s": ended - begun,
            "late_ms": list(late.values()),
            "sent_at": list(sent_at.values()),
            "begun_at": begun,
            "ended_at": ended,
        }

    async def delete(self, prefix: str, per_second: float) -> dict[str, Any]:
        """Delete the pods of a load as a person does, and wait until all are deleted there."""
        load = self._by_prefix.pop(prefix)
        begun = time.monotonic()
        for number, name in enumerate(load.names):
            await _turn(number, begun, per_second)
            self._delete(load, number, name)
        await load.until(load.gone)
        late = [1e3 * (load.gone[name] - load.deleted[name]) for name in load.names]
        for name in load.names:
            del self._by_name[name]
        return {"took_s": max(load.gone.values()) - begun, "late_ms": [late]}

    async def churn(
        self, prefix: str, tenants: Sequence[int], per_second: float, life: float
    ) -> dict[str, Any]:
        """Create pods, and delete each after so many seconds, until `calm`. Wait until all are
        deleted.
        """
        load = PodLoad(tenants, [])
        calm = self._churning[prefix] = asyncio.Event()
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while not calm.is_set():
                number = len(load.names)
                name = f"{prefix}{number:05}"
                await _turn(number, begun, per_second)
                load.names.append(name)
                self._by_name[name] = load
                self._make(load, number, name)
                group.create_task(self._delete_later(load, number, name, life))
        await load.until(load.gone)
        for name in load.names:
            del self._by_name[name]
        return {
            "names": load.names,
            "sent_at": load.sent,
            "ready_at": load.ready,
            "deleted_at": load.deleted,
            "gone_at": load.gone,
        }

    def calm(self, prefix: str) -> None:
        """Stop the creation of pods in a churn."""
        self._churning.pop(prefix).set()

    async def _delete_later(self, load: PodLoad, number: int, name: str, life: float) -> None:
        await asyncio.sleep(life)
        self._delete(load, number, name)

    def _make(self, load: PodLoad, number: int, name: str) -> None:
        load.sent[name] = time.monotonic()
        cluster = self._tenants[load.tenant_of(number)]
        body: Object = orjson.loads(self._shape.pod(name))
        verbs.create(cluster, cluster.of(PODS), NAMESPACE, body, USER)

    def _delete(self, load: PodLoad, number: int, name: str) -> None:
        collection = self._tenants[load.tenant_of(number)].of(PODS)
        there = collection.get(NAMESPACE, name)
        load.deleted[name] = time.monotonic()
        if there is not None:
            verbs.delete(collection, there, {})

    def _seen(self, kind: str, body: Object) -> None:
        load = self._by_name.get(body["metadata"]["name"])
        if load is None:
            return
        name = body["metadata"]["name"]
        if kind == "DELETED":
            load.gone[name] = time.monotonic()
        elif name not in load.ready and _is_ready(body):
            load.ready[name] = time.monotonic()
        else:
            return
        load.moved.set()


async def _turn(number: int, begun: float, per_second: float) -> None:
    """Wait for the turn of the pod of a number."""
    if per_second:
        await asyncio.sleep(max(begun + number / per_second - time.monotonic(), 0))
    elif number % _AT_ONCE == 0:
        await asyncio.sleep(0)


def _is_ready(body: Object) -> bool:
    conditions = body["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
