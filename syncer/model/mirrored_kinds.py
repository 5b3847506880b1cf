"""Table of the kinds that are mirrored from the super cluster to tenants.

Pure. Generic code reads the table, which has one row per kind. Owns the leaves of a class that a
tenant sees, and the part of the policy that selects the class. Must not hold a client. A row is
data plus one named function. `syncer.rbac` derives the permissions from it.

Hazard: a body must be built from nothing, never copied and reduced. Parameters of classes name
pools, Secrets and networks of the super cluster and would reach the tenant.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry
from tenancy import wellknown
from tenancy.policies import ClassFilter, SyncSpec
from tenancy.resources import (
    CSI_DRIVERS,
    INGRESS_CLASSES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    VOLUME_SNAPSHOT_CLASSES,
    Resource,
)

_SYSTEM_PREFIX = "system-"
"""Prefix of the priority classes that every API server creates for itself."""

ReduceFunction = Callable[[Mapping[str, Any]], Object]


@dataclass(frozen=True, slots=True)
class ComparedShape:
    """Fields of a kind, for a comparison."""

    resource: Resource
    fields: tuple[str, ...]
    """Top-level fields of the kind. A tenant's addition to one of these fields is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredKind:
    """One mirrored kind."""

    resource: Resource
    select_filter: Callable[[SyncSpec], ClassFilter]
    """Return the field of the policy that selects the mirrored objects."""
    reduce: ReduceFunction
    """Return the fields that a tenant sees in addition to the metadata."""
    fields: tuple[str, ...]
    """Top-level fields of the kind, as in `ComparedShape`."""
    default_annotation: str = ""
    """Annotation that marks a class as the default class."""
    needs_crd: bool = False
    """True for a kind of a CRD that either cluster may lack."""

    @property
    def shape(self) -> ComparedShape:
        """Return the kind and its fields."""
        return ComparedShape(self.resource, self.fields)


def _pick_fields(source: Mapping[str, Any], *fields: str) -> Object:
    return {field: source[field] for field in fields if source.get(field) is not None}


def _get_spec(source: Mapping[str, Any]) -> Mapping[str, Any]:
    found = source.get("spec")
    return found if isinstance(found, dict) else {}


def reduce_storage_class(found: Mapping[str, Any]) -> Object:
    """Return the mirrored fields of a StorageClass: enough for the tenant's own admission."""
    return _pick_fields(
        found, "provisioner", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion"
    )


def reduce_priority_class(found: Mapping[str, Any]) -> Object:
    """Return the mirrored fields of a PriorityClass."""
    return _pick_fields(found, "value", "globalDefault", "preemptionPolicy")


def reduce_runtime_class(found: Mapping[str, Any]) -> Object:
    """Return the mirrored fields of a RuntimeClass.

    The overhead is left out, because the admission of the super cluster adds it.
    """
    return _pick_fields(found, "handler")


def reduce_ingress_class(found: Mapping[str, Any]) -> Object:
    """Return the mirrored fields of an IngressClass."""
    return {"spec": _pick_fields(_get_spec(found), "controller")}


def reduce_volume_snapshot_class(found: Mapping[str, Any]) -> Object:
    """Return the mirrored fields of a VolumeSnapshotClass."""
    return _pick_fields(found, "driver", "deletionPolicy")


def reduce_csi_driver(found: Mapping[str, Any]) -> Object:
    """Return the mirrored fields of a CSIDriver that every supported Kubernetes minor version has.

    A field that the tenant's API server does not know would be a permanent difference.
    """
    return {
        "spec": _pick_fields(
            _get_spec(found),
            "attachRequired",
            "podInfoOnMount",
            "volumeLifecycleModes",
            "fsGroupPolicy",
            "requiresRepublish",
        )
    }


MIRRORS: tuple[MirroredKind, ...] = (
    MirroredKind(
        resource=STORAGE_CLASSES,
        select_filter=lambda sync: sync.storage_classes,
        reduce=reduce_storage_class,
        fields=(
            "allowVolumeExpansion",
            "allowedTopologies",
            "mountOptions",
            "parameters",
            "provisioner",
            "reclaimPolicy",
            "volumeBindingMode",
        ),
        default_annotation="storageclass.kubernetes.io/is-default-class",
    ),
    MirroredKind(
        resource=PRIORITY_CLASSES,
        select_filter=lambda sync: sync.priority_classes,
        reduce=reduce_priority_class,
        fields=("description", "globalDefault", "preemptionPolicy", "value"),
    ),
    MirroredKind(
        resource=RUNTIME_CLASSES,
        select_filter=lambda sync: sync.runtime_classes,
        reduce=reduce_runtime_class,
        fields=("handler", "overhead", "scheduling"),
    ),
    MirroredKind(
        resource=INGRESS_CLASSES,
        select_filter=lambda sync: sync.ingress_classes,
        reduce=reduce_ingress_class,
        fields=("spec",),
        default_annotation="ingressclass.kubernetes.io/is-default-class",
    ),
    MirroredKind(
        resource=CSI_DRIVERS,
        select_filter=lambda sync: sync.csi_drivers,
        reduce=reduce_csi_driver,
        fields=("spec",),
    ),
    MirroredKind(
        resource=VOLUME_SNAPSHOT_CLASSES,
        select_filter=lambda sync: sync.volume_snapshot_classes,
        reduce=reduce_volume_snapshot_class,
        fields=("deletionPolicy", "driver", "parameters"),
        default_annotation="snapshot.storage.kubernetes.io/is-default-class",
        needs_crd=True,
    ),
)

MIRRORS_BY_KIND: Mapping[str, MirroredKind] = {mirror.resource.kind: mirror for mirror in MIRRORS}


def is_selected(mirror: MirroredKind, sync: SyncSpec, entry: Entry) -> bool:
    """Return whether the policy selects an object.

    The `system-` priority classes are never mirrored, because each cluster has its own.
    """
    if mirror.resource is PRIORITY_CLASSES and entry.name.startswith(_SYSTEM_PREFIX):
        return False
    return mirror.select_filter(sync).matches(entry.name, dict(entry.labels))


def build_mirror(mirror: MirroredKind, super_x: Mapping[str, Any]) -> Object:
    """Return the object as the tenant sees it."""
    metadata = super_x["metadata"]
    annotations = metadata.get("annotations") or {}
    kept = (
        {mirror.default_annotation: annotations[mirror.default_annotation]}
        if mirror.default_annotation in annotations
        else {}
    )
    return {
        "apiVersion": mirror.resource.api_version,
        "kind": mirror.resource.kind,
        "metadata": build_mirror_metadata(metadata, kept),
        **mirror.reduce(super_x),
    }


def build_mirror_metadata(
    super_metadata: Mapping[str, Any], annotations: Mapping[str, str] | None = None
) -> Object:
    """Return the metadata of a mirrored object.

    A label and an annotation both mark the object, so that the syncer restores either of them if it
    is removed.
    """
    return {
        "name": super_metadata["name"],
        "labels": {wellknown.MIRRORED: "true"},
        "annotations": {**(annotations or {}), wellknown.UID: super_metadata["uid"]},
    }


def find_default_class(mirror: MirroredKind, found: Iterable[Entry]) -> str:
    """Return the class that admission assigns to an object that names none.

    This is the newest class that is annotated as default. Empty if there is none.
    """
    return max(
        (
            (str(entry.decode()["metadata"].get("creationTimestamp", "")), entry.name)
            for entry in found
            if entry.annotations.get(mirror.default_annotation) == "true"
        ),
        default=("", ""),
    )[1]


def is_own_mirror(tenant_x: Entry) -> bool:
    """Return whether the syncer created a tenant object.

    An object that has lost both marks belongs to the tenant.
    """
    return wellknown.MIRRORED in tenant_x.labels or wellknown.UID in tenant_x.annotations


def is_mirror_current(own: Mapping[str, Any], wanted: Object, fields: tuple[str, ...]) -> bool:
    """Return whether a tenant object is as wanted.

    Empty values that the tenant's API server filled in are no difference, because a newer server
    knows more fields.
    """
    for field in ("labels", "annotations"):
        if (own["metadata"].get(field) or {}) != wanted["metadata"][field]:
            return False
    return all(_is_same(own.get(field), wanted.get(field)) for field in fields)


def _is_same(own: Any, wanted: Any) -> bool:
    if isinstance(own, dict) and isinstance(wanted, dict):
        return all(_is_same(own.get(key), wanted.get(key)) for key in {*own, *wanted})
    return bool(own == wanted) or (_is_empty(own) and _is_empty(wanted))


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {}, 0)


def build_replacement(own: Mapping[str, Any], wanted: Object) -> Object:
    """Return the PUT body that makes a tenant object as wanted.

    The object keeps its finalizers and owners, which are the tenant's own.
    """
    there = own["metadata"]
    kept = {key: there[key] for key in ("ownerReferences", "finalizers") if key in there}
    identity = {"uid": there["uid"], "resourceVersion": there["resourceVersion"]}
    return {**wanted, "metadata": {**wanted["metadata"], **identity, **kept}}
