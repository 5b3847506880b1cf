"""Ownership of status fields: which parts of a tenant object's status the super cluster writes.

Pure. Owns the table with one row for each kind whose status is synced back, and the merge with the
parts of other writers. A kubelet works alike: it keeps the pod conditions that it does not own
(`mergePodStatus` in pkg/kubelet/status, `PodConditionByKubelet` in pkg/kubelet/types). Must not
know where a status comes from.

Hazard: the order of conditions must not count as a difference. Otherwise two writers reorder the
list in turn, and each write causes the next one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kubeio import Object
from syncer.model import object_meta

CONDITIONS = "conditions"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOwnership:
    """Parts of one kind's status that the super cluster owns.

    A field or condition that the super object has is always owned, in addition to the row.
    """

    fields: frozenset[str]
    """Fields that are removed in the tenant when the super object has none."""
    condition_types: frozenset[str] = frozenset()
    """Condition types that are removed in the tenant when the super object has none."""
    shared_types: frozenset[str] = frozenset()
    """Condition types that either side sets. They are never removed in the tenant."""


POD_OWNERSHIP = StatusOwnership(
    fields=frozenset(
        {
            "allocatedResources",
            "containerStatuses",
            "ephemeralContainerStatuses",
            "hostIP",
            "hostIPs",
            "initContainerStatuses",
            "message",
            "observedGeneration",
            "phase",
            "podIP",
            "podIPs",
            "reason",
            "resize",
            "resources",
            "startTime",
        }
    ),
    condition_types=frozenset(
        {
            "AllContainersRestarting",
            "ContainersReady",
            "Initialized",
            "PodReadyToStartContainers",
            "PodResizeInProgress",
            "PodResizePending",
            "PodScheduled",
            "Ready",
        }
    ),
    # An eviction in the tenant sets it, and so does an eviction in the super cluster.
    shared_types=frozenset({"DisruptionTarget"}),
)
SERVICE_OWNERSHIP = StatusOwnership(fields=frozenset({"loadBalancer"}))
CLAIM_OWNERSHIP = StatusOwnership(
    fields=frozenset(
        {
            "accessModes",
            "allocatedResourceStatuses",
            "allocatedResources",
            "capacity",
            "currentVolumeAttributesClassName",
            "modifyVolumeStatus",
            "phase",
        }
    ),
    condition_types=frozenset(
        {
            "ControllerResizeError",
            "FileSystemResizePending",
            "ModifyVolumeError",
            "ModifyingVolume",
            "NodeResizeError",
            "Resizing",
            "Unused",
        }
    ),
)
INGRESS_OWNERSHIP = StatusOwnership(fields=frozenset({"loadBalancer"}))
VOLUME_OWNERSHIP = StatusOwnership(fields=frozenset({"phase"}))
NODE_OWNERSHIP = StatusOwnership(
    fields=frozenset(
        {
            "addresses",
            "allocatable",
            "capacity",
            "daemonEndpoints",
            "declaredFeatures",
            "features",
            "nodeInfo",
        }
    )
)
"""Server-side apply merges this status, because it is written with a field manager of its own. In
addresses, allocatable and capacity, the tenant may have further entries.
"""

STATUS_OWNERS: Mapping[str, StatusOwnership] = {
    "Ingress": INGRESS_OWNERSHIP,
    "Node": NODE_OWNERSHIP,
    "PersistentVolume": VOLUME_OWNERSHIP,
    "PersistentVolumeClaim": CLAIM_OWNERSHIP,
    "Pod": POD_OWNERSHIP,
    "Service": SERVICE_OWNERSHIP,
}
"""All kinds whose status the syncer writes in tenants. The status of every other kind is never
written.
"""


def build_patch(
    owner: StatusOwnership,
    own: Mapping[str, Any],
    shown: Mapping[str, Any],
    synced_types: Collection[str] = (),
) -> Object:
    """Return the merge patch from a tenant's status to the super cluster's part of it.

    Empty if that part does not differ. `synced_types` are the condition types that were synced back
    before. They are removed if `shown` lacks them. Conditions of another shape, as a custom
    resource may have, are a field like any other.
    """
    has_types = _are_typed(shown.get(CONDITIONS)) and _are_typed(own.get(CONDITIONS))
    apart = {CONDITIONS} if has_types else frozenset[str]()
    before = {
        field: value
        for field, value in own.items()
        if field not in apart and (field in owner.fields or field in shown)
    }
    plain = {field: value for field, value in shown.items() if field not in apart}
    patch = object_meta.build_merge_patch(before, plain)
    if not has_types:
        return patch
    listed = own.get(CONDITIONS) or []
    merged = merge_conditions(owner, listed, shown.get(CONDITIONS) or (), synced_types)
    if merged != listed and not _is_reordered(merged, listed):
        patch[CONDITIONS] = merged
    return patch


def _are_typed(conditions: Any) -> bool:
    """Return whether conditions are a list of objects with types, or absent."""
    return conditions is None or (
        isinstance(conditions, list)
        and all(isinstance(each, dict) and isinstance(each.get("type"), str) for each in conditions)
    )


def _is_reordered(merged: list[Object], listed: Any) -> bool:
    """Return whether two lists of conditions differ in their order only."""
    if not isinstance(listed, list) or len(listed) != len(merged):
        return False
    texts = [
        sorted(orjson.dumps(item, option=orjson.OPT_SORT_KEYS) for item in each)
        for each in (merged, listed)
    ]
    return texts[0] == texts[1]


def merge_conditions(
    owner: StatusOwnership,
    own: Any,
    shown: Sequence[Mapping[str, Any]],
    synced_types: Collection[str] = (),
) -> list[Object]:
    """Return the super cluster's conditions and those that other writers in the tenant own."""
    types = {item.get("type") for item in shown}
    removed = (owner.condition_types | frozenset(synced_types)) - owner.shared_types
    kept = [
        item
        for item in (own if isinstance(own, list) else ())
        if isinstance(item, dict)
        and isinstance(kind := item.get("type"), str)
        and kind not in types
        and kind not in removed
    ]
    return [*(dict(item) for item in shown), *kept]


def list_synced_types(
    owner: StatusOwnership, conditions: Iterable[Mapping[str, Any]]
) -> frozenset[str]:
    """Return the condition types that the super cluster has and the table does not list.

    Only by this record a later pass knows that such a condition came from the super cluster.
    """
    types = {str(item.get("type")) for item in conditions}
    return frozenset(types) - owner.condition_types - owner.shared_types
