"""Nodes with heartbeats: a new time in their status, as kubelets write it.

Must not know pods. Hazard: kubelets write an unchanged status every 5 min. A shorter time makes
more work for watchers of nodes than a real cluster does.
"""

import asyncio
import time

from tenancy.resources import NODES
from tests.support.memapi import managed
from tests.support.memapi.cluster import MemoryCluster


async def beat(below: MemoryCluster, every: float, seconds: float) -> int:
    """Send a heartbeat of each node once per period, one after the other. Return their number."""
    nodes = below.of(NODES)
    names = [each.name for each in nodes.all()]
    begun, number = time.monotonic(), 0
    while names and (left := begun + seconds - time.monotonic()) > 0:
        due = begun + number * every / len(names) - time.monotonic()
        if due > 0:
            await asyncio.sleep(min(due, left))
            continue
        there = nodes.get("", names[number % len(names)])
        number += 1
        if there is not None:
            body = there.decode()
            for each in body["status"]["conditions"]:
                each["lastHeartbeatTime"] = below.now()
            managed.note(body, "kubelet", {"status": body["status"]}, "status")
            nodes.put(body)
    return number
