"""Times in the spec of a VirtualCluster: the end of a pause, and its expiry.

Owns what follows from `spec.pausedUntil` and `spec.expiresAt`. An expired VirtualCluster is only
scheduled for deletion here. Hazard: a time that cannot be read must neither pause nor delete.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any, NamedTuple

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.controller.worker import RequeueAfter
from tenancy import conditions, deletion, wellknown
from tenancy.resources import EVENTS, VIRTUAL_CLUSTERS
from vcmanager.phases.content import tenant_recorder
from vcmanager.runtime import activity
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.status import ReconcileStatus

NOTICE = timedelta(hours=24)
"""Time before the expiry at which an Event announces it."""
EXPIRES_SOON = "ExpiresSoon"
DELETION_PROTECTED = "DeletionProtected"
_MIN_REQUEUE_SECONDS = 1.0
_TENANT_EVENT_NAMESPACE = "default"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class ExpiryStep(Enum):
    """Next step toward the expiry of a VirtualCluster."""

    NOTHING = auto()
    ANNOUNCE = auto()
    """It expires within `NOTICE`."""
    SCHEDULE = auto()
    """It has expired, and its deletion is not scheduled yet."""
    HOLD = auto()
    """It has expired, and is protected from deletion."""


class Pause(NamedTuple):
    """A pause that has not ended."""

    seconds: float
    """Seconds until its end, at most the resync interval."""
    message: str


def decide_expiry(
    expires: datetime | None, now: datetime, *, protected: bool, scheduled: bool
) -> ExpiryStep:
    """Return the next step. `scheduled`: the deletion is scheduled already."""
    if expires is None or scheduled or now < expires - NOTICE:
        return ExpiryStep.NOTHING
    if now < expires:
        return ExpiryStep.ANNOUNCE
    return ExpiryStep.HOLD if protected else ExpiryStep.SCHEDULE


def get_pause(body: Mapping[str, Any], now: datetime) -> Pause | None:
    """Return the pause of a VirtualCluster, or None. A scheduled deletion ends every pause."""
    end = activity.find_pause(body, now)
    if end is None or end.until <= now:
        return None
    limit = ""
    if end.until < end.wanted:
        limit = (
            f" spec.pausedUntil is {conditions.format_time(end.wanted)}, but a pause lasts at most"
            f" {activity.MAX_PAUSE.days} days, because certificates are not renewed meanwhile."
        )
    message = (
        f"vc-manager changes nothing in the control plane until {conditions.format_time(end.until)}"
        f"{_describe_writer(body['metadata'])}.{limit} Remove spec.pausedUntil to end the pause."
    )
    return Pause(min((end.until - now).total_seconds(), RESYNC_SECONDS), message)


def report_long_pause(body: Mapping[str, Any], now: datetime, report: ReconcileStatus) -> None:
    """Set the condition Paused to False if the spec asks for a pause that is over."""
    end = activity.find_pause(body, now)
    if end is not None and end.until <= now:
        report.ended_pause = conditions.format_time(end.wanted)
        message = (
            f"The pause ended after {activity.MAX_PAUSE.days} days, which is the longest pause,"
            f" although spec.pausedUntil is {report.ended_pause}. Remove spec.pausedUntil. For"
            " another pause set a new time."
        )
        report.set_condition(wellknown.PAUSED, "False", activity.PAUSE_TOO_LONG, message)


def limit_requeue(result: RequeueAfter, body: Mapping[str, Any], now: datetime) -> RequeueAfter:
    """Return a result that is not later than the next step of the expiry."""
    expires = deletion.parse_time((body.get("spec") or {}).get("expiresAt"))
    if expires is None:
        return result
    waits = [(moment - now).total_seconds() for moment in (expires - NOTICE, expires)]
    ahead = [max(each, _MIN_REQUEUE_SECONDS) for each in waits if each > 0]
    return RequeueAfter(min([result.after, *ahead]))


async def schedule_expired(means: ReconcileContext, body: Object, report: ReconcileStatus) -> bool:
    """Return True if the deletion of an expired VirtualCluster was just scheduled.

    Otherwise the condition Expiring is set, if the expiry is near or held.
    """
    metadata, spec = body["metadata"], body.get("spec") or {}
    expires = deletion.parse_time(spec.get("expiresAt"))
    step = decide_expiry(
        expires,
        means.now(),
        protected=deletion.is_protected(metadata.get("labels") or {}),
        scheduled=deletion.parse_scheduled_time(metadata.get("annotations") or {}) is not None,
    )
    if expires is None or step is ExpiryStep.NOTHING:
        return False
    moment = conditions.format_time(expires)
    if step is ExpiryStep.ANNOUNCE:
        report.set_condition(wellknown.EXPIRING, "True", EXPIRES_SOON, _describe_expiry(moment))
        return False
    if step is ExpiryStep.HOLD:
        message = (
            f"The tenant expired at {moment} and is protected from deletion, so it is kept. Remove"
            f" its label {wellknown.DELETION_PROTECTION} to delete it, or change spec.expiresAt."
        )
        report.set_condition(wellknown.EXPIRING, "True", DELETION_PROTECTED, message)
        return False
    after = means.now() + deletion.parse_grace_period(spec.get("deletionGracePeriod"))
    await means.super_client.patch(
        VIRTUAL_CLUSTERS,
        metadata["name"],
        {
            "metadata": {
                "uid": metadata["uid"],
                # A change of the spec or of the protection in the meantime wins.
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {wellknown.DELETE_AFTER: conditions.format_time(after)},
            }
        },
        namespace=metadata["namespace"],
        field_manager=wellknown.MANAGER,
    )
    _log.info("tenant.expired", expired=moment)
    return True


async def announce_expiry(means: ReconcileContext, tenant_client: Client, body: Object) -> None:
    """Create one Event in the tenant in the last 24 h before its expiry.

    If the tenant rejects it, the next reconcile tries again.
    """
    expires = deletion.parse_time((body.get("spec") or {}).get("expiresAt"))
    now = means.now()
    step = decide_expiry(expires, now, protected=False, scheduled=False)
    if expires is None or step is not ExpiryStep.ANNOUNCE:
        return
    moment = conditions.format_time(expires)
    digest = hashlib.sha256(moment.encode()).hexdigest()[:16]
    involved = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "name": _TENANT_EVENT_NAMESPACE,
        "namespace": _TENANT_EVENT_NAMESPACE,
    }
    event = tenant_recorder.build_event(
        f"tenant-expiry.{digest}",
        involved,
        reason=EXPIRES_SOON,
        message=_describe_expiry(moment),
        stamp=conditions.format_time(now),
    )
    try:
        await tenant_client.create(EVENTS, event, field_manager=wellknown.MANAGER)
    except errors.AlreadyExists:
        return
    except errors.KubeError as problem:
        _log.info("tenant.expiry_not_announced", problem=str(problem))


def _describe_expiry(moment: str) -> str:
    return (
        f"The tenant expires at {moment} and is deleted then. Change spec.expiresAt of its"
        " VirtualCluster to keep it."
    )


def _describe_writer(metadata: Mapping[str, Any]) -> str:
    """Return which field manager set the pause and when, if the server recorded it."""
    for each in metadata.get("managedFields") or ():
        fields = (each.get("fieldsV1") or {}).get("f:spec") or {}
        if "f:pausedUntil" in fields:
            since = deletion.parse_time(each.get("time"))
            at = f" at {since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if since is not None else ""
            return f", set by {each.get('manager', 'unknown')}{at}"
    return ""
