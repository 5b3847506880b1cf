"""Requests of the syncer, counted from the audit logs of all API servers.

Owns the choice of requests that belong to a pod. Leases, watches and Events are counted separately.
Without audit logs there are no results. Hazard: a run that counts requests must not be timed. Audit
logs cost the servers time.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.lifecycle.clusters import BenchStage
from tests.support.declared_tenants import SUPER_SYNCER

_USERS = frozenset({SUPER_SYNCER, "syncer", "admin-syncer"})
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_APART = frozenset({"leases", "events"})

LogMarks = Mapping[Path, int]


def marks(stage: BenchStage) -> LogMarks:
    """Return the current offset of each audit log."""
    planes = (stage.super_plane, *(place.plane for place in stage.places))
    return {plane.audit_log: _size(plane.audit_log) for plane in planes}


def per_life(stage: BenchStage, since: LogMarks, count: int) -> dict[str, Any]:
    """Return requests per pod, by side, verb and resource. Empty without audit logs.

    `writes_to_pods` has those of all clients, by client, which is the servers' total work.
    """
    counted: Counter[tuple[str, str, str]] = Counter()
    everybody: Counter[str] = Counter()
    for log, mark in since.items():
        side = "super" if log == stage.super_plane.audit_log else "tenant"
        for user, agent, verb, resource in _requests(log, mark):
            if user in _USERS:
                counted[side, verb, resource] += 1
            if verb in _WRITES and resource.partition("/")[0] == "pods":
                everybody[f"{side} {agent} {verb} {resource}"] += 1
    if not everybody:
        return {}
    shares = {key: number / count for key, number in sorted(everybody.items())}
    return {"calls": summed(counted, count) | {"writes_to_pods": shares}}


def summed(counted: Mapping[tuple[str, str, str], int], count: int) -> dict[str, Any]:
    """Return reads and writes per pod, and each kind of request."""
    writes = reads = 0
    each: dict[str, float] = {}
    for (side, verb, resource), number in sorted(counted.items()):
        each[f"{side} {verb} {resource}"] = number / count
        if resource.partition("/")[0] in _APART or verb == "watch":
            continue
        if verb in _WRITES:
            writes += number
        else:
            reads += number
    return {"writes": writes / count, "reads": reads / count, "each": each}


def _requests(log: Path, mark: int) -> Iterable[tuple[str, str, str, str]]:
    """Yield user, client, verb and resource of each answered request."""
    if not log.exists():
        return
    with log.open("rb") as lines:
        lines.seek(mark)
        for line in lines:
            if not line.endswith(b"}\n"):
                continue
            entry = json.loads(line)
            if entry["stage"] != "ResponseComplete":
                continue
            at = entry.get("objectRef") or {}
            resource = "/".join(filter(None, (at.get("resource"), at.get("subresource"))))
            agent = entry.get("userAgent", "").partition("/")[0]
            yield entry["user"]["username"], agent, entry["verb"], resource


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
