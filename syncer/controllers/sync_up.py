"""Sync of a super object back to the tenant, by its row: the status, and a few other fields.

Owns the order of the writes. Must not know single kinds. Hazard: the values must come from the
super cluster, so that a forged status is overwritten. The upward part of a row must contain no spec
field that belongs to the tenant. Values of labels and annotations may name other tenants, and must
pass the sanitizer.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import rejection_events, reverted_edits
from syncer.model import object_meta
from syncer.model.keys import Key
from syncer.model.metadata import transparent_record
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules import status_ownership, transparent_metadata
from syncer.rules.registry import SyncDirection, SyncedKind
from syncer.rules.status_ownership import STATUS_OWNERS
from syncer.rules.transparent_metadata import MAX_VALUE_LENGTH, SuperKeys
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import TENANT_SIDE
from syncer.tenants.session import Session


class ObservedTenantObject(NamedTuple):
    """A tenant object as it was when a write was computed."""

    entry: Entry
    body: Object


STATUS = "status"
"""Subresource of a status."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def sync_up(
    kind: SyncedKind, key: Key, tenant_x: Entry, live: Object, session: Session
) -> None:
    """Write the differences to the tenant."""
    if kind.direction is not SyncDirection.DOWN_UP:
        return
    if not session.connection.is_status_cluster(session.name, key.kind, tenant_x):
        session.synced_states.forget(key)  # another super cluster writes the status meanwhile
        return
    own = tenant_x.decode()
    live = build_shown(kind, own, live, session)
    observed = ObservedTenantObject(tenant_x, own)
    body = kind.build_spec_up(own, live) if kind.build_spec_up is not None else None
    metadata = await build_metadata_up(kind, tenant_x, own, live, session)
    is_just_changed = await write_fields_up(kind, key, body, metadata, session, observed=observed)
    build = kind.build_status_up
    if build is None:
        return
    states, bare = session.synced_states, {**own, "status": {}}
    conditions = as_mappings(as_mapping(live.get("status")).get("conditions"))
    owner = kind.status_owner or STATUS_OWNERS[key.kind]
    types = status_ownership.list_synced_types(owner, conditions)
    body = build(own, live, states.get_condition_types(key))
    await write_status(
        kind,
        key,
        body,
        lambda: build(bare, live, ()) or {},
        session,
        observed=observed,
        types=types,
        is_just_changed=is_just_changed,
    )


def build_shown(kind: SyncedKind, own: Object, live: Mapping[str, Any], session: Session) -> Object:
    """Return a super object whose status is in the tenant's names."""
    if kind.show_status is None:
        return session.sanitizer.sanitize_status(live)
    return session.sanitizer.sanitize_ruled_status(kind.show_status(own, live))


async def build_metadata_up(
    kind: SyncedKind,
    tenant_x: Entry,
    own: Object,
    live: Mapping[str, Any],
    session: Session,
    *,
    node: str = "",
) -> Object | None:
    """Return the merge patch of a tenant object's metadata, or None if it is as it should be.

    `own` is the tenant object, decoded. `live` is its super object, or empty if there must be none.
    `node` is a node that the tenant may know.
    """
    super_metadata, passing = live.get("metadata") or {}, session.view.policy.metadata
    found = transparent_metadata.list_super_keys(kind.resource.kind, super_metadata, passing)
    if not any(found.values()) and not transparent_record.has_record(own["metadata"]):
        return None  # as for most objects
    shown = _sanitize_values(found, own["metadata"], super_metadata, session, node)
    change = transparent_metadata.build_change(own["metadata"], shown)
    await rejection_events.report_adjusted(kind, tenant_x, change.problems, session)
    return transparent_metadata.build_body(own, change)


def _sanitize_values(
    found: SuperKeys,
    metadata: Mapping[str, Any],
    super_metadata: Mapping[str, Any],
    session: Session,
    node: str,
) -> SuperKeys:
    """Return the keys with values in the tenant's names. Values that are too large stay as they
    are, because they are left out.
    """
    if not any(found.values()):
        return found
    uids = (super_metadata["uid"], metadata["uid"])
    pairs = object_meta.build_name_pairs(
        session.tenant, super_metadata["namespace"], metadata["namespace"], uids
    )

    def sanitize(value: str) -> str:
        if len(value) > MAX_VALUE_LENGTH:
            return value
        said = object_meta.replace_names(value, pairs)
        return session.sanitizer.sanitize_text(said, node=node)

    return {
        field: {key: sanitize(value) for key, value in keys.items()}
        for field, keys in found.items()
    }


async def write_fields_up(
    kind: SyncedKind,
    key: Key,
    body: Object | None,
    metadata: Object | None,
    session: Session,
    *,
    observed: ObservedTenantObject,
) -> bool:
    """Write fields of the spec, and labels and annotations, in one patch.

    Returns whether the object is as observed, with exactly this patch. If it refuses the metadata,
    the tenant's API gets the fields of the spec alone.
    """
    if body is None and metadata is None:
        session.parked.clear_if_converged(key, TENANT_SIDE)
        return False
    if metadata is not None:
        whole = {**(body or {}), **metadata}
        try:
            # Without a version nothing was written, or another writer has changed the object too.
            version = await write_tenant_object(kind, key, whole, session, observed=observed)
            restored = transparent_metadata.list_restored(observed.body["metadata"], metadata)
            if version and restored:
                await reverted_edits.report_restored_keys(
                    kind.resource, observed.entry, restored, session
                )
            return bool(version)
        except rejection_events.REFUSAL_ERRORS as problem:
            _log.info("tenant.metadata_refused", problem=str(problem))
    return body is not None and bool(
        await write_tenant_object(kind, key, body, session, observed=observed)
    )


async def write_status(
    kind: SyncedKind,
    key: Key,
    body: Object | None,
    build_wanted: Callable[[], Object],
    session: Session,
    *,
    observed: ObservedTenantObject,
    types: frozenset[str] = frozenset(),
    is_just_changed: bool = False,
) -> None:
    """Write the super cluster's part of a status, and report a reverted edit to the tenant.

    `body` is the merge patch, or None if that part does not differ. `build_wanted` returns the part
    as a whole. `types` are its condition types that no table lists. `is_just_changed` is as
    for `write_tenant_object`.
    """
    states, entry = session.synced_states, observed.entry
    if body is None:
        session.parked.clear_if_converged(key, TENANT_SIDE, STATUS)
        if not states.has(key, STATUS):
            states.record(key, build_wanted(), entry.resource_version, STATUS)
        states.record_condition_types(key, types)
        return
    wanted = build_wanted()
    is_edit = states.is_edit(key, wanted, entry, STATUS)
    # The answer may be lost, and the write may take effect nevertheless.
    states.record_condition_types(key, types | states.get_condition_types(key))
    version = await write_tenant_object(
        kind,
        key,
        body,
        session,
        subresource=STATUS,
        observed=observed,
        is_just_changed=is_just_changed,
    )
    if not version:
        return
    states.record(key, wanted, version, STATUS)
    states.record_condition_types(key, types)
    if is_edit:
        paths = reverted_edits.list_changed_paths(body, observed.body)
        await reverted_edits.report_reverted(kind.resource, entry, paths, session, is_status=True)


async def write_tenant_object(
    kind: SyncedKind,
    key: Key,
    body: Object,
    session: Session,
    *,
    subresource: str = "",
    observed: ObservedTenantObject | None = None,
    is_just_changed: bool = False,
) -> str:
    """Patch a tenant object. The UID in the body proves that it is the right one.

    A repeated write is parked, if the caller passes `observed`. Returns the resourceVersion of the
    answer if it is the observed object with exactly this patch. Otherwise the result is empty.
    `is_just_changed` is True if the syncer itself has changed the object since it was observed.
    Raises NotReadyYet if another writer has.

    Hazard: conditions may only be written to the observed version. A merge patch replaces the whole
    list, so a condition that another writer has just added would be lost.
    """
    scope, before = WriteScope(key, TENANT_SIDE, subresource), observed and observed.body
    if before is not None and session.parked.has(scope, body, before):
        return ""
    state = session.synced_states.forget_part(key, subresource)
    has_conditions = status_ownership.CONDITIONS in (body.get("status") or {})
    if has_conditions and observed is not None and not is_just_changed:
        version = observed.entry.resource_version
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
    try:
        return await session.writer.patch_tenant_object(
            scope, kind.resource, body, before=before, tenant_x=observed and observed.entry
        )
    except errors.Conflict as problem:
        session.synced_states.restore_part(key, state, subresource)
        raise NotReadyYet("the object has changed meanwhile", CACHE_BEHIND_SECONDS) from problem
