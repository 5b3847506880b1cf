"""Reconciler of pods: created in the super cluster, bound and synced back, and deleted in order.

Owns the writes of each step of `syncer.rules.pods.lifecycle`. Must not know how objects are built.
Hazard: a twin that is missing in the cache must be read live before the tenant pod is deleted or
marked lost. Otherwise a running pod would be reported lost.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import (
    adoption,
    cached_objects,
    rejection_events,
    sync_down,
    sync_up,
)
from syncer.controllers.cached_objects import ObjectPair
from syncer.controllers.nodes import drain, node_reconciler, target_node_reconciler
from syncer.controllers.pods import (
    assign_cluster,
    create,
    node_selection,
    pod_networks,
    reschedule,
    split_services,
    unreachable_target,
    update,
)
from syncer.controllers.sync_up import ObservedTenantObject
from syncer.model import decide
from syncer.model.decide import AwaitTwinEnd, DeleteGrounds, DeleteTwin, ReportForeign
from syncer.model.keys import Key, get_tenant_namespace
from syncer.rules import status_ownership
from syncer.rules.pods import lifecycle, pod_status
from syncer.rules.pods.lifecycle import PodStep, SuperPodState, TenantPodState
from syncer.rules.registry import SyncedKind
from syncer.rules.status_ownership import POD_OWNERSHIP
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.proven_deletes import DeleteTarget
from syncer.safety.quota_accounting import QuotaExceededError
from syncer.tenants.session import Session
from syncer.tenants.target_session import TargetSession
from tenancy.resources import PODS

SUPER_POD_DELETED = "SuperPodDeleted"
"""Reason of the Event about a pod that the super cluster deletes. The kubelet may not report it."""
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class ExistingPod(NamedTuple):
    """A tenant pod, decoded, without its twin."""

    kind: SyncedKind
    key: Key
    session: Session
    tenant_x: Entry
    pod: Object
    state: TenantPodState


class OwnTwin(NamedTuple):
    """The twin of a pod, decoded."""

    super_x: Entry
    twin: Object


async def reconcile_pod(kind: SyncedKind, key: Key, session: Session) -> Result:
    """Reconcile one pod."""
    pair = cached_objects.read_pair(kind, key, session)
    tenant_x, super_x = pair.tenant_x, pair.super_x
    if session.twins.is_behind(key, tenant_x, super_x):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    if tenant_x is not None and not session.scope.is_assigned_here(tenant_x):
        verdict = await assign_cluster.reconcile_assigned_elsewhere(kind, pair, tenant_x, session)
        if verdict is not None:
            return verdict
    is_own = (
        super_x is not None
        and tenant_x is not None
        and session.twins.is_twin(super_x, tenant_x.uid)
    )
    if tenant_x is None or not (super_x is None or tenant_x.deleting or is_own):
        return await _reconcile_unpaired(kind, pair, session)
    pod = tenant_x.decode()
    side = lifecycle.build_pod_state(
        pod,
        had_twin=session.lost_twins.is_bound_twin_lost(tenant_x.uid),
        was_taken=session.lost_twins.was_twin_deleting(tenant_x.uid),
    )
    both = ExistingPod(
        kind=kind,
        key=key,
        session=session,
        tenant_x=tenant_x,
        pod=assign_cluster.strip_target_constraints(pod, session),
        state=side,
    )
    if super_x is None or not is_own:
        return await _STEPS_WITHOUT_TWIN[lifecycle.decide_step(side, None)](both)
    twin = super_x.decode()
    step = lifecycle.decide_step(side, build_twin_state(twin, session))
    return await _STEPS_WITH_TWIN[step](both, OwnTwin(super_x, twin))


def build_twin_state(twin: Object, session: Session) -> SuperPodState:
    """Return the lifecycle facts of a super pod, with the tenant's name of its node."""
    side = lifecycle.build_twin_state(twin)
    return side._replace(node=session.scope.get_shown_node(side.node)) if side.node else side


async def _reconcile_unpaired(kind: SyncedKind, pair: ObjectPair, session: Session) -> Result:
    """Handle a super pod without tenant pod, or one that is foreign or another pod's twin."""
    action = decide.decide(
        pair.tenant_x,
        session.twins.build_state(pair.super_x, get_tenant_namespace(pair.key)),
        vc_uid=session.tenant.uid,
    )
    match action:
        case DeleteTwin():
            forced = session.proven_deletes.was_force_deleted(
                pair.key, _get_recorded_uid(action.super_x, session)
            )
            return await sync_down.delete_twin(
                kind,
                pair.key,
                action,
                pair.tenant_x if pair.wanted else None,
                session,
                grace_seconds=0 if forced else None,
            )
        case ReportForeign(tenant_x=tenant_x):
            return await sync_down.report_name_taken(kind, tenant_x, session)
        case AwaitTwinEnd():
            raise NotReadyYet("the twin of an earlier pod is being deleted")
    await adoption.find_vanished_twin(kind, pair.key, session)
    return Done()


def _get_recorded_uid(super_x: Entry, session: Session) -> str:
    """Return the UID of the tenant pod that a super pod records."""
    side = session.twins.build_state(super_x)
    return side.uid if side is not None else ""


# --- the steps ------------------------------------------------------------------------------------


async def _do_nothing(both: ExistingPod) -> Result:
    await adoption.find_vanished_twin(both.kind, both.key, both.session)
    return await drain.evict_from_target(both.tenant_x, both.state, both.session)  # still assigned


async def _create_twin(both: ExistingPod) -> Result:
    if lifecycle.has_scheduling_gates(both.pod):
        return Done()
    assign_cluster.check_may_create(both.tenant_x, both.session)
    try:
        return await create.create_pod_twin(
            both.kind, both.key, both.tenant_x, both.pod, both.session
        )
    except QuotaExceededError:
        raise  # no other super cluster has room either
    except errors.KubeError as problem:
        reschedule.record_failed_create(problem, both.tenant_x, both.session)
        raise


async def _wait_for_twin_end(_: ExistingPod, __: OwnTwin) -> Result:
    raise NotReadyYet("the twin is being deleted, a new one follows")


async def _sync_running(both: ExistingPod, own: OwnTwin) -> Result:
    (super_x, twin), session = own, both.session
    kind, key, tenant_x = both.kind, both.key, both.tenant_x
    problem: errors.ApiError | NotReadyYet | None = None
    node = twin["spec"].get("nodeName") or ""
    is_bound_now = False
    waits = not (node or both.state.deleting or lifecycle.is_finished(twin))
    if waits and (
        await node_selection.reject_by_node(
            kind, key, both.pod, twin, session, tenant_x=tenant_x, super_x=super_x
        )
        or await node_selection.recreate_outdated(
            key, both.pod, twin, session, tenant_x=tenant_x, super_x=super_x
        )
    ):
        return Done()
    if waits:
        reschedule.watch_unschedulable(both.tenant_x, twin, session)
    if not both.state.deleting:
        is_bound_now = bool(node) and not both.state.node
        if is_bound_now:
            await _bind_pod(both, node)
            both = both._replace(pod=_build_bound_pod(both.pod, node))
        twin, problem = await update.sync_pod_down(
            kind, key, both.pod, twin, session, tenant_x=tenant_x, super_x=super_x
        )
    is_just_changed = is_bound_now
    if not (is_bound_now or both.state.deleting):
        is_just_changed = await _sync_metadata_up(both, twin, session)
    if not (is_bound_now and pod_status.says_only_scheduled(twin)):
        await _sync_status_up(both, twin, session, is_just_changed=is_just_changed)
    await create.enqueue_missing_needs(both.pod, twin, session)
    if isinstance(problem, NotReadyYet):
        raise problem
    await rejection_events.report_refusal(both.kind, both.tenant_x, problem, session)
    if is_bound_now:
        await split_services.report_split_services(both.tenant_x, session)
    return await drain.evict_from_target(both.tenant_x, both.state, session)


async def _sync_metadata_up(both: ExistingPod, twin: Object, session: Session) -> bool:
    """Write labels and annotations of the twin. Returns True if only that changed the pod."""
    body = await sync_up.build_metadata_up(
        both.kind,
        both.tenant_x,
        both.pod,
        twin,
        session,
        node=session.scope.get_status_node(twin["spec"].get("nodeName") or ""),
    )
    seen = ObservedTenantObject(both.tenant_x, both.pod)
    return await sync_up.write_fields_up(both.kind, both.key, None, body, session, observed=seen)


async def _bind_pod(both: ExistingPod, node: str) -> None:
    """Bind the tenant pod, after its node exists."""
    if both.session.is_home:
        await node_reconciler.ensure_node(node, both.key, both.session)
    else:
        await target_node_reconciler.ensure_target_node(both.key, both.session)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": both.key.name,
            "namespace": both.key.namespace,
            "uid": both.tenant_x.uid,
        },
        "target": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": both.session.scope.get_shown_node(node),
        },
    }
    await both.session.writer.bind_pod(both.key, PODS, binding, both.tenant_x)
    _log.debug("tenant.bound", node=node)


def _build_bound_pod(pod: Object, node: str) -> Object:
    """Return a tenant pod after its binding, without the effect on the status."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def build_status_patch(pod: Object, twin: Object, key: Key, session: Session) -> Object | None:
    """Return the merge patch of a tenant pod's status, or None if it equals the twin's."""
    types = session.synced_states.get_condition_types(key)
    return pod_status.build_patch_to(pod, _build_shown_status(pod, twin, session), types)


def _build_shown_status(pod: Object, twin: Object, session: Session) -> Object:
    """Return the part of a tenant pod's status that its twin determines."""
    # If the real nodes are not shown, the tenant knows none of their names.
    node = session.scope.get_status_node(twin["spec"].get("nodeName") or "")
    return pod_status.build_shown_status(
        pod,
        session.sanitizer.sanitize_status(twin, node=node),
        pod_status.build_name_pairs(pod, twin, session.tenant),
        hidden=pod_status.list_hidden_status_fields(session.view.policy),
    )


async def _sync_status_up(
    both: ExistingPod, twin: Object, session: Session, *, is_just_changed: bool = False
) -> None:
    if await pod_networks.sync_network_status(both.kind, both.key, both.tenant_x, twin, session):
        is_just_changed = True
    shown = _build_shown_status(both.pod, twin, session)
    types = session.synced_states.get_condition_types(both.key)
    body = pod_status.build_patch_to(both.pod, shown, types)
    seen = ObservedTenantObject(both.tenant_x, both.pod)
    try:
        await sync_up.write_status(
            both.kind,
            both.key,
            body,
            lambda: shown,
            session,
            observed=seen,
            types=status_ownership.list_synced_types(POD_OWNERSHIP, shown["conditions"]),
            is_just_changed=is_just_changed,
        )
    except errors.Invalid:
        if body is None:
            raise
        rest = pod_status.strip_container_statuses(body)
        if rest is None:
            _log.info("tenant.status_refused")
        else:
            await sync_up.write_tenant_object(
                both.kind, both.key, rest, session, subresource="status", observed=seen
            )


async def _delete_twin(both: ExistingPod, own: OwnTwin) -> Result:
    await both.session.proven_deletes.delete_proven(
        DeleteTarget(key=both.key, resource=PODS, entry=own.super_x, grounds=DeleteGrounds.MARKED),
        grace_seconds=lifecycle.compute_twin_grace(both.state),
    )
    return Done()  # the twin's status until its end comes with its events


async def _evict_tenant_pod(both: ExistingPod, own: OwnTwin) -> Result:
    """Report a deletion by the super cluster, and delete the tenant pod with the same grace."""
    await _sync_status_up(both, own.twin, both.session)
    await _delete_with_grace(both, own.super_x, lifecycle.build_twin_state(own.twin).grace_seconds)
    return Done()


async def _handle_twin_deleted(both: ExistingPod) -> Result:
    """Delete a tenant pod without grace period, because its super pod has already vanished."""
    await _prove_twin_absent(both)
    await _delete_with_grace(both, None, 0)
    return Done()


async def _delete_with_grace(
    both: ExistingPod, super_x: Entry | None, grace_seconds: int | None
) -> None:
    ending = (
        "Its controller creates a replacement."
        if both.state.has_controller
        else "It has no controller that replaces it."
    )
    message = f"The super cluster deletes this pod, for example in a node drain. {ending}"
    await both.session.event_recorder.record(
        PODS, both.tenant_x, reason=SUPER_POD_DELETED, message=message
    )
    await _delete_tenant_pod(both, super_x, grace_seconds=grace_seconds)
    _log.info("tenant.evicted", grace=grace_seconds)


async def _finish_deletion(both: ExistingPod) -> Result:
    if not both.session.lost_twins.was_twin_end_observed(both.tenant_x.uid):
        await _prove_twin_absent(both)
    await _delete_tenant_pod(both, None, grace_seconds=0)
    return Done()


async def _mark_lost(both: ExistingPod) -> Result:
    await _prove_twin_absent(both)
    await sync_up.write_tenant_object(
        both.kind,
        both.key,
        pod_status.build_lost_patch(both.pod),
        both.session,
        subresource="status",
    )
    _log.warning("tenant.lost")
    return Done()


async def _delete_lost_pod(both: ExistingPod) -> Result:
    await _delete_tenant_pod(both, None, grace_seconds=0)
    return Done()


async def _report_misplaced(both: ExistingPod, own: OwnTwin) -> Result:
    message = (
        f"spec.nodeName {both.state.node} is not the node that runs the pod. The pod is deleted."
    )
    await both.session.event_recorder.record(
        PODS, both.tenant_x, reason="NodeMismatch", message=message
    )
    await _delete_tenant_pod(both, own.super_x, grace_seconds=None)
    return Done()


async def _prove_twin_absent(both: ExistingPod) -> None:
    """Read the twin live. Raises Wait if it exists, or while conclusions are held."""
    session = both.session
    if isinstance(session, TargetSession):
        await unreachable_target.report_delete_in_doubt(both.tenant_x, session)
    session.scope.check_losses_not_held()  # before thousands of live reads
    try:
        live = await both.session.super_client.get(
            PODS,
            both.key.name,
            namespace=both.session.view.get_super_namespace(both.key.namespace),
            metadata_only=True,
        )
    except errors.NotFound:
        await session.scope.prove_missing(time.monotonic())  # after the read
        return
    if decide.is_owned(live["metadata"], both.session.tenant, both.tenant_x.uid):
        await adoption.restore_labels(both.kind, live["metadata"], both.session)
        raise NotReadyYet("the twin exists, the cache is behind", CACHE_BEHIND_SECONDS)


async def _delete_tenant_pod(
    both: ExistingPod, super_x: Entry | None, *, grace_seconds: int | None
) -> None:
    """Delete the tenant pod. Raises Wait if it has a new twin since the decision.

    Requests were sent meanwhile, and another writer may have created a twin. That twin is synced.
    """
    twin = cached_objects.read_pair(both.kind, both.key, both.session).super_x
    is_known = twin is None or (super_x is not None and super_x.uid == twin.uid)
    if not is_known and both.session.twins.is_twin(twin, both.tenant_x.uid):
        raise NotReadyYet("the twin was replaced", CACHE_BEHIND_SECONDS)
    await both.session.writer.delete_tenant_object(
        both.key, PODS, both.tenant_x, grace_seconds=grace_seconds, is_counted=False
    )


_STEPS_WITHOUT_TWIN: Mapping[PodStep, Callable[[ExistingPod], Awaitable[Result]]] = {
    PodStep.NOTHING: _do_nothing,
    PodStep.CREATE: _create_twin,
    PodStep.FINISH: _finish_deletion,
    PodStep.DELETED_IN_SUPER: _handle_twin_deleted,
    PodStep.LOST: _mark_lost,
    PodStep.DELETE_LOST: _delete_lost_pod,
}
_STEPS_WITH_TWIN: Mapping[PodStep, Callable[[ExistingPod, OwnTwin], Awaitable[Result]]] = {
    PodStep.SYNC: _sync_running,
    PodStep.DELETE_TWIN: _delete_twin,
    PodStep.EVICT: _evict_tenant_pod,
    PodStep.MISPLACED: _report_misplaced,
    PodStep.WAIT: _wait_for_twin_end,
}
