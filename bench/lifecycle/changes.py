"""Changes during pods' lives: ConfigMaps and Secrets downward, statuses upward.

Owns both loads. A change is a number that the observer finds on the other side. If the next change
overtakes one before its sync, it is counted as coalesced, not as late.
"""

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from bench.lifecycle import load, requests, runs
from bench.lifecycle.http_client import MERGE, LoadTransport
from bench.lifecycle.load import LoadItem
from bench.lifecycle.observations import ObservedTimes
from bench.lifecycle.pod_figures import LifeFigures
from bench.lifecycle.stage import TIMEOUT, BenchContext, memory
from bench.programs.syncers import RunningSyncer
from bench.reports.statistics import summary
from tenancy.resources import CONFIG_MAPS, PODS, SECRETS, Resource

_REST = 2.0  # seconds for the last change to arrive


@dataclass(frozen=True, slots=True)
class ChangeTarget:
    """One changed object, and the format of one change."""

    name: str
    wire: LoadTransport
    path: str
    kind: str

    def body(self, number: int) -> bytes:
        """Return the merge patch of a change."""
        if self.kind == "Pod":
            return json.dumps({"status": {"message": str(number)}}).encode()
        return json.dumps({"data": {"seq": self.shown(number).partition(":")[2]}}).encode()

    def shown(self, number: int) -> str:
        """Return the observer's name of it."""
        text = str(number)
        if self.kind == "Pod":
            return f"status:{text}"
        if self.kind == "Secret":
            text = base64.b64encode(text.encode()).decode()
        return f"seq:{text}"


async def updates(
    arena: BenchContext, objects: int, per_second: float, seconds: float
) -> LifeFigures:
    """Change ConfigMaps and Secrets of pods, in all tenants in turn."""
    async with arena.synced() as running:
        prefix = await arena.begin("updates")
        targets: list[ChangeTarget] = []
        pods: list[LoadItem] = []
        for number, wire in enumerate(arena.tenant_wires):
            share = objects // len(arena.tenant_wires) or 1
            own = await _make(wire, f"{prefix}{number}-", share)
            targets += own
            pods.append(_user(wire, f"{prefix}{number}", own))
        await load.burst(pods, load.post)
        await arena.observer.until("tenant", "ready", len(pods), timeout=TIMEOUT)
        found = await _changed(arena, running, targets, per_second, seconds)
        await load.burst(pods, load.delete)
        await arena.observer.until("tenant", "gone", len(pods), timeout=TIMEOUT)
        for target in targets:
            await target.wire.do("DELETE", target.path)
    return found


async def statuses(
    arena: BenchContext, pods: int, per_second: float, seconds: float
) -> LifeFigures:
    """Change the statuses of running pods in the super cluster, as flapping probes do."""
    async with arena.synced() as running:
        prefix = await arena.begin("statuses")
        items = arena.tenant_items(prefix, pods)
        await load.burst(items, load.post)
        await arena.observer.until("tenant", "ready", pods, timeout=TIMEOUT)
        targets = await _twins(arena, prefix)
        found = await _changed(arena, running, targets, per_second, seconds)
        await load.burst(items, load.delete)
        await arena.observer.until("tenant", "gone", pods, timeout=TIMEOUT)
    return found


async def _twins(arena: BenchContext, prefix: str) -> list[ChangeTarget]:
    """Return the statuses of all super pods with a name prefix."""
    listed = json.loads(await arena.super_wire.do("GET", PODS.build_path("", "")))
    return [
        ChangeTarget(
            metadata["name"],
            arena.super_wire,
            f"{PODS.build_path(metadata['namespace'], metadata['name'])}/status",
            "Pod",
        )
        for metadata in (pod["metadata"] for pod in listed["items"])
        if metadata["name"].startswith(prefix)
    ]


async def _storm(
    targets: list[ChangeTarget], per_second: float, seconds: float
) -> dict[tuple[str, str, int], float]:
    """Change the objects in turn at a rate. Returns the time of each answer."""
    answered: dict[tuple[str, str, int], float] = {}

    async def change(target: ChangeTarget, number: int) -> None:
        await target.wire.do("PATCH", target.path, target.body(number), content=MERGE)
        answered[target.kind, target.name, number] = time.monotonic()

    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(int(per_second * seconds)):
            await asyncio.sleep(max(begun + number / per_second - time.monotonic(), 0))
            group.create_task(change(targets[number % len(targets)], number + 1))
    return answered


async def _changed(
    arena: BenchContext,
    running: RunningSyncer,
    targets: list[ChangeTarget],
    per_second: float,
    seconds: float,
) -> LifeFigures:
    marks = requests.marks(arena.stage)
    running.begin_devices()
    with arena.effort(running) as effort:
        answered = await _storm(targets, per_second, seconds)
        await asyncio.sleep(_REST)
    seen = await arena.observer.take()
    by_key = {(target.kind, target.name): target for target in targets}
    found: LifeFigures = {"memory": memory(running)}
    found |= carried(answered, by_key, seen) | runs.cost((effort,), len(answered))
    return (
        found | await running.seen_inside() | requests.per_life(arena.stage, marks, len(answered))
    )


def carried(
    answered: Mapping[tuple[str, str, int], float],
    targets: Mapping[tuple[str, str], ChangeTarget],
    seen: ObservedTimes,
) -> LifeFigures:
    """Return the delays of changes on the other side, by kind. Pure."""
    late: dict[str, list[float]] = {}
    last: dict[tuple[str, str], int] = {}
    arrived = missing = 0
    for (kind, name, number), at in answered.items():
        side = "tenant" if kind == "Pod" else "super"
        stamp = seen.stamps.get((side, kind, name), {}).get(targets[kind, name].shown(number))
        last[kind, name] = max(last.get((kind, name), 0), number)
        if stamp is not None:
            arrived += 1
            late.setdefault(kind, []).append(1e3 * (stamp - at))
    for (kind, name), number in last.items():
        side = "tenant" if kind == "Pod" else "super"
        shown = seen.stamps.get((side, kind, name), {})
        missing += targets[kind, name].shown(number) not in shown
    return {
        "changes": len(answered),
        "arrived": arrived,
        "coalesced": len(answered) - arrived - missing,
        "last_ones_missing": missing,
        "late_ms": {kind: summary(values).as_dict() for kind, values in late.items()},
    }


async def _make(wire: LoadTransport, prefix: str, count: int) -> list[ChangeTarget]:
    found: list[ChangeTarget] = []
    kinds: tuple[tuple[Resource, str], ...] = ((CONFIG_MAPS, "0"), (SECRETS, "MA=="))
    for number in range(count):
        resource, value = kinds[number % 2]
        name = f"{prefix}{number}"
        body = {
            "apiVersion": "v1",
            "kind": resource.kind,
            "metadata": {"name": name},
            "data": {"seq": value, "more": base64.b64encode(b"x" * 600).decode()},
        }
        await wire.do("POST", resource.build_path("default", ""), json.dumps(body).encode())
        found.append(ChangeTarget(name, wire, resource.build_path("default", name), resource.kind))
    return found


def _user(wire: LoadTransport, name: str, targets: list[ChangeTarget]) -> LoadItem:
    """Return a pod that mounts all of them."""
    volumes = [
        {"name": f"volume-{number}", "configMap": {"name": target.name}}
        if target.kind == "ConfigMap"
        else {"name": f"volume-{number}", "secret": {"secretName": target.name}}
        for number, target in enumerate(targets)
    ]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
            "volumes": volumes,
        },
    }
    return LoadItem(name, wire, PODS.build_path("default", ""), json.dumps(body).encode())
