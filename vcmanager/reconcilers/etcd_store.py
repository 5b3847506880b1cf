"""Checks of the etcd of one tenant, and its next step: members, defragmentation, alarm.

Owns the interval of the checks. Sends requests to etcd only, and none to the super cluster. The
VirtualCluster reconcile supplies the input, and writes the conclusion to the status, to the
ConfigMap of the members and to the StatefulSet. Hazard: one step per check. Each decision needs
what etcd reports after the step before.
"""

import structlog

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from telemetry import metrics
from vcmanager.phases.etcd import maintenance, membership
from vcmanager.phases.etcd.etcd_api import EtcdApi
from vcmanager.phases.etcd.membership import StoreStep
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.etcd_stores import DesiredStore, EtcdObservation, StoreReport
from vcmanager.runtime.keys import ReconcileKey

CHECK_SECONDS = 300.0
"""Interval in seconds of the checks of an etcd that is as desired."""
_UNREACHABLE_SECONDS = 60.0
_STEP_SECONDS = 1.0
"""Delay in seconds after a step, until etcd reports its result."""
_WAIT_SECONDS = 5.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_store(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Check an etcd and carry out at most one step."""
    uid = key.name
    desired = means.stores.get_desired(uid)
    if desired is None:
        return Done()
    before = means.stores.get_report(uid)
    async with EtcdApi(desired, fence=means.super_client.fence) as api:
        found = await api.observe()
        step = choose_step(desired, found)
        delay = CHECK_SECONDS if step.action == "settled" else _WAIT_SECONDS
        if step.action not in ("settled", "wait"):
            delay = _STEP_SECONDS if await _carry_out(api, key, step) else _WAIT_SECONDS
    was_filling = before is not None and bool(before.is_filling)
    report = build_report(desired, found, step, was_filling=was_filling)
    # Claims are not watched, so the end of an old volume is noticed by a reconcile only. A member
    # that answers has its data, so the pods that were read are outdated.
    is_outdated = step.reason == membership.VOLUME_OCCUPIED or desired.lost & report.answered
    if means.stores.set_report(uid, report) or is_outdated:
        means.enqueue(desired.owner)
    if not found.members:
        delay = _UNREACHABLE_SECONDS
    return RequeueAfter(delay)


def choose_step(desired: DesiredStore, found: EtcdObservation) -> StoreStep:
    """Return the next step: members first, and maintenance while the members are as desired."""
    if not found.members:
        return StoreStep(action="wait")
    step = membership.choose_membership_step(desired, found)
    return maintenance.choose_maintenance_step(found) if step.action == "settled" else step


def build_report(
    desired: DesiredStore, found: EtcdObservation, step: StoreStep, *, was_filling: bool
) -> StoreReport:
    """Return the conclusion from a check and its step."""
    if not found.members:
        answers = len(found.statuses)
        return StoreReport(
            reason="EtcdUnreachable",
            message=f"{answers} of {desired.replicas} etcd members answer vc-manager, and none with"
            " a quorum. Check the etcd pods and the network policies between them and vc-manager.",
            is_ready=False if answers else None,
        )
    missing = [each for each in found.members if not membership.is_healthy(each, found)]
    is_ready, reason, message = True, "AsDesired", "All etcd members are as desired and answer."
    if step.reason != "AsDesired":
        is_ready, reason, message = False, step.reason, step.message
    elif missing:
        pods = ", ".join(sorted(f"etcd-{each.ordinal}" for each in missing))
        is_ready, reason = False, "MemberUnhealthy"
        message = f"The etcd members of these pods do not answer: {pods}."
    answered = membership.list_ordinals(each for each in found.members if each not in missing)
    filling = maintenance.compute_filling(found, was_filling=was_filling)
    value, filling_reason, filling_message = filling or (None, "", "")
    known = [each for each in found.statuses.values() if each.limit > 0]
    return StoreReport(
        members=found.members,
        answered=answered,
        reason=reason,
        message=message,
        is_ready=is_ready,
        is_filling=value,
        filling_reason=filling_reason,
        filling_message=filling_message,
        used_ratio=max((each.used / each.limit for each in known), default=0.0),
    )


async def _carry_out(api: EtcdApi, key: ReconcileKey, step: StoreStep) -> bool:
    """Carry out a step. Return whether etcd accepted it. A refused step is decided again."""
    ordinal = step.member.ordinal if step.member is not None else step.ordinal
    try:
        await api.carry_out(step)
    except errors.KubeError as problem:
        # A learner that still receives data is refused, so this is no error by itself.
        _log.info("store.step_refused", action=step.action, member=ordinal, problem=str(problem))
        metrics.count_store_step(step.action, "error")
        return False
    _log.info("store.step", tenant=key.name, action=step.action, member=ordinal)
    metrics.count_store_step(step.action, "success")
    return True
