"""Kill of a syncer during a churn of pods, and the work of its successor until it is in step.

Owns the number of needed writes. Each pod of the churn needs the writes of its life. A tenant with
a deletion needs the count of its store's epoch, 15 s after the deletion. All other objects need
none. Leases and Events are counted separately, as everywhere. A syncer is in step once it has
connected all tenants and synced the pods created during the outage to Ready. Hazard: processor time
until in step must be read together with the churn. With a churn there is no rest to wait for, so
that time contains the churn's share.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from bench.memory.measurement import Figures, SyncerRig
from syncer.safety.store_guard import CONFIG_MAP, EPOCH_DELAY_SECONDS

CHURN = "churn-"
_AFTER = 5.0
"""Seconds of churn once all tenants are connected."""
_APART = frozenset({"leases", "events"})
_NEEDED = {
    ("super", "create pods"): 1,
    ("super", "delete pods"): 1,
    ("tenant", "create pods/binding"): 1,
    ("tenant", "delete pods"): 1,
}
"""Writes of a whole life, and one status write per status change in the super cluster."""
_STATUS = ("tenant", "patch pods/status")


async def measure(rig: SyncerRig) -> Figures:
    """Kill the syncer in the middle of a churn, start another, and return the results."""
    asked = rig.asked
    begun = time.monotonic()
    await rig.stage.tell("tally")
    churning = asyncio.ensure_future(
        rig.stage.tell(
            "churn",
            prefix=CHURN,
            tenants=list(range(rig.tenants)),
            per_second=asked.churn_rate,
            life=asked.churn_life,
        )
    )
    await asyncio.sleep(2 * asked.churn_life)
    killed = time.monotonic()
    found = await rig.restart(rig.syncer, rests=False)
    await asyncio.sleep(asked.churn_life + _AFTER)
    await rig.stage.tell("calm", prefix=CHURN)
    churned = await churning
    await rig.settled()
    written = await rig.stage.tell("tallied")
    found["memory"] = rig.memory()
    counts = rig.tenants * (1 + int((time.monotonic() - begun) / EPOCH_DELAY_SECONDS))
    return found | moments(churned, found, killed) | balance(churned, written, counts)


def moments(churned: Mapping[str, Any], found: Figures, killed: float) -> Figures:
    """Return seconds from kill to Lease, from there to in step, and to the first new pod."""
    sent, ready = churned["sent_at"], churned["ready_at"]
    held = killed + found["lease_s"]
    away = [ready[name] for name, at in sent.items() if killed <= at < held and name in ready]
    new = [ready[name] for name, at in sent.items() if at >= killed and name in ready]
    in_step = max([held + found["engage_s"], *away]) - held
    return {
        "in_step_s": in_step,
        "kill_to_in_step_s": found["lease_s"] + in_step,
        "kill_to_first_new_pod_s": min(new) - killed if new else float("nan"),
        "made_while_away": sum(killed <= at < held for at in sent.values()),
    }


def balance(
    churned: Mapping[str, Any], written: Mapping[str, Mapping[str, int]], counts: int
) -> Figures:
    """Return the writes, and the part that no life of the churn needs.

    `counts` is the largest number of due epoch counts, in all tenants together.
    """
    lives = frozenset(churned["names"])
    of_lives, others, twice = 0, Counter[str](), Counter[str]()
    epochs: Counter[str] = Counter()
    for side in ("super", "tenant"):
        for what, number in written[side].items():
            verb, resource, name = what.split(" ", 2)
            if resource.partition("/")[0] in _APART:
                continue
            if _is_count(side, verb, resource, name):
                over = max(epochs[side] + number - max(counts, epochs[side]), 0)
                epochs[side] += number
                if over:
                    twice[f"{side} {verb} {resource}"] += over
                continue
            if name not in lives:
                others[f"{side} {verb} {resource}"] += number
                continue
            of_lives += number
            kind = (side, f"{verb} {resource}")
            needed = written["changes"].get(name, 0) if kind == _STATUS else _NEEDED.get(kind, 0)
            if number > needed:
                twice[f"{side} {verb} {resource}"] += number - needed
    return {
        "churned": len(lives),
        "writes_per_churned": of_lives / len(lives) if lives else 0.0,
        "epochs_counted": epochs["tenant"],
        "writes_beyond": sum(others.values()) + sum(twice.values()),
        "beyond": {"other objects": dict(others), "more than a life needs": dict(twice)},
    }


def _is_count(side: str, verb: str, resource: str, name: str) -> bool:
    """Return whether a write is one half of a count of a store's epoch."""
    if side == "super":
        return (verb, resource) == ("patch", "namespaces")
    return (verb, resource, name) == ("patch", "configmaps", CONFIG_MAP)
