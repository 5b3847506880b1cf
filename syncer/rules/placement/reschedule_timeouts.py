"""Timeouts after which a pod is tried in another super cluster.

Pure. Owns the times. Must not know the action that follows.

Hazard: a pod that waits for a node of an autoscaler must not be moved before the longer timeout.
Otherwise the new node is created for nothing.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from syncer.model.unstructured import as_mapping, as_mappings

UNSCHEDULABLE_SECONDS = 30.0
"""Time in seconds for which a scheduler may report a pod as unschedulable before another cluster is
tried."""
SCALING_SECONDS = 900.0
"""Time in seconds after an autoscaler's announcement of a new node. It extends the timeout."""
RETRY_ALL_SECONDS = 300.0
"""Time in seconds that a pod stays after all clusters were tried, before it is tried elsewhere
again."""
UNANSWERED_CREATE_SECONDS = 60.0
"""Time in seconds that an API server works on a request. A create without an answer may take effect
for as long."""


def is_unschedulable(twin: Mapping[str, Any]) -> bool:
    """Return whether a twin has no node because its scheduler found none."""
    return (
        not as_mapping(twin.get("spec")).get("nodeName")
        and _get_unschedulable_since(twin) is not None
    )


def compute_seconds_left(
    twin: Mapping[str, Any], now: datetime, *, scaling: float | None
) -> float | None:
    """Return the seconds left until a twin's timeout. None if it is not reported as unschedulable.

    0 or less means that the timeout is over. `scaling` is the number of seconds since an autoscaler
    announced a new node for the pod.
    """
    since = None if as_mapping(twin.get("spec")).get("nodeName") else _get_unschedulable_since(twin)
    if since is None:
        return None
    left = UNSCHEDULABLE_SECONDS - (now - since).total_seconds()
    return left if scaling is None else max(left, SCALING_SECONDS - scaling)


def _get_unschedulable_since(twin: Mapping[str, Any]) -> datetime | None:
    for condition in as_mappings(as_mapping(twin.get("status")).get("conditions")):
        said = (condition.get("type"), condition.get("status"), condition.get("reason"))
        if said == ("PodScheduled", "False", "Unschedulable"):
            try:
                return datetime.fromisoformat(str(condition.get("lastTransitionTime")))
            except ValueError:
                return None
    return None
