"""Rows that show tenant objects beside their copies in the super cluster. Pure.

Hazard: a copy must be recognised by the UIDs of its ownership record. A name alone proves nothing,
so another owner's object would be shown as the tenant's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubectl_vc.diagnosis.object_facts import parse_time
from kubectl_vc.ui.tenant_rows import State, format_age, one_line
from kubectl_vc.verbs.get import format_pod_status
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant

Body = Mapping[str, Any]

HOME = "home"
REFUSALS = frozenset(
    {
        *("SyncRejected", "SyncFailed", "SyncParked", "QuotaExceeded", "NameTaken"),
        *("FailedScheduling", "DataSourceMissing", "ServiceIPUnavailable", "NodeMismatch"),
        *("TargetUnreachable", "TargetInDoubt", "TargetWithdrawn"),
    }
)
"""Reasons of Events of the syncer that report why an object is not synced, or has no node."""
_GOOD_POD = frozenset({"Running", "Succeeded", "Completed"})
_BUSY_POD = frozenset({"Pending", "Terminating", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPair:
    """A tenant object and its copy. At least one of them is present."""

    name: str
    """Name of the tenant object."""
    tenant_object: Body | None
    is_tenant_known: bool
    """False if the tenant's API was not read."""
    copy: Body | None
    is_copy_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRow:
    """One row of the page of a namespace."""

    name: str
    tenant: State
    copy: State
    copy_name: str
    """Namespace and name of the copy. Empty without one."""
    node: str
    target: str
    lag: str
    """Time from the tenant object to its copy, or how long the object waits."""
    refused: str
    """Reason and message of the Event that reports the refusal. Empty without one."""
    age: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """One Event."""

    age: str
    kind: State
    reason: str
    involved: str
    message: str
    source: str
    count: str


def build_object_row(
    pair: CopyPair, tenant: Tenant, events: Sequence[Body], now: datetime
) -> ObjectRow:
    """Return the row of one pair. `events` are those of the tenant's namespace."""
    shown = pair.tenant_object or pair.copy or {}
    metadata = shown.get("metadata") or {}
    refusal = _find_refusal(pair, events)
    mine = pair.copy is not None and is_copy_of(pair.copy, tenant, pair.tenant_object)
    copy_metadata = (pair.copy or {}).get("metadata") or {}
    return ObjectRow(
        name=pair.name,
        tenant=_describe_tenant_side(pair),
        copy=_describe_copy(pair, mine=mine),
        copy_name=f"{copy_metadata.get('namespace')}/{copy_metadata.get('name')}" if mine else "",
        node=str(((pair.copy if mine else shown) or {}).get("spec", {}).get("nodeName") or ""),
        target=_find_target(shown),
        lag=_describe_lag(pair, now, mine=mine),
        refused=refusal,
        age=format_age(metadata.get("creationTimestamp"), now),
    )


def is_copy_of(copy: Body, tenant: Tenant, tenant_object: Body | None) -> bool:
    """Return whether a super object is the tenant's, and of this tenant object if it is known."""
    owner = ownership.read_owner(copy["metadata"])
    if owner is None or owner.vc_uid != tenant.uid:
        return False
    return tenant_object is None or owner.uid == tenant_object["metadata"].get("uid")


def build_event_rows(events: Iterable[Body], now: datetime, *, limit: int) -> list[EventRow]:
    """Return the newest Events first."""
    newest = sorted(events, key=get_event_time, reverse=True)
    return [_build_event_row(each, now) for each in newest[:limit]]


def get_event_time(event: Body) -> str:
    """Return the last time of an Event, RFC 3339. Empty without one."""
    return str(
        (event.get("series") or {}).get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event.get("firstTimestamp")
        or (event.get("metadata") or {}).get("creationTimestamp")
        or ""
    )


def _build_event_row(event: Body, now: datetime) -> EventRow:
    involved = event.get("involvedObject") or {}
    kind = str(event.get("type") or "Normal")
    source = event.get("reportingComponent") or (event.get("source") or {}).get("component")
    series = event.get("series") or {}
    return EventRow(
        age=format_age(get_event_time(event), now),
        kind=State(kind, "bad" if kind == "Warning" else "good"),
        reason=str(event.get("reason") or ""),
        involved=f"{involved.get('kind') or '?'} {involved.get('name') or '?'}",
        message=one_line(event.get("message") or event.get("note")),
        source=str(source or ""),
        count=str(series.get("count") or event.get("count") or 1),
    )


def _find_refusal(pair: CopyPair, events: Sequence[Body]) -> str:
    """Return the newest refusal of the object that is not older than its copy."""
    uid = ((pair.tenant_object or {}).get("metadata") or {}).get("uid")
    if uid is None:
        return ""
    found = [
        each
        for each in events
        if each.get("reason") in REFUSALS and (each.get("involvedObject") or {}).get("uid") == uid
    ]
    if not found:
        return ""
    newest = max(found, key=get_event_time)
    created = ((pair.copy or {}).get("metadata") or {}).get("creationTimestamp")
    if created and newest.get("reason") == "SyncRejected" and get_event_time(newest) < created:
        return ""
    return f"{newest.get('reason')}: {one_line(newest.get('message'))}"


def _describe_tenant_side(pair: CopyPair) -> State:
    if not pair.is_tenant_known:
        return State("not read", "busy")
    if pair.tenant_object is None:
        return State("does not exist", "bad")
    return _grade_object(pair.tenant_object)


def _describe_copy(pair: CopyPair, *, mine: bool) -> State:
    if not pair.is_copy_known:
        return State("not read", "busy")
    if pair.copy is None:
        is_elsewhere = pair.tenant_object is not None and _find_target(pair.tenant_object) not in (
            *("", HOME),
        )
        return State("in the target", "good") if is_elsewhere else State("none", "bad")
    return _grade_object(pair.copy) if mine else State("another owner's object", "bad")


def _grade_object(body: Body) -> State:
    if "deletionTimestamp" in body["metadata"]:
        return State("Terminating", "busy")
    status = body.get("status") or {}
    if "containers" in (body.get("spec") or {}):
        text = format_pod_status(body)
        if text in _GOOD_POD:
            return State(text, "good")
        return State(text, "busy" if text in _BUSY_POD else "bad")
    phase = str(status.get("phase") or "exists")
    return State(phase, "busy" if phase == "Pending" else "good")


def _find_target(body: Body) -> str:
    """Return the target that the pod is assigned to. Empty without targets."""
    annotations = (body.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(wellknown.ASSIGNED_CLUSTER) or "").rpartition("/")[0]


def _describe_lag(pair: CopyPair, now: datetime, *, mine: bool) -> str:
    created = parse_time(
        str((pair.tenant_object or {}).get("metadata", {}).get("creationTimestamp"))
    )
    if created is None:
        return ""
    if mine and pair.copy is not None:
        copied = parse_time(str(pair.copy["metadata"].get("creationTimestamp")))
        if copied is None:
            return ""
        seconds = int((copied - created).total_seconds())
        return "< 1s" if seconds < 1 else f"{seconds}s"
    if not pair.is_copy_known or _find_target(pair.tenant_object or {}) not in ("", HOME):
        return ""
    return f"waiting for {format_age(created.isoformat(), now)}"
