"""ConfigMaps and Secrets that are synced to the super cluster.

Pure. Owns their shape, the synced types of Secrets and the reserved names. An object is synced
while a pod of the tenant refers to it, or always if the policy selects all.

Hazard: values are secret, so nothing here may log them or write them into an Event. Otherwise a
credential leaks.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import builtin_policy, object_meta, replace_update
from syncer.model.field_rules import ALLOW_MAP, ALLOW_SCALAR, BuiltField, DropField, FieldRule
from syncer.model.references import is_reserved_name
from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.rules.configuration import cache_transforms
from tenancy import names

WATCHED_SECRETS_SELECTOR = ",".join(
    f"type!={kind}" for kind in ("helm.sh/release.v1", "kubernetes.io/service-account-token")
)
"""Field selector of the watch. The excluded Secrets are many and large, and none of them is ever
synced."""


CONFIG_MAP: Mapping[str, FieldRule] = {
    "binaryData": ALLOW_MAP,
    "data": ALLOW_MAP,
    "immutable": ALLOW_SCALAR,
}
SECRET: Mapping[str, FieldRule] = {
    "data": ALLOW_MAP,
    "immutable": ALLOW_SCALAR,
    "stringData": DropField("your API server has moved it into `data`"),
    "type": BuiltField(
        "config_maps_secrets",
        "is kept for pull secrets and TLS, and becomes Opaque otherwise. Service account tokens,"
        " bootstrap tokens and Helm releases are never synced",
    ),
}


def is_withheld(tenant_secret: Mapping[str, Any]) -> bool:
    """Return whether a Secret has a type that is never synced."""
    return tenant_secret.get("type") in builtin_policy.SECRET_TYPES_REFUSED


def build_super_name(tenant_name: str) -> str:
    """Return the name of a ConfigMap's twin. The twin of the tenant's root CA has another name."""
    return names.SUPER_ROOT_CA if tenant_name == names.TENANT_ROOT_CA else tenant_name


def build_tenant_name(super_name: str) -> str:
    """Return the name of the tenant ConfigMap of a super ConfigMap."""
    return names.TENANT_ROOT_CA if super_name == names.SUPER_ROOT_CA else super_name


def is_config_map_wanted(entry: Entry, view: TenantView) -> bool:
    """Return whether a ConfigMap is synced."""
    if view.policy.sync.config_maps == "All" and entry.key != names.QUOTA_REPORT:
        return True
    return view.is_referenced("ConfigMap", entry.namespace, entry.name)


def is_secret_wanted(entry: Entry, view: TenantView) -> bool:
    """Return whether a Secret is synced."""
    if view.is_referenced("Secret", entry.namespace, entry.name):
        return True
    if view.policy.sync.secrets != "All":
        return False
    return entry.decode().get("type") not in builtin_policy.SECRET_TYPES_REFUSED


def build_config_map(tenant_map: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a ConfigMap. Raises RejectedError."""
    metadata = tenant_map["metadata"]
    _refuse_reserved("ConfigMap", metadata["name"])
    twin: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": object_meta.build_super_metadata(
            "ConfigMap",
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
            super_name=build_super_name(metadata["name"]),
        ),
    }
    return _copy_fields(twin, tenant_map, "data", "binaryData", "immutable")


def build_secret(tenant_secret: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a Secret. Raises RejectedError."""
    metadata = tenant_secret["metadata"]
    _refuse_reserved("Secret", metadata["name"])
    kind = tenant_secret.get("type") or "Opaque"
    if is_withheld(tenant_secret):
        text = f"is {kind}, which is never synced. Use a secret of another type"
        raise RejectedError(RejectionProblem("secret-type", "type", text))
    twin: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": object_meta.build_super_metadata(
            "Secret",
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
        ),
        "type": kind if kind in builtin_policy.SECRET_TYPES_KEPT else "Opaque",
    }
    return _copy_fields(twin, tenant_secret, "data", "immutable")


def _copy_fields(twin: Object, tenant_x: Mapping[str, Any], *fields: str) -> Object:
    taken = (*fields, cache_transforms.CONTENT_DIGEST_FIELD)
    return {**twin, **{field: tenant_x[field] for field in taken if tenant_x.get(field)}}


def _refuse_reserved(kind: str, name: str) -> None:
    if is_reserved_name(kind, name):
        text = "is reserved. Choose another name"
        raise RejectedError(RejectionProblem("reserved-name", "metadata.name", text))


def build_replacement(live: Mapping[str, Any], twin: Object, kind: str) -> Object | None:
    """Return the object for the PUT, or None if the live object is as it should be.

    If either side is an outline, the result is an outline as well. It proves a difference, and must
    not be written.
    """
    live, twin = cache_transforms.align(live, twin)
    there, wanted = live["metadata"], twin["metadata"]
    changes = object_meta.build_metadata_patch(kind, there, wanted)
    is_fixed_enough = live.get("immutable") or not twin.get("immutable")
    if is_fixed_enough and not changes and _are_values_equal(live, twin):
        return None  # an immutable twin with the right content does no harm
    body = {**twin, "metadata": replace_update.build_metadata(there, wanted, changes)}
    if live.get("immutable"):
        body["immutable"] = True  # the API does not allow false again
    return body


def has_same_content(live: Mapping[str, Any], twin: Object) -> bool:
    """Return whether both sides have the same values, as far as outlines show them."""
    return _are_values_equal(*cache_transforms.align(live, twin))


def is_fixed(live: Mapping[str, Any], twin: Object) -> bool:
    """Return whether a live twin must be recreated, because it was made immutable."""
    return bool(live.get("immutable")) and not has_same_content(live, twin)


def _are_values_equal(live: Mapping[str, Any], twin: Mapping[str, Any]) -> bool:
    fields = (*cache_transforms.VALUE_FIELDS, cache_transforms.CONTENT_DIGEST_FIELD)
    return all((live.get(field) or None) == (twin.get(field) or None) for field in fields)
