"""Conditions by the Kubernetes API conventions: a list keyed by type. Pure.

A message is for people, and its words may change. A program reads type, status, reason and status
fields.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from tenancy.control_characters import escape_control_characters

Condition = dict[str, Any]

ConditionStatus = Literal["True", "False", "Unknown"]


def build_condition(
    kind: str, status: ConditionStatus, reason: str, message: str, *, now: str, generation: int
) -> Condition:
    """Return one condition. `now` is RFC 3339, `reason` CamelCase, `message` a sentence.

    Parts of a message may be a server's error text, so control characters are escaped.
    """
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": escape_control_characters(message),
        "lastTransitionTime": now,
        "observedGeneration": generation,
    }


def find_condition(
    conditions: Iterable[Mapping[str, Any]] | None, kind: str
) -> Mapping[str, Any] | None:
    """Return the condition of this type, or None."""
    return next((c for c in conditions or () if c.get("type") == kind), None)


def is_true(conditions: Iterable[Mapping[str, Any]] | None, kind: str) -> bool:
    """Return whether the condition of this type exists and is True."""
    found = find_condition(conditions, kind)
    return found is not None and found.get("status") == "True"


def parse_transition_time(found: Mapping[str, Any]) -> datetime | None:
    """Return the time of a condition's last transition, or None for an invalid time.

    API servers accept more forms of a time than Python does, from any client that may write a
    status.
    """
    try:
        when = datetime.fromisoformat(found["lastTransitionTime"])
    except (KeyError, TypeError, ValueError):
        return None
    return when if when.tzinfo is not None else None


def format_time(moment: datetime) -> str:
    """Return a time as API servers write it: RFC 3339 in UTC, in whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def carry_transition_times(
    old: Sequence[Mapping[str, Any]] | None, new: Sequence[Condition]
) -> list[Condition]:
    """Return `new`, each condition with the old transition time if its status did not change."""
    carried: list[Condition] = []
    for fresh in new:
        before = find_condition(old, fresh["type"]) or {}
        if before.get("status") == fresh["status"] and parse_transition_time(before) is not None:
            fresh = {**fresh, "lastTransitionTime": before["lastTransitionTime"]}  # noqa: PLW2901
        carried.append(fresh)
    return carried
