"""Regular tenants beside greedy and hostile ones, against clusters in memory: mutual effects.

Owns the mix and the choice of pods. Regular pods count only if they were created while the pods of
greedy tenants were being created, or while their statuses changed. Hazard: both loads are made by
the clusters' own process, which shares its core with the servers.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.memory.measurement import Figures, SyncerRig, late
from bench.reports.statistics import jain, summary

ENOUGH = 300
"""Regular pods that a run needs beside the greedy ones. The p99 of fewer pods is their maximum."""
_STORM_SECONDS = 10.0
_BEFORE = 1.0
"""Seconds of a storm before regular pods are created in it."""
_GREEDY = "greedy-"
_HOSTILE = "hostile-burst-"
_LIFE_SECONDS = 2.0
_SETTLING_SECONDS = 2.0
"""Time in seconds of hostile acts before the good tenants' pods are created."""
_SPARE_SECONDS = 3.0
"""Time in seconds for which the acts outlast the pods when nothing slows them down."""


async def measure(rig: SyncerRig) -> list[Figures]:
    """Regular tenants alone, beside greedy ones' pods made at once, and beside their statuses."""
    asked = rig.asked
    regular = range(min(asked.regular, rig.tenants - asked.greedy))
    greedy = range(rig.tenants - asked.greedy, rig.tenants)
    pods, rate = len(regular) * asked.regular_pods, asked.regular_rate
    many, fast = asked.greedy * asked.greedy_pods, asked.greedy_rate
    await rig.warm_up("first-")
    alone = await rig.create("alone-", pods, regular, rate)
    await _delete(rig, "alone-")
    greedy_alone = await rig.create("burst-", many, greedy, fast)
    await _delete(rig, "burst-")
    async with asyncio.TaskGroup() as group:
        greedy_load = group.create_task(rig.create(_GREEDY, many, greedy, fast))
        regular_load = group.create_task(rig.create("beside-", pods, regular, rate))
    await _delete(rig, "beside-")
    storm, stormed, writes = await _storm(rig, regular, 2 * alone["took_s"])
    await _delete(rig, "stormed-")
    await _delete(rig, _GREEDY)
    return [
        mutual_effects(alone, regular_load.result(), greedy_load.result(), greedy_alone)
        | in_storm(alone, stormed, storm, writes_to(writes, _GREEDY))
    ]


async def _delete(rig: SyncerRig, prefix: str) -> None:
    await rig.delete(prefix)
    await rig.settled()


async def _storm(
    rig: SyncerRig, regular: Sequence[int], seconds: float
) -> tuple[Figures, Figures, Mapping[str, int]]:
    """Create regular pods next to statuses. Returns both, and all writes to tenants by object."""
    asked = rig.asked
    await rig.stage.tell("tally")
    async with asyncio.TaskGroup() as group:
        storm_load = group.create_task(
            rig.stage.tell(
                "storm",
                prefix=_GREEDY,
                per_second=asked.storm_rate,
                seconds=max(seconds, _STORM_SECONDS),
            )
        )
        await asyncio.sleep(_BEFORE)
        pods = len(regular) * asked.regular_pods
        stormed = await rig.create("stormed-", pods, regular, asked.regular_rate)
    await rig.settled()
    return storm_load.result(), stormed, (await rig.stage.tell("tallied"))["tenant"]


def mutual_effects(
    alone: Figures, regular: Figures, greedy: Figures, greedy_alone: Figures
) -> Figures:
    """Return the effects of both loads on each other.

    `alone` and `greedy_alone` are the figures of each load without the other.
    """
    found = during(regular, greedy)
    beside = summary(value for each in found for value in each).as_dict()
    quiet = late(alone)
    return {
        "alone_ready_ms": quiet,
        "beside_ready_ms": beside,
        "beside_pods": beside["count"],
        "regular_s": regular["took_s"],
        "greedy_s": greedy["took_s"],
        "greedy_alone_s": greedy_alone["took_s"],
        "greedy_s_to_alone": greedy["took_s"] / greedy_alone["took_s"],
        "jain_beside": jain(_means(found)),
        "jain_greedy": jain(_means(greedy["late_ms"])),
        "p99_to_alone": beside["p99"] / quiet["p99"],
    }


def in_storm(alone: Figures, regular: Figures, storm: Figures, writes: int) -> Figures:
    """Return the effect of statuses on regular pods, and the number of statuses in tenants."""
    found = during(regular, storm)
    stormed = summary(value for each in found for value in each).as_dict()
    return {
        "stormed_ready_ms": stormed,
        "stormed_pods": stormed["count"],
        "storm_changes": storm["changes"],
        "storm_writes": writes,
        "jain_stormed": jain(_means(found)),
        "stormed_p99_to_alone": stormed["p99"] / late(alone)["p99"],
    }


def during(load: Mapping[str, Any], other: Mapping[str, Any]) -> list[list[float]]:
    """Return the delays of a load's pods that were created during another load."""
    begun, ended = other["begun_at"], other["ended_at"]
    return [
        [late for late, at in zip(lates, sent, strict=True) if begun <= at <= ended]
        for lates, sent in zip(load["late_ms"], load["sent_at"], strict=True)
    ]


def writes_to(writes: Mapping[str, int], prefix: str) -> int:
    """Return the number of writes to pods whose names have a prefix."""
    return sum(
        number
        for what, number in writes.items()
        if what.split(" ")[1].startswith("pods") and what.split(" ")[2].startswith(prefix)
    )


async def measure_hostile(rig: SyncerRig) -> list[Figures]:
    """Good tenants alone, beside one with all hostile acts at once, and beside the same suspended.

    The suspended tenant is the control. Its acts cost the servers the same, and the syncer nothing
    but the watch of the super cluster.
    """
    asked = rig.asked
    hostile = rig.tenants - 1
    good = range(min(asked.regular, hostile))
    await rig.warm_up("first-")
    alone = await rig.create("alone-", len(good) * asked.regular_pods, good, asked.regular_rate)
    await rig.delete("alone-")
    await rig.settled()
    burst = await rig.create(_HOSTILE, asked.greedy_pods, [hostile], asked.greedy_rate)
    synced = await _during_acts(rig, "beside-", good, hostile)
    memory = rig.memory()
    await rig.delete("beside-")
    await rig.stage.suspend(hostile)
    await rig.settled()
    suspended = await _during_acts(rig, "control-", good, hostile)
    await rig.delete("control-")
    found = felt_beside_hostile(alone, synced.pods, synced.acting)
    control = felt_beside_hostile(alone, suspended.pods, suspended.acting)
    return [
        found
        | {
            "suspended_ready_ms": control["beside_ready_ms"],
            "suspended_p99_to_alone": control["p99_to_alone"],
            "p99_to_suspended": found["beside_ready_ms"]["p99"] / control["beside_ready_ms"]["p99"],
            "acts": synced.acting["acts"],
            "storm_changes": synced.storm["changes"],
            "churned": len(synced.churn["names"]),
            "hostile_burst_s": burst["took_s"],
            "memory": memory,
        }
    ]


@dataclass(frozen=True, slots=True)
class _ActsOutcome:
    """The good tenants' pods during hostile acts, and the acts."""

    pods: Figures
    acting: Figures
    storm: Figures
    churn: Figures


async def _during_acts(
    rig: SyncerRig, prefix: str, good: Sequence[int], hostile: int
) -> _ActsOutcome:
    """Create the good tenants' pods while the hostile tenant does everything at once."""
    asked = rig.asked
    pods, rate = len(good) * asked.regular_pods, asked.regular_rate
    seconds = pods / rate + _SETTLING_SECONDS + _SPARE_SECONDS
    churned = f"hostile-churn-{prefix}"
    async with asyncio.TaskGroup() as group:
        acting = group.create_task(
            rig.stage.tell("act", tenant=hostile, per_second=asked.hostile_rate, seconds=seconds)
        )
        storm = group.create_task(
            rig.stage.tell("storm", prefix=_HOSTILE, per_second=asked.storm_rate, seconds=seconds)
        )
        churn = group.create_task(
            rig.stage.tell(
                "churn",
                prefix=churned,
                tenants=[hostile],
                per_second=asked.churn_rate,
                life=_LIFE_SECONDS,
            )
        )
        await asyncio.sleep(_SETTLING_SECONDS)
        beside = await rig.create(prefix, pods, good, rate)
        await acting
        await rig.stage.tell("calm", prefix=churned)
    return _ActsOutcome(beside, acting.result(), storm.result(), churn.result())


def felt_beside_hostile(alone: Figures, beside: Figures, acting: Figures) -> Figures:
    """Return what the good tenants notice of the hostile one."""
    counted = during(beside, acting)
    quiet = late(alone)
    loud = summary(value for each in counted for value in each).as_dict()
    return {
        "alone_ready_ms": quiet,
        "beside_ready_ms": loud,
        "beside_pods": loud["count"],
        "jain_beside": jain(_means(counted)),
        "p50_to_alone": loud["p50"] / quiet["p50"],
        "p99_to_alone": loud["p99"] / quiet["p99"],
    }


def _means(found: Sequence[Sequence[float]]) -> list[float]:
    return [sum(each) / len(each) for each in found if each]
