"""Objects that every tenant has from the start: permissions, and the address of its DNS.

Owns the manager's objects in the tenant. Hazard: a tenant admin may delete or change them. They are
applied at every reconcile, and `vcmanager.runtime.tenant_watch` triggers a reconcile after each
change.
"""

import asyncio
from typing import Any

import yaml

from clusterversions import catalog
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tenancy.resources import Resource

_RBAC = "rbac.authorization.k8s.io"
BOOTSTRAP_RESOURCES = (resources.CLUSTER_ROLES, resources.CLUSTER_ROLE_BINDINGS, resources.SERVICES)
"""The kinds of these objects."""
_RESOURCES_BY_KIND: dict[str, Resource] = {each.kind: each for each in BOOTSTRAP_RESOURCES}


def build_objects(*, dns_address: str) -> list[Object]:
    """Return the objects. Without an address they have no Service for DNS."""
    made = [
        _build_binding(wellknown.ADMINS_GROUP, "cluster-admin", "Group", wellknown.ADMINS_GROUP),
        *_load_documents("syncer-role.yaml"),
        _build_binding(wellknown.SYNCER_USER, wellknown.SYNCER_USER, "User", wellknown.SYNCER_USER),
    ]
    if dns_address:
        made += [
            *_load_documents("coredns-role.yaml"),
            _build_binding(wellknown.DNS_USER, wellknown.DNS_USER, "User", wellknown.DNS_USER),
            _build_dns_service(dns_address),
        ]
    for each in made:
        each["metadata"].setdefault("labels", {})[wellknown.BOOTSTRAP] = "true"
    return made


async def apply_objects(tenant_client: Client, *, dns_address: str) -> None:
    """Apply the objects, all at once."""
    await asyncio.gather(
        *(
            tenant_client.apply(
                _RESOURCES_BY_KIND[each["kind"]], each, field_manager=wellknown.MANAGER
            )
            for each in build_objects(dns_address=dns_address)
        )
    )


async def has_controllers(tenant_client: Client) -> bool:
    """Return whether the tenant's controllers have worked: the default account is theirs."""
    try:
        await tenant_client.get(
            resources.SERVICE_ACCOUNTS, "default", namespace="default", metadata_only=True
        )
    except errors.NotFound:
        return False
    return True


def _load_documents(name: str) -> list[Object]:
    found: list[dict[str, Any]] = list(yaml.safe_load_all(catalog.read_bootstrap(name)))
    return [each for each in found if each]


def _build_binding(name: str, role: str, kind: str, subject: str) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": kind, "name": subject}],
    }


def _build_dns_service(address: str) -> Object:
    """Return the Service of DNS. Its address is served beside the control plane."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"},
        },
        "spec": {
            "clusterIP": address,
            "ports": [
                {"name": "dns", "port": 53, "targetPort": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "targetPort": 53, "protocol": "TCP"},
            ],
        },
    }
