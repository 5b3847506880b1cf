"""The status of a tenant pod, made from its twin's.

Pure. Owns what of a status goes up, and the readiness conditions that go down. Hazards: the API
refuses a changed qosClass; containers that the tenant did not write (injected ones) would show; and
messages of the kubelet name the super namespace.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubeio import Object
from syncer import policy, translate
from syncer.special.pod_build import container_names
from tenancy import marks

_NOT_UP = frozenset(
    {
        "extendedResourceClaimStatus",
        "nodeAllocatableResourceClaimStatuses",
        "nominatedNodeName",
        "qosClass",
        "resourceClaimStatuses",
    }
)
_CONTAINER_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
TERMINAL = frozenset({"Succeeded", "Failed"})


def status(
    tenant_pod: Mapping[str, Any],
    super_pod: Mapping[str, Any],
    names: Sequence[tuple[str, str]],
) -> Object:
    """Return the whole status that the tenant pod should have, less what never goes up."""
    own = container_names(tenant_pod["spec"])
    below = super_pod.get("status") or {}
    found: Object = {
        field: translate.scrub_all(value, names)
        for field, value in below.items()
        if field not in _NOT_UP
    }
    for field in _CONTAINER_STATUSES:
        if field in found:
            found[field] = [item for item in found[field] if item.get("name") in own]
    found["conditions"] = _conditions(tenant_pod, super_pod, found.get("conditions") or [])
    generation = _generation(tenant_pod, super_pod, below.get("observedGeneration"))
    found.pop("observedGeneration", None)
    if generation is not None:
        found["observedGeneration"] = generation
    return found


def _conditions(
    tenant_pod: Mapping[str, Any], super_pod: Mapping[str, Any], below: Sequence[Mapping[str, Any]]
) -> list[Object]:
    """Return the twin's conditions; those of the tenant's readiness gates are the tenant's own."""
    gates = gates_of(tenant_pod)
    conditions: list[Object] = []
    for condition in below:
        if condition.get("type") in gates or marks.is_reserved(str(condition.get("type"))):
            continue
        shown = {key: value for key, value in condition.items() if key != "observedGeneration"}
        generation = _generation(tenant_pod, super_pod, condition.get("observedGeneration"))
        if generation is not None:
            shown["observedGeneration"] = generation
        conditions.append(shown)
    own = (tenant_pod.get("status") or {}).get("conditions") or ()
    return conditions + [dict(condition) for condition in own if condition.get("type") in gates]


def gates_of(tenant_pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the condition types that a pod's readiness gates name."""
    gates = tenant_pod["spec"].get("readinessGates") or ()
    return frozenset(gate["conditionType"] for gate in gates)


def _generation(
    tenant_pod: Mapping[str, Any], super_pod: Mapping[str, Any], observed: Any
) -> int | None:
    """Return an observed generation in the tenant's own count."""
    if not isinstance(observed, int):
        return None
    here = tenant_pod["metadata"].get("generation", 0)
    there = super_pod["metadata"].get("generation", 0)
    found = here - max(there - observed, 0)
    return found if found > 0 else None


def status_patch(
    tenant_pod: Mapping[str, Any],
    super_pod: Mapping[str, Any],
    names: Sequence[tuple[str, str]],
) -> Object | None:
    """Return the merge patch of the tenant's status, or None when it is as it should be."""
    own = {k: v for k, v in (tenant_pod.get("status") or {}).items() if k not in _NOT_UP}
    wanted = status(tenant_pod, super_pod, names)
    if not own.get("conditions") and not wanted["conditions"]:
        own["conditions"] = []
    changes = translate.merge_patch(own, wanted)
    if not changes:
        return None
    return {"metadata": {"uid": tenant_pod["metadata"]["uid"]}, "status": changes}


def lost(tenant_pod: Mapping[str, Any]) -> Object:
    """Return the merge patch for a pod whose twin vanished without notice."""
    return {
        "metadata": {"uid": tenant_pod["metadata"]["uid"]},
        "status": {
            "phase": "Failed",
            "reason": "SuperPodLost",
            "message": "The pod vanished from the node's cluster without being deleted here.",
        },
    }


def gate_patch(tenant_pod: Mapping[str, Any], super_pod: Mapping[str, Any]) -> Object | None:
    """Return the strategic merge patch that carries readiness gates' conditions down, or None."""
    gates = gates_of(tenant_pod)
    if not gates:
        return None
    below = {
        condition.get("type"): condition
        for condition in (super_pod.get("status") or {}).get("conditions") or ()
    }
    changed = []
    for condition in (tenant_pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") not in gates:
            continue
        wanted = {
            key: str(condition[key])[: policy.MAX_GATE_MESSAGE]
            for key in ("type", "status", "reason", "message", "lastTransitionTime")
            if condition.get(key)
        }
        there = below.get(condition["type"]) or {}
        if any(there.get(key) != value for key, value in wanted.items()):
            changed.append(wanted)
    if not changed:
        return None
    return {"metadata": {"uid": super_pod["metadata"]["uid"]}, "status": {"conditions": changed}}
