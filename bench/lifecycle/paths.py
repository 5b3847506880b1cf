"""The three ways of a load: straight, by replay, through the syncer.

Owns what differs between them: whose pods they are, who else writes, where their creator looks. The
ways are compared only with runs beside them.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.lifecycle import load, replay
from bench.lifecycle.load import LoadItem, SendFunction
from bench.lifecycle.replay import TenantReplay
from bench.lifecycle.stage import BenchContext
from bench.programs.syncers import RunningSyncer

DIRECT, REPLAY, SYNCER = "direct", "replay", "syncer"
WAYS = (DIRECT, REPLAY, SYNCER)
REPLAYED_STATUSES = {"bare": 1, "real": 4}


def named(text: str) -> list[tuple[str, str]]:
    """Parse the variants to run. Returns each by name, repeated ones with their number.

    A variant compared with itself shows the noise of the machine alone. Raises ValueError.
    """
    found: list[tuple[str, str]] = []
    for way in text.split(","):
        if way not in WAYS:
            raise ValueError(f"there is no way {way!r}: {', '.join(WAYS)}")
        turn = 1 + sum(way == before for _, before in found)
        found.append((way if turn == 1 else f"{way} {turn}", way))
    return found


Scripts = Mapping[int, TenantReplay]
"""By the tenant's wire."""


@dataclass(frozen=True, kw_only=True)
class WayClients:
    """The roles in one variant."""

    side: str
    """Side on which the pods' creator watches."""
    create: SendFunction = load.post
    delete: SendFunction = load.delete
    running: RunningSyncer | None = None


async def scripts(arena: BenchContext) -> Scripts:
    """Rehearse with the syncer and learn what it writes."""
    async with arena.syncer.running(arena.stage):
        pods = await arena.canaries()
    statuses = REPLAYED_STATUSES[arena.stage.shape.name]
    return {
        id(wire): replay.script(arena.super_wire, pod, statuses=statuses)
        for wire, pod in zip(arena.tenant_wires, pods, strict=True)
    }


@asynccontextmanager
async def hands(arena: BenchContext, way: str, by_wire: Scripts) -> AsyncIterator[WayClients]:
    """Have everything for one way running and at rest for the length of a block."""
    if way == SYNCER:
        async with arena.synced() as running:
            await arena.settle(running)
            yield WayClients(side="tenant", running=running)
        return
    await arena.settle()
    if way == DIRECT:
        yield WayClients(side="super")
    else:
        yield WayClients(
            side="tenant",
            create=lambda item: by_wire[id(item.wire)].create(item),
            delete=lambda item: by_wire[id(item.wire)].delete(item),
        )


def items(
    arena: BenchContext, way: str, prefix: str, count: int, tenants: int = 0
) -> list[LoadItem]:
    """Return the pods of a variant."""
    if way == DIRECT:
        return arena.direct_items(prefix, count)
    return arena.tenant_items(prefix, count, tenants)
