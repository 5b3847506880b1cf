"""Reclaim policy of a shown volume: which side's value applies when both differ.

Pure. The super cluster determines a shown volume, except for this one field. A tenant may set it if
the policy lists the value. The mirror records the super volume's value in an annotation, so that a
tenant's edit and a change in the super cluster can be distinguished after a restart as well.

Hazard: an edit to Retain must never be mistaken for an old value. Otherwise the volume keeps
Delete, and the data is lost with the claim.
"""

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Any

from kubeio import Object
from syncer.model.unstructured import as_mapping
from tenancy import wellknown

FIELD = "persistentVolumeReclaimPolicy"
PATH = f"spec.{FIELD}"
RETAIN = "Retain"


class ReclaimStep(Enum):
    """Consequence of a difference."""

    NOTHING = auto()
    """The values are equal, or the super cluster's applies."""
    SYNC_DOWN = auto()
    """The tenant set a value that it may set."""
    REFUSE = auto()
    """The tenant set a value that it may not set."""
    REPORT_CHANGE = auto()
    """The super cluster changed the value, and the data is no longer kept."""


def decide_step(
    shown: Mapping[str, Any],
    live: Mapping[str, Any],
    allowed: Collection[str],
    synced: str = "",
) -> ReclaimStep:
    """Decide between a shown volume and the super volume.

    `allowed` are the policy's values. `synced` is the value that was last synced to the super
    volume. The mirror may not record it yet when the tenant sets the next one.
    """
    asked, there = get_reclaim_policy(shown), get_reclaim_policy(live)
    recorded = synced if synced == there else _get_recorded(shown)
    if not asked or asked == there:
        return ReclaimStep.NOTHING
    if recorded is None:  # the record was removed, or never written
        is_safe = asked == RETAIN and RETAIN in allowed
        return ReclaimStep.SYNC_DOWN if is_safe else ReclaimStep.NOTHING
    if recorded == there:
        return ReclaimStep.SYNC_DOWN if asked in allowed else ReclaimStep.REFUSE
    return ReclaimStep.REPORT_CHANGE if asked == RETAIN else ReclaimStep.NOTHING


def is_recorded(shown: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Return whether the mirror records the super volume's value."""
    return bool(_get_recorded(shown) == get_reclaim_policy(live))


def _get_recorded(shown: Mapping[str, Any]) -> Any:
    annotations = as_mapping(as_mapping(shown.get("metadata")).get("annotations"))
    return annotations.get(wellknown.RECLAIM_POLICY)


def get_reclaim_policy(volume: Mapping[str, Any]) -> str:
    """Return the reclaim policy of a volume. Empty if it has none."""
    found = as_mapping(volume.get("spec")).get(FIELD)
    return found if isinstance(found, str) else ""


def build_patch(shown: Mapping[str, Any], live: Mapping[str, Any]) -> Object:
    """Return the merge patch of the super volume, for exactly the version that was decided on."""
    metadata = live["metadata"]
    return {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        "spec": {FIELD: get_reclaim_policy(shown)},
    }
