"""Sync of a super object back to the tenant, by its row: the status, and a few spec fields.

Owns the order of the writes. Must not know single kinds. Hazard: the values must come from the
super cluster, so that a forged status is overwritten. The upward part of a row must contain no spec
field that belongs to the tenant.
"""

from typing import NamedTuple

import structlog

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.controllers import parked_writes
from syncer.model import diff
from syncer.model.keys import Key
from syncer.rules.registry import Flow, Kind
from syncer.safety.expectations import Side
from syncer.safety.hot_loop_guard import Part
from syncer.tenants.session import Session
from tenancy import wellknown


class Seen(NamedTuple):
    """A tenant object as it was when a write was computed."""

    entry: Entry
    body: Object


_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def carry(kind: Kind, key: Key, tenant_x: Entry, live: Object, session: Session) -> None:
    """Write the differences to the tenant."""
    if kind.flow is not Flow.DOWN_UP:
        return
    own, live = tenant_x.decode(), session.scrubber.status(live)
    for function, subresource in ((kind.up_spec, ""), (kind.up_status, "status")):
        body = function(own, live) if function is not None else None
        if body is not None:
            seen = Seen(tenant_x, own)
            await write(kind, key, body, session, subresource=subresource, seen=seen)
        else:
            parked_writes.settled(key, parked_writes.TENANT, session, subresource)


async def write(
    kind: Kind,
    key: Key,
    body: Object,
    session: Session,
    *,
    subresource: str = "",
    seen: Seen | None = None,
) -> None:
    """Patch a tenant object. The UID in the body proves that it is the right one.

    A repeated write is parked, if the caller passes `seen`.
    """
    part = Part(key, parked_writes.TENANT, subresource)
    if seen is not None and parked_writes.is_parked(part, body, seen.body, session):
        return
    written = await session.tenant_client.patch(
        kind.resource,
        key.name,
        body,
        namespace=key.namespace,
        subresource=subresource,
        field_manager=wellknown.SYNCER,
    )
    session.expectations.wrote(
        Side.TENANT,
        key,
        written["metadata"]["resourceVersion"],
        # A caller without `seen` has a next step after the echo.
        taken=seen is not None and diff.is_all(seen.body, body, written),
    )
    session.fuse.wrote(key)
    _log.debug("tenant.changed", part=subresource or "spec")
    if seen is not None:
        await parked_writes.tried(
            part,
            body,
            before=seen.body,
            answer=written,
            resource=kind.resource,
            tenant_x=seen.entry,
            session=session,
        )
