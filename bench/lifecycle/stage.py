"""Stage with an observer and a load's connections, used by every profile.

Owns the loads' items, the quiet time between runs, and the use of the machine by other programs.
Knows no result. Hazard: runs must have a rest between them. Otherwise the result of a run contains
work of the run before.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from bench.lifecycle import load
from bench.lifecycle.clusters import DIRECT, BenchStage
from bench.lifecycle.http_client import LoadTransport
from bench.lifecycle.load import LoadItem
from bench.lifecycle.observations import ObserverProcess
from bench.programs import process_usage
from bench.programs.syncers import RunningSyncer, SyncerLauncher
from kubeio import Object
from tenancy.resources import PODS

TIMEOUT = 180.0
_QUIET_CORES = 0.35
_QUIET_SECONDS = 20.0


@dataclass
class ProcessCost:
    """The cost of a span of time, by process, set when the span ends."""

    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    foreign_cores: float = 0.0
    """Cores that programs outside of the measurement used: the noise of this run."""

    def of(self, word: str) -> float:
        """Return processor seconds of all processes with a word in their name."""
        return sum(seconds for name, seconds in self.cpu.items() if word in name)


@dataclass(kw_only=True)
class BenchContext:
    """The resources of a profile."""

    stage: BenchStage
    observer: ObserverProcess
    super_wire: LoadTransport
    tenant_wires: list[LoadTransport]
    syncer: SyncerLauncher
    runs: int = 0

    async def begin(self, word: str) -> str:
        """Start a run once all programs are idle. Returns the prefix of its names."""
        await self.settle()
        self.runs += 1
        prefix = f"{word}-{self.runs}-"
        await self.observer.begin(prefix)
        return prefix

    def direct_items(self, prefix: str, count: int) -> list[LoadItem]:
        """Return pods that are created directly in the super cluster."""
        shape = self.stage.shape
        where = PODS.build_path(DIRECT, "")
        names = [f"{prefix}{number:05}" for number in range(count)]
        return [LoadItem(name, self.super_wire, where, shape.pod(name)) for name in names]

    def tenant_items(self, prefix: str, count: int, tenants: int = 0) -> list[LoadItem]:
        """Return pods of the first tenants in turn, or of all without a number."""
        shape, wires = self.stage.shape, self.tenant_wires[: tenants or None]
        where = PODS.build_path("default", "")
        names = [f"{prefix}{number:05}" for number in range(count)]
        return [
            LoadItem(name, wires[number % len(wires)], where, shape.pod(name))
            for number, name in enumerate(names)
        ]

    def pids(self, running: RunningSyncer | None = None) -> dict[str, int]:
        """Return every process of the measurement."""
        found = self.stage.pids() | {"observer": self.observer.pid, "load": os.getpid()}
        if running is not None:
            found["syncer"] = running.pid
        return found

    @contextmanager
    def effort(self, running: RunningSyncer | None = None) -> Iterator[ProcessCost]:
        """Count the cost of a block."""
        pids = self.pids(running)
        found, before, busy, begun = (
            ProcessCost(),
            process_usage.cpu(pids),
            process_usage.busy_seconds(),
            time.monotonic(),
        )
        yield found
        found.seconds = time.monotonic() - begun
        found.cpu = process_usage.since(before, pids)
        foreign = process_usage.busy_seconds() - busy - sum(found.cpu.values())
        found.foreign_cores = max(foreign, 0.0) / found.seconds

    async def settle(self, running: RunningSyncer | None = None) -> None:
        """Wait until the clusters are idle, up to a limit."""
        for _ in range(int(_QUIET_SECONDS)):
            with self.effort(running) as effort:
                await asyncio.sleep(1.0)
            if sum(effort.cpu.values()) < _QUIET_CORES * effort.seconds:
                return

    @asynccontextmanager
    async def synced(self) -> AsyncIterator[RunningSyncer]:
        """Run the syncer, and continue when it syncs pods of every tenant in both directions."""
        async with self.syncer.running(self.stage) as running:
            await self.canaries()
            yield running

    async def canaries(self) -> list[Object]:
        """Create one pod per tenant, wait for Ready, delete it.

        Returns its states in the super cluster.
        """
        self.runs += 1
        prefix = f"canary-{self.runs}-"
        await self.observer.begin(prefix)
        items = self.tenant_items(prefix, len(self.tenant_wires))
        await load.burst(items, load.post)
        await self.observer.until("tenant", "ready", len(items), timeout=TIMEOUT)
        listed = json.loads(await self.super_wire.do("GET", PODS.build_path("", "")))
        await load.burst(items, load.delete)
        await self.observer.until("tenant", "gone", len(items), timeout=TIMEOUT)
        found = [pod for pod in listed["items"] if pod["metadata"]["name"].startswith(prefix)]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


@asynccontextmanager
async def opened(
    stage: BenchStage, syncer: SyncerLauncher, observer: ObserverProcess
) -> AsyncIterator[BenchContext]:
    """Connect a load to a stage for the duration of a block."""
    async with AsyncExitStack() as stack:
        planes = (stage.super_plane, *(place.plane for place in stage.places))
        wires = [
            await stack.enter_async_context(
                LoadTransport(plane.endpoint, agent="load", connections=64)
            )
            for plane in planes
        ]
        yield BenchContext(
            stage=stage,
            observer=observer,
            super_wire=wires[0],
            tenant_wires=wires[1:],
            syncer=syncer,
        )


def memory(running: RunningSyncer) -> Mapping[str, float]:
    """Return MiB of the syncer."""
    found = process_usage.memory(running.pid)
    return {"rss_mib": found.rss, "peak_mib": found.peak, "pss_mib": found.pss}


def last_words(stage: BenchStage) -> str:
    """Return the last lines of the measured programs' logs, for a failed run."""
    logs = (stage.folder / "syncer.log", stage.folder / "observer.log")
    return "".join(f"{log.name}:\n{log.read_text()[-3000:]}\n" for log in logs if log.exists())
