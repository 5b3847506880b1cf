"""Reconciler of mirrors: classes and drivers of the super cluster, as far as the policy allows.

Owns the writes for every row of `syncer.model.mirrored_kinds`. Owns `show` and `remove`, also for
other shown kinds. Must not know single kinds. Hazard: only objects with the syncer's mark may be
changed or deleted. A tenant may have its own object of the name, which would be lost otherwise.
"""

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Again, Done, Verdict, Wait
from syncer.controllers import parked_writes
from syncer.controllers.sync_down import NAME_TAKEN
from syncer.model import mirrored_kinds
from syncer.model.keys import Key
from syncer.model.mirrored_kinds import Shape
from syncer.safety.expectations import BEHIND_SECONDS, Side
from syncer.safety.hot_loop_guard import Part
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import Resource

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Show one object, or delete it."""
    mirror = mirrored_kinds.BY_KIND[key.kind]
    store = session.stores[key.kind]
    if not store.synced and mirror.optional:
        return Done()  # the tenant does not serve the kind yet
    tenant_x = store.get("", key.name)
    if session.is_behind(key, tenant_x, None):
        return Again(BEHIND_SECONDS)
    super_x = session.link.home.classes[key.kind].get("", key.name)
    if super_x is not None and mirrored_kinds.is_selected(
        mirror, session.view.policy.sync, super_x
    ):
        wanted = mirrored_kinds.body(mirror, super_x.decode())
        return await show(mirror.shape, key, wanted, tenant_x, session)
    if tenant_x is None or not mirrored_kinds.is_ours(tenant_x):
        return Done()
    if super_x is None:
        await prove_gone(mirror.resource, key, session)
    return await remove(mirror.resource, key, tenant_x, session)


async def show(
    shape: Shape,
    key: Key,
    wanted: Object,
    tenant_x: Entry | None,
    session: Session,
) -> Verdict:
    """Create or update a tenant object.

    An object that cannot be updated is deleted and recreated.
    """
    resource = shape.resource
    if tenant_x is None:
        return await _create(resource, key, wanted, session)
    if not mirrored_kinds.is_ours(tenant_x):
        return await _leave(resource, tenant_x, session)
    if mirrored_kinds.is_shown(tenant_x.decode(), wanted, shape.fields):
        parked_writes.settled(key, parked_writes.TENANT, session)
    elif not is_left(key, wanted, tenant_x, session):
        return await _put(resource, key, wanted, tenant_x, session)
    return Done()


async def _put(
    resource: Resource, key: Key, wanted: Object, tenant_x: Entry, session: Session
) -> Verdict:
    own = tenant_x.decode()
    body = mirrored_kinds.replacement(own, wanted)
    try:
        written = await session.tenant_client.replace(
            resource, body, field_manager=wellknown.SYNCER
        )
    except errors.Invalid:
        if tenant_x.deleting:
            return Done()  # its end wakes this key, which recreates it
        return await remove(resource, key, tenant_x, session)
    _noted(key, written, session)
    _log.info("mirror.changed", name=key.name)
    await parked_writes.tried(
        Part(key, parked_writes.TENANT),
        body,
        before=own,
        answer=written,
        resource=resource,
        tenant_x=tenant_x,
        session=session,
    )
    return Done()


def is_left(key: Key, wanted: Object, tenant_x: Entry, session: Session) -> bool:
    """Return True if a shown object stays as it is because its write is parked."""
    own = tenant_x.decode()
    body = mirrored_kinds.replacement(own, wanted)
    return parked_writes.is_parked(Part(key, parked_writes.TENANT), body, own, session)


async def _create(resource: Resource, key: Key, wanted: Object, session: Session) -> Verdict:
    try:
        written = await session.tenant_client.create(
            resource, wanted, field_manager=wellknown.SYNCER
        )
    except errors.AlreadyExists:
        raise Wait("a tenant object of that name is there, the cache is behind") from None
    _noted(key, written, session)
    _log.info("mirror.shown", name=key.name)
    return Done()


async def _leave(resource: Resource, tenant_x: Entry, session: Session) -> Verdict:
    message = (
        f"metadata.name {tenant_x.name} is that of a {resource.kind} which this cluster offers; it"
        " is shown here once this one has gone (rule name-taken)"
    )
    await session.notices.tell(resource, tenant_x, reason=NAME_TAKEN, message=message)
    return Done()


def _noted(key: Key, written: Object, session: Session) -> None:
    session.expectations.wrote(Side.TENANT, key, written["metadata"]["resourceVersion"])
    session.fuse.wrote(key)


async def prove_gone(resource: Resource, key: Key, session: Session) -> None:
    """Raise Wait if the super object exists. Absence from a cache may be out of date."""
    try:
        await session.super_client.get(resource, key.name, metadata_only=True)
    except errors.NotFound:
        return
    raise Wait("the super object lives, the cache is behind", BEHIND_SECONDS)


async def remove(resource: Resource, key: Key, tenant_x: Entry, session: Session) -> Verdict:
    """Delete an object of the syncer from the tenant."""
    if tenant_x.deleting:
        return Done()  # its finalizers are the tenant's
    try:
        answer = await session.tenant_client.delete(resource, key.name, uid=tenant_x.uid)
    except errors.NotFound:
        return Done()
    version = "" if answer.get("kind") == "Status" else answer["metadata"]["resourceVersion"]
    session.expectations.deleted(Side.TENANT, key, tenant_x, version)
    session.fuse.wrote(key)
    _log.info("mirror.removed", name=key.name)
    return Done()
