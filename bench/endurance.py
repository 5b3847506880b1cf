"""Syncer at rest, after a kill, and after changes by hand in the super cluster.

Owns three measurements that are no load: idle, restart and drift.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from bench import calls, load, use
from bench.arena import TIMEOUT, BenchContext, memory
from bench.figures import summary
from bench.lives import LifeFigures
from bench.load import LoadItem
from bench.wire import MERGE
from tenancy.resources import CONFIG_MAPS, PODS

_LOOK = 0.005


async def idle(arena: BenchContext, seconds: float) -> LifeFigures:
    """Return the use of the syncer while there are no changes."""
    async with arena.synced() as running:
        await arena.settle(running)
        marks = calls.marks(arena.stage)
        with arena.effort(running) as effort:
            await asyncio.sleep(seconds)
        found: LifeFigures = {
            "idle_percent_of_a_core": 100 * effort.of("syncer") / effort.seconds,
            "tenants_percent_of_a_core": 100 * effort.of("tenant") / effort.seconds,
            "memory": memory(running),
            "foreign_cores": effort.foreign_cores,
        }
    return found | calls.per_life(arena.stage, marks, 1)


async def restart(arena: BenchContext, pods: int) -> LifeFigures:
    """Kill the syncer with pods running, start it again, and create one more pod per tenant.

    A killed holder leaves its Lease behind, so the takeover is part of the time.
    """
    async with arena.synced() as running:
        prefix = await arena.begin("restart")
        items = arena.tenant_items(f"{prefix}old-", pods)
        await load.burst(items, load.post)
        await arena.observer.until("tenant", "ready", pods, timeout=TIMEOUT)
        await arena.settle(running)
        before = memory(running)
        running.process.kill()
    marks = calls.marks(arena.stage)
    fresh = arena.tenant_items(f"{prefix}new-", len(arena.tenant_wires))
    await load.burst(fresh, load.post)
    begun = time.monotonic()
    async with arena.syncer.running(arena.stage) as running:
        count = pods + len(fresh)
        await arena.observer.until("tenant", "ready", count, timeout=TIMEOUT)
        await arena.settle(running)
        used = use.cpu_seconds(running.pid)
        after = memory(running)
        seen = await arena.observer.take()
        counted = calls.per_life(arena.stage, marks, 1)
        await load.burst([*items, *fresh], load.delete)
        await arena.observer.until("tenant", "gone", count, timeout=TIMEOUT)
    added, ready = seen.when("super", "added"), seen.when("tenant", "ready")
    names = [item.name for item in fresh]
    return {
        "first_new_pod_below_s": min(added[name] for name in names) - begun,
        "last_new_pod_ready_s": max(ready[name] for name in names) - begun,
        "start_cpu_s": used,
        "memory_before": before,
        "memory": after,
    } | counted


async def drift(arena: BenchContext, times: int) -> LifeFigures:
    """Change and delete ConfigMaps in the super cluster. Returns the time until the repair."""
    edited: list[float] = []
    deleted: list[float] = []
    async with arena.synced():
        prefix = await arena.begin("drift")
        name, wire = f"{prefix}settings", arena.tenant_wires[0]
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"seq": "1"},
        }
        await wire.do("POST", CONFIG_MAPS.build_path("default", ""), json.dumps(body).encode())
        user = f"{prefix}pod"
        pod = LoadItem(user, wire, PODS.build_path("default", ""), _user(user, name))
        await load.post(pod)
        await arena.observer.until("tenant", "ready", 1, timeout=TIMEOUT)
        namespace = await _namespace_of(arena, name)
        path = CONFIG_MAPS.build_path(namespace, name)
        for number in range(times):
            # Another one each time: a syncer may leave a repair alone that only repeats itself.
            wrong = json.dumps({"data": {"seq": f"wrong-{number}"}}).encode()
            await arena.super_wire.do("PATCH", path, wrong, content=MERGE)
            edited.append(await _repaired(lambda: _value(arena, path), "1"))
            await arena.super_wire.do("DELETE", path)
            deleted.append(await _repaired(lambda: _value(arena, path), "1"))
            await asyncio.sleep(1.0)
        await load.delete(pod)
        await wire.do("DELETE", CONFIG_MAPS.build_path("default", name))
        await arena.observer.until("tenant", "gone", 1, timeout=TIMEOUT)
    return {
        "edited_ms": summary(edited).as_dict(),
        "deleted_ms": summary(deleted).as_dict(),
    }


async def _repaired(look: Callable[[], Awaitable[str]], value: str) -> float:
    begun = time.monotonic()
    while await look() != value:
        if time.monotonic() - begun > TIMEOUT:
            return float("inf")
        await asyncio.sleep(_LOOK)
    return 1e3 * (time.monotonic() - begun)


async def _value(arena: BenchContext, path: str) -> str:
    status, answer = await arena.super_wire.request("GET", path)
    return str(json.loads(answer)["data"]["seq"]) if status == 200 else ""


async def _namespace_of(arena: BenchContext, name: str) -> str:
    query = f"{CONFIG_MAPS.build_path('', '')}?fieldSelector=metadata.name%3D{name}"
    listed = json.loads(await arena.super_wire.do("GET", query))
    return str(listed["items"][0]["metadata"]["namespace"])


def _user(name: str, config_map: str) -> bytes:
    """Return a pod that needs a ConfigMap, so that the ConfigMap is synced."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "envFrom": [{"configMapRef": {"name": config_map}}],
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }
    return json.dumps(body).encode()
