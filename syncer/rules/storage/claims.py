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
from syncer.model.field_rules import ALLOW, FREE, Fields, Refuse, Verdict, Walk, Written
from syncer.model.references import Ref
from syncer.model.rejections import Problem, RejectedError
from syncer.model.tenant_view import TenantView
from syncer.rules.storage import volumes
from tenancy import names, ownership, wellknown
from tenancy.policies import EVERY
from tenancy.quantities import quantity

Json = Any

CLAIM = "PersistentVolumeClaim"
_CLASS = "StorageClass"
BY_VOLUME = "volume"
"""Index of tenant claims by the volume that they name."""
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotation that also names the class. It has precedence over the field."""

_DATA_SOURCE = Written(
    "claims",
    "is synced if it is a claim of the same namespace, after that claim is synced",
)

CLAIM_SPEC: Mapping[str, Verdict] = {
    "accessModes": ALLOW,
    "dataSource": _DATA_SOURCE,
    "dataSourceRef": _DATA_SOURCE,
    "resources": Fields({"limits": FREE, "requests": FREE}),
    "selector": Refuse(
        "volume-selector",
        "would choose among volumes of others; name a class, or a volume of your own by"
        " spec.volumeName",
    ),
    "storageClassName": Written(
        "claims",
        "must be a class that your cluster shows. Without a value it is the default class,"
        " if your cluster shows that",
    ),
    "volumeAttributesClassName": Written(
        "claims", "is synced if it is a class that is offered to your cluster"
    ),
    "volumeMode": ALLOW,
    "volumeName": Written(
        "claims", "must be a volume of your own, or a volume that is reserved for this claim"
    ),
}
_NO_VOLUME = (
    "names a volume that is gone or was never offered; leave it out, or name a volume of your own"
    " whose source is offered"
)


def claim(tenant_claim: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a claim. Raises RejectedError."""
    metadata, found = tenant_claim["metadata"], tenant_claim.get("spec") or {}
    walk = Walk()
    spec = walk.fields(found, CLAIM_SPEC, "spec")
    texts = {field: _text(found, field, walk.problems) for field in _TEXTS}
    if walk.problems:
        raise RejectedError(*walk.problems)
    twin = live_twin(metadata, view)
    own = own_volume(metadata, texts["volumeName"], view)
    problems: list[Problem] = []
    volume = _volume_below(texts["volumeName"], own, twin, metadata, view)
    if volume is None:
        problems.append(Problem("volume-name", "spec.volumeName", _NO_VOLUME))
    elif volume:
        spec["volumeName"] = volume
    _write_attributes(spec, texts["volumeAttributesClassName"], view, problems)
    if twin is None:  # the next fields never change after creation
        if own:
            spec["storageClassName"] = ""  # as in its volume's twin, so that nothing else matches
        else:
            _write_class(spec, _class_of(metadata, texts["storageClassName"]), view, problems)
        _write_source(spec, found, metadata, problems)
    if problems:
        raise RejectedError(*problems)
    return {
        "apiVersion": "v1",
        "kind": CLAIM,
        "metadata": object_meta.super_metadata(
            CLAIM,
            view.tenant,
            metadata,
            super_namespace=view.super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
            extra_annotations={wellknown.VOLUME: own} if own else None,
        ),
        "spec": spec,
    }


_TEXTS = ("storageClassName", "volumeAttributesClassName", "volumeName")


def _text(found: Mapping[str, Any], field: str, problems: list[Problem]) -> str | None:
    value = found.get(field) if isinstance(found, dict) else None
    if value is None or isinstance(value, str):
        return value
    problems.append(Problem("malformed", f"spec.{field}", "must be a text; correct the object"))
    return None


def live_twin(metadata: Mapping[str, Any], view: TenantView) -> Mapping[str, Any] | None:
    """Return the super claim that is the twin of a tenant claim. None if there is none."""
    store = view.below.get(CLAIM)
    namespace = view.super_namespace(metadata["namespace"])
    entry = store.get(namespace, metadata["name"]) if store is not None else None
    if entry is None:
        return None
    owner = ownership.owner_of({"annotations": entry.annotations})
    is_ours = owner is not None and owner.vc_uid == view.tenant.uid
    if owner is None or not is_ours or owner.uid != metadata["uid"]:
        return None
    return entry.decode()


def own_volume(metadata: Mapping[str, Any], name: str | None, view: TenantView) -> str:
    """Return the volume of the tenant's own that a claim must be bound to. Empty if none."""
    store = view.stores.get("PersistentVolume")
    if store is None:
        return ""
    if name:
        entry = store.get("", name)
        return name if entry is not None and volumes.is_offered(entry, view) else ""
    wanted = (metadata["namespace"], metadata["name"])
    found = sorted(
        entry.name
        for entry in store.list()
        if volumes.claim_named(entry) == wanted and volumes.is_offered(entry, view)
    )
    return found[0] if found else ""


def _volume_below(
    name: str | None,
    own: str,
    twin: Mapping[str, Any] | None,
    metadata: Mapping[str, Any],
    view: TenantView,
) -> str | None:
    """Return the super volume: the tenant's own, or the one assigned before. None if refused."""
    if own:
        return names.volume(view.tenant.uid, own)
    if not name or (twin is not None and (twin.get("spec") or {}).get("volumeName") == name):
        return name or ""
    store = view.below.get("PersistentVolume")
    volume = store.get("", name) if store is not None else None
    place = (view.super_namespace(metadata["namespace"]), metadata["name"])
    is_kept = volume is not None and volumes.claim_named(volume) == place
    return name if is_kept else None  # reserved for this very claim


def _write_attributes(
    spec: dict[str, Any], name: str | None, view: TenantView, problems: list[Problem]
) -> None:
    if not name:
        return
    offered = view.policy.storage.volume_attributes_classes
    if name in offered or EVERY in offered:
        spec["volumeAttributesClassName"] = name
        return
    text = f"names {name}, which is not offered; leave it out"
    path = "spec.volumeAttributesClassName"
    problems.append(Problem("volume-attributes-class", path, text))


def _class_of(metadata: Mapping[str, Any], name: str | None) -> str | None:
    old = (metadata.get("annotations") or {}).get(_OLD_CLASS)
    return name if old is None else str(old)


def class_of(tenant_claim: Mapping[str, Any]) -> str:
    """Return the class that a claim names. Empty if it names none."""
    found = tenant_claim.get("spec")
    name = found.get("storageClassName") if isinstance(found, dict) else None
    return _class_of(tenant_claim["metadata"], name if isinstance(name, str) else None) or ""


def _write_class(
    spec: dict[str, Any], name: str | None, view: TenantView, problems: list[Problem]
) -> None:
    if name is None:
        _write_default(spec, view, problems)
        return
    if view.shows(_CLASS, name):
        spec["storageClassName"] = name
        return
    listed = "one that `kubectl get storageclass` lists"
    text = f"names {name}, which is not offered; use {listed}"
    if not name:
        text = f"is empty, which would choose among volumes of others; use {listed}, or name a"
        text += " volume of your own by spec.volumeName"
    problems.append(Problem("storage-class", "spec.storageClassName", text))


def _write_default(spec: dict[str, Any], view: TenantView, problems: list[Problem]) -> None:
    """Write the default class of the super cluster, if the policy limits the classes."""
    if EVERY in view.policy.sync.storage_classes.names:
        return  # the super cluster's own admission writes it
    store = view.below.get(_CLASS)
    default = mirrored_kinds.default_of(
        mirrored_kinds.BY_KIND[_CLASS], store.list() if store is not None else ()
    )
    if default and view.shows(_CLASS, default):
        spec["storageClassName"] = default
        return
    text = "must be given, as no class is offered by default; use one that `kubectl get"
    text += " storageclass` lists"
    problems.append(Problem("storage-class", "spec.storageClassName", text))


def _write_source(
    spec: dict[str, Any],
    found: Mapping[str, Any],
    metadata: Mapping[str, Any],
    problems: list[Problem],
) -> None:
    """Write the source of the super claim.

    Both spellings have the same meaning, and the API server fills in the other one.
    """
    for field in ("dataSourceRef", "dataSource"):
        value = found.get(field)
        if value is None:
            continue
        if not isinstance(value, dict) or not _is_plain(value):
            text = "must be an object of plain texts; correct the object"
            problems.append(Problem("malformed", f"spec.{field}", text))
            continue
        kind = (value.get("apiGroup") or "", value.get("kind"))
        if (value.get("namespace") or metadata["namespace"]) != metadata["namespace"]:
            text = "must not be set: a source is in the claim's own namespace; leave it out"
            problems.append(Problem("data-source-namespace", f"spec.{field}.namespace", text))
        elif kind != ("", CLAIM):
            text = f"is {str(kind[1])[:60]!r}, which is not offered; use a claim"
            problems.append(Problem("data-source", f"spec.{field}.kind", text))
        elif not names.is_dns_subdomain(value.get("name") or ""):
            text = "must be a name that an object can have; correct the object"
            problems.append(Problem("reference-name", f"spec.{field}.name", text))
        else:
            spec["dataSource"] = {"kind": CLAIM, "name": value["name"]}


def _is_plain(value: Mapping[str, Any]) -> bool:
    known = {"apiGroup", "kind", "name", "namespace"}
    return all(
        inner is None or (key in known and isinstance(inner, str)) for key, inner in value.items()
    )


def source_of(twin: Object) -> Ref | None:
    """Return the source that a built claim is filled from. None if there is none."""
    source = twin["spec"].get("dataSource")
    return Ref(source["kind"], source["name"]) if source is not None else None


def patch(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the merge patch of the leaves that may change, or None if none differs."""
    there, wanted = live.get("spec") or {}, twin["spec"]
    spec: Object = {}
    requests = (there.get("resources") or {}).get("requests") or {}
    asked = (wanted.get("resources") or {}).get("requests") or {}
    capacity = (live.get("status") or {}).get("capacity") or {}
    changed = {
        key: value
        for key, value in asked.items()
        if _is_due(requests.get(key), value, capacity.get(key))
    }
    if changed:
        spec["resources"] = {"requests": changed}
    for field in ("volumeAttributesClassName", "volumeName"):
        if wanted.get(field) and wanted[field] != there.get(field):
            spec[field] = wanted[field]
    if there.get("volumeName"):
        spec.pop("volumeName", None)  # a volume is chosen once
    metadata = object_meta.metadata_patch(CLAIM, live["metadata"], twin["metadata"])
    if not spec and not metadata:
        return None
    body: Object = {"metadata": {"uid": live["metadata"]["uid"], **metadata}}
    return {**body, "spec": spec} if spec else body


def _is_due(there: Json, asked: Json, capacity: Json) -> bool:
    """Return whether a request must be written.

    A volume that was expanded in the super cluster cannot shrink below its capacity.
    """
    if there == asked:
        return False
    now, wanted, given = quantity(there), quantity(asked), quantity(capacity)
    if now is None or wanted is None or wanted > now:
        return True
    return wanted < now and given is not None and wanted > given


def volumes_named(entry: Entry) -> Iterable[str]:
    """Return the volume that a cached claim names, for the index."""
    name = volume_named(entry)
    return (name,) if name else ()


def volume_named(entry: Entry) -> str:
    """Return the volume that a cached claim names. Empty if it names none."""
    spec = entry.decode().get("spec")
    name = spec.get("volumeName") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""
