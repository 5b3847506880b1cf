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

GROUP = "v1beta1.metrics.k8s.io"
NAME, NAMESPACE = "metrics-server", "kube-system"
WATCHED = (resources.API_SERVICES,)
"""Kinds whose watch reports changes of the metrics API, in addition to those of `bootstrap`."""
MANAGED_BY = f"{wellknown.MANAGER}.{wellknown.DOMAIN}"
_PORT = "https"
_BY_KIND: Mapping[str, Resource] = {
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
class Reach:
    """Whether the tenant's API server reaches its metrics API, with reason and message."""

    is_reached: bool
    reason: str
    message: str


def grants() -> list[Object]:
    """Return the permissions, without which the metrics-server does not even start."""
    found = yaml.safe_load_all(catalog.bootstrap("metrics-server-role.yaml"))
    return [_ours(each) for each in found if each]


def door(address: str) -> list[Object]:
    """Return the Service at an address of the service range, and its endpoints.

    The endpoint is the same address. At this address the super cluster has the pods, so an API
    server that reads endpoints itself reaches them too.
    """
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"k8s-app": NAME, "kubernetes.io/name": "Metrics-server"},
        },
        "spec": {
            "clusterIP": address,
            "ports": [{"name": _PORT, "port": 443, "targetPort": 443, "protocol": "TCP"}],
        },
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {
                "kubernetes.io/service-name": NAME,
                "endpointslice.kubernetes.io/managed-by": MANAGED_BY,
            },
        },
        "addressType": f"IPv{ipaddress.ip_address(address).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": _PORT, "port": 443, "protocol": "TCP"}],
    }
    return [_ours(service), _ours(endpoints)]


def group(authority: bytes) -> Object:
    """Return the APIService. `authority` has signed the metrics-server's certificate."""
    return _ours(
        {
            "apiVersion": resources.API_SERVICES.api_version,
            "kind": resources.API_SERVICES.kind,
            "metadata": {"name": GROUP},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": bundles.encoded(authority),
                "service": {"name": NAME, "namespace": NAMESPACE, "port": 443},
            },
        }
    )


def reach(api_service: Mapping[str, Any]) -> Reach:
    """Return the state in an APIService's status. Without a status it is not reached."""
    status = api_service.get("status") or {}
    found = conditions.find(status.get("conditions"), "Available") or {}
    reason = str(found.get("reason") or "Registering")
    said = str(found.get("message") or "it has not looked for it yet")
    text = f"the tenant's API server does not reach its metrics-server: {said}"
    return Reach(found.get("status") == "True", reason, text)


async def apply(tenant_client: Client, wanted: Iterable[Object]) -> list[Object]:
    """Apply objects of this module, all at once. Returns them in their current state."""
    return await asyncio.gather(
        *(
            tenant_client.apply(_BY_KIND[each["kind"]], each, field_manager=wellknown.MANAGER)
            for each in wanted
        )
    )


async def withdraw_group(tenant_client: Client) -> None:
    """Delete the APIService, if it has the manager's label."""
    await _remove(tenant_client, resources.API_SERVICES, GROUP)


async def remove(tenant_client: Client) -> None:
    """Delete all objects with the manager's label, the APIService first."""
    await withdraw_group(tenant_client)
    for each in (*door("192.0.2.1"), *grants()):  # only the names matter, not the address
        metadata = each["metadata"]
        await _remove(
            tenant_client, _BY_KIND[each["kind"]], metadata["name"], metadata.get("namespace", "")
        )


async def _remove(
    tenant_client: Client, resource: Resource, name: str, namespace: str = ""
) -> None:
    """Delete an object with the manager's label, because a tenant may have its own by that name."""
    with contextlib.suppress(errors.NotFound):
        found = await tenant_client.get(resource, name, namespace=namespace, metadata_only=True)
        metadata = found["metadata"]
        if (metadata.get("labels") or {}).get(wellknown.BOOTSTRAP) == "true":
            await tenant_client.delete(resource, name, namespace=namespace, uid=metadata["uid"])


def _ours(manifest: Object) -> Object:
    manifest["metadata"].setdefault("labels", {})[wellknown.BOOTSTRAP] = "true"
    return manifest
