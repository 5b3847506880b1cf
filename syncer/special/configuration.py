"""ConfigMaps and Secrets on their way down.

Pure. Owns their shape, the types of Secrets that travel, and the names that are reserved. They go
down only while a pod of the tenant refers to them. Hazard: values are secret; nothing here may end
up in a log or an Event.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from kubeio.store import Entry
from syncer import policy, translate
from syncer.references import is_reserved_name
from syncer.rejections import Problem, RejectedError
from syncer.view import TenantView
from tenancy import names


def super_name(tenant_name: str) -> str:
    """Return the name of a ConfigMap's twin: the tenant's root CA has another one below."""
    return names.SUPER_ROOT_CA if tenant_name == names.TENANT_ROOT_CA else tenant_name


def tenant_name(super_name: str) -> str:
    """Return the name of the ConfigMap that a super ConfigMap stands for."""
    return names.TENANT_ROOT_CA if super_name == names.SUPER_ROOT_CA else super_name


def wants_config_map(entry: Entry, view: TenantView) -> bool:
    """Tell whether a ConfigMap goes down."""
    return view.is_referenced("ConfigMap", entry.namespace, entry.name)


def wants_secret(entry: Entry, view: TenantView) -> bool:
    """Tell whether a Secret goes down."""
    return view.is_referenced("Secret", entry.namespace, entry.name)


def config_map(tenant_map: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a ConfigMap. Raises RejectedError."""
    metadata = tenant_map["metadata"]
    _refuse_reserved("ConfigMap", metadata["name"])
    twin: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": translate.super_metadata(
            "ConfigMap",
            view.tenant,
            metadata,
            super_namespace=view.super_namespace(metadata["namespace"]),
            super_name=super_name(metadata["name"]),
        ),
    }
    return _with(twin, tenant_map, "data", "binaryData", "immutable")


def secret(tenant_secret: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a Secret. Raises RejectedError."""
    metadata = tenant_secret["metadata"]
    _refuse_reserved("Secret", metadata["name"])
    kind = tenant_secret.get("type") or "Opaque"
    if kind in policy.SECRET_TYPES_REFUSED:
        text = f"is {kind}, which never leaves the cluster; use a secret of another type"
        raise RejectedError(Problem("secret-type", "type", text))
    twin: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": translate.super_metadata(
            "Secret",
            view.tenant,
            metadata,
            super_namespace=view.super_namespace(metadata["namespace"]),
        ),
        "type": kind if kind in policy.SECRET_TYPES_KEPT else "Opaque",
    }
    return _with(twin, tenant_secret, "data", "immutable")


def _with(twin: Object, tenant_x: Mapping[str, Any], *fields: str) -> Object:
    return {**twin, **{field: tenant_x[field] for field in fields if tenant_x.get(field)}}


def _refuse_reserved(kind: str, name: str) -> None:
    if is_reserved_name(kind, name):
        text = "is reserved; choose another name"
        raise RejectedError(Problem("reserved-name", "metadata.name", text))


def replacement(live: Mapping[str, Any], twin: Object, kind: str) -> Object | None:
    """Return the whole object to put in place of the live one, or None when it is as it should be.

    Keys of metadata that are not ours stay; the version and the UID make sure that it is put over
    nothing else.
    """
    there, wanted = live["metadata"], twin["metadata"]
    changes = translate.metadata_patch(kind, there, wanted)
    fields = ("data", "binaryData", "immutable")
    if not changes and all((live.get(f) or None) == (twin.get(f) or None) for f in fields):
        return None
    metadata = {
        "name": wanted["name"],
        "namespace": wanted["namespace"],
        "uid": there["uid"],
        "resourceVersion": there["resourceVersion"],
        **{key: there[key] for key in ("ownerReferences", "finalizers") if key in there},
    }
    for field in ("labels", "annotations"):
        kept = {**(there.get(field) or {}), **wanted[field], **changes.get(field, {})}
        metadata[field] = {key: value for key, value in kept.items() if value is not None}
    return {**twin, "metadata": metadata}
