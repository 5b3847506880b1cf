"""Reconciler of mirrors: classes and drivers of the super cluster, as far as the policy allows.

Owns the writes for every row of `syncer.model.mirrored_kinds`. Owns `write_mirror` and
`delete_mirror`, also for other shown kinds. Must not know single kinds. Hazard: only objects with
the syncer's mark may be changed or deleted. A tenant may have its own object of the name, which
would be lost otherwise.
"""

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers.sync_down import NAME_TAKEN
from syncer.model import mirrored_kinds
from syncer.model.keys import Key
from syncer.model.mirrored_kinds import ComparedShape
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.guarded_writer import TENANT_SIDE
from syncer.safety.hot_loop_guard import WriteScope
from syncer.tenants.session import Session
from tenancy.resources import Resource

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_mirror(key: Key, session: Session) -> Result:
    """Show one object, or delete it."""
    mirror = mirrored_kinds.MIRRORS_BY_KIND[key.kind]
    store = session.stores[key.kind]
    if not store.synced and mirror.needs_crd:
        return Done()  # the tenant does not serve the kind yet
    tenant_x = store.get("", key.name)
    if session.is_behind(key, tenant_x, None):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    super_x = session.connection.home_cluster.classes[key.kind].get("", key.name)
    if super_x is not None and mirrored_kinds.is_selected(
        mirror, session.view.policy.sync, super_x
    ):
        wanted = mirrored_kinds.build_mirror(mirror, super_x.decode())
        return await write_mirror(mirror.shape, key, wanted, tenant_x, session)
    if tenant_x is None or not mirrored_kinds.is_own_mirror(tenant_x):
        return Done()
    if super_x is None:
        await prove_absent(mirror.resource, key, session)
    return await delete_mirror(mirror.resource, key, tenant_x, session)


async def write_mirror(
    shape: ComparedShape,
    key: Key,
    wanted: Object,
    tenant_x: Entry | None,
    session: Session,
) -> Result:
    """Create or update a tenant object.

    An object that cannot be updated is deleted and recreated.
    """
    resource = shape.resource
    if tenant_x is None:
        return await _create_mirror(resource, key, wanted, session)
    if not mirrored_kinds.is_own_mirror(tenant_x):
        return await _delete_unselected(resource, tenant_x, session)
    if mirrored_kinds.is_mirror_current(tenant_x.decode(), wanted, shape.fields):
        session.writer.clear_if_converged(key, TENANT_SIDE)
        return Done()
    return await _replace_mirror(resource, key, wanted, tenant_x, session)


async def _replace_mirror(
    resource: Resource, key: Key, wanted: Object, tenant_x: Entry, session: Session
) -> Result:
    own = tenant_x.decode()
    body = mirrored_kinds.build_replacement(own, wanted)
    try:
        is_written = await session.writer.replace_tenant_object(
            WriteScope(key, TENANT_SIDE), resource, body, before=own, tenant_x=tenant_x
        )
    except errors.Invalid:
        if tenant_x.deleting:
            return Done()  # its end wakes this key, which recreates it
        return await delete_mirror(resource, key, tenant_x, session)
    if is_written:
        _log.info("mirror.changed", name=key.name)
    return Done()


def must_leave_unchanged(key: Key, wanted: Object, tenant_x: Entry, session: Session) -> bool:
    """Return True if a shown object stays as it is because its write is parked."""
    own = tenant_x.decode()
    body = mirrored_kinds.build_replacement(own, wanted)
    return session.writer.is_parked(WriteScope(key, TENANT_SIDE), body, own)


async def _create_mirror(resource: Resource, key: Key, wanted: Object, session: Session) -> Result:
    try:
        await session.writer.create_tenant_object(key, resource, wanted)
    except errors.AlreadyExists:
        raise NotReadyYet("a tenant object of that name is there, the cache is behind") from None
    _log.info("mirror.shown", name=key.name)
    return Done()


async def _delete_unselected(resource: Resource, tenant_x: Entry, session: Session) -> Result:
    message = (
        f"metadata.name {tenant_x.name} is that of a {resource.kind} which this cluster offers; it"
        " is shown here once this one has gone (rule name-taken)"
    )
    await session.event_recorder.record(resource, tenant_x, reason=NAME_TAKEN, message=message)
    return Done()


async def prove_absent(resource: Resource, key: Key, session: Session) -> None:
    """Raise Wait if the super object exists. Absence from a cache may be out of date."""
    try:
        await session.super_client.get(resource, key.name, metadata_only=True)
    except errors.NotFound:
        return
    raise NotReadyYet("the super object lives, the cache is behind", CACHE_BEHIND_SECONDS)


async def delete_mirror(resource: Resource, key: Key, tenant_x: Entry, session: Session) -> Result:
    """Delete an object of the syncer from the tenant."""
    if tenant_x.deleting:
        return Done()  # its finalizers are the tenant's
    if await session.writer.delete_tenant_object(key, resource, tenant_x):
        _log.info("mirror.removed", name=key.name)
    return Done()
