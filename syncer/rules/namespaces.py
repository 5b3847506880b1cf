"""Super namespaces, one per tenant namespace, and the ServiceAccount of their pods.

Pure. Owns the labels of a super namespace. They are the syncer's only, because a tenant's label
could switch off pod security or inject a mesh. Must not know pods.

Hazard: a super namespace must live until the tenant namespace is deleted, not merely terminating.
Otherwise its contents would be deleted at once instead of object by object.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from syncer.model.field_rules import DropField, FieldRule
from syncer.model.tenant_view import TenantView
from tenancy import names, ownership, wellknown
from tenancy.policies import TenantPolicySpec, get_namespace_level
from tenancy.resources import ROLE_BINDINGS

NAMESPACE: Mapping[str, FieldRule] = {
    "spec": DropField("its finalizers are your cluster's own matter"),
    "status": DropField("each side has its own"),
}

POD_SECURITY = "pod-security.kubernetes.io/enforce"


def build_namespace(tenant_namespace: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a namespace."""
    metadata = tenant_namespace["metadata"]
    name = metadata["name"]
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": view.get_super_namespace(name),
            "labels": {
                **ownership.build_owner_labels(view.tenant, name),
                POD_SECURITY: get_namespace_level(view.policy),
            },
            "annotations": ownership.build_owner_annotations(view.tenant, name, metadata["uid"]),
        },
    }


def has_security_level(labels: Mapping[str, str], policy: TenantPolicySpec) -> bool:
    """Return whether a super namespace has the pod security level of the current policy."""
    return labels.get(POD_SECURITY) == get_namespace_level(policy)


def build_patch(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the merge patch that restores the syncer's labels and annotations, or None."""
    changes = {
        field: {
            key: value
            for key, value in twin["metadata"][field].items()
            if (live["metadata"].get(field) or {}).get(key) != value
        }
        for field in ("labels", "annotations")
    }
    found = {field: change for field, change in changes.items() if change}
    return {"metadata": {"uid": live["metadata"]["uid"], **found}} if found else None


def build_workload_account(view: TenantView, tenant_namespace: Mapping[str, Any]) -> Object:
    """Return the ServiceAccount of a super namespace. It has no permissions."""
    metadata = tenant_namespace["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": names.WORKLOAD_ACCOUNT,
            "namespace": view.get_super_namespace(metadata["name"]),
            "labels": ownership.build_owner_labels(view.tenant, metadata["name"]),
            "annotations": ownership.build_owner_annotations(
                view.tenant, metadata["name"], metadata["uid"]
            ),
        },
        "automountServiceAccountToken": False,
    }


def build_secret_access(
    view: TenantView, tenant_namespace: Mapping[str, Any], *, role: str, subject: Object
) -> Object:
    """Return the RoleBinding by which the syncer may read and write Secrets of a super namespace.

    `role` is the ClusterRole with these rights, `subject` the syncer's own account.
    """
    metadata = tenant_namespace["metadata"]
    return {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": ROLE_BINDINGS.kind,
        "metadata": {
            "name": wellknown.SYNCER,
            "namespace": view.get_super_namespace(metadata["name"]),
            "labels": ownership.build_owner_labels(view.tenant, metadata["name"]),
            "annotations": ownership.build_owner_annotations(
                view.tenant, metadata["name"], metadata["uid"]
            ),
        },
        "roleRef": {"apiGroup": ROLE_BINDINGS.group, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def is_account_powerless(live: Mapping[str, Any]) -> bool:
    """Return whether an account is still without effect: it mounts no token and adds no secrets."""
    given = live.get("secrets") or live.get("imagePullSecrets")
    return live.get("automountServiceAccountToken") is False and not given
