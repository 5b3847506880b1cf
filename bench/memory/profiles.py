"""Profiles against clusters in memory: connecting, a burst, rest, a restart, fairness, hostility.

Owns the order of each profile and the definitions of its figures. Processor time is the syncer's
process alone. Hazard: the epoch in a tenant's etcd is incremented 15 s after a write to the super
cluster, so rest and restart are measured after a time without work.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from bench.memory import fairness, restarts, resync_rounds
from bench.memory.measurement import Figures, SyncerRig, beside, costing, engage, late, summed
from bench.memory.stage import InMemoryStage
from bench.programs.syncers import SyncerLauncher, grown
from bench.reports.statistics import summary

_ASKED, _PUT = "tenant create serviceaccounts/token", "super update secrets"
_DRIFTS = 50
"""Objects of each kind that are changed or deleted by hand."""
_PATIENCE = 15.0
"""Time limit in seconds for a repair."""


async def run(
    stage: InMemoryStage, syncer: SyncerLauncher, asked: argparse.Namespace
) -> dict[str, list[Figures]]:
    """Start the syncer and return the figures of each profile."""
    begun = time.monotonic()
    rig = SyncerRig(stage=stage, syncer=syncer, running=await syncer.start(stage), asked=asked)
    try:
        engaged = await engage(rig, begun)
        found = {"engage": [engaged | await rig.running.seen_inside()]}
        for profile in asked.profile:
            with beside(rig) as others:
                done = await PROFILES[profile](rig)
            found[profile] = [each | {"foreign_cores": others.cores} for each in done]
    finally:
        await rig.running.process.stop()
    return found


async def _burst(rig: SyncerRig) -> list[Figures]:
    """All pods made at once, Ready, deleted at once, gone."""
    if not rig.asked.cold:
        await rig.warm_up("canary-")
    return [await _lives(rig, number) for number in range(rig.asked.rounds)]


async def _lives(rig: SyncerRig, number: int) -> Figures:
    prefix, pods, pid = f"burst-{number}-", rig.asked.pods, rig.running.pid
    rate = rig.asked.rate
    before, counters = await rig.requests(), await rig.running.counters()
    rig.running.begin_devices()
    with costing(pid) as creating:
        made = await rig.create(prefix, pods, range(rig.tenants), rate)
        await rig.settled()
    memory = rig.memory()
    with costing(pid) as deleting:
        gone = await rig.delete(prefix, rate)
        await rig.settled()
    inside = await rig.running.seen_inside()
    after = await rig.requests()
    cpu = creating.cpu_s + deleting.cpu_s
    return {
        "create_s": made["took_s"],
        "pods_per_s": pods / made["took_s"],
        "ready_ms": late(made),
        "delete_s": gone["took_s"],
        "gone_ms": late(gone),
        "cpu_s_per_1000": {
            "creations": 1000 * creating.cpu_s / pods,
            "deletions": 1000 * deleting.cpu_s / pods,
            "syncer": 1000 * cpu / pods,
        },
        "memory": memory,
        "calls": summed(before, after, pods, " per life"),
        "counters_per_life": grown(counters, await rig.running.counters(), pods),
        **inside,
    }


async def _held(rig: SyncerRig) -> list[Figures]:
    """Measure memory with all pods, a kill and start beside them, rest, and the resync."""
    idle, pods = rig.memory(), rig.asked.pods
    made = await rig.create("held-", pods, range(rig.tenants), rig.asked.rate)
    await rig.settled()
    full = rig.memory()
    await asyncio.sleep(rig.asked.rest)
    before = await rig.requests()
    restart = await restarts.measure(rig)
    calls = summed(before, await rig.requests())
    await asyncio.sleep(rig.asked.rest)
    resting = await _resting(rig)
    patrol = await resync_rounds.measure(rig)
    await rig.delete("held-", rig.asked.rate)
    await rig.settled()
    return [
        {
            "pods_per_s": pods / made["took_s"],
            "memory_without": idle,
            "memory_with": full,
            "restart": restart,
            "calls": calls,
            "patrol": patrol,
            "resting": resting,
        }
    ]


async def _idle(rig: SyncerRig) -> list[Figures]:
    """Nothing done, a few pods of each tenant there, nodes that beat: time and requests."""
    asked = rig.asked
    await rig.create("idle-", asked.idle_pods * rig.tenants, range(rig.tenants), 0)
    await rig.settled()
    beating = asyncio.ensure_future(
        rig.stage.tell("beat", every=asked.beat, seconds=asked.rest + asked.seconds)
    )
    await asyncio.sleep(asked.rest)
    before = await rig.requests()
    rig.running.begin_devices()
    found = await _resting(rig)
    inside = await rig.running.seen_inside()
    calls = summed(before, await rig.requests())
    beats = (await beating)["beats"]
    await rig.delete("idle-")
    await rig.settled()
    return [{**found, "beats": beats, **renewals(calls), "calls": calls, **inside}]


def renewals(calls: Figures) -> Figures:
    """Return the number of renewed tokens, and of other writes, without Leases.

    A renewal is two writes: the request to the tenant, and the update of its Secret in the super
    cluster.
    """
    tokens = calls["each"].get(_ASKED, 0)
    put = min(calls["each"].get(_PUT, 0), tokens)
    return {"tokens_renewed": tokens, "writes_besides": calls["writes"] - tokens - put}


async def _resting(rig: SyncerRig) -> Figures:
    with costing(rig.running.pid) as resting:
        await asyncio.sleep(rig.asked.seconds)
    share = 100 * resting.cpu_s / resting.seconds
    return {"idle_percent_of_core": share, "memory": rig.memory()}


async def _steady(rig: SyncerRig) -> list[Figures]:
    """A calm rate with a core to spare: how late the loop is, and how fast drift is repaired."""
    asked, pid = rig.asked, rig.running.pid
    await rig.warm_up("first-")
    rig.running.begin_devices()
    with costing(pid) as cost:
        made = await rig.create(
            "steady-", asked.pods, range(rig.tenants), asked.rate or asked.calm_rate
        )
        await rig.settled()
        drifted = await rig.stage.tell(
            "drift", prefix="steady-", count=_DRIFTS, per_second=20.0, patience=_PATIENCE
        )
    inside = await rig.running.seen_inside()
    await rig.delete("steady-")
    await rig.settled()
    return [
        {
            "ready_ms": late(made),
            "percent_of_core": 100 * cost.cpu_s / cost.seconds,
            "repaired_ms": {
                what: summary(each).as_dict() | {"longest": max(each)}
                for what, each in drifted["late_ms"].items()
            },
            **inside,
        }
    ]


PROFILES: Mapping[str, Callable[[SyncerRig], Awaitable[list[Figures]]]] = {
    "idle": _idle,
    "burst": _burst,
    "held": _held,
    "steady": _steady,
    "fairness": fairness.measure,
    "hostile": fairness.measure_hostile,
}


def explained() -> str:
    """Return what each profile does, for people."""
    return "\n".join(f"  {name:12}{(do.__doc__ or '').strip()}" for name, do in PROFILES.items())
