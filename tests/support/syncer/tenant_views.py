"""A look at a tenant with caches that a test fills."""

from __future__ import annotations

import ipaddress
from typing import Any

import msgspec
import orjson

from kubeio.cache.store import Entry, Store, parse_entry
from syncer.model.super_cidrs import SuperCidrs
from syncer.model.tenant_view import TenantView
from tenancy import ownership
from tenancy.addresses import parse_networks
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.specs import DnsMode, VirtualClusterSpec

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
OTHER = Tenant(name="other", namespace="default", uid="other-uid", root="default-def456-other")
RANGES = SuperCidrs(
    nodes=parse_networks(("192.0.2.7", "192.0.2.8")),
    pods=parse_networks(("10.244.0.0/16",)),
    services=parse_networks(("10.96.0.0/16",)),
)
NAME = "kubernetes.io/metadata.name"
"""The label by which a namespace is selected by its name."""
KINDS = ("Namespace", "Service", "ConfigMap", "Secret", "Node", "Pod")


def policy(**parts: Any) -> TenantPolicySpec:
    """Return the policy `baseline` with some parts of its own, as JSON has them."""
    return msgspec.convert({**msgspec.to_builtins(BASELINE_POLICY), **parts}, TenantPolicySpec)


def view(**spec: Any) -> TenantView:
    """Return a tenant's view with empty caches. `spec` has fields of the VirtualCluster."""
    return TenantView(
        tenant=TENANT,
        spec=VirtualClusterSpec(cluster_version_name="v", **spec),
        service_range=ipaddress.ip_network("10.96.8.0/22"),
        stores={kind: Store() for kind in KINDS},
    )


def network_view(
    *,
    ranges: SuperCidrs = RANGES,
    namespaces: dict[str, dict[str, str]] | None = None,
    dns: DnsMode = "managed",
    **fields: Any,
) -> TenantView:
    """Return a look at a tenant with namespaces, in a super cluster with ranges."""
    view = TenantView(
        tenant=TENANT,
        spec=VirtualClusterSpec(cluster_version_name="v", dns=dns),
        service_range=ipaddress.ip_network("10.96.8.0/22"),
        stores={kind: Store() for kind in KINDS},
        super_stores={
            kind: Store() for kind in ("Pod", "IngressClass", "Node", "PodDisruptionBudget")
        },
        get_super_cidrs=lambda: ranges,
        **fields,
    )
    for name, labels in (namespaces or {}).items():
        add(view.stores["Namespace"], name, labels=labels)
    return view


def add(store: Store, name: str, *, namespace: str = "", **fields: Any) -> None:
    """Put an object into a cache."""
    own = {key: fields.pop(key) for key in ("labels", "annotations") if key in fields}
    metadata = {"name": name, "namespace": namespace, "uid": f"{name}-uid", **own}
    store.put(parse_entry(orjson.dumps({"metadata": metadata, **fields})), live=True)


def object_of(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a tenant object as the tenant's API hands it out."""
    metadata = {"name": "x", "namespace": "web", "uid": "u", **fields.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, **fields}


def entry_of(body: dict[str, Any]) -> Entry:
    """Return an object as a cache has it."""
    return parse_entry(orjson.dumps(body))


def as_live(twin: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a twin as the super cluster's API hands it out."""
    metadata = {**twin["metadata"], "uid": "below", "resourceVersion": "7"}
    return {**twin, "metadata": metadata, **fields}


def below_labels(tenant: Tenant, namespace: str) -> dict[str, str]:
    """Return the labels of a super namespace. An empty one is the root namespace."""
    return ownership.build_owner_labels(tenant, namespace)
