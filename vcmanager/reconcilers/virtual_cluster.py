"""Reconcile of one VirtualCluster: run its phases or delete it, and write its status.

Owns the only write of the status, and the delay until the next reconcile. The phases are in
`virtual_cluster_phases`. Must not know kopf.
"""

import contextlib

import structlog

from kubeio import Object, errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from tenancy import conditions, deletion, wellknown
from tenancy.names import InvalidNameError
from tenancy.ownership import Tenant
from tenancy.resources import VIRTUAL_CLUSTERS
from tenancy.specs import InvalidSpecError, parse_virtual_cluster
from vcmanager.phases import metrics_server
from vcmanager.phases.waves import control_plane_change
from vcmanager.reconcilers import (
    deletion_protection,
    orphan_sweep,
    virtual_cluster_deletion,
)
from vcmanager.reconcilers.lifetime import scheduled_times
from vcmanager.reconcilers.phase_run import (
    UNREADY_RETRY_SECONDS,
    PhaseDone,
    PhaseRun,
    PhaseStalled,
    run_phases,
)
from vcmanager.reconcilers.virtual_cluster_phases import PHASES
from vcmanager.runtime import status as statuses
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.runtime.status import ReconcileStatus

_UNEXPECTED_SHAPE_ERRORS = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""Exceptions that a template of an unexpected shape causes."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_virtual_cluster(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Reconcile one VirtualCluster."""
    try:
        body = await means.super_client.get(VIRTUAL_CLUSTERS, key.name, namespace=key.namespace)
    except errors.NotFound:
        return Done()
    body = {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": VIRTUAL_CLUSTERS.kind, **body}
    report = ReconcileStatus(
        generation=body["metadata"].get("generation", 0),
        now=conditions.format_time(means.now()),
    )
    act = _reconcile_deleted if "deletionTimestamp" in body["metadata"] else _reconcile_existing
    try:
        return await act(means, body, report)
    except errors.Conflict:
        raise  # another writer was faster: the next try reads its change
    except errors.KubeError as problem:
        unreachable = isinstance(problem, errors.Unavailable) and not isinstance(
            problem, errors.ApiError
        )
        reason = "SuperClusterUnavailable" if unreachable else "SuperClusterRefuses"
        await _report_failure(means, body, report, reason, str(problem))
        raise
    except _UNEXPECTED_SHAPE_ERRORS as problem:
        message = (
            "The template cannot be used: the VirtualCluster or its ClusterVersion has an"
            f" unsupported structure ({type(problem).__name__}). The log of vc-manager has the"
            " details."
        )
        await _report_failure(means, body, report, "InternalError", message)
        raise


async def _report_failure(
    means: ReconcileContext, body: Object, report: ReconcileStatus, reason: str, message: str
) -> None:
    """Write a failure to the status, for users without access to the log."""
    old = body.get("status") or {}
    report.carry_over(old)
    report.failing_conditions.add(wellknown.READY)
    is_deleting = "deletionTimestamp" in body["metadata"]
    report.summarize(blocked=(reason, message), is_stalled=False, is_deleting=is_deleting)
    with contextlib.suppress(errors.KubeError):
        await _write_status(means, body, report)


async def _reconcile_existing(
    means: ReconcileContext, body: Object, report: ReconcileStatus
) -> Result:
    await deletion_protection.reconcile_namespace_protection(
        means,
        body,
        protects=deletion.is_protected(body["metadata"].get("labels") or {}),
    )
    if await scheduled_times.schedule_expired(means, body, report):
        return RequeueAfter(0.0)  # the annotation that was written is read then
    pause = scheduled_times.get_pause(body, means.now())
    if pause is not None:
        report.carry_over_all(body.get("status") or {})
        report.set_condition(wellknown.PAUSED, "True", "PausedUntil", pause.message)
        report.set_condition(wellknown.READY, "False", wellknown.PAUSED, pause.message)
        await _write_status(means, body, report)
        return scheduled_times.limit_requeue(RequeueAfter(pause.seconds), body, means.now())
    scheduled_times.report_long_pause(body, means.now(), report)
    result = await _run_all_phases(means, body, report)
    return scheduled_times.limit_requeue(result, body, means.now())


async def _run_all_phases(
    means: ReconcileContext, body: Object, report: ReconcileStatus
) -> RequeueAfter:
    run = PhaseRun(means, body, report)
    result = await run_phases(run, PHASES)
    if not isinstance(result, PhaseDone) and result.condition != wellknown.READY:
        report.set_condition(
            result.condition,
            "False",
            result.reason,
            result.message,
            is_failure=isinstance(result, PhaseStalled),
        )
    if not isinstance(result, PhaseDone):
        report.carry_over(body.get("status") or {}, statuses.ACCESS_CONDITIONS)
    if isinstance(result, PhaseDone) or result.reason != wellknown.ASLEEP:
        await run.set_component_conditions()  # an asleep tenant has no component
    report.summarize(
        blocked=None if isinstance(result, PhaseDone) else (result.reason, result.message),
        is_stalled=isinstance(result, PhaseStalled),
        is_deleting=False,
        old=body.get("status") or {},
    )
    await _write_status(means, body, report)
    if isinstance(result, PhaseDone) and run.is_planned:
        await control_plane_change.finish_change(
            means, run.plan_input, run.change, is_ready=report.is_true(wellknown.READY)
        )
    if run.tenant_client is not None:
        await scheduled_times.announce_expiry(means, run.tenant_client, body)
    if not isinstance(result, PhaseDone):
        return RequeueAfter(result.retry_after)
    if not report.is_settled:
        return RequeueAfter(UNREADY_RETRY_SECONDS)
    delay = run.get_requeue_delay()
    return RequeueAfter(delay if report.is_complete else min(delay, metrics_server.RETRY_SECONDS))


async def _reconcile_deleted(
    means: ReconcileContext, body: Object, report: ReconcileStatus
) -> Result:
    tenant = _parse_tenant(body)
    try:
        await virtual_cluster_deletion.delete_tenant(means, body, tenant)
    except PhaseBlocked as held:
        report.summarize(blocked=(held.reason, held.message), is_stalled=False, is_deleting=True)
        await _write_status(means, body, report)
        return RequeueAfter(held.retry_after or UNREADY_RETRY_SECONDS)
    await deletion_protection.reconcile_namespace_protection(means, body, protects=False)
    if tenant is not None:
        means.expiries.remove_owner(tenant.uid)
        means.stores.remove(tenant.uid)
        means.shared_versions.pop(tenant.uid, None)
        for kind in (wellknown.SYNCED, wellknown.DELETES_HELD):
            means.sync_states.pop((tenant.uid, kind), None)
        orphan_sweep.schedule_sweep(means, body, tenant)
    version = (body.get("spec") or {}).get("clusterVersionName")
    if version:
        means.enqueue(ReconcileKey("ClusterVersion", "", version))
    _log.info("tenant.deleted")
    return Done()


def _parse_tenant(body: Object) -> Tenant | None:
    """Return the tenant of a VirtualCluster, even if its spec or status is invalid."""
    named = {**body, "spec": {"clusterVersionName": "-"}, "status": {}}
    try:
        return parse_virtual_cluster(named).tenant
    except (InvalidNameError, InvalidSpecError):
        return None


async def _write_status(means: ReconcileContext, body: Object, report: ReconcileStatus) -> None:
    old = body.get("status") or {}
    document = report.build_status(old)
    if statuses.is_status_current(document, old):
        return
    metadata = body["metadata"]
    try:
        await means.super_client.apply(
            VIRTUAL_CLUSTERS,
            {
                "apiVersion": body["apiVersion"],
                "kind": body["kind"],
                "metadata": {
                    "name": metadata["name"],
                    "namespace": metadata["namespace"],
                    "uid": metadata["uid"],
                },
                "status": document,
            },
            subresource="status",
            field_manager=wellknown.MANAGER,
        )
    except errors.NotFound:
        return
    for kind, reason, message in statuses.iterate_events(document, old, report.failing_conditions):
        means.recorder.record(body, reason, message, kind=kind)
