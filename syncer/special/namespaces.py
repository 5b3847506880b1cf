"""Super namespaces: one for each tenant namespace, with the account that its pods run as.

Pure. Owns their labels: ours only, as a tenant's label could switch off pod
security or inject a mesh. Must not know pods. Hazard: a super namespace lives until the tenant's is
gone, not merely terminating, because what is in it follows object by object.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from syncer import policy
from syncer.view import TenantView
from tenancy import names, ownership

POD_SECURITY = "pod-security.kubernetes.io/enforce"


def namespace(tenant_namespace: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a namespace."""
    metadata = tenant_namespace["metadata"]
    name = metadata["name"]
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": view.super_namespace(name),
            "labels": {
                **ownership.labels(view.tenant, name),
                POD_SECURITY: policy.POD_SECURITY_LEVEL,
            },
            "annotations": ownership.annotations(view.tenant, name, metadata["uid"]),
        },
    }


def patch(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the merge patch that restores our labels and annotations, or None."""
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


def workload_account(view: TenantView, tenant_namespace: Mapping[str, Any]) -> Object:
    """Return the powerless account of a super namespace."""
    metadata = tenant_namespace["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": names.WORKLOAD_ACCOUNT,
            "namespace": view.super_namespace(metadata["name"]),
            "labels": ownership.labels(view.tenant, metadata["name"]),
            "annotations": ownership.annotations(view.tenant, metadata["name"], metadata["uid"]),
        },
        "automountServiceAccountToken": False,
    }


def is_same_account(live: Mapping[str, Any]) -> bool:
    """Tell whether an account is still powerless: nothing of it reaches a pod by itself."""
    given = live.get("secrets") or live.get("imagePullSecrets")
    return live.get("automountServiceAccountToken") is False and not given
