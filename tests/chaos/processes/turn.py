"""One turn of a drill: churn in every tenant while something breaks, and what is found then.

Owns churn: one player for each tenant, with scripts made of the seed and the turn's number. Must
not break anything.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kubeio.errors import KubeError
from tests.chaos.oracles import Violation
from tests.chaos.processes import steps
from tests.chaos.processes.sides import DrillTenant
from tests.chaos.processes.stage import DrillStage

PATIENCE = 60.0
"""Seconds for what must happen soon: a Lease taken over, a condition told."""
_LENGTH = 40
_LOOK_SECONDS = 0.1


@dataclass
class DrillTurn:
    """One turn."""

    stage: DrillStage
    seed: int
    number: int
    seconds: float
    """How long an outage is, where a drill is about that."""
    findings: list[Violation] = field(default_factory=list)
    told: str = ""
    """What was done, for the one who reads along."""
    faults: int = 1
    """How many things were broken."""

    hand_over: float | None = None
    """Seconds from a holder's end to the first write of who followed it."""
    ratio: float | None = None
    """Of p99 elsewhere while a target is away, to the less of before and after."""

    def __post_init__(self) -> None:
        """Have chance come of seed and number alone."""
        self.chance = random.Random(f"{self.seed}/{self.number}")  # noqa: S311 - repeated

    @asynccontextmanager
    async def churning(
        self, *, longest: float = 0.1, resting: DrillTenant | None = None
    ) -> AsyncIterator[None]:
        """Have all tenants but `resting` make, change and delete for the length of a block."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for tenant in self.stage.tenants:
                if tenant is resting:
                    continue
                seed = self.chance.getrandbits(31)
                group.create_task(self._play(tenant, seed, longest, stop))
            try:
                yield
            finally:
                stop.set()

    async def _play(
        self, tenant: DrillTenant, seed: int, longest: float, stop: asyncio.Event
    ) -> None:
        while not stop.is_set():
            for step in steps.script(seed, _LENGTH):
                own = step._replace(numbers=(tenant.number, *step.numbers[1:]))
                await steps.play(self.stage, [own], longest=longest)
                if stop.is_set():
                    return
            seed += 1

    async def until(
        self, look: Callable[[], Awaitable[object]], what: str, within: float = PATIENCE
    ) -> bool:
        """Wait until something is so. A finding when it never is, unless there is one already."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + within
        while not await look():
            if self.stage.judge.findings:
                return False
            if loop.time() > ends:
                self.findings.append(Violation("late", f"not within {within:.0f} s: {what}"))
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    async def settle(self) -> None:
        """Have everyone show that they work, and compare both sides."""

        async def told() -> bool:
            try:
                await steps.sentinel(self.stage, self.number + 1)
            except KubeError:
                return False
            return True

        if await self.until(told, "a tenant takes a Service"):
            self.findings += await self.stage.calm()
        self.findings += self.stage.verdict()
