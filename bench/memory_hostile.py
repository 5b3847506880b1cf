"""Good tenants beside one that does everything hostile at once, against clusters in memory.

Owns the mix and the ratio. Good pods count only if they were created while the hostile tenant
acted. Hazard: all acts are made by the clusters' own process, which shares its core with the
servers. Figures of a run are therefore an upper limit of what the syncer causes.
"""

import asyncio

from bench.figures import jain, summary
from bench.ground import Figures, SyncerRig, late
from bench.memory_fairness import during

_HOSTILE = "hostile-burst-"
_LIFE_SECONDS = 2.0
_SETTLING_SECONDS = 2.0
"""Time in seconds of hostile acts before the good tenants' pods are created."""
_SPARE_SECONDS = 3.0
"""Time in seconds for which the acts outlast the pods when nothing slows them down."""


async def measure(ground: SyncerRig) -> list[Figures]:
    """Good tenants alone, and beside one with all hostile acts at once."""
    asked = ground.asked
    hostile = ground.tenants - 1
    good = range(min(asked.regular, hostile))
    pods, rate = len(good) * asked.regular_pods, asked.regular_rate
    seconds = pods / rate + _SETTLING_SECONDS + _SPARE_SECONDS
    await ground.warm_up("first-")
    alone = await ground.create("alone-", pods, good, rate)
    await ground.delete("alone-")
    await ground.settled()
    burst = await ground.create(_HOSTILE, asked.greedy_pods, [hostile], asked.greedy_rate)
    async with asyncio.TaskGroup() as group:
        acting = group.create_task(
            ground.stage.tell(
                "rage", tenant=hostile, per_second=asked.hostile_rate, seconds=seconds
            )
        )
        storm = group.create_task(
            ground.stage.tell(
                "storm", prefix=_HOSTILE, per_second=asked.storm_rate, seconds=seconds
            )
        )
        churn = group.create_task(
            ground.stage.tell(
                "churn",
                prefix="hostile-churn-",
                tenants=[hostile],
                per_second=asked.churn_rate,
                life=_LIFE_SECONDS,
            )
        )
        await asyncio.sleep(_SETTLING_SECONDS)
        beside = await ground.create("beside-", pods, good, rate)
        await acting
        await ground.stage.tell("calm", prefix="hostile-churn-")
    memory = ground.memory()
    await ground.delete("beside-")
    return [
        felt(alone, beside, acting.result())
        | {
            "acts": acting.result()["acts"],
            "storm_changes": storm.result()["changes"],
            "churned": len(churn.result()["names"]),
            "hostile_burst_s": burst["took_s"],
            "memory": memory,
        }
    ]


def felt(alone: Figures, beside: Figures, acting: Figures) -> Figures:
    """Return what the good tenants notice of the hostile one."""
    counted = during(beside, acting)
    quiet = late(alone)
    loud = summary(value for each in counted for value in each).as_dict()
    means = [sum(each) / len(each) for each in counted if each]
    return {
        "alone_ready_ms": quiet,
        "beside_ready_ms": loud,
        "beside_pods": loud["count"],
        "jain_beside": jain(means),
        "p50_to_alone": loud["p50"] / quiet["p50"],
        "p99_to_alone": loud["p99"] / quiet["p99"],
    }
