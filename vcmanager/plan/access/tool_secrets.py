"""Secrets with the admin kubeconfig of a tenant, in the forms that tools search for.

Pure. Owns names, labels and keys of each form. Hazard: the readers of such a Secret are
cluster-admin in the tenant. Names are fixed, because the admission policy of vc-manager's account
allows no others.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenancy import ownership, wellknown
from tenancy.access.specs import KubeconfigFormat
from tenancy.ownership import Tenant
from vcmanager.pki import bundles
from vcmanager.plan.pki_secrets import ApiAddress

Manifest = dict[str, Any]

SUFFIXES: Mapping[KubeconfigFormat, str] = {
    "ClusterAPI": "-kubeconfig",
    "ArgoCD": "-argocd-cluster",
}
"""End of the name of each form. The rest is the name of the VirtualCluster."""
ENABLED = "enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigParts:
    """The admin kubeconfig of a tenant, and its parts."""

    document: bytes
    address: ApiAddress
    authority: bytes
    """Trusted certificates in PEM."""


def build_name(tenant: Tenant, form: KubeconfigFormat) -> str:
    """Return the name of the Secret of a form."""
    return f"{tenant.name}{SUFFIXES[form]}"


def build_secret(tenant: Tenant, form: KubeconfigFormat, parts: KubeconfigParts) -> Manifest:
    """Return the Secret of a form. Raises ValueError if the kubeconfig has no certificate."""
    kind, labels, data = _BUILDERS[form](tenant, parts)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": build_name(tenant, form),
            "namespace": tenant.namespace,
            "labels": {**labels, wellknown.KUBECONFIG_SECRETS: tenant.uid},
            "ownerReferences": [ownership.build_owner_reference(tenant)],
        },
        "type": kind,
        "data": {key: bundles.encode_base64(value) for key, value in data.items()},
    }


def is_own(secret: Mapping[str, Any], tenant: Tenant) -> bool:
    """Return whether a Secret was written for this VirtualCluster."""
    metadata = secret["metadata"]
    labels = metadata.get("labels") or {}
    is_marked = labels.get(wellknown.KUBECONFIG_SECRETS) == tenant.uid
    return is_marked and ownership.is_only_owner(metadata, tenant)


_Parts = tuple[str, dict[str, str], dict[str, bytes]]
"""Type, labels and data of a Secret."""


def _build_cluster_api(tenant: Tenant, parts: KubeconfigParts) -> _Parts:
    """Return the form of https://cluster-api.sigs.k8s.io/developer/core/certs."""
    labels = {"cluster.x-k8s.io/cluster-name": tenant.name}
    return "cluster.x-k8s.io/secret", labels, {"value": parts.document}


def _build_argo_cd(tenant: Tenant, parts: KubeconfigParts) -> _Parts:
    """Return the form of Argo CD's declarative setup of clusters.

    The name has a dot, which neither a namespace nor a VirtualCluster has. So two tenants never
    have the same name.
    """
    pair = bundles.read_kubeconfig_key_pair(parts.document)
    if pair is None:
        raise ValueError("the admin kubeconfig has no certificate and key")
    tls = {
        "insecure": False,
        "caData": bundles.encode_base64(parts.authority),
        "certData": bundles.encode_base64(pair.certificate),
        "keyData": bundles.encode_base64(pair.key),
    }
    if parts.address.server_name:
        tls["serverName"] = parts.address.server_name
    data = {
        "name": f"{tenant.namespace}.{tenant.name}".encode(),
        "server": parts.address.server.encode(),
        "config": json.dumps({"tlsClientConfig": tls}, sort_keys=True).encode(),
    }
    return "Opaque", {"argocd.argoproj.io/secret-type": "cluster"}, data


_BUILDERS: Mapping[KubeconfigFormat, Callable[[Tenant, KubeconfigParts], _Parts]] = {
    "ClusterAPI": _build_cluster_api,
    "ArgoCD": _build_argo_cd,
}
