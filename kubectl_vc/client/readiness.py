"""What the conditions of a VirtualCluster say about how far it is; pure.

Owns the order of the steps that a person sees. Must not know how the object was read. Hazard: a
condition about an older generation says nothing about the object as it is now.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenancy import conditions, wellknown

STEPS: tuple[tuple[str, str], ...] = (
    (wellknown.ETCD_READY, "etcd"),
    (wellknown.API_SERVER_READY, "apiserver"),
    (wellknown.CONTROLLER_MANAGER_READY, "controller-manager"),
)
"""Conditions whose becoming True is told, in this order, with the name of the component."""

_PARTS: tuple[tuple[str, str], ...] = (
    (wellknown.CERTIFICATES_READY, "certificates"),
    *STEPS,
    (wellknown.DNS_READY, "dns"),
    (wellknown.SYNCED, "syncer"),
    (wellknown.READY, "VirtualCluster"),
)


@dataclass(frozen=True, slots=True)
class Blocker:
    """What a VirtualCluster waits for, in the words of the condition."""

    part: str
    reason: str
    message: str

    def __str__(self) -> str:
        """Return `etcd: ImagePullBackOff: Back-off pulling image ...`."""
        return ": ".join(text for text in (self.part, self.reason, self.message) if text)


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far a VirtualCluster is."""

    is_seen: bool
    """Somebody has written a condition."""
    is_ready: bool
    is_stalled: bool
    """Nothing will change until somebody changes something."""
    done: tuple[str, ...]
    """Components of STEPS that are ready, and so is all before them: the controllers' pod is ready
    while they wait for the API server."""
    blocker: Blocker | None


def assess(body: Mapping[str, Any]) -> Readiness:
    """Return how far a VirtualCluster is."""
    found = (body.get("status") or {}).get("conditions") or []
    generation = (body.get("metadata") or {}).get("generation", 0)
    current = [each for each in found if each.get("observedGeneration", generation) >= generation]
    is_ready = conditions.is_true(current, wellknown.READY)
    steps = itertools.takewhile(
        lambda step: is_ready or conditions.is_true(current, step[0]), STEPS
    )
    is_stalled = not is_ready and conditions.is_true(current, wellknown.STALLED)
    return Readiness(
        is_seen=bool(found),
        is_ready=is_ready,
        is_stalled=is_stalled,
        done=tuple(part for _, part in steps),
        blocker=None if is_ready else _blocker(current, is_stalled=is_stalled),
    )


def place(kind: str) -> tuple[int, str]:
    """Return where a condition stands in a list: the summary, the parts, then all others."""
    order = [wellknown.READY, *(part for part, _ in _PARTS if part != wellknown.READY)]
    return (order.index(kind) if kind in order else len(order), kind)


def _blocker(found: list[Mapping[str, Any]], *, is_stalled: bool) -> Blocker | None:
    """Return the first part in the order of the work that is not ready, or why all is stalled."""
    waiting = (
        _from(part, each)
        for kind, part in _PARTS
        if (each := conditions.find(found, kind)) is not None and each.get("status") != "True"
    )
    first = next(waiting, None)
    stalled = conditions.find(found, wellknown.STALLED) if is_stalled else None
    if stalled is None:
        return first
    whole = _from("", stalled)
    # The part's own words are nearer to the cause, as long as they are about the same.
    return first if first is not None and first.reason == whole.reason else whole


def _from(part: str, found: Mapping[str, Any]) -> Blocker:
    return Blocker(part, str(found.get("reason") or ""), str(found.get("message") or ""))
