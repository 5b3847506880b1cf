"""The metrics API of a tenant: its APIService, its endpoints and its permissions.

Owns these objects in the tenant. Must not know where the metrics-server runs. Hazard: an API server
that cannot reach a registered group fails discovery for every client, and deletes no namespaces
meanwhile. The group is therefore registered only while a metrics-server answers for it.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from clusterversions import catalog
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import conditions, resources, wellknown
from tenancy.resources import Resource
from vcmanager.pki import bundles

API_SERVICE_NAME = "v1beta1.metrics.k8s.io"
SERVICE_NAME, SERVICE_NAMESPACE = "metrics-server", "kube-system"
WATCHED_RESOURCES = (resources.API_SERVICES,)
"""Kinds whose watch reports changes of the metrics API, in addition to those of `bootstrap`."""
MANAGED_BY = f"{wellknown.MANAGER}.{wellknown.DOMAIN}"
_PORT_NAME = "https"
_RESOURCES_BY_KIND: Mapping[str, Resource] = {
    each.kind: each
    for each in (
        resources.CLUSTER_ROLES,
        resources.CLUSTER_ROLE_BINDINGS,
        resources.ROLE_BINDINGS,
        resources.SERVICES,
        resources.ENDPOINT_SLICES,
        resources.API_SERVICES,
    )
}


@dataclass(frozen=True, slots=True)
class MetricsApiReachability:
    """Whether the tenant's API server reaches its metrics API, with reason and message."""

    is_reached: bool
    reason: str
    message: str


def build_rbac() -> list[Object]:
    """Return the permissions, without which the metrics-server does not even start."""
    found = yaml.safe_load_all(catalog.read_bootstrap("metrics-server-role.yaml"))
    return [_add_label(each) for each in found if each]


def build_service(address: str) -> list[Object]:
    """Return the Service at an address of the service range, and its endpoints.

    The endpoint is the same address. At this address the super cluster has the pods, so an API
    server that reads endpoints itself reaches them too.
    """
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": SERVICE_NAME,
            "namespace": SERVICE_NAMESPACE,
            "labels": {"k8s-app": SERVICE_NAME, "kubernetes.io/name": "Metrics-server"},
        },
        "spec": {
            "clusterIP": address,
            "ports": [{"name": _PORT_NAME, "port": 443, "targetPort": 443, "protocol": "TCP"}],
        },
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": SERVICE_NAME,
            "namespace": SERVICE_NAMESPACE,
            "labels": {
                "kubernetes.io/service-name": SERVICE_NAME,
                "endpointslice.kubernetes.io/managed-by": MANAGED_BY,
            },
        },
        "addressType": f"IPv{ipaddress.ip_address(address).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": _PORT_NAME, "port": 443, "protocol": "TCP"}],
    }
    return [_add_label(service), _add_label(endpoints)]


def build_api_service(authority: bytes) -> Object:
    """Return the APIService. `authority` has signed the metrics-server's certificate."""
    return _add_label(
        {
            "apiVersion": resources.API_SERVICES.api_version,
            "kind": resources.API_SERVICES.kind,
            "metadata": {"name": API_SERVICE_NAME},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": bundles.encode_base64(authority),
                "service": {"name": SERVICE_NAME, "namespace": SERVICE_NAMESPACE, "port": 443},
            },
        }
    )


def read_reachability(api_service: Mapping[str, Any]) -> MetricsApiReachability:
    """Return the state in an APIService's status. Without a status it is not reached."""
    status = api_service.get("status") or {}
    found = conditions.find_condition(status.get("conditions"), "Available") or {}
    reason = str(found.get("reason") or "Registering")
    said = str(found.get("message") or "it has not been checked yet")
    text = f"The tenant's API server does not reach its metrics-server: {said}"
    return MetricsApiReachability(found.get("status") == "True", reason, text)


async def apply_objects(tenant_client: Client, wanted: Iterable[Object]) -> list[Object]:
    """Apply objects of this module, all at once. Returns them in their current state."""
    return await asyncio.gather(
        *(
            tenant_client.apply(
                _RESOURCES_BY_KIND[each["kind"]], each, field_manager=wellknown.MANAGER
            )
            for each in wanted
        )
    )


async def delete_api_service(tenant_client: Client) -> None:
    """Delete the APIService, if it has the manager's label."""
    await _delete_own(tenant_client, resources.API_SERVICES, API_SERVICE_NAME)


async def delete_objects(tenant_client: Client) -> None:
    """Delete all objects with the manager's label, the APIService first."""
    await delete_api_service(tenant_client)
    for each in (
        *build_service("192.0.2.1"),
        *build_rbac(),
    ):  # only the names matter, not the address
        metadata = each["metadata"]
        await _delete_own(
            tenant_client,
            _RESOURCES_BY_KIND[each["kind"]],
            metadata["name"],
            metadata.get("namespace", ""),
        )


async def _delete_own(
    tenant_client: Client, resource: Resource, name: str, namespace: str = ""
) -> None:
    """Delete an object with the manager's label, because a tenant may have its own by that name."""
    with contextlib.suppress(errors.NotFound):
        found = await tenant_client.get(resource, name, namespace=namespace, metadata_only=True)
        metadata = found["metadata"]
        if (metadata.get("labels") or {}).get(wellknown.BOOTSTRAP) == "true":
            await tenant_client.delete(resource, name, namespace=namespace, uid=metadata["uid"])


def _add_label(manifest: Object) -> Object:
    manifest["metadata"].setdefault("labels", {})[wellknown.BOOTSTRAP] = "true"
    return manifest
