"""Life cycle of a pod and its twin, as one pure function.

Owns the rules beyond plain ownership: binding, deletion in either direction, and the loss of a
twin. Reads the few facts that they need from both bodies. Must not know clients.

Hazard: `LOST`, `DELETED_IN_SUPER` and `FINISH` must only be executed after a live read. A twin that
is not in the cache is not lost yet, so a pod that runs could be marked as failed.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from syncer.model import builtin_policy, object_meta
from tenancy import wellknown

LOST_REASON = "SuperPodLost"


class PodStep(Enum):
    """Next step for a pod."""

    NOTHING = auto()
    CREATE = auto()
    """Create the twin."""
    SYNC = auto()
    """Both exist: bind, sync changes to the super cluster, and sync the status back."""
    DELETE_TWIN = auto()
    """The tenant deletes the pod. The twin is deleted with the same grace period."""
    EVICT = auto()
    """The super cluster deletes the twin. The status is synced back, and the tenant pod is deleted
    with the same grace period."""
    FINISH = auto()
    """The tenant deletes the pod and the twin no longer exists. The tenant pod is removed."""
    DELETED_IN_SUPER = auto()
    """As EVICT, but the twin no longer exists."""
    LOST = auto()
    """The twin disappeared without a deletion being seen. The tenant pod has failed."""
    DELETE_LOST = auto()
    """A lost pod with a controller is deleted, so that its controller creates another one."""
    MISPLACED = auto()
    """The tenant bound the pod to another node than the one that runs it."""
    WAIT = auto()
    """The twin is being deleted and the pod was never bound. A new twin follows."""


class TenantPodState(NamedTuple):
    """Facts of a tenant pod that its life cycle depends on."""

    node: str
    deleting: bool
    grace_seconds: int | None
    """deletionGracePeriodSeconds while the pod is being deleted."""
    is_terminal: bool
    had_twin: bool
    """The pod was bound by the syncer, or has a status that only a twin can have caused."""
    was_twin_deleted: bool
    """The twin no longer exists, and its deletion was seen."""
    is_lost: bool
    """The status records that the twin was lost."""
    has_controller: bool


class SuperPodState(NamedTuple):
    """Facts of a super pod that its life cycle depends on."""

    node: str
    deleting: bool
    grace_seconds: int | None


def decide_step(pod: TenantPodState, twin: SuperPodState | None) -> PodStep:
    """Return the next step for an existing tenant pod. `twin` is certainly its own."""
    if twin is None:
        return _decide_without_twin(pod)
    if pod.deleting:
        return _decide_deleting(pod, twin)
    if twin.deleting:
        if pod.is_terminal:
            return PodStep.SYNC  # a finished pod stays if its twin is deleted
        return PodStep.EVICT if pod.node else PodStep.WAIT
    if pod.node and twin.node and pod.node != twin.node:
        return PodStep.MISPLACED
    return PodStep.SYNC


def _decide_without_twin(pod: TenantPodState) -> PodStep:
    if pod.deleting:
        # Grace 0 was already requested, so only a finalizer of the tenant keeps the pod.
        return PodStep.NOTHING if pod.grace_seconds == 0 else PodStep.FINISH
    if pod.is_lost:
        return PodStep.DELETE_LOST if pod.has_controller else PodStep.NOTHING
    if pod.is_terminal:
        return PodStep.NOTHING
    if not (pod.node and pod.had_twin):
        return PodStep.CREATE
    return PodStep.DELETED_IN_SUPER if pod.was_twin_deleted else PodStep.LOST


def _decide_deleting(pod: TenantPodState, twin: SuperPodState) -> PodStep:
    if not twin.deleting:
        return PodStep.DELETE_TWIN
    shorter = (
        pod.grace_seconds is not None
        and twin.grace_seconds is not None
        and pod.grace_seconds < twin.grace_seconds
    )
    return PodStep.DELETE_TWIN if shorter else PodStep.SYNC


def build_pod_state(
    pod: Mapping[str, Any], *, had_twin: bool = False, was_taken: bool = False
) -> TenantPodState:
    """Return the facts of a tenant pod that its life cycle depends on.

    `had_twin` is True if a bound twin was seen, and its end. `was_taken` is True if the twin was
    seen being deleted.
    """
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    return TenantPodState(
        node=spec.get("nodeName") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        grace_seconds=get_grace_seconds(pod),
        is_terminal=phase in wellknown.TERMINAL_PHASES,
        had_twin=had_twin or phase != "Pending" or bool(status.get("startTime")),
        was_twin_deleted=was_taken,
        is_lost=phase == "Failed" and status.get("reason") == LOST_REASON,
        has_controller=object_meta.get_controller(metadata) is not None,
    )


def build_twin_state(twin: Mapping[str, Any]) -> SuperPodState:
    """Return the facts of a super pod that its life cycle depends on."""
    metadata = twin["metadata"]
    return SuperPodState(
        node=twin["spec"].get("nodeName") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        grace_seconds=get_grace_seconds(twin),
    )


def get_grace_seconds(pod: Mapping[str, Any]) -> int | None:
    """Return the grace period of a pod that is being deleted, in seconds."""
    seconds: int | None = pod["metadata"].get("deletionGracePeriodSeconds")
    return seconds


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Return whether all containers of a pod have ended for good."""
    return (pod.get("status") or {}).get("phase") in wellknown.TERMINAL_PHASES


def has_scheduling_gates(pod: Mapping[str, Any]) -> bool:
    """Return whether scheduling gates hold a pod in the tenant."""
    return bool(pod["spec"].get("schedulingGates"))


def was_force_deleted(last: Mapping[str, Any]) -> bool:
    """Return whether a pod's last state shows a forced deletion while a node ran it.

    A pod without a node is always deleted at once, so its deletion does not count as forced.
    """
    spec = last.get("spec")
    is_bound = isinstance(spec, dict) and bool(spec.get("nodeName"))
    return is_bound and get_grace_seconds(last) == 0


def compute_twin_grace(pod: TenantPodState) -> int | None:
    """Return the grace period for the deletion of the twin: the tenant's, up to the maximum.

    None means the twin's own period. A pod without a node is deleted at once, whatever period was
    requested.
    """
    if pod.grace_seconds is None or not pod.node:
        return None
    return min(pod.grace_seconds, builtin_policy.MAX_GRACE_SECONDS)
