"""A write that leads nowhere is tried five times, told once, and then left alone for a while.

Owns the way from a repeated difference to the Event, the metric and the condition. Must not know
kinds. Two things lead there: a server of another version that drops a field which the other side
has, and somebody who puts our value back each time. Hazard: what is parked must be told with its
path, or an object would silently stay different.
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
"""Reason of the Event; the Synced condition repeats the paths."""
SUPER, TENANT = "super", "tenant"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def is_parked(part: Part, body: Object, before: Mapping[str, Any], session: Session) -> bool:
    """Tell whether a write is to be left out."""
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
    """Count a write of a difference, and tell the tenant when it is parked."""

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
    """Take note that nothing differs any more."""
    if session.fuse.settled(Part(key, side, subresource)):
        session.link.look_at_store()


def sentence(link: Link) -> str:
    """Return what the condition says of parked differences; empty when there are none."""
    parked = link.parked()
    if not parked:
        return ""
    part, paths = next(iter(parked.items()))
    key = part.key
    return (
        f" Parked, because writing it changes nothing: {key.kind} {key.namespace}/{key.name}"
        f" {paths}{f', and {len(parked) - 1} more' if len(parked) > 1 else ''}."
    )
