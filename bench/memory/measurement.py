"""Measurement against clusters in memory: a stage, a syncer, and the syncer's cost.

Owns the steps and counts that several profiles share. Knows no profile. Hazard: processor time must
be read as that of the syncer's process alone, at a resolution of 10 ms. Shorter spans have no
meaning.
"""

import argparse
import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lifecycle import requests
from bench.memory.stage import InMemoryStage
from bench.programs import process_usage
from bench.programs.super_cluster import MIB
from bench.programs.syncers import RunningSyncer, SyncerLauncher
from bench.reports.statistics import summary
from tests.support.memapi.clusters import NODE_NAMES

Figures = dict[str, Any]
RequestCounts = Counter[tuple[str, str, str]]

TIMEOUT = 600.0
_ENGAGED = rb'"tenant\.(?:connected|engaged)"'
"""Second word: log event of older syncers, which measurements compare."""
_ACQUIRED = rb'"lease\.acquired"'
_LOOK = 0.1
_BUSY = 0.02
"""Processor seconds between two reads that are work and not rest. The kernel's unit is 10 ms."""
_NODES = len(NODE_NAMES)


@dataclass(kw_only=True)
class SyncerRig:
    """A stage with a syncer that runs on it."""

    stage: InMemoryStage
    syncer: SyncerLauncher
    running: RunningSyncer
    asked: argparse.Namespace

    @property
    def tenants(self) -> int:
        """Number of tenants."""
        return int(self.asked.tenants)

    @property
    def log(self) -> Path:
        """Text of the syncer's log."""
        return self.stage.folder / "syncer.log"

    async def restart(self, syncer: SyncerLauncher, *, rests: bool = True) -> Figures:
        """Kill the syncer and start a new one. Returns the cost until it was in step.

        A syncer that is never idle, because pods are created and deleted, is checked when all
        tenants are connected.
        """
        self.running.process.kill()
        log_from, begun = self.log.stat().st_size, time.monotonic()
        self.running = await syncer.start(self.stage)
        return await engage(self, begun, log_from, rests=rests)

    async def create(self, prefix: str, pods: int, tenants: Iterable[int], rate: float) -> Figures:
        """Create pods and wait until all are Ready in their tenants."""
        more = {"tenants": list(tenants), "pods": pods, "per_second": rate}
        async with asyncio.timeout(TIMEOUT):
            return await self.stage.tell("create", prefix=prefix, **more)

    async def delete(self, prefix: str, rate: float = 0.0) -> Figures:
        """Delete pods and wait until all are deleted from their tenants."""
        async with asyncio.timeout(TIMEOUT):
            return await self.stage.tell("delete", prefix=prefix, per_second=rate)

    async def warm_up(self, prefix: str) -> None:
        """Run a pod of each tenant on each node, so that all nodes are shown. Then delete them."""
        pods = self.tenants * _NODES
        await self.create(prefix, pods, range(self.tenants), 0)
        await self.delete(prefix)
        await self.settled()

    async def settled(self) -> float:
        """Wait until the syncer is idle. Returns the time of its last work."""
        last = time.monotonic()
        before = process_usage.cpu_seconds(self.running.pid)
        while time.monotonic() - last < 5 * _LOOK:
            await asyncio.sleep(_LOOK)
            after = process_usage.cpu_seconds(self.running.pid)
            if after - before >= _BUSY:
                last = time.monotonic()
            before = after
        return last

    async def requests(self) -> RequestCounts:
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
        found = process_usage.memory(self.running.pid)
        return {"rss_mib": found.rss, "peak_mib": found.peak, "pss_mib": found.pss}

    @property
    def pids(self) -> tuple[int, int]:
        """The processes of the measurement besides this one."""
        return self.running.pid, self.stage.pid


@dataclass
class OtherPrograms:
    """Processor time of other programs during a block, set at its end."""

    cores: float = 0.0


@contextmanager
def beside(rig: SyncerRig) -> Iterator[OtherPrograms]:
    """Count the processor time of other programs. A syncer that ends in the block is not one."""
    found, begun = OtherPrograms(), time.monotonic()
    before = process_usage.busy_seconds() - process_usage.own_seconds(rig.pids)
    yield found
    foreign = process_usage.busy_seconds() - process_usage.own_seconds(rig.pids) - before
    found.cores = max(foreign, 0.0) / (time.monotonic() - begun)


@dataclass
class SpanCost:
    """The cost of a span of time."""

    cpu_s: float = 0.0
    seconds: float = 0.0


@contextmanager
def costing(pid: int) -> Iterator[SpanCost]:
    """Count the cost of a process during a block, set at its end."""
    found, before, begun = SpanCost(), process_usage.cpu_seconds(pid), time.monotonic()
    yield found
    found.cpu_s = process_usage.cpu_seconds(pid) - before
    found.seconds = time.monotonic() - begun


async def engage(rig: SyncerRig, begun: float, log_from: int = 0, *, rests: bool = True) -> Figures:
    """Wait until every tenant is connected and the syncer is idle. Returns seconds since the Lease.

    Bytes read are counted from then on as well. Earlier reads are the interpreter's files.
    """
    before = await rig.requests()
    pid, read = rig.running.pid, 0

    def look() -> None:
        nonlocal read
        read = process_usage.bytes_read(pid)

    await told(rig, _ACQUIRED, 1, log_from, look)
    held = time.monotonic()
    await told(rig, _ENGAGED, rig.tenants, log_from)
    engaged = time.monotonic()
    in_step = await rig.settled() if rests else engaged
    return {
        "lease_s": held - begun,
        "engage_s": engaged - held,
        "in_step_s": max(in_step, engaged) - held,
        "cpu_s": process_usage.cpu_seconds(rig.running.pid),
        "read_mib": (process_usage.bytes_read(pid) - read) / MIB,
        "memory": rig.memory(),
        "requests": summed(before, await rig.requests()),
    }


async def told(
    rig: SyncerRig,
    word: bytes,
    times: int,
    log_from: int,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Wait until the syncer's log has a word so many times. The read costs the syncer nothing."""
    log = rig.log
    async with asyncio.timeout(TIMEOUT):
        while _count(log, word, log_from) < times:
            if rig.running.process.has_ended:
                raise SystemExit(rig.running.process.tail())
            meanwhile()
            await asyncio.sleep(_LOOK / 2)


def _count(log: Path, word: bytes, since: int) -> int:
    with log.open("rb") as lines:
        lines.seek(since)
        return len(re.findall(word, lines.read()))


def late(found: Figures) -> dict[str, float]:
    """Return quantiles of the milliseconds of all pods of a load."""
    return summary(value for each in found["late_ms"] for value in each).as_dict()


def summed(before: RequestCounts, after: RequestCounts, count: int = 1, per: str = "") -> Figures:
    """Return the requests between two counts, per item of so many."""
    return requests.summed(after - before, count) | {"per": per, "writes_to_pods": {}}
