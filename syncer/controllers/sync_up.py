"""Sync of a super object back to the tenant, by its row: the status, and a few spec fields.

Owns the order of the writes. Must not know single kinds. Hazard: the values must come from the
super cluster, so that a forged status is overwritten. The upward part of a row must contain no spec
field that belongs to the tenant.
"""

from collections.abc import Awaitable
from typing import NamedTuple

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model.keys import Key
from syncer.rules.registry import SyncDirection, SyncedKind
from syncer.safety.guarded_writer import TENANT_SIDE
from syncer.safety.hot_loop_guard import WriteScope
from syncer.tenants.session import Session


class ObservedTenantObject(NamedTuple):
    """A tenant object as it was when a write was computed."""

    entry: Entry
    body: Object


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
            session.writer.clear_if_converged(key, TENANT_SIDE, subresource)


def write_tenant_object(
    kind: SyncedKind,
    key: Key,
    body: Object,
    session: Session,
    *,
    subresource: str = "",
    observed: ObservedTenantObject | None = None,
) -> Awaitable[None]:
    """Patch a tenant object. The UID in the body proves that it is the right one.

    A repeated write is parked, if the caller passes `observed`.
    """
    scope = WriteScope(key, TENANT_SIDE, subresource)
    if observed is None:
        return session.writer.patch_tenant_object(scope, kind.resource, body)
    return session.writer.patch_tenant_object(
        scope, kind.resource, body, before=observed.body, tenant_x=observed.entry
    )
