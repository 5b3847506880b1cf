"""Resources of a running pod: changes by a tenant's `resize` subresource.

Pure. Owns the difference between the resources of both sides. Must not know the kubelet's response,
which is synced back with the status.

Hazard: only the resources that the tenant sets may be compared. The admission of the super cluster
may have added a default for an unset one, and the syncer would fight that default.

Hazard: only containers that the twin records as the tenant's may be patched. Otherwise a tenant's
API server could name a sidecar that the super cluster injected, and take its CPU or memory.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.rules.pods import ephemeral_containers

_CONTAINER_LISTS = ("initContainers", "containers")
_RESOURCE_FIELDS = ("limits", "requests")


def build_patch(pod: Mapping[str, Any], twin: Mapping[str, Any]) -> Object | None:
    """Return the strategic merge patch of the twin's resources, or None. Raises RejectedError."""
    spec: Object = {}
    served = ephemeral_containers.list_served_names(twin)
    for kind in _CONTAINER_LISTS:
        there = {
            item["name"]: item.get("resources") or {}
            for item in twin["spec"].get(kind) or ()
            if item["name"] in served
        }
        changed = [
            {"name": item["name"], "resources": found}
            for index, item in enumerate(pod["spec"].get(kind) or ())
            if item["name"] in there
            and (found := _find_changed(item, there[item["name"]], f"spec.{kind}[{index}]"))
        ]
        if changed:
            spec[kind] = changed
    whole = _find_changed(pod["spec"], twin["spec"].get("resources") or {}, "spec")
    if whole:
        spec["resources"] = whole
    if not spec:
        return None
    return {"metadata": {"uid": twin["metadata"]["uid"]}, "spec": spec}


def _find_changed(owner: Mapping[str, Any], there: Mapping[str, Any], path: str) -> Object:
    own = owner.get("resources") or {}
    found: Object = {}
    for part in _RESOURCE_FIELDS:
        wanted = own.get(part) or {}
        if not isinstance(wanted, dict) or not all(
            isinstance(value, str | int | float) for value in wanted.values()
        ):
            text = "must be a map of quantities. Correct the object"
            raise RejectedError(RejectionProblem("malformed", f"{path}.resources.{part}", text))
        before = there.get(part) or {}
        differs = {key: value for key, value in wanted.items() if before.get(key) != value}
        if differs:
            found[part] = differs
    return found
