"""PersistentVolumeClaims that are synced to the super cluster.

Pure. Owns the leaves of a claim that are synced, the leaves that may change later, and the
ownership of the storage that a claim names. Must not know volumes beyond their ownership.

Hazard: a volume or claim that a claim names must be proved to be the tenant's own. Otherwise it is
opened to the tenant.

Hazard: a claim that was bound must never get other storage than it had. Otherwise the tenant's data
is missing. An omitted class is a choice as well.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import mirrored_kinds, object_meta
from syncer.model.field_rules import (
    ALLOW_MAP,
    ALLOW_SCALAR,
    BuiltField,
    FieldRule,
    FieldWalk,
    ObjectFields,
    RefuseField,
)
from syncer.model.references import ObjectReference
from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.rules.storage import volumes
from tenancy import names, ownership, wellknown
from tenancy.policies import WILDCARD_NAME, TenantVolumes
from tenancy.quantities import parse_quantity
from tenancy.resources import VOLUME_SNAPSHOTS

Json = Any

CLAIM = "PersistentVolumeClaim"
_STORAGE_CLASS = "StorageClass"
BY_VOLUME_INDEX = "volume"
"""Index of tenant claims by the volume that they name."""
_BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Annotation that also names the class. It has precedence over the field."""

_DATA_SOURCE = BuiltField(
    "claims",
    "is synced if it is a claim of the same namespace, after that claim is synced. A VolumeSnapshot"
    " is synced in the same way, if a SyncRule of your cluster has that kind",
)

CLAIM_SPEC: Mapping[str, FieldRule] = {
    "accessModes": ALLOW_SCALAR,
    "dataSource": _DATA_SOURCE,
    "dataSourceRef": _DATA_SOURCE,
    "resources": ObjectFields({"limits": ALLOW_MAP, "requests": ALLOW_MAP}),
    "selector": RefuseField(
        "volume-selector",
        "would select volumes of other tenants. Set a class, or a volume of your own in"
        " spec.volumeName",
    ),
    "storageClassName": BuiltField(
        "claims",
        "must be a class that your cluster shows. Without a value it is the default class,"
        " if your cluster shows that",
    ),
    "volumeAttributesClassName": BuiltField(
        "claims", "is synced if it is a class that is offered to your cluster"
    ),
    "volumeMode": ALLOW_SCALAR,
    "volumeName": BuiltField(
        "claims", "must be a volume of your own, or a volume that is reserved for this claim"
    ),
}
_NO_TENANT_VOLUMES = TenantVolumes()
_NO_VOLUME_TEXT = (
    "names a volume that was deleted or never offered. Leave it out, or name a volume of your own"
    " with an offered source"
)


def build_claim(tenant_claim: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a claim. Raises RejectedError."""
    metadata, found = tenant_claim["metadata"], tenant_claim.get("spec") or {}
    walk = FieldWalk()
    spec = walk.walk_fields(found, CLAIM_SPEC, "spec")
    texts = {field: _get_text(found, field, walk.problems) for field in _TEXT_FIELDS}
    if walk.problems:
        raise RejectedError(*walk.problems)
    twin = get_live_twin(metadata, view)
    own = get_own_volume(metadata, texts["volumeName"], view)
    problems: list[RejectionProblem] = []
    volume = _resolve_super_volume(texts["volumeName"], own, twin, metadata, view)
    if volume is None:
        problems.append(RejectionProblem("volume-name", "spec.volumeName", _NO_VOLUME_TEXT))
    elif volume:
        spec["volumeName"] = volume
    _write_attributes(spec, texts["volumeAttributesClassName"], view, problems)
    if twin is None:  # the next fields never change after creation
        if own:
            spec["storageClassName"] = ""  # as in its volume's twin, so that nothing else matches
        else:
            _write_class(spec, _get_class_of(metadata, texts["storageClassName"]), view, problems)
        _write_source(spec, found, metadata, view, problems)
    if problems:
        raise RejectedError(*problems)
    return {
        "apiVersion": "v1",
        "kind": CLAIM,
        "metadata": object_meta.build_super_metadata(
            CLAIM,
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
            extra_annotations={wellknown.VOLUME: own} if own else None,
        ),
        "spec": spec,
    }


_TEXT_FIELDS = ("storageClassName", "volumeAttributesClassName", "volumeName")


def _get_text(found: Mapping[str, Any], field: str, problems: list[RejectionProblem]) -> str | None:
    value = found.get(field) if isinstance(found, dict) else None
    if value is None or isinstance(value, str):
        return value
    problems.append(
        RejectionProblem("malformed", f"spec.{field}", "must be a string. Correct the object")
    )
    return None


def get_live_twin(metadata: Mapping[str, Any], view: TenantView) -> Mapping[str, Any] | None:
    """Return the super claim that is the twin of a tenant claim. None if there is none."""
    store = view.super_stores.get(CLAIM)
    namespace = view.get_super_namespace(metadata["namespace"])
    entry = store.get(namespace, metadata["name"]) if store is not None else None
    if entry is None:
        return None
    owner = ownership.read_owner({"annotations": entry.annotations})
    is_ours = owner is not None and owner.vc_uid == view.tenant.uid
    if owner is None or not is_ours or owner.uid != metadata["uid"]:
        return None
    return entry.decode()


def get_own_volume(metadata: Mapping[str, Any], name: str | None, view: TenantView) -> str:
    """Return the volume of the tenant's own that a claim must be bound to. Empty if none."""
    store = view.stores.get("PersistentVolume")
    if store is None:
        return ""
    if name:
        entry = store.get("", name)
        return name if entry is not None and volumes.may_sync_down(entry, view) else ""
    if view.policy.storage.tenant_volumes == _NO_TENANT_VOLUMES:
        return ""  # no volume is synced, so no volume is decoded
    wanted = f"{metadata['namespace']}/{metadata['name']}"
    found = sorted(store.index(volumes.BY_CLAIM_INDEX, wanted), key=lambda entry: entry.name)
    return next((entry.name for entry in found if volumes.may_sync_down(entry, view)), "")


def _resolve_super_volume(
    name: str | None,
    own: str,
    twin: Mapping[str, Any] | None,
    metadata: Mapping[str, Any],
    view: TenantView,
) -> str | None:
    """Return the super volume: the tenant's own, or the one assigned before. None if refused."""
    if own:
        return names.build_volume_name(view.tenant.uid, own)
    if not name or (twin is not None and (twin.get("spec") or {}).get("volumeName") == name):
        return name or ""
    store = view.super_stores.get("PersistentVolume")
    volume = store.get("", name) if store is not None else None
    place = (view.get_super_namespace(metadata["namespace"]), metadata["name"])
    is_kept = volume is not None and volumes.get_claim_reference(volume) == place
    return name if is_kept else None  # reserved for this very claim


def _write_attributes(
    spec: dict[str, Any], name: str | None, view: TenantView, problems: list[RejectionProblem]
) -> None:
    if not name:
        return
    offered = view.policy.storage.volume_attributes_classes
    if name in offered or WILDCARD_NAME in offered:
        spec["volumeAttributesClassName"] = name
        return
    text = f"names {name}, which is not offered. Leave it out"
    path = "spec.volumeAttributesClassName"
    problems.append(RejectionProblem("volume-attributes-class", path, text))


def _get_class_of(metadata: Mapping[str, Any], name: str | None) -> str | None:
    old = (metadata.get("annotations") or {}).get(_BETA_CLASS_ANNOTATION)
    return name if old is None else str(old)


def get_class(tenant_claim: Mapping[str, Any]) -> str:
    """Return the class that a claim names. Empty if it names none."""
    found = tenant_claim.get("spec")
    name = found.get("storageClassName") if isinstance(found, dict) else None
    return _get_class_of(tenant_claim["metadata"], name if isinstance(name, str) else None) or ""


def _write_class(
    spec: dict[str, Any], name: str | None, view: TenantView, problems: list[RejectionProblem]
) -> None:
    if name is None:
        _write_default(spec, view, problems)
        return
    if view.shows_class(_STORAGE_CLASS, name):
        spec["storageClassName"] = name
        return
    listed = "one that `kubectl get storageclass` lists"
    text = f"names {name}, which is not offered. Use {listed}"
    if not name:
        text = f"is empty, which would select volumes of other tenants. Use {listed}, or name a"
        text += " volume of your own in spec.volumeName"
    problems.append(RejectionProblem("storage-class", "spec.storageClassName", text))


def _write_default(
    spec: dict[str, Any], view: TenantView, problems: list[RejectionProblem]
) -> None:
    """Write the default class of the super cluster, if the policy limits the classes."""
    if WILDCARD_NAME in view.policy.sync.storage_classes.names:
        return  # the super cluster's own admission writes it
    store = view.super_stores.get(_STORAGE_CLASS)
    default = mirrored_kinds.find_default_class(
        mirrored_kinds.MIRRORS_BY_KIND[_STORAGE_CLASS], store.list() if store is not None else ()
    )
    if default and view.shows_class(_STORAGE_CLASS, default):
        spec["storageClassName"] = default
        return
    text = "must be set, because no class is offered by default. Use one that `kubectl get"
    text += " storageclass` lists"
    problems.append(RejectionProblem("storage-class", "spec.storageClassName", text))


def _write_source(
    spec: dict[str, Any],
    found: Mapping[str, Any],
    metadata: Mapping[str, Any],
    view: TenantView,
    problems: list[RejectionProblem],
) -> None:
    """Write the source of the super claim.

    Both spellings have the same meaning, and the API server fills in the other one.
    """
    for field in ("dataSourceRef", "dataSource"):
        value = found.get(field)
        if value is None:
            continue
        if not isinstance(value, dict) or not _is_plain_source(value):
            text = "must be a map of strings. Correct the object"
            problems.append(RejectionProblem("malformed", f"spec.{field}", text))
            continue
        kind = (value.get("apiGroup") or "", value.get("kind"))
        if (value.get("namespace") or metadata["namespace"]) != metadata["namespace"]:
            text = (
                "must not be set, because the source is in the claim's own namespace. Leave it out"
            )
            problems.append(
                RejectionProblem("data-source-namespace", f"spec.{field}.namespace", text)
            )
        elif kind != ("", CLAIM) and kind != _get_snapshot_kind(view):
            text = f"is {str(kind[1])[:60]!r}, which is not offered. Use a claim"
            problems.append(RejectionProblem("data-source", f"spec.{field}.kind", text))
        elif not names.is_dns_subdomain(value.get("name") or ""):
            text = "must be a valid object name. Correct the object"
            problems.append(RejectionProblem("reference-name", f"spec.{field}.name", text))
        else:
            group = {"apiGroup": kind[0]} if kind[0] else {}
            spec["dataSource"] = {**group, "kind": kind[1], "name": value["name"]}


def _get_snapshot_kind(view: TenantView) -> tuple[str, str] | None:
    """Return group and kind of snapshots, if a SyncRule copies them. None: they fill nothing."""
    found = view.copied_kinds.get(VOLUME_SNAPSHOTS.kind)
    is_copied = found is not None and found.group == VOLUME_SNAPSHOTS.group
    return (VOLUME_SNAPSHOTS.group, VOLUME_SNAPSHOTS.kind) if is_copied else None


def _is_plain_source(value: Mapping[str, Any]) -> bool:
    known = {"apiGroup", "kind", "name", "namespace"}
    return all(
        inner is None or (key in known and isinstance(inner, str)) for key, inner in value.items()
    )


def get_source(twin: Object) -> ObjectReference | None:
    """Return the source that a built claim is filled from. None if there is none."""
    source = twin["spec"].get("dataSource")
    return ObjectReference(source["kind"], source["name"]) if source is not None else None


def build_patch(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the merge patch of the leaves that may change, or None if none differs."""
    there, wanted = live.get("spec") or {}, twin["spec"]
    spec: Object = {}
    requests = (there.get("resources") or {}).get("requests") or {}
    asked = (wanted.get("resources") or {}).get("requests") or {}
    capacity = (live.get("status") or {}).get("capacity") or {}
    changed = {
        key: value
        for key, value in asked.items()
        if _is_growth_due(requests.get(key), value, capacity.get(key))
    }
    if changed:
        spec["resources"] = {"requests": changed}
    for field in ("volumeAttributesClassName", "volumeName"):
        if wanted.get(field) and wanted[field] != there.get(field):
            spec[field] = wanted[field]
    if there.get("volumeName"):
        spec.pop("volumeName", None)  # a volume is chosen once
    metadata = object_meta.build_metadata_patch(CLAIM, live["metadata"], twin["metadata"])
    if not spec and not metadata:
        return None
    body: Object = {"metadata": {"uid": live["metadata"]["uid"], **metadata}}
    return {**body, "spec": spec} if spec else body


def _is_growth_due(there: Json, asked: Json, capacity: Json) -> bool:
    """Return whether a request must be written.

    A volume that was expanded in the super cluster cannot shrink below its capacity.
    """
    if there == asked:
        return False
    now, wanted, given = parse_quantity(there), parse_quantity(asked), parse_quantity(capacity)
    if now is None or wanted is None or wanted > now:
        return True
    return wanted < now and given is not None and wanted > given


def index_by_volume(entry: Entry) -> Iterable[str]:
    """Return the volume that a cached claim names, for the index."""
    name = get_volume(entry)
    return (name,) if name else ()


def get_volume(entry: Entry) -> str:
    """Return the volume that a cached claim names. Empty if it names none."""
    spec = entry.decode().get("spec")
    name = spec.get("volumeName") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""
