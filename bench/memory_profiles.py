"""What is measured against clusters in memory: engaging, a burst, rest, a restart, fairness.

Owns the order of each profile and the definitions of its figures. Processor time is the syncer's
process alone. Hazard: a store's mark is counted up a quarter of a minute after something went down,
so rest and restart are measured after a time in which nothing is done.
"""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import calls, use
from bench.figures import jain, summary
from bench.memapi.clusters import NODE_NAMES
from bench.memory_stage import MemoryStage
from bench.syncers import Running, Syncer, grown

Figures = dict[str, Any]
Requests = Counter[tuple[str, str, str]]

_ENGAGED = b'"tenant.engaged"'
_ACQUIRED = b'"lease.acquired"'
_LOOK = 0.1
_BUSY = 0.02
"""Processor seconds in one look that are work and no rest; the kernel counts in hundredths."""
_TIMEOUT = 600.0
_STORM_SECONDS = 10.0
_DRIFTS = 50
"""Objects of each kind that are changed or deleted by hand."""
_PATIENCE = 15.0
"""Seconds after which nobody repairs them any more."""
_NODES = len(NODE_NAMES)


@dataclass(kw_only=True)
class Ground:
    """A stage with a syncer that runs on it."""

    stage: MemoryStage
    syncer: Syncer
    running: Running
    asked: argparse.Namespace

    @property
    def tenants(self) -> int:
        """How many tenants there are."""
        return int(self.asked.tenants)

    async def create(self, prefix: str, pods: int, tenants: Iterable[int], rate: float) -> Figures:
        """Make pods and wait until all are Ready in their tenants."""
        more = {"tenants": list(tenants), "pods": pods, "per_second": rate}
        async with asyncio.timeout(_TIMEOUT):
            return await self.stage.tell("create", prefix=prefix, **more)

    async def delete(self, prefix: str, rate: float = 0.0) -> Figures:
        """Delete pods and wait until all are gone from their tenants."""
        async with asyncio.timeout(_TIMEOUT):
            return await self.stage.tell("delete", prefix=prefix, per_second=rate)

    async def warm_up(self, prefix: str) -> None:
        """Have a pod of each tenant on each node, so that all nodes are shown, and none after."""
        pods = self.tenants * _NODES
        await self.create(prefix, pods, range(self.tenants), 0)
        await self.delete(prefix)
        await self.settled()

    async def settled(self) -> float:
        """Wait until the syncer does nothing; return when it did something last."""
        last = time.monotonic()
        before = use.cpu_seconds(self.running.pid)
        while time.monotonic() - last < 5 * _LOOK:
            await asyncio.sleep(_LOOK)
            after = use.cpu_seconds(self.running.pid)
            if after - before >= _BUSY:
                last = time.monotonic()
            before = after
        return last

    async def requests(self) -> Requests:
        """Return every request so far, by side, verb and resource."""
        found = await self.stage.tell("count")
        return Counter(
            {
                (side, *what.split(" ")): number
                for side in ("super", "tenant")
                for what, number in found[side].items()
            }
        )

    def memory(self) -> Figures:
        """Return MiB of the syncer."""
        found = use.memory(self.running.pid)
        return {"rss_mib": found.rss, "peak_mib": found.peak, "pss_mib": found.pss}


@dataclass
class Cost:
    """What a span of time cost."""

    cpu_s: float = 0.0
    seconds: float = 0.0


@contextmanager
def _costing(pid: int) -> Iterator[Cost]:
    found, before, begun = Cost(), use.cpu_seconds(pid), time.monotonic()
    yield found
    found.cpu_s = use.cpu_seconds(pid) - before
    found.seconds = time.monotonic() - begun


async def run(
    stage: MemoryStage, syncer: Syncer, asked: argparse.Namespace
) -> dict[str, list[Figures]]:
    """Start the syncer and return the figures of each profile."""
    begun = time.monotonic()
    ground = Ground(stage=stage, syncer=syncer, running=await syncer.start(stage), asked=asked)
    try:
        engaged = await _engage(ground, begun)
        found = {"engage": [engaged | await ground.running.seen_inside()]}
        for profile in asked.profile:
            found[profile] = await PROFILES[profile](ground)
    finally:
        await ground.running.process.stop()
    return found


async def _engage(ground: Ground, begun: float, log_from: int = 0) -> Figures:
    """Wait until every tenant is engaged and nothing is left to do; seconds from the Lease on."""
    before = await ground.requests()
    await _told(ground, _ACQUIRED, 1, log_from)
    held = time.monotonic()
    await _told(ground, _ENGAGED, ground.tenants, log_from)
    engaged = time.monotonic()
    in_step = await ground.settled()
    return {
        "lease_s": held - begun,
        "engage_s": engaged - held,
        "in_step_s": max(in_step, engaged) - held,
        "cpu_s": use.cpu_seconds(ground.running.pid),
        "memory": ground.memory(),
        "requests": _summed(before, await ground.requests()),
    }


async def _told(ground: Ground, word: bytes, times: int, log_from: int) -> None:
    """Wait until the syncer's log has a word so often; looking at it costs the syncer nothing."""
    log = ground.stage.folder / "syncer.log"
    async with asyncio.timeout(_TIMEOUT):
        while _count(log, word, log_from) < times:
            if ground.running.process.has_ended:
                raise SystemExit(ground.running.process.tail())
            await asyncio.sleep(_LOOK / 2)


def _count(log: Path, word: bytes, since: int) -> int:
    with log.open("rb") as lines:
        lines.seek(since)
        return lines.read().count(word)


async def _burst(ground: Ground) -> list[Figures]:
    """All pods made at once, Ready, deleted at once, gone."""
    if not ground.asked.cold:
        await ground.warm_up("canary-")
    return [await _lives(ground, number) for number in range(ground.asked.rounds)]


async def _lives(ground: Ground, number: int) -> Figures:
    prefix, pods, pid = f"burst-{number}-", ground.asked.pods, ground.running.pid
    rate = ground.asked.rate
    before, counters = await ground.requests(), await ground.running.counters()
    ground.running.begin_devices()
    with _costing(pid) as creating:
        made = await ground.create(prefix, pods, range(ground.tenants), rate)
        await ground.settled()
    memory = ground.memory()
    with _costing(pid) as deleting:
        gone = await ground.delete(prefix, rate)
        await ground.settled()
    inside = await ground.running.seen_inside()
    after = await ground.requests()
    cpu = creating.cpu_s + deleting.cpu_s
    return {
        "create_s": made["took_s"],
        "pods_per_s": pods / made["took_s"],
        "ready_ms": _late(made),
        "delete_s": gone["took_s"],
        "gone_ms": _late(gone),
        "cpu_s_per_1000": {
            "creations": 1000 * creating.cpu_s / pods,
            "deletions": 1000 * deleting.cpu_s / pods,
            "syncer": 1000 * cpu / pods,
        },
        "memory": memory,
        "calls": _summed(before, after, pods, " per life"),
        "counters_per_life": grown(counters, await ground.running.counters(), pods),
        **inside,
    }


async def _held(ground: Ground) -> list[Figures]:
    """Memory with all pods there; killed and started beside them; and rest with them."""
    idle = ground.memory()
    await ground.create("held-", ground.asked.pods, range(ground.tenants), ground.asked.rate)
    await ground.settled()
    full = ground.memory()
    await asyncio.sleep(ground.asked.rest)
    before = await ground.requests()
    ground.running.process.kill()
    log_from = (ground.stage.folder / "syncer.log").stat().st_size
    begun = time.monotonic()
    ground.running = await ground.syncer.start(ground.stage)
    found = {"restart": await _engage(ground, begun, log_from)}
    await asyncio.sleep(ground.asked.rest)
    found["calls"] = _summed(before, await ground.requests())
    found["restart"] |= {"writes": found["calls"]["writes"]}
    resting = await _resting(ground)
    await ground.delete("held-", ground.asked.rate)
    await ground.settled()
    return [{"memory_without": idle, "memory_with": full, **found, "resting": resting}]


async def _idle(ground: Ground) -> list[Figures]:
    """Nothing done: processor time and requests."""
    await asyncio.sleep(ground.asked.rest)
    before = await ground.requests()
    ground.running.begin_devices()
    found = await _resting(ground)
    inside = await ground.running.seen_inside()
    return [{**found, "calls": _summed(before, await ground.requests()), **inside}]


async def _resting(ground: Ground) -> Figures:
    with _costing(ground.running.pid) as resting:
        await asyncio.sleep(ground.asked.seconds)
    share = 100 * resting.cpu_s / resting.seconds
    return {"idle_percent_of_core": share, "memory": ground.memory()}


async def _steady(ground: Ground) -> list[Figures]:
    """A calm rate with a core to spare: how late the loop is, and how fast drift is repaired."""
    asked, pid = ground.asked, ground.running.pid
    await ground.warm_up("first-")
    ground.running.begin_devices()
    with _costing(pid) as cost:
        made = await ground.create(
            "steady-", asked.pods, range(ground.tenants), asked.rate or asked.regular_rate
        )
        await ground.settled()
        drifted = await ground.stage.tell(
            "drift", prefix="steady-", count=_DRIFTS, per_second=20.0, patience=_PATIENCE
        )
    inside = await ground.running.seen_inside()
    await ground.delete("steady-")
    await ground.settled()
    return [
        {
            "ready_ms": _late(made),
            "percent_of_core": 100 * cost.cpu_s / cost.seconds,
            "repaired_ms": {
                what: summary(late).as_dict() | {"longest": max(late)}
                for what, late in drifted["late_ms"].items()
            },
            **inside,
        }
    ]


async def _fairness(ground: Ground) -> list[Figures]:
    """Regular tenants alone, beside greedy ones' pods made at once, and beside their statuses."""
    asked = ground.asked
    regular = range(min(asked.regular, ground.tenants - asked.greedy))
    pods, rate = len(regular) * asked.regular_pods, asked.regular_rate
    await ground.warm_up("first-")
    alone = await ground.create("alone-", pods, regular, rate)
    await ground.delete("alone-")
    await ground.settled()
    greedy = range(ground.tenants - asked.greedy, ground.tenants)
    async with asyncio.TaskGroup() as group:
        eating = group.create_task(
            ground.create("greedy-", asked.greedy * asked.greedy_pods, greedy, asked.greedy_rate)
        )
        calm = group.create_task(ground.create("beside-", pods, regular, rate))
    beside, eaten = calm.result(), eating.result()
    await ground.delete("beside-")
    await ground.settled()
    async with asyncio.TaskGroup() as group:
        blowing = group.create_task(
            ground.stage.tell(
                "storm",
                prefix="greedy-",
                per_second=asked.storm_rate,
                seconds=max(2 * alone["took_s"], _STORM_SECONDS),
            )
        )
        await asyncio.sleep(1)
        stormed = await ground.create("stormed-", pods, regular, rate)
    await ground.delete("stormed-")
    await ground.delete("greedy-")
    await ground.settled()
    found: Figures = {
        "alone_ready_ms": _late(alone),
        "beside_ready_ms": _late(beside),
        "stormed_ready_ms": _late(stormed),
        "storm_changes": blowing.result()["changes"],
        "jain_beside": jain([sum(each) / len(each) for each in beside["late_ms"]]),
        "greedy_s": eaten["took_s"],
        "regular_s": beside["took_s"],
    }
    p99 = found["alone_ready_ms"]["p99"]
    return [
        found
        | {
            "p99_to_alone": found["beside_ready_ms"]["p99"] / p99,
            "stormed_p99_to_alone": found["stormed_ready_ms"]["p99"] / p99,
        }
    ]


PROFILES: Mapping[str, Callable[[Ground], Awaitable[list[Figures]]]] = {
    "idle": _idle,
    "burst": _burst,
    "held": _held,
    "steady": _steady,
    "fairness": _fairness,
}


def explained() -> str:
    """Return what each profile does, for people."""
    return "\n".join(f"  {name:12}{(do.__doc__ or '').strip()}" for name, do in PROFILES.items())


def _late(found: Figures) -> dict[str, float]:
    return summary(value for each in found["late_ms"] for value in each).as_dict()


def _summed(before: Requests, after: Requests, count: int = 1, per: str = "") -> Figures:
    return calls.summed(after - before, count) | {"per": per, "writes_to_pods": {}}
