"""Collection of the facts of `kubectl vc doctor` from the super cluster. It writes nothing."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client.permissive_reader import PermissiveReader
from kubectl_vc.diagnosis.object_facts import Body
from kubectl_vc.installation.installation_facts import (
    InstallationFacts,
    ReadableBodies,
    TenantControlPlane,
    WebhookServer,
)
from kubectl_vc.installation.webhook_checks import get_service_place
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CLUSTER_VERSIONS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICE_CIDRS,
    SERVICES,
    STORAGE_CLASSES,
    SUPER_CLUSTERS,
    TENANT_POLICIES,
    Resource,
)

WEBHOOK_CONFIGURATIONS = tuple(
    Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)


async def collect_installation_facts(
    super_client: Client, manager_namespace: str
) -> InstallationFacts:
    """Return the facts of the installation. Raises KubeError if the API does not answer."""
    reader = PermissiveReader(super_client)

    async def read(resource: Resource, namespace: str = "", fields: str = "") -> ReadableBodies:
        found = await reader.list(resource, namespace, field_selector=fields)
        return found if reader.is_known(resource, namespace) else None

    fields = {
        "custom_resource_definitions": read(CUSTOM_RESOURCE_DEFINITIONS),
        "deployments": read(DEPLOYMENTS, manager_namespace),
        "leases": read(LEASES, manager_namespace),
        "daemon_sets": read(DAEMON_SETS, manager_namespace),
        "pods": read(PODS, manager_namespace),
        "agent_events": read(EVENTS, manager_namespace, f"reason={wellknown.UPSTREAM_API_SERVER}"),
        "nodes": read(NODES),
        "storage_classes": read(STORAGE_CLASSES),
        "service_cidrs": read(SERVICE_CIDRS),
        "cluster_versions": read(CLUSTER_VERSIONS),
        "tenant_policies": read(TENANT_POLICIES),
        "super_clusters": read(SUPER_CLUSTERS),
    }
    read_all = await asyncio.gather(*fields.values())
    found: dict[str, Any] = dict(zip(fields, read_all, strict=True))
    found["webhook_servers"] = await _collect_webhook_servers(reader)
    return InstallationFacts(now=datetime.now(UTC), manager_namespace=manager_namespace, **found)


async def _collect_webhook_servers(reader: PermissiveReader) -> list[WebhookServer] | None:
    """Return the webhooks whose failure refuses writes, each with the state of its Service."""
    failing = [
        (configuration | {"kind": resource.kind}, webhook)
        for resource in WEBHOOK_CONFIGURATIONS
        for configuration in await reader.list(resource)
        for webhook in configuration.get("webhooks") or ()
        if webhook.get("failurePolicy", "Fail") == "Fail" and get_service_place(webhook)[1]
    ]
    if not all(reader.is_known(each) for each in WEBHOOK_CONFIGURATIONS):
        return None
    found = []
    for configuration, webhook in failing:
        namespace, name = get_service_place(webhook)
        service = await reader.get(SERVICES, name, namespace)
        selector = f"kubernetes.io/service-name={name}"
        slices = await reader.list(ENDPOINT_SLICES, namespace, label_selector=selector)
        if not (
            reader.is_known(SERVICES, namespace) and reader.is_known(ENDPOINT_SLICES, namespace)
        ):
            return None
        found.append(
            WebhookServer(
                configuration=configuration,
                webhook=webhook,
                service=service,
                has_endpoint=service is not None and any(map(_has_ready_endpoint, slices)),
            )
        )
    return found


def _has_ready_endpoint(endpoint_slice: Body) -> bool:
    """Return whether an address is ready. An unset condition means ready."""
    return any(
        (each.get("conditions") or {}).get("ready") is not False
        for each in endpoint_slice.get("endpoints") or ()
    )


async def collect_control_plane(
    super_client: Client, virtual_cluster: Body, tenant: Tenant
) -> TenantControlPlane:
    """Return the facts about one tenant."""
    reader, root = PermissiveReader(super_client), tenant.root
    pods, claims, certificates = await asyncio.gather(
        reader.list(PODS, root),
        reader.list(PERSISTENT_VOLUME_CLAIMS, root),
        reader.get(CONFIG_MAPS, wellknown.CERTIFICATES, root),
    )
    table = [certificates] if certificates is not None else []
    return TenantControlPlane(
        virtual_cluster=virtual_cluster,
        pods=pods if reader.is_known(PODS, root) else None,
        claims=claims if reader.is_known(PERSISTENT_VOLUME_CLAIMS, root) else None,
        certificates=table if reader.is_known(CONFIG_MAPS, root) else None,
    )
