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
from syncer.safety.hot_loop_guard import Outcome, Part
from syncer.tenants.connection import Link
from syncer.tenants.session import Session
from telemetry import metrics
from tenancy.resources import Resource

REASON = "SyncParked"
"""Reason of the Event. The condition Synced repeats the paths."""
SUPER, TENANT = "super", "tenant"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def is_parked(part: Part, body: Object, before: Mapping[str, Any], session: Session) -> bool:
    """Return True if a write must be left out."""
    fuse = session.fuse
    return fuse.knows(part) and fuse.is_parked(part, diff.digest(body, before))


async def tried(
    part: Part,
    body: Object,
    *,
    before: Mapping[str, Any],
    answer: Mapping[str, Any],
    resource: Resource,
    tenant_x: Entry | None,
    session: Session,
) -> None:
    """Count a write of a difference, and post an Event when it becomes parked."""

    def outcome() -> Outcome:
        untaken = diff.lacking(body, answer)
        return Outcome(diff.told(untaken or diff.between(body, before)), not untaken)

    if not session.fuse.tried(part, diff.digest(body, before), outcome):
        return
    paths, taken = outcome()
    _log.warning("diff.parked", side=part.side, paths=paths, taken=taken)
    metrics.DIFFS_PARKED.labels(part.side).inc()
    session.link.look_at_store()
    if tenant_x is None:
        return
    where = "where it runs" if part.side == SUPER else "in this cluster"
    why = (
        f"are not accepted {where}, perhaps because that is another version"
        if not taken
        else f"are put back {where} each time they are set"
    )
    message = f"{paths}: these fields {why}; they are left as they are for now (rule parked)"
    await session.notices.tell(resource, tenant_x, reason=REASON, message=message)


def settled(key: Key, side: str, session: Session, subresource: str = "") -> None:
    """Record that a part no longer differs."""
    if session.fuse.settled(Part(key, side, subresource)):
        session.link.look_at_store()


def sentence(link: Link) -> str:
    """Return the sentence about parked writes for the condition. Empty if there are none."""
    parked = link.parked()
    if not parked:
        return ""
    part, paths = next(iter(parked.items()))
    key = part.key
    return (
        f" Parked, because writing it changes nothing: {key.kind} {key.namespace}/{key.name}"
        f" {paths}{f', and {len(parked) - 1} more' if len(parked) > 1 else ''}."
    )
