"""Change of one tenant's running control plane: admission, condition and end.

Hazard: the slot is released only when all workloads run with the desired templates and the tenant
is ready. Otherwise the next tenant would begin while this one is not back.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from kubeio import Object
from tenancy import wellknown
from vcmanager.phases import startup_order
from vcmanager.phases.waves import pending_changes, slots
from vcmanager.plan.control_plane import ControlPlane, PlanInput
from vcmanager.runtime import keys
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

_COALESCE_SECONDS = 2.0
"""Delay in seconds of the reconcile of a rollout. Many tenants ask for it at the same time."""


class ControlPlaneChange(StrEnum):
    """State of the change, as the reason of the condition ControlPlaneUpToDate."""

    NONE = "UpToDate"
    WAITING = wellknown.WAITING_FOR_ROLLOUT
    ROLLING_OUT = "RollingOut"


async def admit_change(
    means: ReconcileContext,
    wish: PlanInput,
    plan: ControlPlane,
    *,
    body: Object,
    snapshot: ObservedObjects,
    mounted_secrets: Iterable[Object],
) -> tuple[ControlPlaneChange, str]:
    """Return whether the desired control plane may be written, and the message about it."""
    workloads = [each for each in plan.workloads if each["kind"] in ("StatefulSet", "Deployment")]
    config_maps = [each for each in plan.workloads if each["kind"] == "ConfigMap"]
    pending = await pending_changes.list_pending_changes(
        means,
        wish.tenant,
        snapshot,
        workloads=workloads,
        configuration=[*config_maps, *mounted_secrets],
    )
    candidate = slots.Candidate(
        tenant=wish.tenant,
        version_name=wish.version_name,
        spec=wish.version.rollout,
        rollout=wish.version_status.rollout,
        is_new=wish.is_new or _is_starting(workloads, snapshot),
        is_broken=slots.is_broken(body, means.now()),
    )
    if not pending:
        # Pods that are not ready are reported by their own conditions, except after a change.
        is_done = startup_order.is_rolled_out if candidate.has_slot else startup_order.is_updated
        left = [
            f"{kind} {name}"
            for kind, name in _list_names(workloads)
            if not _fulfills(snapshot.get(kind, name), is_done)
        ]
        if left:
            return ControlPlaneChange.ROLLING_OUT, f"Rolling out: {', '.join(left)}."
        return ControlPlaneChange.NONE, "The control plane is up to date."
    reason = await slots.acquire_slot(means, candidate)
    if reason:
        return ControlPlaneChange.WAITING, reason
    return ControlPlaneChange.ROLLING_OUT, f"Changing: {', '.join(pending)}."


def set_condition(report: ReconcileStatus, change: ControlPlaneChange, message: str) -> None:
    """Set the condition ControlPlaneUpToDate."""
    is_done = change is ControlPlaneChange.NONE
    report.set_condition(
        wellknown.CONTROL_PLANE_UP_TO_DATE, "True" if is_done else "False", change, message
    )


async def finish_change(
    means: ReconcileContext, wish: PlanInput, change: ControlPlaneChange, *, is_ready: bool
) -> None:
    """Release the slot of a tenant that is changed and ready, and queue the rollout."""
    has_slot = any(slot.uid == wish.tenant.uid for slot in wish.version_status.rollout.slots)
    if has_slot and is_ready and change is ControlPlaneChange.NONE:
        await slots.release_slot(means, wish.version_name, wish.tenant.uid)
    if has_slot or change is ControlPlaneChange.WAITING:
        means.enqueue_after(keys.build_rollout_key(wish.version_name), _COALESCE_SECONDS)


def _is_starting(workloads: Iterable[Mapping[str, Any]], snapshot: ObservedObjects) -> bool:
    """Return whether a workload is scaled to zero and is to start, for example after a sleep.

    Such a tenant serves no client. A wait for a slot would keep it stopped.
    """
    return any(
        each["spec"].get("replicas", 1) != 0
        and (live := snapshot.get(each["kind"], each["metadata"]["name"])) is not None
        and live["spec"].get("replicas", 1) == 0
        for each in workloads
    )


def _list_names(workloads: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(each["kind"], each["metadata"]["name"]) for each in workloads]


def _fulfills(live: Object | None, is_done: Callable[[Mapping[str, Any]], bool]) -> bool:
    return live is not None and is_done(live)
