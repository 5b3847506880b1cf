"""Status of a claim, synced back to the tenant: its volume and the status of its twin.

Pure. Owns the leaves of a claim's status that a tenant sees. Must not know how a claim is created.

Hazard: nothing may be synced back before the binding is complete. The volume name of a claim can
never be changed.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kubeio import Object
from syncer.model import object_meta
from syncer.model.field_rules import (
    ALLOW_MAP,
    ALLOW_SCALAR,
    DropField,
    FieldRule,
    FieldWalk,
    ListOfObjects,
    ObjectFields,
)
from syncer.model.rejections import RejectionProblem
from syncer.model.unstructured import as_mappings
from syncer.rules import status_ownership
from syncer.rules.storage import volumes
from tenancy import names, wellknown

CLAIM_STATUS: Mapping[str, FieldRule] = {
    "accessModes": ALLOW_SCALAR,
    "allocatedResourceStatuses": ALLOW_MAP,
    "allocatedResources": ALLOW_MAP,
    "capacity": ALLOW_MAP,
    "conditions": ListOfObjects(
        {
            "lastProbeTime": ALLOW_SCALAR,
            "lastTransitionTime": ALLOW_SCALAR,
            "message": ALLOW_SCALAR,
            "reason": ALLOW_SCALAR,
            "status": ALLOW_SCALAR,
            "type": ALLOW_SCALAR,
        }
    ),
    "currentVolumeAttributesClassName": ALLOW_SCALAR,
    "healthStatus": DropField(
        "text of the super cluster's storage drivers, which can name storage"
    ),
    "modifyVolumeStatus": ObjectFields(
        {"status": ALLOW_SCALAR, "targetVolumeAttributesClassName": ALLOW_SCALAR}
    ),
    "phase": ALLOW_SCALAR,
}


def build_volume_up(tenant_claim: Mapping[str, Any], live: Mapping[str, Any]) -> Object | None:
    """Return the merge patch with the volume that a claim was bound to, or None."""
    status, spec = live.get("status") or {}, live.get("spec") or {}
    own = (tenant_claim.get("spec") or {}).get("volumeName")
    if own or status.get("phase") != "Bound" or not spec.get("volumeName"):
        return None  # a volume is chosen once
    annotations = live["metadata"].get("annotations") or {}
    return {
        "metadata": {"uid": tenant_claim["metadata"]["uid"]},
        "spec": {"volumeName": volumes.get_tenant_volume_name(annotations, spec["volumeName"])},
    }


def build_status_up(
    tenant_claim: Mapping[str, Any], live: Mapping[str, Any], synced_types: Collection[str] = ()
) -> Object | None:
    """Return the merge patch of the tenant's status, or None."""
    there = FieldWalk().walk_fields(live.get("status") or {}, CLAIM_STATUS, "status")
    own = tenant_claim.get("status")
    own = own if isinstance(own, dict) else {}
    # Both sides are read by the same table, because an unset time is null on both sides. Conditions
    # of other writers keep fields that the table does not have.
    before = {
        **own,
        **FieldWalk().walk_fields(own, CLAIM_STATUS, "status"),
        "conditions": _strip_nulls(own.get("conditions")),
    }
    wanted = object_meta.replace_names_in(there, _build_name_pairs(tenant_claim, live))
    changed = status_ownership.build_patch(
        status_ownership.CLAIM_OWNERSHIP, before, wanted, synced_types
    )
    if not changed:
        return None
    return {"metadata": {"uid": tenant_claim["metadata"]["uid"]}, "status": changed}


def _strip_nulls(conditions: Any) -> list[Object]:
    return [
        {field: value for field, value in item.items() if value is not None}
        for item in as_mappings(conditions)
    ]


def _build_name_pairs(
    tenant_claim: Mapping[str, Any], live: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return the replacements for texts of a claim's conditions. Volume names stay as shown."""
    above, below = tenant_claim["metadata"], live["metadata"]
    annotations = below.get("annotations") or {}
    root = str(annotations.get(wellknown.CLUSTER) or "")
    pairs = [(below["namespace"], above["namespace"]), *build_volume_name_pairs(annotations)]
    return [*pairs, (f"{root}-", ""), (root, "")] if root else pairs


def build_volume_name_pairs(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the replacement for the name of a claim's volume, if the tenant's name differs."""
    own, vc_uid = annotations.get(wellknown.VOLUME), annotations.get(wellknown.VC_UID)
    return [(names.build_volume_name(vc_uid, own), own)] if own and vc_uid else []


def is_claim_lost(tenant_claim: Mapping[str, Any], problems: Iterable[RejectionProblem]) -> bool:
    """Return whether a claim that was bound has neither a twin nor a volume any longer."""
    status = tenant_claim.get("status")
    was_bound = isinstance(status, dict) and status.get("phase") == "Bound"
    return was_bound and any(problem.rule == "volume-name" for problem in problems)
