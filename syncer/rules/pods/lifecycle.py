"""Life cycle of a pod and its twin, as one pure function.

Owns the rules beyond plain ownership: binding, deletion in either direction, and the loss of a
twin. Must not know clients, or bodies beyond the few facts in this module.

Hazard: `LOST`, `DELETED_IN_SUPER` and `FINISH` must only be executed after a live read. A twin that
is not in the cache is not lost yet, so a pod that runs could be marked as failed.
"""

from enum import Enum, auto
from typing import NamedTuple


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
