"""Statuses of running pods that change without end, as of containers that restart.

Must not know tenants. Hazard: each change is a write of its own. A rate that this process cannot
keep shows in the returned number.
"""

import asyncio
import time
from typing import Any

from tenancy.resources import PODS
from tests.support.memapi import managed
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.watches import Object

_AT_ONCE = 20
"""Changes in one turn of the loop when it is behind."""


async def blow(
    below: MemoryCluster, prefix: str, per_second: float, seconds: float
) -> dict[str, Any]:
    """Change statuses of the pods whose names begin so, in turn. Return how often, and when."""
    pods = below.of(PODS)
    places = [
        (found["metadata"]["namespace"], found["metadata"]["name"])
        for found in (each.decode() for each in pods.all())
        if found["metadata"]["name"].startswith(prefix)
    ]
    begun, number = time.monotonic(), 0
    while places and (now := time.monotonic() - begun) < seconds:
        if number >= now * per_second:
            await asyncio.sleep(1 / per_second)
            continue
        there = pods.get(*places[number % len(places)])
        number += 1
        if there is not None and (body := _restarted(there.decode())) is not None:
            pods.put(body)
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
    return {"changes": number, "begun_at": begun, "ended_at": time.monotonic()}


def _restarted(body: Object) -> Object | None:
    """Return a pod whose first container has started once more. None before it has started."""
    containers = body["status"].get("containerStatuses")
    if not containers:
        return None
    containers[0]["restartCount"] += 1
    managed.note(body, "kubelet", {"status": {"containerStatuses": containers}}, "status")
    return body
