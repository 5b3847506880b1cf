"""The drills: in which way the syncer, a server, a store, a clock or the network breaks.

Each is a function that does one turn of it under churn, and returns when the fault is over. What
must hold then is looked at by its caller. What is chosen in a turn comes of its seed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from kubeio.errors import NotFound
from syncer.app import USER_AGENT
from tenancy import wellknown
from tenancy.resources import LEASES
from tests.chaos.oracles import Violation
from tests.chaos.processes import steps
from tests.chaos.processes.clock import ClockOffset
from tests.chaos.processes.outage import target
from tests.chaos.processes.processes import SyncerSlot
from tests.chaos.processes.restoring import restore_backup
from tests.chaos.processes.sleeping import sleep
from tests.chaos.processes.stage import CALM_SECONDS, DrillPlan, DrillStage
from tests.chaos.processes.turn import DrillTurn
from tests.support.controlplane import LocalControlPlane
from tests.support.declared_tenants import HOME
from tests.support.replicas import ReplicaPair, SyncerProcess

KILLS_OF_A_TURN = 3
RESTARTS_OF_A_TURN = 2
FAULTS_OF_A_TURN = 12
FAULTY_SECONDS = 1.0
"""How long the last of them may find their requests."""
NOTICED_SECONDS = {False: 50.0, True: 150.0}
"""Until the VirtualCluster says that its API is gone, or frozen: a silent watch is given 75 s."""
_DAY = 86_400.0
_JUMPS = (600.0, -600.0, 3600.0, -3600.0, _DAY, -_DAY, 100 * _DAY, -100 * _DAY, 0.0)


async def kill(turn: DrillTurn) -> None:
    """kill -9 of the syncer, thrice: its Lease is freed, left to run out, or its pod's again."""
    stage, chance, told = turn.stage, turn.chance, []
    slot, turn.faults = stage.slots[0], KILLS_OF_A_TURN
    async with turn.churning():
        for _ in range(turn.faults):
            (fate,) = chance.choices(("freed", "its pod's", "left"), (2, 1, 1))
            await asyncio.sleep(chance.uniform(0.0, 1.2))
            slot.kill()
            if fate == "freed":
                with suppress(NotFound):
                    await stage.below.delete(LEASES, wellknown.SYNCER, namespace=HOME)
            await asyncio.sleep(chance.uniform(0.0, 0.3))
            began = datetime.now(UTC)
            slot.start(is_same_pod=fate == "its pod's")
            await turn.until(
                partial(_has_lease, turn, slot, began), "the next process has the Lease"
            )
            told.append(fate)
    turn.told = f"killed {turn.faults} times, its Lease {', '.join(told)}"


async def _has_lease(turn: DrillTurn, slot: SyncerSlot, since: datetime) -> bool:
    """Return whether the slot's process has it, and not one before it in the same pod."""
    is_held = slot.replica is not None and await turn.stage.holder() == slot.replica.name
    return is_held and await turn.stage.renewed_at() >= since


async def restart(turn: DrillTurn) -> None:
    """Restarts of API servers, killed or in order, or of one and its store."""
    stage, chance, told = turn.stage, turn.chance, []
    turn.faults = RESTARTS_OF_A_TURN
    async with turn.churning():
        for _ in range(turn.faults):
            is_super = chance.random() < 0.5
            plane = stage.super_plane if is_super else chance.choice(stage.tenants).plane
            how, down = chance.choice(tuple(_STOPS)), chance.uniform(0.0, 4.0)
            await asyncio.sleep(chance.uniform(0.0, 1.2))
            await _STOPS[how](plane)
            await asyncio.sleep(down)
            await plane.start()
            told.append(f"{plane.name} {how}, {down:.1f} s down")
    turn.told = "; ".join(told)


async def _killed(plane: LocalControlPlane) -> None:
    plane.kill_apiserver()


_STOPS: Mapping[str, Callable[[LocalControlPlane], Awaitable[None]]] = {
    "killed": _killed,
    "stopped": LocalControlPlane.stop_apiserver,
    "stopped with its store": LocalControlPlane.stop,
}


async def proxy(turn: DrillTurn) -> None:
    """A script of faults. A few of the watches that fell silent stay so at its end."""
    stage = turn.stage
    seed = turn.chance.getrandbits(31)
    before = stage.script.befallen.total()
    stage.script.begin(seed)
    async with turn.churning():
        await steps.play(stage, steps.breakdown(seed, FAULTS_OF_A_TURN), longest=0.5)
        await asyncio.sleep(FAULTY_SECONDS)
    await stage.heal(turn.chance)
    turn.told = f"{stage.script.befallen.total() - before} requests befallen"


async def away(turn: DrillTurn) -> None:
    """A tenant's API server dead or frozen for long. Others go on, its objects stay below."""
    stage, chance = turn.stage, turn.chance
    tenant, is_frozen = chance.choice(stage.tenants), chance.random() < 0.5
    turn.told = f"{tenant.side}: {'frozen' if is_frozen else 'killed'} for {turn.seconds:.0f} s"
    async with turn.churning(longest=0.5):
        await asyncio.sleep(1.0)
        if is_frozen:
            tenant.plane.pause_apiserver()
        else:
            tenant.plane.kill_apiserver()
        loop = asyncio.get_running_loop()
        ends = loop.time() + turn.seconds
        within = NOTICED_SECONDS[is_frozen]

        async def is_said() -> bool:
            return await stage.says(tenant, wellknown.SYNCED, "False")

        if turn.seconds >= within:
            await turn.until(is_said, "Synced=False", within)
        await asyncio.sleep(max(0.0, ends - loop.time()))
        tenant.plane.resume_apiserver()
        await tenant.plane.start()


async def lease(turn: DrillTurn) -> None:
    """The one that has the Lease is frozen until another has it, and woken: it writes nothing."""
    stage, chance = turn.stage, turn.chance
    slot = stage.slot_of(await stage.holder())
    if slot is None or slot.replica is None:
        turn.findings.append(Violation("late", "nobody has the Lease"))
        return
    frozen = slot.replica
    async with turn.churning():
        await asyncio.sleep(chance.uniform(0.0, 1.2))
        frozen.process.pause()

        async def is_followed() -> bool:
            return await stage.holder() not in ("", frozen.name)

        is_over = await turn.until(is_followed, "another has the Lease")
        await asyncio.sleep(chance.uniform(0.0, 2.0))
        marked = [plane.audit_mark() for plane in stage.planes]
        frozen.process.resume()

        async def has_ended() -> bool:
            return frozen.process.has_ended

        if is_over and await turn.until(has_ended, f"{frozen.name} ends"):
            turn.told = f"{frozen.name} frozen"
    other = next(each.replica for each in stage.slots if each is not slot)
    assert other is not None
    audits = _audits(stage, (frozen, other))
    stale = [each for each in audits.writes(frozen, marked) if each.was_accepted]
    turn.findings += [Violation("stale write", f"{frozen.name}: {each}") for each in stale]


async def follow(turn: DrillTurn) -> None:
    """kill -9 of the one that has the Lease, which comes back when the other has followed it."""
    stage, chance = turn.stage, turn.chance
    slot = stage.slot_of(await stage.holder())
    if slot is None or slot.replica is None:
        turn.findings.append(Violation("late", "nobody has the Lease"))
        return
    other = next(each.replica for each in stage.slots if each is not slot)
    assert other is not None
    audits = _audits(stage, (slot.replica, other))
    async with turn.churning():
        await asyncio.sleep(chance.uniform(0.0, 1.2))
        marked, killed = audits.mark(), time.time()
        slot.kill()

        async def has_written() -> bool:
            return not math.isnan(audits.hand_over(other, killed, marked))

        if await turn.until(has_written, f"{other.name} writes"):
            turn.hand_over = audits.hand_over(other, killed, marked)
            turn.told = (
                f"{slot.replica.name} killed, {other.name} writes {turn.hand_over:.1f} s later"
            )
    slot.start()


def _audits(stage: DrillStage, pair: tuple[SyncerProcess, SyncerProcess]) -> ReplicaPair:
    return ReplicaPair(
        pair,
        client=stage.below,
        lease=(HOME, wellknown.SYNCER),
        agent=USER_AGENT,
        planes=stage.planes,
    )


class ClockDrill:
    """The wall clock of the syncer jumps. It goes on as if nothing had been."""

    def __init__(self, clock: ClockOffset) -> None:
        self._clock = clock

    async def __call__(self, turn: DrillTurn) -> None:
        """Do one turn."""
        stage, chance = turn.stage, turn.chance
        slot, ahead = stage.slots[0], chance.choice(_JUMPS)
        before = await stage.holder(), slot.starts
        turn.told = f"{ahead:+.0f} s from the others' time"
        async with turn.churning():
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            self._clock.set(ahead)
            await asyncio.sleep(chance.uniform(1.0, 3.0))
        after = await stage.holder(), slot.starts
        if before != after:
            turn.findings.append(Violation("lease", f"it was {before} and is {after}"))


DrillFunction = Callable[[DrillTurn], Awaitable[None]]


class Drill(NamedTuple):
    """One kind of drill."""

    plan: DrillPlan
    do: DrillFunction


DRILLS: Mapping[str, Drill] = {
    "kill": Drill(DrillPlan(), kill),
    "restart": Drill(DrillPlan(tenants=3), restart),
    "proxy": Drill(DrillPlan(is_proxied=True), proxy),
    "restore": Drill(DrillPlan(has_own_stores=True), restore_backup),
    "away": Drill(DrillPlan(), away),
    "lease": Drill(DrillPlan(replicas=2, audits_tenants=True), lease),
    "target": Drill(DrillPlan(tenants=3, has_target=True), target),
    "follow": Drill(DrillPlan(replicas=2, audits_tenants=True), follow),
    "sleep": Drill(DrillPlan(), sleep),
}
"""All but `clock`, which needs a folder first."""
NAMES = (*DRILLS, "clock")


@dataclass(frozen=True)
class DrillOptions:
    """The options of a drill."""

    count: int
    seed: int
    first: int = 0
    """Number of the first turn."""
    minutes: float = 0.0
    """Minutes after which no further turn starts. 0: no limit."""
    seconds: float = 600.0
    """Of an outage."""
    calm_seconds: float = CALM_SECONDS
    """How long everything may take to be as it must be."""
    mutant: str = ""
