"""Events about the conditions that the syncer writes: Synced and DeletesHeld.

The syncer has no right to write Events in the super cluster. Owns which changes become Events. Must
not write the VirtualCluster. Hazard: the conditions exist before vc-manager starts. Without the
limit on their age, each restart would post an Event for every tenant.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kubeio import errors
from kubeio.controller.worker import Done, Result
from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.runtime.status import EventRow

ConditionState = tuple[str, str]
"""Status and reason of a condition."""

_MAX_AGE = timedelta(minutes=5)
"""Age of a change that is still an Event if vc-manager has not seen the state before it."""
_INTENDED_REASONS = frozenset({"Disengaged", "Suspended", wellknown.RESTORING})
"""Reasons of Synced=False that follow from a request."""
RELEASED = "DeletesReleased"


async def reconcile_sync_events(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Post an Event for each changed condition of the syncer."""
    try:
        body = await means.super_client.get(VIRTUAL_CLUSTERS, key.name, namespace=key.namespace)
    except errors.NotFound:
        return Done()
    body = {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": VIRTUAL_CLUSTERS.kind, **body}
    uid = body["metadata"]["uid"]
    listed = (body.get("status") or {}).get("conditions")
    for kind in (wellknown.SYNCED, wellknown.DELETES_HELD):
        condition = conditions.find_condition(listed, kind)
        if condition is None:
            continue
        before = means.sync_states.get((uid, kind))
        means.sync_states[uid, kind] = condition["status"], condition["reason"]
        row = find_event(condition, before, means.now())
        if row is not None:
            severity, reason, message = row
            means.recorder.record(body, reason, message, kind=severity)
    return Done()


def find_event(
    condition: Mapping[str, Any], before: ConditionState | None, now: datetime
) -> EventRow | None:
    """Return the Event of a condition, or None. `before` is None for the first state seen."""
    state = condition["status"], condition["reason"]
    if before == state:
        return None
    if before is None:
        since = conditions.parse_transition_time(condition)
        if since is None or now - since > _MAX_AGE:
            return None
    message = str(condition.get("message") or "")
    if condition["type"] == wellknown.DELETES_HELD:
        if condition["status"] == "True":
            return "Warning", wellknown.DELETES_HELD, message
        return ("Normal", RELEASED, message) if before is not None else None
    if condition["status"] == "True":
        return "Normal", wellknown.SYNCED, message
    is_intended = condition["reason"] in _INTENDED_REASONS
    return ("Normal" if is_intended else "Warning"), condition["reason"], message
