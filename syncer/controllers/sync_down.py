"""Reconciler of plain kinds: from the tenant to the super cluster, by their row in the table.

Owns the order of writes for every row. Must not know single kinds. It reads the caches, calls
`decide`, and writes narrowly: POST to create, the row's method to update,
`syncer.safety.proven_deletes` to delete. Hazard: after a refused create, the live object must be
read and its owner compared before any report. An earlier create of the syncer may have succeeded.
"""

from typing import assert_never

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import (
    adoption,
    cached_objects,
    live_reads,
    rejection_events,
    sync_up,
)
from syncer.model import decide, rejections
from syncer.model.decide import (
    AwaitTwinEnd,
    CompareTwin,
    CreateTwin,
    DeleteGrounds,
    DeleteTwin,
    NoAction,
    ReportForeign,
)
from syncer.model.keys import Key, get_tenant_namespace
from syncer.model.references import ObjectReference
from syncer.model.rejections import (
    MALFORMED_OBJECT_ERRORS,
    ForbiddenObjectError,
    RejectedError,
    build_malformed_rejection,
)
from syncer.rules.configuration import cache_transforms
from syncer.rules.registry import SyncedKind, UpdateMethod
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import SUPER_SIDE
from syncer.safety.proven_deletes import DeleteTarget
from syncer.tenants.session import Session

ATTEMPTS_BEFORE_EVENT = 4
"""Number of attempts before the tenant is informed of a full ResourceQuota. The controller of the
super cluster releases deleted objects with a delay."""
RECONCILED = Done()
SOURCE_MISSING = "DataSourceMissing"
SOURCE_RETRY_SECONDS = 60.0
"""Retry interval in seconds for a missing source, if no event wakes the object before."""
WAITING_FOR_DELETION = "WaitingForDeletion"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(kind: SyncedKind, key: Key, session: Session) -> Result:
    """Reconcile one key."""
    pair = cached_objects.read_pair(kind, key, session)
    if session.twins.is_behind(key, pair.tenant_x, pair.super_x):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    action = decide.decide(
        pair.tenant_x,
        session.twins.build_state(pair.super_x, get_tenant_namespace(key)),
        vc_uid=session.tenant.uid,
        wanted=pair.wanted,
        follows_mark=kind.deletes_with_mark,
    )
    match action:
        case NoAction():
            await adoption.find_vanished_twin(kind, key, session)
            return Done()
        case CreateTwin(tenant_x=tenant_x):
            return await _create_twin(kind, key, tenant_x, session)
        case CompareTwin(tenant_x=tenant_x, super_x=super_x):
            return await _compare_and_update(kind, key, tenant_x, super_x, session)
        case DeleteTwin():
            waiting = pair.tenant_x if pair.wanted else None
            return await delete_twin(kind, key, action, waiting, session)
        case AwaitTwinEnd(tenant_x=tenant_x):
            raise await _report_waiting(kind, tenant_x, session)
        case ReportForeign(tenant_x=tenant_x):
            return await report_name_taken(kind, tenant_x, session)
        case _:
            assert_never(action)


async def _create_twin(kind: SyncedKind, key: Key, tenant_x: Entry, session: Session) -> Result:
    """Build and create the twin."""
    if kind.resource.namespaced:
        session.namespaces.get_ready(key)
    session.quota.check_not_waiting(key)  # before the object is fetched
    if kind.reduce is not None:
        tenant_x = await live_reads.fetch_tenant_object(kind.resource, tenant_x, session)
    twin = await build_twin(kind, key, tenant_x, None, session)
    if twin is None:
        return Done()
    return await post_twin(kind, key, tenant_x, twin, session)


async def build_twin(
    kind: SyncedKind, key: Key, tenant_x: Entry, super_x: Entry | None, session: Session
) -> Object | None:
    """Return the twin, or None after reporting the rejection to the tenant.

    Raises Wait if a vanished twin still exists.
    """
    try:
        twin = _build_from_row(kind, tenant_x, session)
    except RejectedError as rejected:
        await adoption.find_vanished_twin(kind, key, session)  # no create will find it
        await rejection_events.report_rejected(kind, tenant_x, rejected.problems, session)
        if isinstance(rejected, ForbiddenObjectError):
            await _delete_forbidden(kind, key, tenant_x, super_x, session)
        return None
    if kind.find_adjustments is not None:
        adjusted = kind.find_adjustments(tenant_x.decode(), session.view)
        await rejection_events.report_adjusted(kind, tenant_x, adjusted, session)
    return twin


def _build_from_row(kind: SyncedKind, tenant_x: Entry, session: Session) -> Object:
    try:
        return kind.build(tenant_x.decode(), session.view)
    except MALFORMED_OBJECT_ERRORS as stumble:  # etcd may hold objects that no API server accepts
        raise build_malformed_rejection(stumble) from stumble


async def _delete_forbidden(
    kind: SyncedKind, key: Key, tenant_x: Entry, super_x: Entry | None, session: Session
) -> None:
    """Sync an empty status back for a refused object, and delete its twin.

    The state of the super cluster must not depend on what the object was before the refusal. The
    status is first, because only the twin shows that the status is the super cluster's. Without a
    twin a controller in the tenant may own it.
    """
    has_twin = super_x is not None and session.twins.is_twin(super_x, tenant_x.uid)
    if has_twin or session.synced_states.has(key, sync_up.STATUS):
        await sync_up.sync_up(kind, key, tenant_x, {}, session)
    if super_x is not None and has_twin and not super_x.deleting:
        await session.proven_deletes.delete_proven(
            build_delete_target(kind, key, super_x, DeleteGrounds.UNWANTED)
        )
    elif not has_twin:
        session.synced_states.forget(key)


def build_delete_target(
    kind: SyncedKind, key: Key, super_x: Entry, grounds: DeleteGrounds
) -> DeleteTarget:
    """Return the twin of a key as a deletion target."""
    return DeleteTarget(
        key=key,
        resource=kind.resource,
        entry=super_x,
        grounds=grounds,
        is_hidden=kind.is_hidden,
    )


async def post_twin(
    kind: SyncedKind, key: Key, tenant_x: Entry, twin: Object, session: Session
) -> Result:
    """Create the twin. If the name is taken, its object is read live."""
    try:
        incomplete = await session.writer.create_twin(key, kind.resource, twin, tenant_x)
    except errors.AlreadyExists:
        return await resolve_name_conflict(kind, tenant_x, twin, session)
    except rejection_events.REFUSAL_ERRORS as problem:
        if problem.has_cause("NamespaceTerminating"):
            raise NotReadyYet("the super namespace is being deleted") from problem
        if (
            rejection_events.is_own_quota(problem)
            and session.queue.count_requeues(key) < ATTEMPTS_BEFORE_EVENT
        ):
            raise NotReadyYet("the super cluster has not released deleted objects") from problem
        broken = rejections.parse_pod_security(problem.server_message)
        if broken is not None:
            await rejection_events.report_rejected(kind, tenant_x, (broken,), session)
            return RequeueAfter(
                cached_objects.FOREIGN_RETRY_SECONDS
            )  # a level that just changed may not be in effect yet
        if not kind.is_expected(problem):
            await rejection_events.report_failed(kind, tenant_x, problem, session, twin=twin)
        raise
    if incomplete is not None:
        await rejection_events.report_dropped_fields(kind, tenant_x, twin, incomplete, session)
    return Done()


async def resolve_name_conflict(
    kind: SyncedKind, tenant_x: Entry, twin: Object, session: Session
) -> Result:
    """Read the object with a taken name.

    It is an earlier create, an earlier object's twin, or foreign.

    Raises NotFound if the name is not taken.
    """
    metadata = twin["metadata"]
    live = await session.super_client.get(
        kind.resource,
        metadata["name"],
        namespace=metadata.get("namespace", ""),
        metadata_only=True,
    )
    if not session.tenant.owns(live["metadata"]):
        return await report_name_taken(kind, tenant_x, session)
    await adoption.restore_labels(kind, live["metadata"], session)
    raise NotReadyYet(
        "a super object of that name exists, the cache is behind", CACHE_BEHIND_SECONDS
    )


async def report_name_taken(kind: SyncedKind, tenant_x: Entry, session: Session) -> Result:
    """Report to the tenant that a name is taken. Foreign objects are never changed."""
    message = (
        f"metadata.name {tenant_x.name} is used by an object of another owner. Choose another name"
        " (rule name-taken)."
    )
    await session.event_recorder.record(
        kind.resource, tenant_x, reason=cached_objects.NAME_TAKEN, message=message
    )
    return RequeueAfter(cached_objects.FOREIGN_RETRY_SECONDS)


async def _report_waiting(kind: SyncedKind, tenant_x: Entry, session: Session) -> NotReadyYet:
    """Report that an earlier twin is still being deleted. Returns the exception to raise."""
    if kind.reports_wait:
        message = (
            "The earlier object of this name is still being deleted. The new one is synced"
            " afterwards."
        )
        await session.event_recorder.record(
            kind.resource,
            tenant_x,
            reason=WAITING_FOR_DELETION,
            message=message,
            kind="Normal",
        )
    return NotReadyYet("the twin of an earlier object is being deleted")


async def delete_twin(
    kind: SyncedKind,
    key: Key,
    action: DeleteTwin,
    waiting: Entry | None,
    session: Session,
    *,
    grace_seconds: int | None = None,
) -> Result:
    """Delete a twin if that is proved and no super pod still uses it.

    `waiting` is the tenant object that needs the name. Raises Wait if the twin was an earlier
    object's.
    """
    if action.grounds is DeleteGrounds.UNWANTED and kind.has_grace_period:
        return await _delete_unneeded(kind, key, action.super_x, session)
    await session.proven_deletes.delete_proven(
        build_delete_target(kind, key, action.super_x, action.grounds),
        grace_seconds=grace_seconds,
    )
    if waiting is not None and action.grounds is DeleteGrounds.SUCCEEDED:
        raise await _report_waiting(kind, waiting, session)
    return Done()


async def _delete_unneeded(kind: SyncedKind, key: Key, super_x: Entry, session: Session) -> Result:
    ref = ObjectReference(kind.resource.kind, super_x.name)
    if session.twins.is_named_by_pod(ref, super_x.namespace):
        return Done()  # the end of the super pod wakes this key
    left = session.grace_timers.get_remaining_grace(key)
    if left > 0:
        return RequeueAfter(left)
    with session.twins.mark_leaving(key, super_x):
        await session.proven_deletes.delete_proven(
            build_delete_target(kind, key, super_x, DeleteGrounds.UNWANTED),
            is_still=lambda: not cached_objects.read_pair(kind, key, session).wanted,
        )
    return Done()


async def _compare_and_update(
    kind: SyncedKind, key: Key, tenant_x: Entry, super_x: Entry, session: Session
) -> Result:
    session.grace_timers.clear_unused(key)
    twin = await build_twin(kind, key, tenant_x, super_x, session)
    if twin is None:
        return Done()  # rejected: what was accepted before stays
    live = super_x.decode()
    if cache_transforms.is_any_outline(live, twin) and kind.change(live, twin):
        if kind.reduce is not None:
            tenant_x = await live_reads.fetch_tenant_object(kind.resource, tenant_x, session)
            super_x = await live_reads.fetch_super_object(kind.resource, super_x, session)
        twin, live = (
            await build_twin(kind, key, tenant_x, super_x, session),
            super_x.decode(),
        )
        if twin is None:
            return Done()
    if kind.is_fixed(live, twin):
        await session.proven_deletes.delete_unless_parked(
            WriteScope(key, SUPER_SIDE),
            build_delete_target(kind, key, super_x, DeleteGrounds.UNWANTED),
            twin,
            before=live,
            tenant_x=tenant_x,
        )
        return Done()  # its end wakes the key
    refusal: errors.ApiError | None = None
    try:
        is_changed = await update_twin(kind, key, tenant_x, session, live=live, twin=twin)
    except rejection_events.REFUSAL_ERRORS as problem:
        refusal, is_changed = problem, False
    if not is_changed:
        await sync_up.sync_up(kind, key, tenant_x, live, session)
    await rejection_events.report_refusal(kind, tenant_x, refusal, session, twin=twin)
    return Done()  # a change wakes the key, and `live` is out of date


async def update_twin(
    kind: SyncedKind, key: Key, tenant_x: Entry, session: Session, *, live: Object, twin: Object
) -> bool:
    """Write the differences to the twin. Returns True if there were any."""
    body = kind.change(live, twin)
    if body is None:
        session.parked.clear_if_converged(key, SUPER_SIDE)
        return False
    written = await session.writer.update_twin(
        WriteScope(key, SUPER_SIDE),
        kind.resource,
        body,
        before=live,
        tenant_x=tenant_x,
        kind=None if kind.update_method is UpdateMethod.REPLACE else "merge",
    )
    return written is not None
