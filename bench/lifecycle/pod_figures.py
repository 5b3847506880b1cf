"""Figures of pods' lives from the load's records and the observer's records. Pure.

Owns the definitions. All times are of one clock. A pod's creation starts when its request is sent.
The syncer's share starts when the syncer could know of the change:

- `down`: the tenant's server had answered -> the observer saw it in the super cluster
- `up`: the observer saw it in the super cluster -> it saw it in the tenant
"""

from collections.abc import Mapping
from typing import Any

from bench.lifecycle.load import RequestTimes
from bench.lifecycle.observations import ObservedTimes, delays
from bench.reports.statistics import ValueSummary, curve, summary

LifeFigures = dict[str, Any]


def creation(times: RequestTimes, seen: ObservedTimes, side: str) -> LifeFigures:
    """Return the latencies of all creations. `side` is the side that the creator watches."""
    ready = seen.when(side, "ready")
    took = max(ready.values()) - times.begun
    found: LifeFigures = {
        "pods": len(ready),
        "create_s": took,
        "pods_per_s": len(ready) / took,
        "ready_ms": _summed(times.sent, ready),
        "ready_curve_ms": curve(delays(times.sent, ready)),
        "create_call_ms": _summed(times.sent, times.answered),
        "cluster_ready_ms": _summed(seen.when("super", "added"), seen.when("super", "ready")),
    }
    if side == "tenant":
        found["down_create_ms"] = _summed(times.answered, seen.when("super", "added"))
        for what in ("bound", "ready"):
            found[f"up_{what}_ms"] = _summed(seen.when("super", what), seen.when(side, what))
    return found


def deletion(times: RequestTimes, seen: ObservedTimes, side: str) -> LifeFigures:
    """Return the latencies of all deletions."""
    gone = seen.when(side, "gone")
    found: LifeFigures = {
        "delete_s": max(gone.values()) - times.begun,
        "gone_ms": _summed(times.sent, gone),
    }
    if side == "tenant":
        found["down_delete_ms"] = _summed(times.answered, seen.when("super", "marked"))
        found["up_gone_ms"] = _summed(seen.when("super", "gone"), gone)
    return found


def _summed(begun: Mapping[str, float], ended: Mapping[str, float]) -> dict[str, float]:
    found: ValueSummary = summary(delays(begun, ended))
    return found.as_dict()
