"""Status of a claim, synced back to the tenant: its volume and the status of its twin.

Pure. Owns the leaves of a claim's status that a tenant sees. Must not know how a claim is created.

Hazard: nothing may be synced back before the binding is complete. The volume name of a claim can
never be changed.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeio import Object
from syncer.model import object_meta
from syncer.model.field_rules import ALLOW, FREE, Each, Fields, Verdict, Walk
from syncer.model.rejections import Problem
from syncer.rules.storage import volumes
from tenancy import names, wellknown

CLAIM_STATUS: Mapping[str, Verdict] = {
    "accessModes": ALLOW,
    "allocatedResourceStatuses": FREE,
    "allocatedResources": FREE,
    "capacity": FREE,
    "conditions": Each(
        {
            "lastProbeTime": ALLOW,
            "lastTransitionTime": ALLOW,
            "message": ALLOW,
            "reason": ALLOW,
            "status": ALLOW,
            "type": ALLOW,
        }
    ),
    "currentVolumeAttributesClassName": ALLOW,
    "modifyVolumeStatus": Fields({"status": ALLOW, "targetVolumeAttributesClassName": ALLOW}),
    "phase": ALLOW,
}


def volume_up(tenant_claim: Mapping[str, Any], live: Mapping[str, Any]) -> Object | None:
    """Return the merge patch with the volume that a claim was bound to, or None."""
    status, spec = live.get("status") or {}, live.get("spec") or {}
    own = (tenant_claim.get("spec") or {}).get("volumeName")
    if own or status.get("phase") != "Bound" or not spec.get("volumeName"):
        return None  # a volume is chosen once
    annotations = live["metadata"].get("annotations") or {}
    return {
        "metadata": {"uid": tenant_claim["metadata"]["uid"]},
        "spec": {"volumeName": volumes.name_above(annotations, spec["volumeName"])},
    }


def status_up(tenant_claim: Mapping[str, Any], live: Mapping[str, Any]) -> Object | None:
    """Return the merge patch of the tenant's status, or None."""
    there = Walk().fields(live.get("status") or {}, CLAIM_STATUS, "status")
    own = tenant_claim.get("status")
    own = own if isinstance(own, dict) else {}
    # Both sides are read by the same table, because an unset time is null on both sides.
    before = {**own, **Walk().fields(own, CLAIM_STATUS, "status")}
    wanted = object_meta.scrub_all(there, _names_between(tenant_claim, live))
    changed = object_meta.merge_patch(before, wanted)
    if not changed:
        return None
    return {"metadata": {"uid": tenant_claim["metadata"]["uid"]}, "status": changed}


def _names_between(
    tenant_claim: Mapping[str, Any], live: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return the replacements for texts of a claim's conditions. Volume names stay as shown."""
    above, below = tenant_claim["metadata"], live["metadata"]
    annotations = below.get("annotations") or {}
    root = str(annotations.get(wellknown.CLUSTER) or "")
    pairs = [(below["namespace"], above["namespace"]), *volume_names(annotations)]
    return [*pairs, (f"{root}-", ""), (root, "")] if root else pairs


def volume_names(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the replacement for the name of a claim's volume, if the tenant's name differs."""
    own, vc_uid = annotations.get(wellknown.VOLUME), annotations.get(wellknown.VC_UID)
    return [(names.volume(vc_uid, own), own)] if own and vc_uid else []


def is_lost(tenant_claim: Mapping[str, Any], problems: Iterable[Problem]) -> bool:
    """Return whether a claim that was bound has neither a twin nor a volume any longer."""
    status = tenant_claim.get("status")
    was_bound = isinstance(status, dict) and status.get("phase") == "Bound"
    return was_bound and any(problem.rule == "volume-name" for problem in problems)
