"""Progress of a VirtualCluster, derived from its conditions. Pure.

Owns the order of the steps that a user sees. Must not know how the object was read. Hazard: a
condition of an older generation must be ignored. It describes the earlier spec, not the current
one.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tenancy import conditions, wellknown

READINESS_STEPS: tuple[tuple[str, str], ...] = (
    (wellknown.ETCD_READY, "etcd"),
    (wellknown.API_SERVER_READY, "apiserver"),
    (wellknown.CONTROLLER_MANAGER_READY, "controller-manager"),
)
"""Conditions that are reported when they become True, in this order, with the component's name."""

_CONDITION_PARTS: tuple[tuple[str, str], ...] = (
    (wellknown.CERTIFICATES_READY, "certificates"),
    *READINESS_STEPS,
    (wellknown.DNS_READY, "dns"),
    (wellknown.SYNCED, "syncer"),
    (wellknown.READY, "VirtualCluster"),
)


@dataclass(frozen=True, slots=True)
class BlockingCondition:
    """The part that a VirtualCluster waits for, with the condition's reason and message."""

    part: str
    reason: str
    message: str

    @property
    def key(self) -> str:
        """Return part and reason, which stay the same while the message changes."""
        return f"{self.part}/{self.reason}"

    def __str__(self) -> str:
        """Return `etcd: ImagePullBackOff: Back-off pulling image ...`."""
        return ": ".join(text for text in (self.part, self.reason, self.message) if text)


@dataclass(frozen=True, slots=True)
class Readiness:
    """The progress of a VirtualCluster."""

    has_conditions: bool
    """Whether a condition has been written."""
    is_ready: bool
    is_stalled: bool
    """Whether the VirtualCluster stays as it is until a user changes something."""
    ready_components: tuple[str, ...]
    """Components of STEPS that are ready, while all components before them are ready as well. The
    order matters because the controllers' pod is ready while they wait for the API server."""
    blocker: BlockingCondition | None
    failure: BlockingCondition | None
    """The first part that stays as it is until a person changes something. None if there is none.
    vc-manager goes on trying, because the change may be made elsewhere."""


def assess_readiness(body: Mapping[str, Any]) -> Readiness:
    """Return the progress of a VirtualCluster."""
    found = (body.get("status") or {}).get("conditions") or []
    generation = (body.get("metadata") or {}).get("generation", 0)
    current = [each for each in found if each.get("observedGeneration", generation) >= generation]
    is_ready = conditions.is_true(current, wellknown.READY)
    steps = itertools.takewhile(
        lambda step: is_ready or conditions.is_true(current, step[0]), READINESS_STEPS
    )
    is_stalled = not is_ready and conditions.is_true(current, wellknown.STALLED)
    return Readiness(
        has_conditions=bool(found),
        is_ready=is_ready,
        is_stalled=is_stalled,
        ready_components=tuple(part for _, part in steps),
        blocker=None if is_ready else _find_blocker(current, is_stalled=is_stalled),
        failure=None if is_ready else _find_failure(current),
    )


@dataclass(frozen=True, slots=True)
class ControlPlaneState:
    """State of a change of the control plane."""

    is_done: bool
    message: str
    """Message of the condition ControlPlaneUpToDate. Empty without a current one."""


def assess_change(body: Mapping[str, Any]) -> ControlPlaneState:
    """Return whether the control plane is as the present spec describes it."""
    found = conditions.find_condition(
        (body.get("status") or {}).get("conditions"), wellknown.CONTROL_PLANE_UP_TO_DATE
    )
    generation = (body.get("metadata") or {}).get("generation", 0)
    if found is None or found.get("observedGeneration", 0) < generation:
        return ControlPlaneState(is_done=False, message="")
    return ControlPlaneState(found.get("status") == "True", str(found.get("message") or ""))


def find_current_ready(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition Ready of the present generation. Empty if there is none."""
    found = conditions.find_condition((body.get("status") or {}).get("conditions"), wellknown.READY)
    generation = (body.get("metadata") or {}).get("generation", 0)
    is_current = found is not None and found.get("observedGeneration", 0) >= generation
    return found if found is not None and is_current else {}


def rank_condition(kind: str) -> tuple[int, str]:
    """Return a condition's sort key: the summary, then the parts, then all other conditions."""
    order = [wellknown.READY, *(part for part, _ in _CONDITION_PARTS if part != wellknown.READY)]
    return (order.index(kind) if kind in order else len(order), kind)


def _find_failure(found: list[Mapping[str, Any]]) -> BlockingCondition | None:
    """Return the first part, in work order, whose failure is permanent."""
    permanent = wellknown.PERMANENT_REASONS
    return next((each for each in _iterate_waiting(found) if each.reason in permanent), None)


def _iterate_waiting(found: list[Mapping[str, Any]]) -> Iterator[BlockingCondition]:
    """Yield the parts that are not ready, in work order."""
    for kind, part in _CONDITION_PARTS:
        each = conditions.find_condition(found, kind)
        if each is not None and each.get("status") != "True":
            yield _build_blocker(part, each)


def _find_blocker(found: list[Mapping[str, Any]], *, is_stalled: bool) -> BlockingCondition | None:
    """Return the first part, in work order, that is not ready, or the reason of a stall."""
    first = next(_iterate_waiting(found), None)
    stalled = conditions.find_condition(found, wellknown.STALLED) if is_stalled else None
    if stalled is None:
        return first
    whole = _build_blocker("", stalled)
    # The part's own message is nearer to the cause if both have the same reason.
    return first if first is not None and first.reason == whole.reason else whole


def _build_blocker(part: str, found: Mapping[str, Any]) -> BlockingCondition:
    reason = str(found.get("reason") or "")
    return BlockingCondition(part, _SPELLINGS.get(reason, reason), str(found.get("message") or ""))


_SPELLINGS = {"ErrImagePull": "ImagePullBackOff"}
"""Reasons of older versions of vc-manager, which reported the two words of a kubelet in turns."""
