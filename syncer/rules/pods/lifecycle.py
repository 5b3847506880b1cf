"""What becomes of a pod and its twin: the written rules, as one pure function.

Owns the life cycle beyond plain ownership: binding, deletion in either direction, and the loss of a
twin. Must not know clients or bodies beyond the few facts below. Hazard: a twin that is not in the
cache is not lost yet; `LOST`, `TAKEN` and `FINISH` are only carried out after a live read.
"""

from enum import Enum, auto
from typing import NamedTuple


class Step(Enum):
    """The next step for a pod."""

    NOTHING = auto()
    CREATE = auto()
    """Make the twin."""
    FOLLOW = auto()
    """Both live: bind, carry changes down and the status up."""
    DELETE_TWIN = auto()
    """The tenant deletes; the twin goes with the same grace."""
    EVICT = auto()
    """The super cluster deletes: status up, then the tenant pod goes with the same grace."""
    FINISH = auto()
    """The tenant deletes and the twin is gone: let the tenant pod go."""
    TAKEN = auto()
    """As EVICT, but the twin is gone already."""
    LOST = auto()
    """The twin vanished without notice: the tenant pod has failed."""
    COLLECT = auto()
    """A lost pod with a controller goes, so that its controller makes another."""
    MISPLACED = auto()
    """The tenant bound the pod to another node than the one that runs it."""
    WAIT = auto()
    """The twin is on its way out and the pod was never bound: a new twin follows."""


class PodSide(NamedTuple):
    """A tenant pod as far as its life is concerned."""

    node: str
    deleting: bool
    grace_seconds: int | None
    """deletionGracePeriodSeconds while deleting."""
    is_terminal: bool
    was_below: bool
    """It was bound by us or has a status that only a twin can have given it."""
    was_taken: bool
    """Its twin is gone, and was seen on its way out before."""
    is_lost: bool
    """Its status says that the twin was lost."""
    has_controller: bool


class TwinSide(NamedTuple):
    """A super pod as far as its life is concerned."""

    node: str
    deleting: bool
    grace_seconds: int | None


def step(pod: PodSide, twin: TwinSide | None) -> Step:
    """Return the next step for a tenant pod that exists; `twin` is certainly its own."""
    if twin is None:
        return _without_twin(pod)
    if pod.deleting:
        return _deleting(pod, twin)
    if twin.deleting:
        if pod.is_terminal:
            return Step.FOLLOW  # a finished pod stays, whoever clears its twin away
        return Step.EVICT if pod.node else Step.WAIT
    if pod.node and twin.node and pod.node != twin.node:
        return Step.MISPLACED
    return Step.FOLLOW


def _without_twin(pod: PodSide) -> Step:
    if pod.deleting:
        # Grace 0 was asked for already: only a finalizer of the tenant keeps it.
        return Step.NOTHING if pod.grace_seconds == 0 else Step.FINISH
    if pod.is_lost:
        return Step.COLLECT if pod.has_controller else Step.NOTHING
    if pod.is_terminal:
        return Step.NOTHING
    if not (pod.node and pod.was_below):
        return Step.CREATE
    return Step.TAKEN if pod.was_taken else Step.LOST


def _deleting(pod: PodSide, twin: TwinSide) -> Step:
    if not twin.deleting:
        return Step.DELETE_TWIN
    shorter = (
        pod.grace_seconds is not None
        and twin.grace_seconds is not None
        and pod.grace_seconds < twin.grace_seconds
    )
    return Step.DELETE_TWIN if shorter else Step.FOLLOW
