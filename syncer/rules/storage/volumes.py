"""PersistentVolumes: the tenant's view of super volumes, and volumes that a tenant writes itself.

Pure. Owns the reduced volume, the verdicts on a tenant's own volumes, and the ownership of a
volume, which its claim determines. Must not know claims beyond their names.

Hazard: the source of a super volume must not be shown, because it names servers, paths and Secrets
of the super cluster. A tenant sees a driver and a handle that gives no access.

Hazard: only sources that the policy lists may be synced. Nodes mount whatever a tenant writes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import mirrored_kinds
from syncer.model.field_rules import (
    ALLOW_MAP,
    ALLOW_SCALAR,
    AllowValues,
    BuiltField,
    DropField,
    FieldRule,
    FieldWalk,
    ObjectFields,
    RefuseField,
)
from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping
from syncer.rules.storage import reclaim_policies
from tenancy import names, ownership, wellknown
from tenancy.policies import TenantVolumes

PLACEHOLDER_DRIVER = f"volumes.{wellknown.DOMAIN}"
"""Driver name that a tenant sees for every super volume without a CSI driver."""

BY_CLAIM_INDEX = "claim"
"""Index of tenant volumes by namespace and name of the claim that they are for."""
_MOUNT_OPTIONS = frozenset(
    {
        "hard",
        "noatime",
        "nodev",
        "nodiratime",
        "noexec",
        "nolock",
        "nosuid",
        "proto=tcp",
        "ro",
        "rw",
        "soft",
        "tcp",
        *(f"{key}={version}" for key in ("nfsvers", "vers") for version in (3, 4, 4.0, 4.1, 4.2)),
    }
)
_OFFERED_TEXT = "Use an NFS server or a CSI driver that is offered"
_SOURCE_RULE = RefuseField(
    "volume-source", "is not offered. Use a class, and leave volumes to the cluster"
)
_SECRET_RULE = RefuseField("volume-secret", "would open Secrets of the nodes. Leave it out")
_OTHER_SOURCES = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
)


def build_volume_rules(offered: TenantVolumes) -> Mapping[str, FieldRule]:
    """Return the verdicts on a volume that a tenant wrote, under a policy."""
    text = "is not offered. Contact your platform administrator"
    return {
        **dict.fromkeys(_OTHER_SOURCES, _SOURCE_RULE),
        "accessModes": ALLOW_SCALAR,
        "capacity": ALLOW_MAP,
        "claimRef": BuiltField(
            "volumes", "becomes the one claim of your cluster that is bound to the volume"
        ),
        "csi": ObjectFields(
            {
                "controllerExpandSecretRef": _SECRET_RULE,
                "controllerPublishSecretRef": _SECRET_RULE,
                "driver": AllowValues(frozenset(offered.csi_drivers), "volume-source", text),
                "fsType": ALLOW_SCALAR,
                "nodeExpandSecretRef": _SECRET_RULE,
                "nodePublishSecretRef": _SECRET_RULE,
                "nodeStageSecretRef": _SECRET_RULE,
                "readOnly": ALLOW_SCALAR,
                "volumeAttributes": ALLOW_MAP,
                "volumeHandle": ALLOW_SCALAR,
            }
        ),
        "mountOptions": AllowValues(
            _MOUNT_OPTIONS, "mount-options", "Use plain options of NFS only"
        ),
        "nfs": ObjectFields(
            {
                "path": ALLOW_SCALAR,
                "readOnly": ALLOW_SCALAR,
                "server": AllowValues(frozenset(offered.nfs_servers), "volume-source", text),
            }
        ),
        "nodeAffinity": RefuseField("volume-affinity", "is not offered. Leave it out"),
        "persistentVolumeReclaimPolicy": DropField("the data is yours, so the copy has Retain"),
        "storageClassName": BuiltField(
            "volumes",
            "applies in your cluster only. In the super cluster the claim is bound by name",
        ),
        "volumeAttributesClassName": RefuseField(
            "volume-attributes-class", "is not offered. Leave it out"
        ),
        "volumeMode": ALLOW_SCALAR,
    }


VOLUME_SPEC: Mapping[str, FieldRule] = build_volume_rules(TenantVolumes())
"""Verdicts if the policy lists no source."""


# --- ownership ------------------------------------------------------------------------------------


def get_claim_reference(entry: Entry) -> tuple[str, str] | None:
    """Return namespace and name of the claim that a volume is for."""
    spec = entry.decode().get("spec")
    reference = spec.get("claimRef") if isinstance(spec, dict) else None
    if not isinstance(reference, dict):
        return None
    namespace, name = reference.get("namespace"), reference.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str) or not namespace or not name:
        return None
    return (namespace, name)


def index_by_claim(entry: Entry) -> Iterable[str]:
    """Return the index values of a volume: the claim that it is for."""
    try:
        place = get_claim_reference(entry)
    except ValueError:  # from a hostile API
        return ()
    return ("/".join(place),) if place is not None else ()


def get_bound_super_claim(super_x: Entry, view: TenantView) -> Entry | None:
    """Return the tenant's super claim that is bound to a super volume. Both sides must agree.

    The twin of a volume that a tenant wrote is not shown, because the tenant has that volume
    already.
    """
    if ownership.read_owner({"annotations": super_x.annotations}) is not None:
        return None
    place = get_claim_reference(super_x)
    claim = view.super_stores["PersistentVolumeClaim"].get(*place) if place is not None else None
    if claim is None:
        return None
    owner = ownership.read_owner({"annotations": claim.annotations})
    if owner is None or owner.vc_uid != view.tenant.uid:
        return None
    reference = super_x.decode()["spec"]["claimRef"]
    named = (claim.decode().get("spec") or {}).get("volumeName")
    return claim if reference.get("uid") == claim.uid and named == super_x.name else None


class ClaimReference(NamedTuple):
    """Tenant claim of a shown volume."""

    namespace: str
    name: str
    uid: str
    is_released: bool = False
    """The claim was deleted, and the volume is kept."""


def find_claim(super_x: Entry, shown: Entry | None, view: TenantView) -> ClaimReference | None:
    """Return the tenant claim that a super volume is bound to, or was bound to.

    A volume that was released is shown only where it was shown before. The UID in its mirror proves
    that.
    """
    claim = get_bound_super_claim(super_x, view)
    if claim is not None:
        owner = ownership.read_owner({"annotations": claim.annotations})
        namespace, uid = (owner.namespace, owner.uid) if owner is not None else ("", "")
        return ClaimReference(namespace, claim.name, uid)
    return _find_released_claim(super_x, shown, view)


def _find_released_claim(
    super_x: Entry, shown: Entry | None, view: TenantView
) -> ClaimReference | None:
    if shown is None or shown.annotations.get(wellknown.UID) != super_x.uid:
        return None
    place, live = get_claim_reference(super_x), super_x.decode()
    is_own_twin = ownership.read_owner({"annotations": super_x.annotations}) is not None
    if place is None or is_own_twin or get_phase(live) not in _KEPT_PHASES:
        return None
    claim = view.super_stores["PersistentVolumeClaim"].get(*place)
    if claim is not None and claim.uid == live["spec"]["claimRef"].get("uid"):
        return None  # it exists, and is bound to another volume or belongs to another tenant
    own = as_mapping(as_mapping(shown.decode().get("spec")).get("claimRef"))
    namespaces = [own.get("namespace"), *(each.name for each in view.stores["Namespace"].list())]
    for namespace in namespaces:
        if isinstance(namespace, str) and view.get_super_namespace(namespace) == place[0]:
            uid = own.get("uid")
            return ClaimReference(namespace, place[1], uid if isinstance(uid, str) else "", True)
    return None


_KEPT_PHASES = frozenset({"Bound", "Released", "Failed"})
"""Phases of a volume after the deletion of its claim. Bound is reported for another moment."""


def get_shown_phase(live: Mapping[str, Any], claim: ClaimReference) -> str:
    """Return the phase of a super volume for the tenant."""
    phase = get_phase(live)
    return "Released" if claim.is_released and phase == "Bound" else phase


def may_sync_down(tenant_x: Entry, view: TenantView) -> bool:
    """Return whether a volume of a tenant is its own and may be synced."""
    if mirrored_kinds.is_own_mirror(tenant_x):
        return False
    try:
        _walk_spec(tenant_x.decode(), view)
    except RejectedError:
        return False
    return True


def get_tenant_volume_name(claim_annotations: Mapping[str, str], name: str) -> str:
    """Return the tenant's name of the volume that a super claim is bound to."""
    own = claim_annotations.get(wellknown.VOLUME, "")
    vc_uid = claim_annotations.get(wellknown.VC_UID, "")
    return own if own and names.build_volume_name(vc_uid, own) == name else name


def get_recorded_volume_name(super_claim: Entry) -> str:
    """Return the tenant's name of the volume of a super claim. Empty if it has none."""
    name = (super_claim.decode().get("spec") or {}).get("volumeName")
    return get_tenant_volume_name(super_claim.annotations, name) if name else ""


# --- synced back to the tenant --------------------------------------------------------------------


def build_shown_volume(super_x: Mapping[str, Any], claim: ClaimReference) -> Object:
    """Return a super volume as the tenant sees it. `claim` is the tenant's claim."""
    spec = super_x["spec"]
    policy = reclaim_policies.get_reclaim_policy(super_x)
    record = {wellknown.RECLAIM_POLICY: policy} if policy else {}
    csi = spec.get("csi") if isinstance(spec.get("csi"), dict) else {}
    fields = (
        "accessModes",
        "capacity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeMode",
    )
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": mirrored_kinds.build_mirror_metadata(super_x["metadata"], record),
        "spec": {
            **{field: spec[field] for field in fields if spec.get(field) is not None},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
            },
            "csi": {
                "driver": csi.get("driver") or PLACEHOLDER_DRIVER,
                "volumeHandle": super_x["metadata"]["name"],
            },
        },
    }


def get_phase(found: Mapping[str, Any]) -> str:
    """Return the phase of a volume. Empty if it has none."""
    status = found.get("status")
    phase = status.get("phase") if isinstance(status, dict) else None
    return phase if isinstance(phase, str) else ""


def build_phase_patch(tenant_x: Mapping[str, Any], phase: str) -> Object | None:
    """Return the merge patch of the status to a phase. None if it is unchanged.

    Pending only means that the super cluster has not processed the volume yet.
    """
    if phase in ("", "Pending") or get_phase(tenant_x) == phase:
        return None
    return {"metadata": {"uid": tenant_x["metadata"]["uid"]}, "status": {"phase": phase}}


# --- synced to the super cluster ------------------------------------------------------------------


def _walk_spec(tenant_x: Mapping[str, Any], view: TenantView) -> dict[str, Any]:
    walk = FieldWalk()
    found = tenant_x.get("spec") or {}
    offered = view.policy.storage.tenant_volumes
    spec = walk.walk_fields(found, build_volume_rules(offered), "spec")
    for field, key in (("nfs", "server"), ("csi", "driver")):
        if field in spec and not (isinstance(spec[field], dict) and spec[field].get(key)):
            text = f"must be set. {_OFFERED_TEXT}"
            walk.problems.append(RejectionProblem("volume-source", f"spec.{field}.{key}", text))
    if not walk.problems and len({"nfs", "csi"} & set(spec)) != 1:
        text = f"must have exactly one source. {_OFFERED_TEXT}"
        walk.problems.append(RejectionProblem("volume-source", "spec", text))
    if walk.problems:
        raise RejectedError(*walk.problems)
    return spec


def build_volume(
    tenant_x: Mapping[str, Any],
    claim: tuple[str, str] | None,
    super_namespace: Entry | None,
    view: TenantView,
) -> Object:
    """Return the twin of a volume that a tenant wrote. Raises RejectedError.

    `claim` is the tenant's claim. Without a claim the twin is not pinned, and the body only shows
    whether the volume would be accepted. The super namespace owns the twin, so that the twin is
    deleted with it.
    """
    metadata = tenant_x["metadata"]
    spec = _walk_spec(tenant_x, view)
    if claim is not None:
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": view.get_super_namespace(claim[0]),
            "name": claim[1],
        }
    twin: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": names.build_volume_name(view.tenant.uid, metadata["name"]),
            "labels": ownership.build_owner_labels(view.tenant, ""),
            "annotations": {
                **ownership.build_owner_annotations(view.tenant, "", metadata["uid"]),
                wellknown.VOLUME: metadata["name"],
            },
        },
        "spec": {**spec, "persistentVolumeReclaimPolicy": "Retain", "storageClassName": ""},
    }
    if super_namespace is not None:
        twin["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "name": super_namespace.name,
                "uid": super_namespace.uid,
            }
        ]
    return twin


def build_patch(
    live: Mapping[str, Any], twin: Object, tenant_x: Mapping[str, Any]
) -> Object | None:
    """Return the merge patch of the leaves that may change, or None if none differs."""
    there, wanted = live["spec"], twin["spec"]
    spec: Object = {
        field: wanted[field]
        for field in ("accessModes", "capacity", "mountOptions", "persistentVolumeReclaimPolicy")
        if wanted.get(field) and wanted[field] != there.get(field)
    }
    reference, pinned = there.get("claimRef") or {}, wanted["claimRef"]
    is_other = any(reference.get(key) != pinned[key] for key in ("namespace", "name"))
    # A released volume is free again after its owner removed the old claim's UID, as usual.
    is_freed = get_phase(live) == "Released" and not _get_claim_uid(tenant_x)
    if is_other or is_freed:
        spec["claimRef"] = {**pinned, "uid": None, "resourceVersion": None}
    metadata: Object = {}
    for field in ("labels", "annotations"):
        before = live["metadata"].get(field) or {}
        changed = {
            key: value
            for key, value in twin["metadata"][field].items()
            if before.get(key) != value and key != wellknown.STORE_REVISION
        }
        if changed:
            metadata[field] = changed
    if not spec and not metadata:
        return None
    body: Object = {"metadata": {"uid": live["metadata"]["uid"], **metadata}}
    return {**body, "spec": spec} if spec else body


def _get_claim_uid(tenant_x: Mapping[str, Any]) -> str:
    reference = tenant_x["spec"].get("claimRef")
    uid = reference.get("uid") if isinstance(reference, dict) else None
    return uid if isinstance(uid, str) else ""


def build_claim_up(
    tenant_x: Mapping[str, Any], live: Mapping[str, Any], claim: Entry | None
) -> Object | None:
    """Return the merge patch that writes the tenant claim into a bound volume, or None."""
    if claim is None or get_phase(live) != "Bound":
        return None
    wanted = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
    reference = tenant_x["spec"].get("claimRef")
    before = reference if isinstance(reference, dict) else {}
    if all(before.get(key) == wanted[key] for key in ("namespace", "name", "uid")):
        return None
    return {"metadata": {"uid": tenant_x["metadata"]["uid"]}, "spec": {"claimRef": wanted}}
