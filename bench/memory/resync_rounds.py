"""Cost of a resync round, and its cost for pods created during the round.

Owns the timing of one round. The syncer is started with a short interval and logs the end of each
round. The start of the next round follows from it. Needs our syncer. Hazard: no other work may
happen between rounds. It would count as work of the resync.
"""

import asyncio
import json
import re
import time
from dataclasses import replace
from typing import Any

from bench.memory.measurement import TIMEOUT, Figures, SyncerRig, costing, late
from bench.programs.syncers import INSIDE, OURS

_BETWEEN = 20.0
"""Seconds between two rounds."""
_QUIET = 0.7
"""Used part of the interval. The rest is for late events."""
_ROUND = re.compile(rb'"(?:resync\.finished|patrol\.round)"')
"""Second word: log event of older syncers, which measurements compare."""
_FEW = 20
_LOOK = 0.05


async def measure(rig: SyncerRig) -> Figures:
    """Return what a round over all that is there takes, and the latencies in it and outside."""
    if rig.syncer.command not in (OURS, INSIDE):
        return {}
    log_from = rig.log.stat().st_size
    often = f"{rig.syncer.command} --resync-seconds {_BETWEEN:.0f}"
    await rig.restart(replace(rig.syncer, command=often))
    done = await _ended(rig, log_from, 0)
    while done[-1]["sessions"] < rig.tenants:
        done = await _ended(rig, log_from, len(done))
    pid = rig.running.pid
    with costing(pid) as quiet:
        await asyncio.sleep(_QUIET * _BETWEEN)
    with costing(pid) as looking:
        done = await _ended(rig, log_from, len(done))
        ended = time.monotonic()
        await rig.settled()
    rate, seconds = float(rig.asked.calm_rate), float(done[-1]["seconds"])
    outside = await _made(rig, "calm-", rate, _QUIET * _BETWEEN - (time.monotonic() - ended))
    await asyncio.sleep(max(ended + _BETWEEN - time.monotonic(), 0.0))
    inside = await _made(rig, "patrolled-", rate, seconds)
    for prefix in ("calm-", "patrolled-"):
        await rig.delete(prefix)
    await rig.restart(rig.syncer)
    cpu = looking.cpu_s - quiet.cpu_s / quiet.seconds * looking.seconds
    return {
        "round_s": seconds,
        "cpu_s": cpu,
        "cpu_s_per_10000_pods": 1e4 * cpu / rig.asked.pods,
        "keys_found": done[-1]["keys"],
        "outside_ready_ms": outside,
        "inside_ready_ms": inside,
        "p99_to_outside": inside["p99"] / outside["p99"],
    }


async def _made(rig: SyncerRig, prefix: str, rate: float, seconds: float) -> dict[str, float]:
    """Create pods at a rate for a time. Returns the delays until Ready."""
    count = max(int(rate * seconds), _FEW)
    return late(await rig.create(prefix, count, range(rig.tenants), rate))


async def _ended(rig: SyncerRig, log_from: int, before: int) -> list[dict[str, Any]]:
    """Wait for one more round. Returns the log entries of each round."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            with rig.log.open("rb") as log:
                log.seek(log_from)
                lines = [line for line in log if _ROUND.search(line) and line.endswith(b"\n")]
            if len(lines) > before:
                return [json.loads(line) for line in lines]
            if rig.running.process.has_ended:
                raise SystemExit(rig.running.process.tail())
            await asyncio.sleep(_LOOK)
