"""One run of pods' lives: created, Ready, deleted, removed, at once or at a rate.

Owns the order of a run and its counts. The definitions of the results are in
`bench.lifecycle.pod_figures`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from bench.lifecycle import load, paths, pod_figures, requests
from bench.lifecycle.load import LoadItem, RequestTimes
from bench.lifecycle.observations import ObservedTimes
from bench.lifecycle.paths import Scripts, WayClients
from bench.lifecycle.pod_figures import LifeFigures
from bench.lifecycle.stage import TIMEOUT, BenchContext, ProcessCost, memory
from bench.programs.syncers import grown

_SWEEPERS = 64
_BYSTANDERS = ("super", "tenant", "kube-scheduler", "kwok", "load", "observer")


@dataclass(frozen=True, kw_only=True)
class PodRate:
    """The rate of creations and deletions."""

    per_second: float = 0.0
    """Creations per second. 0 stands for as many as twenty creators can."""
    life: float = 0.0
    """Seconds until a pod is deleted while more pods are created. 0 keeps all until the last
    creation."""
    deleters: int = load.CREATORS
    tenants: int = 0
    """Number of tenants with pods. 0 stands for all."""


BURST = PodRate()
STORM = PodRate(deleters=_SWEEPERS)


async def run(
    arena: BenchContext, way: str, count: int, pace: PodRate, by_wire: Scripts
) -> LifeFigures:
    """Run one variant once."""
    async with paths.hands(arena, way, by_wire) as hands:
        prefix = await arena.begin(way)
        items = paths.items(arena, way, prefix, count, pace.tenants)
        marks = requests.marks(arena.stage)
        running = hands.running
        before = await running.counters() if running is not None else {}
        if running is not None:
            running.begin_devices()
        found = await (_churn if pace.life else _life)(arena, items, hands, pace)
        if running is not None:
            found |= await running.seen_inside()
            after = await running.counters()
            found |= {"counters_per_life": grown(before, after, count)}
    return found | requests.per_life(arena.stage, marks, count)


async def _life(
    arena: BenchContext, items: list[LoadItem], hands: WayClients, pace: PodRate
) -> LifeFigures:
    """Create, wait for Ready on both sides, delete, wait until gone on both sides."""
    observer, count, running = arena.observer, len(items), hands.running
    sides = {hands.side, "super"}
    with arena.effort(running) as creating:
        created = await _sent(items, hands.create, pace, load.CREATORS)
        for side in sides:
            await observer.until(side, "ready", count, timeout=TIMEOUT)
    found: LifeFigures = {"memory": memory(running)} if running is not None else {}
    with arena.effort(running) as deleting:
        deleted = await _sent(items, hands.delete, pace, pace.deleters)
        for side in sides:
            await observer.until(side, "gone", count, timeout=TIMEOUT)
    seen = await observer.take()
    return (
        found
        | _felt(created, deleted, seen, hands)
        | cost((creating, deleting), count)
        | events(seen.events)
        | {"syncer_create_cpu_s": creating.of("syncer") * 1000 / count}
    )


async def _churn(
    arena: BenchContext, items: list[LoadItem], hands: WayClients, pace: PodRate
) -> LifeFigures:
    """Create pods at a rate and delete each after a time."""
    created, deleted = RequestTimes(), RequestTimes()

    async def delete_later() -> None:
        await asyncio.sleep(pace.life)
        await load.paced(items, hands.delete, per_second=pace.per_second, times=deleted)

    with arena.effort(hands.running) as effort:
        async with asyncio.TaskGroup() as group:
            group.create_task(
                load.paced(items, hands.create, per_second=pace.per_second, times=created)
            )
            group.create_task(delete_later())
        for side in {hands.side, "super"}:
            await arena.observer.until(side, "gone", len(items), timeout=TIMEOUT)
    seen = await arena.observer.take()
    found: LifeFigures = {"memory": memory(hands.running)} if hands.running is not None else {}
    return (
        found
        | _felt(created, deleted, seen, hands)
        | cost((effort,), len(items))
        | events(seen.events)
    )


def _felt(
    created: RequestTimes, deleted: RequestTimes, seen: ObservedTimes, hands: WayClients
) -> LifeFigures:
    # A replay updates the tenant before the nodes have done their part. The later time applies.
    sides = [hands.side] if hands.running is not None else ["super", hands.side]
    last = {side: max(seen.when(side, "ready").values()) for side in sides}
    found = pod_figures.creation(created, seen, max(sides, key=last.__getitem__))
    found |= pod_figures.deletion(deleted, seen, hands.side)
    if hands.running is None:  # no syncer runs
        found = {k: v for k, v in found.items() if not k.startswith(("up_", "down_"))}
    return found


async def _sent(
    items: list[LoadItem], send: load.SendFunction, pace: PodRate, workers: int
) -> RequestTimes:
    if pace.per_second:
        return await load.paced(items, send, per_second=pace.per_second)
    return await load.burst(items, send, workers=workers)


def cost(efforts: tuple[ProcessCost, ...], count: int) -> LifeFigures:
    """Return processor seconds per thousand lives, and the noise."""
    seconds = sum(effort.seconds for effort in efforts)
    foreign = sum(effort.foreign_cores * effort.seconds for effort in efforts) / seconds
    per = {
        word: sum(effort.of(word) for effort in efforts) * 1000 / count
        for word in ("syncer", *_BYSTANDERS)
    }
    return {"cpu_s_per_1000": per, "foreign_cores": foreign}


def events(counted: Mapping[tuple[str, str], int]) -> LifeFigures:
    """Return the number of events that the observer saw."""
    return {"events": {f"{side} {kind}": number for (side, kind), number in counted.items()}}
