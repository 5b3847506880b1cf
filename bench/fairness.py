"""Regular tenants next to greedy tenants: the latencies of the regular ones.

Owns the mix. The last tenants are greedy: they create all their pods at once, or the statuses of
their pods are changed without end. The remaining tenants create one pod after the other at a calm
rate. The same calm load alone is the reference.
"""

import asyncio
import statistics
from dataclasses import dataclass

from bench import changes, load, runs
from bench.arena import TIMEOUT, BenchContext
from bench.figures import jain, summary
from bench.lives import LifeFigures
from bench.load import LoadItem, RequestTimes
from bench.sightings import ObservedTimes
from bench.syncers import RunningSyncer
from tenancy.resources import PODS

_REST = 3.0


@dataclass(frozen=True, kw_only=True)
class LoadMix:
    """The load of each kind of tenant."""

    greedy_tenants: int
    greedy_pods: int
    """Per tenant."""
    regular_pods: int
    """Per tenant."""
    per_second: float
    """Pods of all regular tenants together."""
    storm_per_second: float = 0.0


async def measure(arena: BenchContext, mix: LoadMix) -> dict[str, list[LifeFigures]]:
    """Return the latencies of regular tenants alone, next to a burst and next to status updates."""
    found: dict[str, list[LifeFigures]] = {}
    async with arena.synced() as running:
        found["alone"] = [await _alone(arena, mix, running)]
        found["beside a burst"] = [await _burst(arena, mix, running)]
        found["greedy alone"] = [await _greedy(arena, mix, running)]
        if mix.storm_per_second:
            found["beside a storm"] = [await _storm(arena, mix, running)]
    alone = found["alone"][0]["ready_ms"]["p99"]
    for each in found.values():
        if "ready_ms" in each[0]:
            each[0]["p99_to_alone"] = each[0]["ready_ms"]["p99"] / alone
    return found


async def _alone(arena: BenchContext, mix: LoadMix, running: RunningSyncer) -> LifeFigures:
    prefix = await arena.begin("alone")
    regular = _regular(arena, mix, f"{prefix}r-")
    with arena.effort(running) as effort:
        times = await load.paced(regular, load.post, per_second=mix.per_second)
        await arena.observer.until("tenant", "ready", len(regular), timeout=TIMEOUT)
    seen = await arena.observer.take()
    await _away(arena, regular)
    return _felt(times, seen, regular) | runs.cost((effort,), len(regular))


async def _burst(arena: BenchContext, mix: LoadMix, running: RunningSyncer) -> LifeFigures:
    prefix = await arena.begin("beside")
    regular, greedy = _regular(arena, mix, f"{prefix}r-"), _of_greedy(arena, mix, f"{prefix}g-")
    with arena.effort(running) as effort:
        async with asyncio.TaskGroup() as group:
            eating = group.create_task(load.burst(greedy, load.post))
            calm = group.create_task(load.paced(regular, load.post, per_second=mix.per_second))
        count = len(regular) + len(greedy)
        await arena.observer.until("tenant", "ready", count, timeout=TIMEOUT)
    seen = await arena.observer.take()
    await _away(arena, [*regular, *greedy])
    found = _felt(calm.result(), seen, regular) | runs.cost((effort,), count)
    return found | _eaten(eating.result(), seen)


async def _greedy(arena: BenchContext, mix: LoadMix, running: RunningSyncer) -> LifeFigures:
    prefix = await arena.begin("greedy")
    greedy = _of_greedy(arena, mix, f"{prefix}g-")
    with arena.effort(running) as effort:
        times = await load.burst(greedy, load.post)
        await arena.observer.until("tenant", "ready", len(greedy), timeout=TIMEOUT)
    seen = await arena.observer.take()
    await _away(arena, greedy)
    return _eaten(times, seen) | runs.cost((effort,), len(greedy))


async def _storm(arena: BenchContext, mix: LoadMix, running: RunningSyncer) -> LifeFigures:
    prefix = await arena.begin("storm")
    regular, greedy = _regular(arena, mix, f"{prefix}r-"), _of_greedy(arena, mix, f"{prefix}g-")
    await load.burst(greedy, load.post)
    await arena.observer.until("tenant", "ready", len(greedy), timeout=TIMEOUT)
    await asyncio.sleep(_REST)
    targets = await changes.twins(arena, f"{prefix}g-")
    seconds = len(regular) / mix.per_second
    with arena.effort(running) as effort:
        async with asyncio.TaskGroup() as group:
            group.create_task(changes.storm(targets, mix.storm_per_second, seconds))
            calm = group.create_task(load.paced(regular, load.post, per_second=mix.per_second))
        count = len(regular) + len(greedy)
        await arena.observer.until("tenant", "ready", count, timeout=TIMEOUT)
    seen = await arena.observer.take()
    await _away(arena, [*regular, *greedy])
    return _felt(calm.result(), seen, regular) | runs.cost((effort,), count)


def _regular(arena: BenchContext, mix: LoadMix, prefix: str) -> list[LoadItem]:
    tenants = len(arena.tenant_wires) - mix.greedy_tenants
    return arena.tenant_items(prefix, tenants * mix.regular_pods, tenants)


def _of_greedy(arena: BenchContext, mix: LoadMix, prefix: str) -> list[LoadItem]:
    wires = arena.tenant_wires[-mix.greedy_tenants :]
    names = [f"{prefix}{number:05}" for number in range(mix.greedy_tenants * mix.greedy_pods)]
    where, shape = PODS.build_path("default", ""), arena.stage.shape
    return [
        LoadItem(name, wires[number % len(wires)], where, shape.pod(name))
        for number, name in enumerate(names)
    ]


async def _away(arena: BenchContext, items: list[LoadItem]) -> None:
    await load.burst(items, load.delete)
    await arena.observer.until("tenant", "gone", len(items), timeout=TIMEOUT)
    await arena.settle()


def _felt(times: RequestTimes, seen: ObservedTimes, regular: list[LoadItem]) -> LifeFigures:
    ready = seen.when("tenant", "ready")
    by_tenant: dict[int, list[float]] = {}
    for item in regular:
        late = 1e3 * (ready[item.name] - times.sent[item.name])
        by_tenant.setdefault(id(item.wire), []).append(late)
    means = [statistics.fmean(values) for values in by_tenant.values()]
    every = [value for values in by_tenant.values() for value in values]
    return {"ready_ms": summary(every).as_dict(), "jain": jain(means)}


def _eaten(times: RequestTimes, seen: ObservedTimes) -> LifeFigures:
    ready = seen.when("tenant", "ready")
    ended = max(ready[name] for name in times.sent)
    return {"greedy_pods_per_s": len(times.sent) / (ended - times.begun)}
