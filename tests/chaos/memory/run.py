"""One run of a script from its beginning to its rest, and the search for a shorter script.

Owns the order: the world is made, steps happen with the invariants looked at between them, faults
end, everything is given time to come to rest, and then a round of the resync must write nothing.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from tests.chaos.memory import rest, steps
from tests.chaos.memory.loop import StuckError, VirtualLoop, seeded
from tests.chaos.memory.replica import RESYNC_SECONDS, wires
from tests.chaos.memory.world import MachineWorld
from tests.chaos.oracles import Violation
from tests.chaos.scripts import ScriptStep
from tests.support.directed import directed

REST_SECONDS = 1800.0
"""How long everything may take to be as it must be after the last fault. Parked writes wait ten
minutes."""
LOOK_SECONDS = 15.0
QUIET_SECONDS = RESYNC_SECONDS + 10.0
HELD_SECONDS = 45.0
FOLLOWED_SECONDS = 100.0
"""How long creates may take after the last fault: watches are followed again after half a minute
at most, and the resync comes once a minute."""
LEFT_SECONDS = 200.0
"""Time limit in seconds for requests to a tenant after its session has ended. Reconciles in
progress end first, within two minutes."""
LENGTH = 40


@dataclass
class RunOutcome:
    """The result of one run."""

    seed: int
    script: Sequence[ScriptStep]
    breaks: list[Violation] = field(default_factory=list)
    digest: str = ""
    """Of the trace: the same for the same seed and script."""
    trace: list[str] = field(default_factory=list)
    requests: int = 0
    befallen: int = 0
    restores: int = 0
    starts: int = 0
    blind: int = 0
    """Watches that went on in another store than theirs."""
    seconds: float = 0.0
    """Virtual ones."""

    @property
    def kind(self) -> str:
        """The first broken rule, empty if none is broken."""
        return self.breaks[0].kind if self.breaks else ""


def run(
    seed: int, script: Sequence[ScriptStep] | None = None, *, length: int = LENGTH
) -> RunOutcome:
    """Run a script, or that of the seed."""
    found = steps.script(seed, length) if script is None else list(script)
    outcome = RunOutcome(seed, found)
    loop = VirtualLoop()
    was_collecting = gc.isenabled()
    gc.disable()  # what a collection finds is told at whatever moment it comes
    asyncio.set_event_loop(loop)
    try:
        with seeded(loop, seed):
            loop.run_until_complete(_run(loop, outcome))
    except StuckError as problem:
        outcome.breaks.append(Violation("stuck", str(problem)))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        if was_collecting:
            gc.enable()
    return outcome


async def _run(loop: VirtualLoop, outcome: RunOutcome) -> None:
    chance = random.Random(outcome.seed)  # noqa: S311 - the same at each run
    world = MachineWorld(
        loop,
        outcome.seed,
        tenants=chance.choice((1, 2)),
        replicas=chance.choice((1, 2)),
    )
    with directed(wires(world)):
        for replica in world.replicas:
            replica.start()
        try:
            await _steps(world, outcome.script)
            if not world.judge.breaks:
                await _rest(world, chance)
        finally:
            for replica in world.replicas:
                replica.kill()
            await asyncio.sleep(1.0)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in sorted(others, key=hash):
                task.cancel()
            if others:
                await asyncio.wait(others, timeout=60.0)
            if not world.judge.breaks:
                world.judge.step()
            outcome.breaks = world.judge.breaks
            outcome.trace = world.trace
            outcome.digest = hashlib.sha256("\n".join(world.trace).encode()).hexdigest()[:16]
            outcome.requests = world.judge.requests
            outcome.befallen = world.faults.befallen
            outcome.restores = sum(tenant.restores for tenant in world.tenants)
            outcome.starts = sum(replica.starts for replica in world.replicas)
            outcome.blind = world.sight.went_blind
            outcome.seconds = loop.time()


async def _steps(world: MachineWorld, script: Sequence[ScriptStep]) -> None:
    for step in script:
        world.trace.append(f"{world.loop.time():.6f} step {step.name} {step.numbers}")
        steps.do(world, step)
        await asyncio.sleep(step.pause)
        world.judge.step()
        if world.judge.breaks:
            return


async def _rest(world: MachineWorld, chance: random.Random) -> None:
    """End all faults and wait until all is as it must be, and stays so without a write."""
    world.faults.clear()
    for replica in world.replicas:
        replica.cut_off.clear()
        world.loop.thaw(replica)
    await asyncio.sleep(2.0)
    for replica in world.replicas:
        replica.start()
    await _held(world)
    for tenant in world.tenants:
        if not tenant.is_engaged and chance.random() < 0.5:
            world.engage(tenant)
        if tenant.sleep and chance.random() < 0.5:
            world.sleep(tenant, "")
    await _left(world)
    for tenant in world.tenants:
        if tenant.newer is not None and chance.random() < 0.5:
            world.bring_back(tenant)
    ends = world.loop.time() + REST_SECONDS
    while world.loop.time() < ends:
        await asyncio.sleep(LOOK_SECONDS)
        world.judge.step()
        if world.judge.breaks:
            return
        await _confirm(world)
        _begin_anew(world)
        if not rest.problems(world) and await _is_quiet(world):
            return
    found = rest.problems(world)
    for each in found:
        world.judge.broke(each.rule, f"at rest: {each.text}")
    if not found:
        world.judge.broke("I5", f"never comes to rest: {world.judge.last_write}")


async def _held(world: MachineWorld) -> None:
    """While deletes are held for a store that is another one, all else goes on."""
    if any(tenant.newer is not None for tenant in world.tenants):
        await asyncio.sleep(FOLLOWED_SECONDS)
        for each in rest.held(world):
            world.judge.broke(each.rule, each.text)


async def _left(world: MachineWorld) -> None:
    """No client sends a request to a tenant that the syncer does not follow."""
    left = [tenant for tenant in world.tenants if not tenant.is_followed]
    if left:
        await asyncio.sleep(LEFT_SECONDS)
    for tenant in left:
        tenant.is_silent = True
        for tap in world.faults.of(tenant.side):
            tap.cut()  # the one that follows it all the same asks again
    if left:
        await asyncio.sleep(LOOK_SECONDS)


async def _confirm(world: MachineWorld) -> None:
    """Where deletes are held for a store that stays, say that it is meant."""
    held = [tenant for tenant in world.tenants if world.holds(tenant)]
    if held:
        await asyncio.sleep(HELD_SECONDS)
    for tenant in held:
        if world.holds(tenant):
            world.confirm(tenant)


def _begin_anew(world: MachineWorld) -> None:
    """Have a process started again whose watch went on in another store: else nothing tells it."""
    for replica in world.replicas:
        if not replica.is_dead and world.sight.is_blind(replica):
            replica.stop()


async def _is_quiet(world: MachineWorld) -> bool:
    """I5: tell whether the syncer writes nothing for as long as a resync takes."""
    if any(tenant.newer is not None for tenant in world.tenants):
        for tenant in world.tenants:
            tenant.settle()
    before = sum(world.judge.writes.values())
    await asyncio.sleep(QUIET_SECONDS)
    return sum(world.judge.writes.values()) == before and not rest.problems(world)


def shrunk(outcome: RunOutcome, *, tries: int = 400) -> RunOutcome:
    """Return a run of the same seed that breaks the same with as few steps as are needed."""
    best, size = outcome, max(1, len(outcome.script) // 2)
    while size:
        at = 0
        while at < len(best.script) and tries:
            shorter = [*best.script[:at], *best.script[at + size :]]
            tries -= 1
            found = run(best.seed, shorter)
            if found.kind == best.kind:
                best = found
            else:
                at += size
        size = size // 2 if size > 1 else 0
    return best


def silence() -> None:
    """Let the product's own log lines go."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
