"""Parked writes: a futile write is tried five times, reported once, and then held back for a while.

Owns the Event, the metric and the condition of a repeated difference. Must not know kinds. There
are two causes. A server of a different version drops a field that the other side has, or another
writer reverts the value each time. Hazard: a parked write must be reported with its path. Otherwise
an object would silently stay different.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import diff
from syncer.model.keys import Key
from syncer.safety.hot_loop_guard import WriteOutcome, WriteScope
from syncer.tenants.connection import TenantConnection
from syncer.tenants.session import Session
from telemetry import metrics
from tenancy.resources import Resource

SYNC_PARKED = "SyncParked"
"""Reason of the Event. The condition Synced repeats the paths."""
SUPER_SIDE, TENANT_SIDE = "super", "tenant"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def is_parked(part: WriteScope, body: Object, before: Mapping[str, Any], session: Session) -> bool:
    """Return True if a write must be left out."""
    fuse = session.hot_loop_guard
    return fuse.has_history(part) and fuse.is_parked(part, diff.compute_digest(body, before))


async def count_attempt(
    part: WriteScope,
    body: Object,
    *,
    before: Mapping[str, Any],
    answer: Mapping[str, Any],
    resource: Resource,
    tenant_x: Entry | None,
    session: Session,
) -> None:
    """Count a write of a difference, and post an Event when it becomes parked."""

    def build_outcome() -> WriteOutcome:
        untaken = diff.find_lacking(body, answer)
        return WriteOutcome(
            diff.format_paths(untaken or diff.find_written_paths(body, before)), not untaken
        )

    if not session.hot_loop_guard.count_attempt(
        part, diff.compute_digest(body, before), build_outcome
    ):
        return
    paths, taken = build_outcome()
    _log.warning("diff.parked", side=part.side, paths=paths, taken=taken)
    metrics.DIFFS_PARKED.labels(part.side).inc()
    session.connection.enqueue_status()
    if tenant_x is None:
        return
    where = "where it runs" if part.side == SUPER_SIDE else "in this cluster"
    why = (
        f"are not accepted {where}, perhaps because that is another version"
        if not taken
        else f"are put back {where} each time they are set"
    )
    message = f"{paths}: these fields {why}; they are left as they are for now (rule parked)"
    await session.event_recorder.record(resource, tenant_x, reason=SYNC_PARKED, message=message)


def clear_if_converged(key: Key, side: str, session: Session, subresource: str = "") -> None:
    """Record that a part no longer differs."""
    if session.hot_loop_guard.clear_if_converged(WriteScope(key, side, subresource)):
        session.connection.enqueue_status()


def format_parked_message(link: TenantConnection) -> str:
    """Return the sentence about parked writes for the condition. Empty if there are none."""
    parked = link.list_parked()
    if not parked:
        return ""
    part, paths = next(iter(parked.items()))
    key = part.key
    return (
        f" Parked, because writing it changes nothing: {key.kind} {key.namespace}/{key.name}"
        f" {paths}{f', and {len(parked) - 1} more' if len(parked) > 1 else ''}."
    )
