"""The drill of a tenant that sleeps and wakes, while others churn and the syncer is killed.

Owns what a sleep may delete: nothing if the workloads are kept, otherwise the pods that existed
when the sleep began. Must not judge the control plane, which vc-manager stops in the product.
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import time
from typing import Any

from kubeio.errors import KubeError
from tenancy import wellknown
from tenancy.resources import PODS, VIRTUAL_CLUSTERS
from tests.chaos.processes import rest
from tests.chaos.processes.sides import DrillTenant
from tests.chaos.processes.turn import DrillTurn

KILL_CHANCE = 0.4
"""Probability of a kill of the syncer at each of the three steps."""
_LONG = 120.0


async def sleep(turn: DrillTurn) -> None:
    """A tenant falls asleep, its API server stops, and it wakes. Every second sleep stops pods."""
    stage, chance = turn.stage, turn.chance
    tenant, stops_pods = chance.choice(stage.tenants), turn.number % 2 == 1
    kills = [chance.random() < KILL_CHANCE for _ in range(3)]
    turn.faults = 1 + sum(kills)
    turn.told = (
        f"{tenant.side}: pods {'stopped' if stops_pods else 'kept'}, the syncer killed"
        f" {sum(kills)} times"
    )
    async with turn.churning():
        await asyncio.sleep(chance.uniform(0.5, 1.5))
    if stops_pods:
        turn.findings += await stage.calm()
        pods = (await tenant.client.list(PODS))["items"] or ()
        tenant.asked |= {body["metadata"]["uid"]: time() for body in pods}
    async with turn.churning(longest=0.5, resting=tenant if stops_pods else None):
        await asyncio.sleep(chance.uniform(0.0, 1.0))
        await _set_sleep(turn, tenant, {"workloads": "ScaleToZero" if stops_pods else "Keep"})
        await _kill(turn, is_wanted=kills[0])
        asleep = partial(stage.says, tenant, wellknown.SYNCED, "False")
        if not await turn.until(asleep, "the sleeping tenant is disconnected", _LONG):
            return
        await tenant.plane.stop_apiserver()
        await _kill(turn, is_wanted=kills[1])
        await asyncio.sleep(chance.uniform(0.5, 4.0))
        if stops_pods:
            await turn.until(partial(_has_no_pods, turn, tenant), "its pods end", _LONG)
        await tenant.plane.start()
        await _set_sleep(turn, tenant, None)
        await _kill(turn, is_wanted=kills[2])
        awake = partial(stage.says, tenant, wellknown.SYNCED, "True")
        await turn.until(awake, "the tenant is connected again", _LONG)


async def _kill(turn: DrillTurn, *, is_wanted: bool) -> None:
    if not is_wanted:
        return
    await asyncio.sleep(turn.chance.uniform(0.0, 0.5))
    slot = turn.stage.slots[0]
    slot.kill()
    slot.start()


async def _set_sleep(turn: DrillTurn, tenant: DrillTenant, value: dict[str, Any] | None) -> None:
    await turn.stage.below.patch(
        VIRTUAL_CLUSTERS,
        tenant.tenant.name,
        {"spec": {"sleep": value}},
        namespace=tenant.tenant.namespace,
    )


async def _has_no_pods(turn: DrillTurn, tenant: DrillTenant) -> bool:
    try:
        found = await rest.contents(turn.stage.below)
    except KubeError:
        return False
    return not any(resource is PODS for resource, *_ in rest.list_owned(found, tenant))
