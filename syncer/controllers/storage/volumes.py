"""Reconciler of PersistentVolumes: shown from the super cluster, or the tenant's own synced.

Owns the writes of both, because they share a name in the tenant. Must not know the shown or allowed
fields. Hazards: a bound volume must be released before its deletion, because the tenant's own
controller keeps a bound one. A twin must be pinned to a claim. Otherwise any claim could bind it.
"""

import structlog

from kubeio import Object
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import rejection_events, reverted_edits, sync_down, sync_up
from syncer.controllers.cached_objects import ObjectPair
from syncer.controllers.mirrors import (
    delete_mirror,
    must_leave_unchanged,
    prove_absent,
    record_current,
    write_mirror,
)
from syncer.controllers.sync_up import ObservedTenantObject
from syncer.model import decide, mirrored_kinds
from syncer.model.decide import AwaitTwinEnd, DeleteTwin, ReportForeign
from syncer.model.keys import Key
from syncer.model.mirrored_kinds import ComparedShape
from syncer.model.rejections import RejectedError
from syncer.rules.registry import SyncDirection, SyncedKind, UpdateMethod
from syncer.rules.storage import claims, reclaim_policies, volumes
from syncer.rules.storage.reclaim_policies import ReclaimStep
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import SUPER_SIDE, TENANT_SIDE
from syncer.tenants.session import Session
from tenancy import names
from tenancy.resources import PERSISTENT_VOLUMES

VOLUME_KIND = SyncedKind(
    resource=PERSISTENT_VOLUMES, direction=SyncDirection.DOWN_UP, update_method=UpdateMethod.MERGE
)
"""Kind for reports about a volume. It has no row in the table, because its claim names the
owner.
"""

VOLUME_SHAPE = ComparedShape(PERSISTENT_VOLUMES, ("spec",))

POLICY_FIELD = "spec.storage.reclaimPolicies"
"""Field of the TenantPolicy that lists the reclaim policies that a tenant may set."""
RECLAIM_POLICY_CHANGED = "ReclaimPolicyChanged"
"""Reason of the Event about a volume whose data is no longer kept."""
_CHANGED_MESSAGE = (
    f"{reclaim_policies.PATH}: it was changed in the super cluster and is no longer"
    f" {reclaim_policies.RETAIN}. Set it again if the data must outlive the claim."
)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_volume(key: Key, session: Session) -> Result:
    """Reconcile one volume."""
    tenant_x = session.stores[key.kind].get("", key.name)
    twin = session.connection.home_cluster.volumes.get(
        "", names.build_volume_name(session.tenant.uid, key.name)
    )
    shown = session.connection.home_cluster.volumes.get("", key.name)
    super_x = twin if twin is not None else shown
    if session.twins.is_behind(key, tenant_x, super_x):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    own = tenant_x if tenant_x is not None and not mirrored_kinds.is_own_mirror(tenant_x) else None
    if own is not None or twin is not None:
        verdict = await _sync_volume_down(
            ObjectPair(key=key, tenant_x=own, super_x=twin, wanted=True), session
        )
        if not isinstance(verdict, Done):
            return verdict
    return await _sync_volume_up(key, tenant_x, session)


# --- to the tenant --------------------------------------------------------------------------------


async def _sync_volume_up(key: Key, tenant_x: Entry | None, session: Session) -> Result:
    """Show the volume of this name that a claim of the tenant is bound to, or was bound to."""
    super_x = session.connection.home_cluster.volumes.get("", key.name)
    claim = volumes.find_claim(super_x, tenant_x, session.view) if super_x is not None else None
    if super_x is None or claim is None:
        if tenant_x is None or not mirrored_kinds.is_own_mirror(tenant_x):
            return Done()
        if super_x is None:
            await prove_absent(PERSISTENT_VOLUMES, key, session)
        return await _delete_shown_volume(key, tenant_x, session)
    live, explained = super_x.decode(), frozenset[str]()
    if tenant_x is not None and mirrored_kinds.is_own_mirror(tenant_x):
        step = await _sync_reclaim_policy(key, tenant_x, live, session)
        if step is ReclaimStep.SYNC_DOWN:
            return Done()  # the new state of the super volume wakes this key
        if step is not ReclaimStep.NOTHING:
            explained = frozenset({reclaim_policies.PATH})
    wanted = volumes.build_shown_volume(live, claim)
    if tenant_x is None or not mirrored_kinds.is_mirror_current(
        tenant_x.decode(), wanted, VOLUME_SHAPE.fields
    ):
        # Its echo wakes this key again, and then the status is written.
        verdict = await write_mirror(
            VOLUME_SHAPE, key, wanted, tenant_x, session, explained=explained
        )
        if tenant_x is None or not mirrored_kinds.is_own_mirror(tenant_x):
            return verdict
        if not must_leave_unchanged(key, wanted, tenant_x, session):
            return verdict
    elif mirrored_kinds.is_own_mirror(tenant_x):
        record_current(key, wanted, tenant_x, session)
    if mirrored_kinds.is_own_mirror(tenant_x):
        await _write_phase(key, tenant_x, volumes.get_shown_phase(live, claim), session)
    return Done()


async def _sync_reclaim_policy(
    key: Key, tenant_x: Entry, live: Object, session: Session
) -> ReclaimStep:
    """Sync a reclaim policy that the tenant set, or report that it does not apply.

    Returns the step that was taken.
    """
    shown, allowed = tenant_x.decode(), session.view.policy.storage.reclaim_policies
    states = session.synced_states
    synced = states.get_reclaim_policy(key)
    step = reclaim_policies.decide_step(shown, live, allowed, synced)
    is_other = synced != reclaim_policies.get_reclaim_policy(live)
    if is_other or reclaim_policies.is_recorded(shown, live):
        # Otherwise a later change to the same value in the super cluster would be undone.
        states.forget_reclaim_policy(key)
    if step is ReclaimStep.REFUSE:
        await reverted_edits.report_policy_refused(
            PERSISTENT_VOLUMES, tenant_x, reclaim_policies.PATH, POLICY_FIELD, session
        )
    elif step is ReclaimStep.REPORT_CHANGE:
        await session.event_recorder.record(
            PERSISTENT_VOLUMES,
            tenant_x,
            reason=RECLAIM_POLICY_CHANGED,
            message=_CHANGED_MESSAGE,
            repeat_seconds=reverted_edits.REPEAT_SECONDS,
        )
    if step is not ReclaimStep.SYNC_DOWN:
        return step
    body, scope = reclaim_policies.build_patch(shown, live), WriteScope(key, SUPER_SIDE)
    if session.parked.has(scope, body, live):
        return ReclaimStep.NOTHING
    # The answer may be lost, and the write may take effect nevertheless.
    states.record_reclaim_policy(key, reclaim_policies.get_reclaim_policy(shown))
    try:
        await session.writer.patch_super_object(
            scope, PERSISTENT_VOLUMES, body, before=live, tenant_x=tenant_x
        )
    except rejection_events.REFUSAL_ERRORS as problem:
        await rejection_events.report_failed(VOLUME_KIND, tenant_x, problem, session)
        return ReclaimStep.REFUSE
    _log.info("super.reclaim_policy_changed", policy=reclaim_policies.get_reclaim_policy(shown))
    return step


async def _write_phase(key: Key, tenant_x: Entry, phase: str, session: Session) -> bool:
    own = tenant_x.decode()
    body = volumes.build_phase_patch(own, phase)
    observed = ObservedTenantObject(tenant_x, own)
    await sync_up.write_status(
        VOLUME_KIND, key, body, lambda: {"phase": phase}, session, observed=observed
    )
    return body is not None


async def _delete_shown_volume(key: Key, tenant_x: Entry, session: Session) -> Result:
    if volumes.get_phase(tenant_x.decode()) == "Bound":
        await _write_phase(key, tenant_x, "Released", session)
    return await delete_mirror(PERSISTENT_VOLUMES, key, tenant_x, session)


# --- to the super cluster -------------------------------------------------------------------------


async def _sync_volume_down(pair: ObjectPair, session: Session) -> Result:
    """Sync a volume that the tenant wrote, once a claim needs it."""
    own, twin = pair.tenant_x, pair.super_x
    claim = _get_claim(own, session) if own is not None else None
    action = decide.decide(
        own,
        session.twins.build_state(twin),
        vc_uid=session.tenant.uid,
        wanted=claim is not None,
    )
    if isinstance(action, DeleteTwin):
        target = sync_down.build_delete_target(
            VOLUME_KIND, pair.key, action.super_x, action.grounds
        )
        await session.proven_deletes.delete_proven(target)
        return Done()  # its end wakes this key
    if own is None:
        return Done()
    if own.deleting:
        if volumes.get_phase(own.decode()) == "Bound" and twin is None:
            await _write_phase(pair.key, own, "Released", session)
        return Done()
    if isinstance(action, ReportForeign):
        return await sync_down.report_name_taken(VOLUME_KIND, own, session)
    if isinstance(action, AwaitTwinEnd):
        raise NotReadyYet("the twin of an earlier volume is being deleted")
    if claim is None:
        return await _report_unclaimed(pair, own, session)
    return await _write_twin(pair, own, claim, session)


def _get_claim(own: Entry, session: Session) -> tuple[str, str] | None:
    """Return the tenant claim of a volume: the volume names it, or a claim names the volume."""
    found = volumes.get_claim_reference(own)
    if found is None:
        index = session.stores[claims.CLAIM].index(claims.BY_VOLUME_INDEX, own.name)
        found = min((entry.key for entry in index), default=None)
    if found is None or session.stores["Namespace"].get("", found[0]) is None:
        return None
    return found


async def _build_twin(
    own: Entry, claim: tuple[str, str] | None, space: Entry | None, session: Session
) -> Object | None:
    try:
        return volumes.build_volume(own.decode(), claim, space, session.view)
    except RejectedError as rejected:
        await rejection_events.report_rejected(VOLUME_KIND, own, rejected.problems, session)
        return None


async def _report_unclaimed(pair: ObjectPair, own: Entry, session: Session) -> Result:
    """Report the phase of a volume without claim, or its rejection."""
    if await _build_twin(own, None, None, session) is not None:
        await _write_phase(pair.key, own, "Available", session)
    return Done()


async def _write_twin(
    pair: ObjectPair, own: Entry, claim: tuple[str, str], session: Session
) -> Result:
    if await _build_twin(own, claim, None, session) is None:
        return Done()
    try:
        space = session.namespaces.get_ready(session.build_key(claims.CLAIM, *claim))
    except NotReadyYet:
        session.work.add_waiter(session.build_key("Namespace", "", claim[0]), pair.key)
        raise
    twin = await _build_twin(own, claim, space, session)
    if twin is None:
        return Done()
    if pair.super_x is None:
        return await sync_down.post_twin(VOLUME_KIND, pair.key, own, twin, session)
    live = pair.super_x.decode()
    body = volumes.build_patch(live, twin, own.decode())
    if body is None:
        session.parked.clear_if_converged(pair.key, SUPER_SIDE)
    elif await session.writer.update_twin(
        WriteScope(pair.key, SUPER_SIDE),
        PERSISTENT_VOLUMES,
        body,
        before=live,
        tenant_x=own,
        kind="merge",
    ):
        return Done()
    return await _write_binding(pair, own, live, claim, session)


async def _write_binding(
    pair: ObjectPair, own: Entry, live: Object, claim: tuple[str, str], session: Session
) -> Result:
    """Write the claim and phase of a volume to the tenant, as its own binder would."""
    tenant_claim = session.stores[claims.CLAIM].get(*claim)
    before = own.decode()
    body = volumes.build_claim_up(before, live, tenant_claim)
    if body is not None:
        await sync_up.write_tenant_object(
            VOLUME_KIND, pair.key, body, session, observed=ObservedTenantObject(own, before)
        )
    else:
        session.parked.clear_if_converged(pair.key, TENANT_SIDE)
    await _write_phase(pair.key, own, volumes.get_phase(live), session)
    return Done()
