"""ClusterProfile of a tenant: the entry in the cluster inventory of SIG Multicluster.

Pure. The API is v1alpha1 of https://github.com/kubernetes-sigs/cluster-inventory-api. Hazard: the
profile must contain no credential, because many users may read it. It only names the Secret.
"""

from collections.abc import Mapping
from typing import Any

import yaml

from tenancy import conditions, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import CLUSTER_PROFILES

Manifest = dict[str, Any]

CONTROL_PLANE_HEALTHY = "ControlPlaneHealthy"
"""Condition type that the API defines."""
CLUSTER_MANAGER_LABEL = "x-k8s.io/cluster-manager"
"""Label that the API defines: the name of the cluster manager."""
ACCESS_PROVIDER = "kubeconfig-secretreader"
"""Access provider whose plugin reads a kubeconfig from a Secret."""
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""Extension of a cluster that client-go passes to the plugin."""
CLUSTER_VERSION_PROPERTY = f"{wellknown.DOMAIN}/cluster-version"
"""Property of a profile: the ClusterVersion of the tenant."""
_MAX_PROPERTY_LENGTH = 1024


def build_profile(tenant: Tenant, cluster_manager: str) -> Manifest:
    """Return the ClusterProfile without its status. It is deleted with the VirtualCluster."""
    return {
        "apiVersion": CLUSTER_PROFILES.api_version,
        "kind": CLUSTER_PROFILES.kind,
        "metadata": {
            "name": tenant.name,
            "namespace": tenant.namespace,
            "labels": {CLUSTER_MANAGER_LABEL: cluster_manager},
            "ownerReferences": [ownership.build_owner_reference(tenant)],
        },
        "spec": {
            "displayName": f"{tenant.namespace}/{tenant.name}",
            "clusterManager": {"name": cluster_manager},
        },
    }


def is_own(profile: Mapping[str, Any], tenant: Tenant) -> bool:
    """Return whether a ClusterProfile belongs to this VirtualCluster."""
    return ownership.is_only_owner(profile["metadata"], tenant)


def get_cluster_manager(profile: Mapping[str, Any]) -> str:
    """Return the cluster manager of a ClusterProfile. The field is immutable."""
    return str(((profile.get("spec") or {}).get("clusterManager") or {}).get("name", ""))


def build_status(
    body: Mapping[str, Any],
    tenant: Tenant,
    kubeconfig: bytes | None,
    *,
    generation: int,
    now: str,
    old: Mapping[str, Any],
) -> Manifest:
    """Return the status of the profile of a VirtualCluster.

    `kubeconfig` is the admin kubeconfig, from which only the address and the authorities are taken.
    """
    made = _build_condition(body, generation=generation, now=now)
    version = str((body.get("status") or {}).get("version") or "")
    access = _build_access(tenant, kubeconfig) if kubeconfig else None
    named = str((body.get("spec") or {}).get("clusterVersionName") or "")[:_MAX_PROPERTY_LENGTH]
    return {
        "conditions": conditions.carry_transition_times(old.get("conditions"), [made]),
        **({"version": {"kubernetes": version}} if version else {}),
        **({"properties": [{"name": CLUSTER_VERSION_PROPERTY, "value": named}]} if named else {}),
        **({"accessProviders": [access]} if access else {}),
    }


def _build_condition(body: Mapping[str, Any], *, generation: int, now: str) -> Manifest:
    """Return ControlPlaneHealthy, which repeats the condition Ready of the VirtualCluster."""
    listed = (body.get("status") or {}).get("conditions")
    ready = conditions.find_condition(listed, wellknown.READY) or {}
    status, reason = ready.get("status", "Unknown"), ready.get("reason", "Pending")
    message = ready.get("message", "The control plane has not been created yet.")
    return conditions.build_condition(
        CONTROL_PLANE_HEALTHY, status, reason, message, now=now, generation=generation
    )


def _build_access(tenant: Tenant, kubeconfig: bytes) -> Manifest:
    """Return the access provider: address, authorities, and the Secret that its plugin reads."""
    cluster = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]
    wanted = ("server", "certificate-authority-data", "tls-server-name")
    secret = {
        "name": wellknown.ADMIN_KUBECONFIG,
        "key": wellknown.ADMIN_KUBECONFIG,
        "namespace": tenant.root,
    }
    return {
        "name": ACCESS_PROVIDER,
        "cluster": {
            **{field: cluster[field] for field in wanted if field in cluster},
            "extensions": [{"name": EXEC_EXTENSION, "extension": secret}],
        },
    }
