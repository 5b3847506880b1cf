"""Whether a pod has been tried for long enough in the super cluster that it was placed in.

Pure. Owns the times. Must not know what is done then. Hazard: what waits for a node that an
autoscaler is making is not to be taken away from it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from syncer.model.unstructured import mapping, mappings

UNSCHEDULABLE_SECONDS = 30.0
"""How long a scheduler may say no before somewhere else is tried."""
SCALING_SECONDS = 900.0
"""And how long after an autoscaler said that it makes room."""
REST_SECONDS = 300.0
"""How long a pod stays, once all were tried, before it is tried elsewhere again."""
UNSURE_SECONDS = 60.0
"""How long an API server works on a request: so long a create without an answer may take effect."""


def is_waiting(twin: Mapping[str, Any]) -> bool:
    """Tell whether a twin has no node, and its scheduler found none."""
    return not mapping(twin.get("spec")).get("nodeName") and _refused_at(twin) is not None


def seconds_left(twin: Mapping[str, Any], now: datetime, *, scaling: float | None) -> float | None:
    """Return how long a twin is still waited for, 0 or less: it is over; None: it is not refused.

    `scaling` is how long ago an autoscaler said that it makes room for it.
    """
    since = None if mapping(twin.get("spec")).get("nodeName") else _refused_at(twin)
    if since is None:
        return None
    left = UNSCHEDULABLE_SECONDS - (now - since).total_seconds()
    return left if scaling is None else max(left, SCALING_SECONDS - scaling)


def _refused_at(twin: Mapping[str, Any]) -> datetime | None:
    for condition in mappings(mapping(twin.get("status")).get("conditions")):
        said = (condition.get("type"), condition.get("status"), condition.get("reason"))
        if said == ("PodScheduled", "False", "Unschedulable"):
            try:
                return datetime.fromisoformat(str(condition.get("lastTransitionTime")))
            except ValueError:
                return None
    return None
