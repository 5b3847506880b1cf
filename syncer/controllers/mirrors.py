"""Reconciler of mirrors: classes and drivers of the super cluster, as far as the policy allows.

Owns the writes for every row of `syncer.model.mirrored_kinds`. Owns `write_mirror` and
`delete_mirror`, also for other shown kinds. Must not know single kinds. Hazard: only objects with
the syncer's mark may be changed or deleted. A tenant may have its own object of the name, which
would be lost otherwise.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import reverted_edits
from syncer.controllers.cached_objects import NAME_TAKEN
from syncer.model import diff, mirrored_kinds
from syncer.model.keys import Key
from syncer.model.mirrored_kinds import ComparedShape
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import TENANT_SIDE
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
    if session.twins.is_behind(key, tenant_x, None):
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
    *,
    explained: frozenset[str] = frozenset(),
) -> Result:
    """Create or update a tenant object.

    An object that cannot be updated is deleted and recreated. `explained` are the paths whose
    difference was reported to the tenant already.
    """
    resource = shape.resource
    if tenant_x is None:
        return await _create_mirror(resource, key, wanted, session)
    if not mirrored_kinds.is_own_mirror(tenant_x):
        return await _delete_unselected(resource, tenant_x, session)
    if mirrored_kinds.is_mirror_current(tenant_x.decode(), wanted, shape.fields):
        record_current(key, wanted, tenant_x, session)
    elif not must_leave_unchanged(key, wanted, tenant_x, session):
        return await _replace_mirror(shape, key, wanted, tenant_x, session, explained=explained)
    return Done()


def record_current(key: Key, wanted: Object, tenant_x: Entry, session: Session) -> None:
    """Record that a shown object is as wanted."""
    session.parked.clear_if_converged(key, TENANT_SIDE)
    if not session.synced_states.has(key):
        session.synced_states.record(key, wanted, tenant_x.resource_version)


def _select_fields(own: Mapping[str, Any], shape: ComparedShape) -> Object:
    """Return the metadata and the compared fields of a tenant object. The rest is no edit."""
    return {key: own[key] for key in ("metadata", *shape.fields) if key in own}


async def _replace_mirror(
    shape: ComparedShape,
    key: Key,
    wanted: Object,
    tenant_x: Entry,
    session: Session,
    *,
    explained: frozenset[str],
) -> Result:
    resource = shape.resource
    own, states = tenant_x.decode(), session.synced_states
    body = mirrored_kinds.build_replacement(own, wanted)
    paths = reverted_edits.list_changed_paths(body, _select_fields(own, shape))
    unexplained = [path for path in paths if path not in explained]
    is_edit = states.is_edit(key, wanted, tenant_x) or await reverted_edits.was_edited(
        key, resource, tenant_x, unexplained, session
    )
    states.forget_part(key)
    try:
        written = await session.writer.replace_tenant_object(
            WriteScope(key, TENANT_SIDE), resource, body, before=own, tenant_x=tenant_x
        )
    except errors.Invalid:
        if tenant_x.deleting:
            return Done()  # its end wakes this key, which recreates it
        return await delete_mirror(resource, key, tenant_x, session)
    if written is None:
        return Done()
    _log.info("mirror.changed", name=key.name)
    if not diff.find_lacking(body, written):
        states.record(key, wanted, written["metadata"]["resourceVersion"])
        if is_edit and unexplained:
            await reverted_edits.report_reverted(resource, tenant_x, unexplained, session)
    return Done()


def must_leave_unchanged(key: Key, wanted: Object, tenant_x: Entry, session: Session) -> bool:
    """Return True if a shown object stays as it is because its write is parked."""
    own = tenant_x.decode()
    body = mirrored_kinds.build_replacement(own, wanted)
    return session.parked.has(WriteScope(key, TENANT_SIDE), body, own)


async def _create_mirror(resource: Resource, key: Key, wanted: Object, session: Session) -> Result:
    try:
        written = await session.writer.create_tenant_object(key, resource, wanted)
    except errors.AlreadyExists:
        raise NotReadyYet("a tenant object of that name exists, the cache is behind") from None
    _log.info("mirror.created", name=key.name)
    session.synced_states.record(key, wanted, written["metadata"]["resourceVersion"])
    await reverted_edits.report_recreated(key, resource, written, session)
    return Done()


async def _delete_unselected(resource: Resource, tenant_x: Entry, session: Session) -> Result:
    message = (
        f"metadata.name {tenant_x.name} is the name of a {resource.kind} which this cluster"
        " offers. Delete this object, and the offered one appears here (rule name-taken)."
    )
    await session.event_recorder.record(resource, tenant_x, reason=NAME_TAKEN, message=message)
    return Done()


async def prove_absent(resource: Resource, key: Key, session: Session) -> None:
    """Raise Wait if the super object exists. Absence from a cache may be out of date."""
    try:
        await session.super_client.get(resource, key.name, metadata_only=True)
    except errors.NotFound:
        return
    raise NotReadyYet("the super object exists, the cache is behind", CACHE_BEHIND_SECONDS)


async def delete_mirror(resource: Resource, key: Key, tenant_x: Entry, session: Session) -> Result:
    """Delete an object of the syncer from the tenant."""
    if tenant_x.deleting:
        return Done()  # its finalizers are the tenant's
    if await session.writer.delete_tenant_object(key, resource, tenant_x):
        _log.info("mirror.deleted", name=key.name)
    return Done()
