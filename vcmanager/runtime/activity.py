"""Reasons for which vc-manager does not keep a tenant's control plane up to date.

Pure. An inactive tenant is one whose control plane is stopped on purpose, or must not be changed.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tenancy import conditions, deletion, wellknown

MAX_PAUSE = timedelta(days=90)
"""Longest pause. Certificates are not renewed meanwhile, and most of them are valid for 90 days."""
PAUSE_TOO_LONG = "PauseTooLong"
"""Reason of the condition Paused after the longest pause."""


class PauseEnd(NamedTuple):
    """End of a pause."""

    until: datetime
    """The time in the spec, or an earlier one."""
    wanted: datetime
    """The time in the spec."""


def find_pause(body: Mapping[str, Any], now: datetime) -> PauseEnd | None:
    """Return the end of the pause that a VirtualCluster asks for. It may be over already.

    A scheduled deletion ends every pause. A pause begins when the condition Paused becomes True. A
    pause that was too long stays over until `spec.pausedUntil` has another time than
    `status.endedPause`. A status of an older vc-manager has no such field. Its pause stays over.
    """
    wanted = deletion.parse_time((body.get("spec") or {}).get("pausedUntil"))
    if wanted is None or wanted <= now:
        return None
    if deletion.parse_scheduled_time(body["metadata"].get("annotations") or {}) is not None:
        return None
    status = body.get("status") or {}
    known = conditions.find_condition(status.get("conditions"), wellknown.PAUSED) or {}
    began = conditions.parse_transition_time(known) or now
    if known.get("status") == "True":
        return PauseEnd(min(wanted, began + MAX_PAUSE), wanted)
    is_same = status.get("endedPause") in (None, conditions.format_time(wanted))
    if known.get("reason") == PAUSE_TOO_LONG and is_same:
        return PauseEnd(min(wanted, began, now), wanted)
    return PauseEnd(min(wanted, now + MAX_PAUSE), wanted)


def find_inactivity(body: Mapping[str, Any], now: datetime) -> str:
    """Return why a tenant's certificates are not renewed now, or an empty string."""
    metadata = body["metadata"]
    if "deletionTimestamp" in metadata:
        return "The tenant is being deleted"
    if deletion.parse_scheduled_time(metadata.get("annotations") or {}) is not None:
        return "The deletion of the tenant is scheduled"
    if (body.get("spec") or {}).get("sleep") is not None:
        return "The tenant is asleep"
    end = find_pause(body, now)
    if end is not None and end.until > now:
        return f"The tenant is paused until {conditions.format_time(end.until)}"
    return ""
