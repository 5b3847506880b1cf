"""A tenant whose policy offers additional networks, for tests."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
from typing import Any

import msgspec

from kubeio.cache.store import Store
from syncer.model.tenant_view import TenantView
from syncer.rules.network.attachments import definitions
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.policy.network_attachments import NetworkAttachments
from tenancy.specs import PrimaryNetwork
from tests.support.syncer import tenant_views

SERVICES = ipaddress.ip_network("10.96.0.0/16")
SHARED, OWN = "br-shared", "br-trunk"
"""Devices with shared VLANs, and with VLANs that are divided among tenants."""
OFFER: dict[str, Any] = {
    "types": ["bridge", "macvlan", "vlan"],
    "chained": ["tuning"],
    "devices": [
        {"name": SHARED, "vlans": ["0", "100-102"], "ranges": ["10.100.0.0/16"]},
        {"name": OWN, "tenantVlans": "1000-1999", "ranges": ["10.20.0.0/16"]},
        {"name": "br-bare"},
    ],
    "primaryDevice": OWN,
}
NETWORK = PrimaryNetwork(driver="multus-primary", cidr="10.20.0.0/16", gateway="10.20.0.1")


def offered(**fields: Any) -> TenantPolicySpec:
    """Return a policy that offers networks. `fields` replace parts of the offer."""
    attachments = msgspec.convert({**OFFER, **fields}, NetworkAttachments)
    network = msgspec.structs.replace(BASELINE_POLICY.network, attachments=attachments)
    return msgspec.structs.replace(BASELINE_POLICY, network=network)


def attachment_view(
    *,
    tenant: Tenant = tenant_views.TENANT,
    service_range: str = "10.96.8.0/22",
    network: PrimaryNetwork | None = None,
    **fields: Any,
) -> TenantView:
    """Return a look at a tenant with the namespaces web and db. `fields` are of the offer."""
    found = tenant_views.network_view(namespaces={"web": {}, "db": {}}, policy=offered(**fields))
    found.stores["NetworkAttachmentDefinition"] = Store()  # type: ignore[index]
    served = Store()
    served.synced = True
    return dataclasses.replace(
        found,
        tenant=tenant,
        spec=msgspec.structs.replace(found.spec, network=network),
        service_range=ipaddress.ip_network(service_range),
        get_super_service_range=lambda: SERVICES,
        super_stores={**found.super_stores, definitions.KIND: served},
    )


def bridge(**fields: Any) -> dict[str, Any]:
    """Return a configuration of the plugin bridge with addresses on the shared device."""
    found: dict[str, Any] = {
        "cniVersion": "1.0.0",
        "name": "lab",
        "type": "bridge",
        "bridge": SHARED,
        "vlan": 100,
        "ipam": {"type": "whereabouts", "range": "10.100.0.0/16"},
        **fields,
    }
    return {key: value for key, value in found.items() if value is not None}


def definition(config: Any, *, namespace: str = "web", name: str = "lab") -> dict[str, Any]:
    """Return a NetworkAttachmentDefinition of the tenant."""
    text = config if isinstance(config, str) else json.dumps(config)
    return {
        "kind": definitions.KIND,
        "metadata": {"name": name, "namespace": namespace, "uid": f"{name}-uid"},
        "spec": {"config": text},
    }
