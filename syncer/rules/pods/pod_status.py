"""Status of a tenant pod, built from the status of its twin.

Pure. Owns the part of a status that is synced back, and the readiness conditions that are synced to
the super cluster.

Hazard: qosClass must be left out, because the API refuses a changed one.

Hazard: containers that the tenant did not write (injected ones) must be removed. Otherwise the
tenant sees them.

Hazard: messages of the kubelet must be scrubbed. They name the super namespace.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kubeio import Object
from syncer.model import builtin_policy, object_meta
from syncer.model.unstructured import as_mapping, as_mappings, as_strings
from syncer.rules import status_ownership
from syncer.rules.pods import ephemeral_containers
from syncer.rules.status_ownership import POD_OWNERSHIP
from tenancy import wellknown
from tenancy.conditions import format_time
from tenancy.ownership import Tenant
from tenancy.policies import TenantPolicySpec

_NEVER_SYNCED_UP = frozenset(
    {
        "extendedResourceClaimStatus",
        "nodeAllocatableResourceClaimStatuses",
        "nominatedNodeName",
        "qosClass",
        "resourceClaimStatuses",
        "volumeHealth",  # text of the super cluster's storage drivers
    }
)
NODE_ADDRESSES = frozenset({"hostIP", "hostIPs"})
"""Fields with the node's address. They are not synced back if the policy hides addresses."""
_CONTAINER_LIST_BY_STATUS = {
    "initContainerStatuses": "initContainers",
    "containerStatuses": "containers",
    "ephemeralContainerStatuses": "ephemeralContainers",
}


def build_status(
    tenant_pod: Mapping[str, Any],
    super_pod: Mapping[str, Any],
    names: Sequence[tuple[str, str]],
    *,
    hidden: Collection[str] = (),
) -> Object:
    """Return the whole status for the tenant pod, without the fields that are never synced."""
    shown = build_shown_status(tenant_pod, super_pod, names, hidden=hidden)
    own = as_mapping(tenant_pod.get("status")).get("conditions")
    merged = status_ownership.merge_conditions(POD_OWNERSHIP, own, shown["conditions"])
    return {**shown, "conditions": merged}


def build_shown_status(
    tenant_pod: Mapping[str, Any],
    super_pod: Mapping[str, Any],
    names: Sequence[tuple[str, str]],
    *,
    hidden: Collection[str] = (),
) -> Object:
    """Return the part of a tenant pod's status that the twin determines."""
    below = super_pod.get("status") or {}
    shown = {k: v for k, v in below.items() if k not in _NEVER_SYNCED_UP and k not in hidden}
    found: Object = object_meta.replace_names_in(shown, names)
    for field, containers in _CONTAINER_LIST_BY_STATUS.items():
        if field in found:
            listed = tenant_pod["spec"].get(containers)
            items = listed if isinstance(listed, list) else ()
            own = [item.get("name") for item in items if isinstance(item, dict)]
            if containers == ephemeral_containers.EPHEMERAL_CONTAINERS_FIELD:
                own = [
                    name
                    for name in own
                    if name in ephemeral_containers.list_served_names(super_pod)
                ]
            found[field] = [item for item in found[field] if item.get("name") in own]
    found["conditions"] = _build_conditions(tenant_pod, super_pod, found.get("conditions") or [])
    generation = _translate_generation(tenant_pod, super_pod, below.get("observedGeneration"))
    found.pop("observedGeneration", None)
    if generation is not None:
        found["observedGeneration"] = generation
    return found


def _build_conditions(
    tenant_pod: Mapping[str, Any], super_pod: Mapping[str, Any], below: Sequence[Mapping[str, Any]]
) -> list[Object]:
    """Return the twin's conditions for the tenant, without those of readiness gates."""
    gates = list_readiness_gates(tenant_pod)
    conditions: list[Object] = []
    for condition in below:
        if condition.get("type") in gates or wellknown.is_reserved_key(str(condition.get("type"))):
            continue
        shown = {key: value for key, value in condition.items() if key != "observedGeneration"}
        generation = _translate_generation(
            tenant_pod, super_pod, condition.get("observedGeneration")
        )
        if generation is not None:
            shown["observedGeneration"] = generation
        conditions.append(shown)
    return conditions


def _list_own_conditions(tenant_pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the conditions of a tenant pod that have a type."""
    listed = as_mappings(as_mapping(tenant_pod.get("status")).get("conditions"))
    return [condition for condition in listed if isinstance(condition.get("type"), str)]


def list_readiness_gates(tenant_pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the condition types of a pod's readiness gates that the tenant may set.

    A type without a domain belongs to a kubelet or a scheduler, which would restore its own value
    forever. No pod with such a gate is synced, but a hostile tenant API may add the gate later.
    """
    gates = as_mappings(tenant_pod["spec"].get("readinessGates"))
    named = as_strings([gate.get("conditionType") for gate in gates])
    return frozenset(kind for kind in named if wellknown.get_key_domain(kind))


def _translate_generation(
    tenant_pod: Mapping[str, Any], super_pod: Mapping[str, Any], observed: Any
) -> int | None:
    """Return an observed generation, converted to the tenant's generation.

    A single patch may have synced several of the tenant's changes. Until the kubelet has observed
    the last of them, the result does not exceed the generation that was reported before.
    """
    if not isinstance(observed, int):
        return None
    here = tenant_pod["metadata"].get("generation", 0)
    there = super_pod["metadata"].get("generation", 0)
    found = here - max(there - observed, 0)
    said = as_mapping(tenant_pod.get("status")).get("observedGeneration")
    if there > observed and isinstance(said, int):
        found = min(found, said)
    return found if found > 0 else None


def build_status_patch(
    tenant_pod: Mapping[str, Any],
    super_pod: Mapping[str, Any],
    names: Sequence[tuple[str, str]],
    *,
    hidden: Collection[str] = (),
) -> Object | None:
    """Return the merge patch of the tenant's status. None if it is as it should be."""
    shown = build_shown_status(tenant_pod, super_pod, names, hidden=hidden)
    return build_patch_to(tenant_pod, shown)


def build_patch_to(
    tenant_pod: Mapping[str, Any], shown: Object, synced_types: Collection[str] = ()
) -> Object | None:
    """Return the merge patch from the tenant's status to the twin's part of it, or None.

    `synced_types` are the condition types that the twin had before.
    """
    own = as_mapping(tenant_pod.get("status"))
    changes = status_ownership.build_patch(POD_OWNERSHIP, own, shown, synced_types)
    if not changes:
        return None
    return {"metadata": {"uid": tenant_pod["metadata"]["uid"]}, "status": changes}


def says_only_scheduled(super_pod: Mapping[str, Any]) -> bool:
    """Return whether a twin's status has only the node, as the binding in the tenant does.

    Its kubelet reports the rest in a moment, so a single write is sufficient for both.
    """
    found = super_pod.get("status") or {}
    types = {condition.get("type") for condition in found.get("conditions") or ()}
    return types <= {"PodScheduled"} and not any(
        found.get(field) for field in ("startTime", "message", "reason", *_CONTAINER_LIST_BY_STATUS)
    )


def strip_container_statuses(patch: Object) -> Object | None:
    """Return a status patch without the statuses of containers. None if nothing is left.

    If a tenant has written that a container ended for good, its API server never accepts a change
    of that. It does accept changes of the phase and of conditions.
    """
    rest = {
        field: value
        for field, value in patch["status"].items()
        if field not in _CONTAINER_LIST_BY_STATUS
    }
    return {**patch, "status": rest} if rest else None


def build_lost_patch(tenant_pod: Mapping[str, Any]) -> Object:
    """Return the merge patch for a pod whose twin disappeared without notice."""
    return {
        "metadata": {"uid": tenant_pod["metadata"]["uid"]},
        "status": {
            "phase": "Failed",
            "reason": "SuperPodLost",
            "message": "The pod disappeared from the node's cluster without being deleted here.",
        },
    }


def build_not_ready_patch(
    tenant_pod: Mapping[str, Any], reason: str, message: str
) -> Object | None:
    """Return the merge patch for a pod that is no longer ready. None if it was not ready."""
    conditions = _list_own_conditions(tenant_pod)
    there = next((item for item in conditions if item["type"] == "Ready"), None)
    if there is None or there.get("status") != "True":
        return None
    now = format_time(datetime.now(UTC))
    said = {"status": "False", "reason": reason, "message": message, "lastTransitionTime": now}
    listed = [{**item, **said} if item is there else dict(item) for item in conditions]
    return {
        "metadata": {"uid": tenant_pod["metadata"]["uid"]},
        "status": {"conditions": listed},
    }


def build_unschedulable_patch(tenant_pod: Mapping[str, Any], message: str) -> Object | None:
    """Return the merge patch for a pod without an eligible node. None if it is unchanged."""
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    conditions = _list_own_conditions(tenant_pod)
    there = next((item for item in conditions if item["type"] == said["type"]), {})
    wanted = {**said, "message": message[: builtin_policy.MAX_GATE_MESSAGE]}
    if all(there.get(field) == value for field, value in wanted.items()):
        return None
    is_new = there.get("status") != said["status"] or not _normalize_time(
        there.get("lastTransitionTime")
    )
    now = format_time(datetime.now(UTC))
    wanted["lastTransitionTime"] = now if is_new else there["lastTransitionTime"]
    others = [dict(item) for item in conditions if item["type"] != said["type"]]
    return {
        "metadata": {"uid": tenant_pod["metadata"]["uid"]},
        "status": {"conditions": [*others, wanted]},
    }


class KubeletRejection(NamedTuple):
    """Reason why a kubelet would reject a pod that names its node, as texts of a status."""

    reason: str
    message: str


_NO_FREE_PORTS = "didn't have free ports"
_INSUFFICIENT_PATTERN = re.compile(r"\bInsufficient (cpu|ephemeral-storage|memory)\b")
_TOO_MANY_PODS = "Too many pods"


def find_kubelet_rejection(super_pod: Mapping[str, Any]) -> KubeletRejection | None:
    """Return the reason why a twin that is pinned to one node does not fit on it now.

    Returns None until the scheduler reports it, and while the scheduler preempts pods. Returns None
    as well while it waits for a condition that a kubelet would also wait for.
    """
    found = as_mapping(super_pod.get("status"))
    said = next(
        (
            str(item.get("message") or "")
            for item in as_mappings(found.get("conditions"))
            if item.get("type") == "PodScheduled" and item.get("reason") == "Unschedulable"
        ),
        "",
    )
    if found.get("nominatedNodeName"):
        return None
    if _NO_FREE_PORTS in said:
        text = f"Predicate NodePorts failed: node(s) {_NO_FREE_PORTS} for the requested pod ports"
        return KubeletRejection("NodePorts", f"Pod was rejected: {text}")
    short = _INSUFFICIENT_PATTERN.search(said)
    resource = short[1] if short else "pods" if _TOO_MANY_PODS in said else ""
    if not resource:
        return None
    text = f"Pod was rejected: Node didn't have enough resource: {resource}"
    return KubeletRejection(f"OutOf{resource}", text)


def build_rejected_patch(tenant_pod: Mapping[str, Any], why: KubeletRejection) -> Object:
    """Return the merge patch for a pod that its node rejects."""
    said = {"phase": "Failed", "reason": why.reason, "message": why.message}
    return {"metadata": {"uid": tenant_pod["metadata"]["uid"]}, "status": said}


def build_gate_patch(tenant_pod: Mapping[str, Any], super_pod: Mapping[str, Any]) -> Object | None:
    """Return the strategic merge patch that syncs the gates' conditions to the twin, or None."""
    gates = list_readiness_gates(tenant_pod)
    if not gates:
        return None
    below = {
        condition.get("type"): condition
        for condition in (super_pod.get("status") or {}).get("conditions") or ()
    }
    changed, seen = [], set()
    for condition in _list_own_conditions(tenant_pod):
        kind = condition["type"]
        if kind not in gates or kind in seen:
            continue  # the first of several applies, as it does for every reader
        seen.add(kind)
        wanted = _normalize_condition(condition)
        there = below.get(kind) or {}
        if any(there.get(key) != value for key, value in wanted.items()):
            changed.append(wanted)
    if not changed:
        return None
    return {"metadata": {"uid": super_pod["metadata"]["uid"]}, "status": {"conditions": changed}}


def _normalize_condition(condition: Mapping[str, Any]) -> Object:
    """Return a tenant's condition as the super API stores it, or each comparison would differ."""
    found: Object = {
        key: condition[key][: builtin_policy.MAX_GATE_MESSAGE]
        for key in ("type", "status", "reason", "message")
        if isinstance(condition.get(key), str) and condition[key]
    }
    time = _normalize_time(condition.get("lastTransitionTime"))
    return {**found, "lastTransitionTime": time} if time else found


def _normalize_time(value: Any) -> str:
    """Return a time in the format of API servers. Empty if invalid."""
    try:
        found = datetime.fromisoformat(value)
        return format_time(found) if found.tzinfo else ""
    except (OverflowError, TypeError, ValueError):
        return ""


def list_hidden_status_fields(policy: TenantPolicySpec) -> frozenset[str]:
    """Return the fields of a status that are not synced back."""
    return NODE_ADDRESSES if policy.nodes.view == "Minimal" else frozenset()


def build_name_pairs(
    pod: Mapping[str, Any], twin: Mapping[str, Any], tenant: Tenant
) -> list[tuple[str, str]]:
    """Return the replacements for texts about a pod that are synced back to the tenant."""
    own, below = pod["metadata"], twin["metadata"]
    uids = (below["uid"], own["uid"])
    return object_meta.build_name_pairs(tenant, below["namespace"], own["namespace"], uids)
