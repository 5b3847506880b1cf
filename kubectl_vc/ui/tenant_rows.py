"""Rows of the pages about VirtualClusters. Pure.

Objects come from API servers, and any field may be missing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubectl_vc.client import readiness
from kubectl_vc.output import durations
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.verbs import certs
from tenancy import conditions, wellknown

Body = Mapping[str, Any]

_SOON = timedelta(days=14)
_GOOD_WHEN_FALSE = frozenset(
    {
        wellknown.RECONCILING,
        wellknown.STALLED,
        wellknown.STORE_EPHEMERAL,
        wellknown.STORE_FILLING,
        wellknown.DELETES_HELD,
    }
)
"""Conditions that report a problem, or work in progress, while they are True."""


@dataclass(frozen=True, slots=True)
class State:
    """A word with its grade: `good`, `bad` or `busy`. The word is enough without the colour."""

    text: str
    grade: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """One VirtualCluster in the list of tenants."""

    namespace: str
    name: str
    phase: State
    ready: State
    synced: State
    problem: str
    """Message of the condition Ready while it is not True."""
    certificates_end: State
    version: str
    policy: str
    endpoint: str
    age: str


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One condition."""

    kind: str
    status: State
    reason: str
    age: str
    message: str


@dataclass(frozen=True, slots=True)
class CertificateView:
    """One certificate of a tenant."""

    name: str
    kind: str
    expires: str
    left: State
    renewal: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A change in progress, or a finished one that matters still."""

    what: str
    state: State
    detail: str


def build_tenant_row(body: Body, certificates: Body | None, now: datetime) -> TenantRow:
    """Return the row of a VirtualCluster. `certificates` is None if it cannot be read."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    found = status.get("conditions") or []
    ready = conditions.find_condition(found, wellknown.READY) or {}
    return TenantRow(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        phase=_grade_phase(body),
        ready=_grade_condition(wellknown.READY, str(ready.get("status") or "Unknown")),
        synced=_grade_condition(
            wellknown.SYNCED,
            str(
                (conditions.find_condition(found, wellknown.SYNCED) or {}).get("status")
                or "Unknown"
            ),
        ),
        problem="" if ready.get("status") == "True" else one_line(ready.get("message")),
        certificates_end=_find_first_end(certificates, now),
        version=str(status.get("version") or spec.get("clusterVersionName") or ""),
        policy=str((spec.get("policyRef") or {}).get("name") or wellknown.DEFAULT_POLICY_NAME),
        endpoint=str(status.get("endpoint") or ""),
        age=format_age(metadata.get("creationTimestamp"), now),
    )


def build_condition_rows(body: Body, now: datetime) -> list[ConditionRow]:
    """Return the conditions of an object, the summary first and then in work order."""
    found = (body.get("status") or {}).get("conditions") or []
    return [
        ConditionRow(
            kind=str(each.get("type") or ""),
            status=_grade_condition(str(each.get("type")), str(each.get("status") or "Unknown")),
            reason=str(each.get("reason") or ""),
            age=format_age(each.get("lastTransitionTime"), now),
            message=one_line(each.get("message")),
        )
        for each in sorted(found, key=lambda each: readiness.rank_condition(str(each.get("type"))))
    ]


def build_certificate_rows(table: Body, now: datetime) -> list[CertificateView]:
    """Return the certificates, those that end first at the top. Raises CliError."""
    return [
        CertificateView(
            name=row.name,
            kind=row.kind,
            expires=row.expires.strftime("%Y-%m-%d %H:%M"),
            left=_grade_end(row.expires, now),
            renewal=row.renewal.strftime("%Y-%m-%d %H:%M") if row.renewal else "never",
        )
        for row in certs.parse_rows(table)
    ]


def build_operations(
    body: Body, version: Body | None, snapshots: Sequence[Body], table: Body | None, now: datetime
) -> list[Operation]:
    """Return the rollout, the rotations, the snapshots and the restore of a tenant."""
    found = [
        *_list_rollout(body, version),
        *_list_rotations(table),
        *(_build_snapshot(each, now) for each in snapshots),
    ]
    restore = (body.get("status") or {}).get("restore")
    if restore:
        phase = str(restore.get("phase") or "Unknown")
        what = f"restore of {str(restore.get('request') or '').partition('@')[0]}"
        found.append(Operation(what, _grade_step(phase), one_line(restore.get("message"))))
    if after := (body["metadata"].get("annotations") or {}).get(wellknown.DELETE_AFTER):
        found.append(Operation("deletion", State("Scheduled", "bad"), f"after {after}"))
    return found


def one_line(text: Any) -> str:
    """Return a message as one line."""
    return " ".join(str(text or "").split())


def format_age(stamp: Any, now: datetime) -> str:
    """Return the age of a timestamp, or `unknown` for anything else."""
    try:
        return durations.format_age(str(stamp), now) if stamp else "unknown"
    except ValueError:
        return "unknown"


def _list_rollout(body: Body, version: Body | None) -> Iterable[Operation]:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    current = conditions.find_condition(
        status.get("conditions"), wellknown.CONTROL_PLANE_UP_TO_DATE
    )
    if current is not None and current.get("status") != "True":
        what = f"rollout of {spec.get('clusterVersionName')}"
        state = State(str(current.get("reason") or "InProgress"), "busy")
        yield Operation(what, state, one_line(current.get("message")))
    rollout = ((version or {}).get("status") or {}).get("rollout") or {}
    waiting, slots = rollout.get("waiting") or 0, rollout.get("slots") or []
    if waiting or slots:
        yield Operation(
            f"wave of {spec.get('clusterVersionName')}",
            State("InProgress", "busy"),
            f"{len(slots)} tenants change now, {waiting} wait, {rollout.get('tenants')} in all",
        )


def _list_rotations(table: Body | None) -> Iterable[Operation]:
    text = ((table or {}).get("data") or {}).get(wellknown.ROTATIONS_KEY) or "[]"
    try:
        rows = [(str(each["authority"]), str(each["stage"])) for each in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        return
    for authority, stage in rows:
        yield Operation(f"rotation of {authority}", State(stage, "busy"), "")


def _build_snapshot(body: Body, now: datetime) -> Operation:
    status = body.get("status") or {}
    age = format_age(body["metadata"].get("creationTimestamp"), now)
    size = (status.get("manifest") or {}).get("sizeBytes")
    detail = f"created {age} ago" + (f", {size} bytes" if size else "")
    return Operation(
        f"snapshot {body['metadata']['name']}",
        _grade_step(str(status.get("phase") or "Pending")),
        detail,
    )


def _grade_step(phase: str) -> State:
    return State(phase, {"Complete": "good", "Failed": "bad"}.get(phase, "busy"))


def _grade_phase(body: Body) -> State:
    if "deletionTimestamp" in body["metadata"]:
        return State("Terminating", "busy")
    phase = str((body.get("status") or {}).get("phase") or "Pending")
    return State(phase, {"Running": "good", "Error": "bad"}.get(phase, "busy"))


def _grade_condition(kind: str, status: str) -> State:
    if status not in ("True", "False"):
        return State(status, "busy")
    is_good = (status == "True") != (kind in _GOOD_WHEN_FALSE)
    return State(status, "good" if is_good else "bad")


def _find_first_end(table: Body | None, now: datetime) -> State:
    """Return the first end of the certificates that are renewed. Authorities live for years."""
    if table is None:
        return State("unknown", "busy")
    try:
        rows = certs.parse_rows(table)
    except CliError:
        return State("unreadable", "bad")
    return _grade_end(rows[0].expires, now) if rows else State("none", "busy")


def _grade_end(expires: datetime, now: datetime) -> State:
    left = expires - now
    if left <= timedelta(0):
        return State("expired", "bad")
    hours = int(left.total_seconds()) // 3600
    text = f"{hours // 24}d" if hours >= 48 else f"{hours}h"
    return State(text, "bad" if left < _SOON else "good")
