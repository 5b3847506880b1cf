"""Reconcile of the rollout to the tenants of one ClusterVersion.

Owns the condition RolledOut, the metrics, and which waiting tenants are queued when slots are
free. Must not mark a tenant: each tenant does that in its own reconcile, before it changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from kubeio import Object, errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from telemetry import metrics
from tenancy import conditions, wellknown
from tenancy.conditions import Condition, ConditionStatus
from tenancy.control_plane_specs import RolloutSlot
from tenancy.resources import CLUSTER_VERSIONS
from tenancy.specs import InvalidSpecError, parse_cluster_version, parse_cluster_version_status
from vcmanager.phases.waves import admission, slots
from vcmanager.phases.waves.admission import Admission, TenantState
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey, build_key_of_listed

_POLL_SECONDS = 30.0
"""Interval in seconds while a rollout goes on. Deadlines and windows have no watch event."""
_MAX_SHOWN_TENANTS = 5
"""Number of tenants that a message names."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_rollout(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Report the rollout of a ClusterVersion, and queue the tenants that may take a slot."""
    try:
        version = await means.super_client.get(CLUSTER_VERSIONS, key.name)
    except errors.NotFound:
        metrics.remove_rollout(key.name)
        return Done()
    try:
        spec = parse_cluster_version(version).rollout
        status = parse_cluster_version_status(version)
    except InvalidSpecError:
        return Done()  # each tenant reports it in its own status
    users = await slots.fetch_users(means, key.name, metadata_only=False)
    holders = slots.drop_ended_slots(status.rollout.slots, users)
    waiting = list_waiting(users, holders)
    now = means.now()
    decision = admission.decide_admission(
        [
            *slots.build_holders(holders, now),
            *(TenantState(uid=each["metadata"]["uid"]) for each in waiting),
        ],
        spec,
        fleet=len(users),
        now=now,
    )
    changed = msgspec.structs.replace(
        status.rollout, tenants=len(users), waiting=len(waiting), slots=holders
    )
    condition = build_condition(
        decision,
        holders,
        waiting=len(waiting),
        now=conditions.format_time(now),
        generation=version["metadata"].get("generation", 0),
    )
    failed = [build_key_of_listed(each) for each in users if _is_in(each, decision.failed)]
    await _write_status(means, version, slots.encode_rollout(changed), condition, failed)
    _set_metrics(key.name, decision, tenants=len(users), marked=len(holders), waiting=len(waiting))
    for each in waiting:
        if _is_in(each, decision.admitted):
            means.enqueue(build_key_of_listed(each))
    return RequeueAfter(_POLL_SECONDS) if waiting or holders else Done()


def list_waiting(users: Iterable[Object], holders: Iterable[RolloutSlot]) -> list[Object]:
    """Return the VirtualClusters that wait for a slot: ready ones first, the longest waiting first.

    A tenant whose reconciles fail is not ready, and must not hold back the tenants behind it.
    """
    marked = {slot.uid for slot in holders}
    found = []
    for each in users:
        listed = (each.get("status") or {}).get("conditions")
        waits = conditions.find_condition(listed, wellknown.CONTROL_PLANE_UP_TO_DATE)
        if (
            waits is not None
            and waits.get("reason") == wellknown.WAITING_FOR_ROLLOUT
            and each["metadata"]["uid"] not in marked
            # A paused tenant takes no slot, so it must not be the next one.
            and not conditions.is_true(listed, wellknown.PAUSED)
        ):
            rank = not conditions.is_true(listed, wellknown.READY), waits["lastTransitionTime"]
            found.append((*rank, each["metadata"]["uid"], each))
    return [row[-1] for row in sorted(found, key=lambda row: row[:-1])]


def build_condition(
    decision: Admission,
    holders: Sequence[RolloutSlot],
    *,
    waiting: int,
    now: str,
    generation: int,
) -> Condition:
    """Return the condition RolledOut of a ClusterVersion."""
    counts = f"Changing tenants: {len(holders)}. Waiting tenants: {waiting}."
    status: ConditionStatus
    if not holders and not waiting:
        status, reason, message = "True", "UpToDate", "All tenants are up to date."
    elif decision.hold == "Stopped":
        status, reason = "False", "DeadlineExceeded"
        message = (
            f"The rollout has stopped. Changed tenants that are not ready within the deadline:"
            f" {len(decision.failed)}. {counts} Repair these tenants, or raise"
            " spec.rollout.maxFailed."
        )
    elif decision.hold in ("Paused", "OutsideWindow"):
        status, reason, message = "False", decision.hold, counts
    else:
        status, reason, message = "False", "Progressing", counts
    return conditions.build_condition(
        wellknown.ROLLED_OUT,
        status,
        reason,
        message,
        now=now,
        generation=generation,
    )


async def _write_status(
    means: ReconcileContext,
    version: Object,
    rollout: Mapping[str, Any],
    condition: Condition,
    failed: Sequence[ReconcileKey],
) -> None:
    """Write the status if it differs. `failed` are the tenants beyond their deadline."""
    old = version.get("status") or {}
    known = old.get("conditions") or []
    before = conditions.find_condition(known, wellknown.ROLLED_OUT) or {}
    carried = conditions.carry_transition_times(known, [condition])
    listed = [*(each for each in known if each.get("type") != wellknown.ROLLED_OUT), *carried]
    if old.get("rollout") == rollout and before == carried[0]:
        return
    await slots.write_rollout(means, version, {"rollout": rollout, "conditions": listed})
    if condition["reason"] != "DeadlineExceeded" or before.get("reason") == "DeadlineExceeded":
        return
    more = len(failed) - _MAX_SHOWN_TENANTS
    shown = ", ".join(f"{each.namespace}/{each.name}" for each in failed[:_MAX_SHOWN_TENANTS])
    message = f"{condition['message']} Tenants: {shown}{f' and {more} more' if more > 0 else ''}."
    _log.warning("rollout.stopped", problem=message)
    # The Event has the names and the condition has none: users may read a ClusterVersion.
    means.recorder.record(version, "RolloutStopped", message, kind="Warning")


def _is_in(body: Object, uids: frozenset[str]) -> bool:
    return body["metadata"]["uid"] in uids


def _set_metrics(
    name: str, decision: Admission, *, tenants: int, marked: int, waiting: int
) -> None:
    failed = len(decision.failed)
    counts = {
        "current": tenants - marked - waiting,
        "waiting": waiting,
        "updating": marked - failed,
        "failed": failed,
    }
    metrics.set_rollout(name, counts, is_stopped=decision.hold == "Stopped")
