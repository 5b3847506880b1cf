"""Deletion protection and scheduled deletion of a VirtualCluster. Pure.

Kubernetes cannot take back a DELETE. Therefore a tenant with a grace period is first scheduled for
deletion by an annotation, and vc-manager sends the DELETE when the time has come (docs/adr/0034).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tenancy import wellknown

PROTECTION_ENABLED = "enabled"
_DURATION_PATTERN = re.compile(r"([0-9]+)(h|m|s)")
_UNIT_SECONDS = {"h": 3600, "m": 60, "s": 1}


def is_protected(labels: Mapping[str, str]) -> bool:
    """Return whether an object's labels protect it from deletion."""
    return labels.get(wellknown.DELETION_PROTECTION) == PROTECTION_ENABLED


def parse_grace_period(text: Any) -> timedelta:
    """Return the duration of `24h` or `1h30m`. Anything else is no grace period."""
    if not isinstance(text, str):
        return timedelta(0)
    parts = _DURATION_PATTERN.findall(text)
    if "".join(f"{number}{unit}" for number, unit in parts) != text:
        return timedelta(0)
    return timedelta(seconds=sum(int(number) * _UNIT_SECONDS[unit] for number, unit in parts))


def parse_time(text: Any) -> datetime | None:
    """Return an RFC 3339 time with its zone, or None for anything else."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def parse_scheduled_time(annotations: Mapping[str, str]) -> datetime | None:
    """Return the time at which a VirtualCluster is to be deleted, None if it is not scheduled.

    Hazard: a value that is no time must not delete the tenant. It counts as not scheduled.
    """
    try:
        moment = datetime.fromisoformat(annotations.get(wellknown.DELETE_AFTER, ""))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
