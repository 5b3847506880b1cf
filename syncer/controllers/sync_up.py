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
from syncer.rules.registry import SyncDirection, SyncedKind
from syncer.safety.expectations import ClusterSide
from syncer.safety.hot_loop_guard import WriteScope
from syncer.tenants.session import Session
from tenancy import wellknown


class ObservedTenantObject(NamedTuple):
    """A tenant object as it was when a write was computed."""

    entry: Entry
    body: Object


_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def sync_up(
    kind: SyncedKind, key: Key, tenant_x: Entry, live: Object, session: Session
) -> None:
    """Write the differences to the tenant."""
    if kind.direction is not SyncDirection.DOWN_UP:
        return
    own, live = tenant_x.decode(), session.sanitizer.sanitize_status(live)
    for function, subresource in ((kind.build_spec_up, ""), (kind.build_status_up, "status")):
        body = function(own, live) if function is not None else None
        if body is not None:
            seen = ObservedTenantObject(tenant_x, own)
            await write_tenant_object(
                kind, key, body, session, subresource=subresource, observed=seen
            )
        else:
            parked_writes.clear_if_converged(key, parked_writes.TENANT_SIDE, session, subresource)


async def write_tenant_object(
    kind: SyncedKind,
    key: Key,
    body: Object,
    session: Session,
    *,
    subresource: str = "",
    observed: ObservedTenantObject | None = None,
) -> None:
    """Patch a tenant object. The UID in the body proves that it is the right one.

    A repeated write is parked, if the caller passes `seen`.
    """
    part = WriteScope(key, parked_writes.TENANT_SIDE, subresource)
    if observed is not None and parked_writes.is_parked(part, body, observed.body, session):
        return
    written = await session.tenant_client.patch(
        kind.resource,
        key.name,
        body,
        namespace=key.namespace,
        subresource=subresource,
        field_manager=wellknown.SYNCER,
    )
    session.expectations.expect_update(
        ClusterSide.TENANT,
        key,
        written["metadata"]["resourceVersion"],
        # A caller without `seen` has a next step after the echo.
        taken=observed is not None and diff.is_result_of_patch(observed.body, body, written),
    )
    session.hot_loop_guard.count_write(key)
    _log.debug("tenant.changed", part=subresource or "spec")
    if observed is not None:
        await parked_writes.count_attempt(
            part,
            body,
            before=observed.body,
            answer=written,
            resource=kind.resource,
            tenant_x=observed.entry,
            session=session,
        )
