"""Keys of the work queue. A key names one tenant object and its twin.

Pure. Hazard: a key is only a name, so ownership must be checked by UIDs. Otherwise a write can
reach an object of another owner that has the name.
"""

from typing import NamedTuple

from tenancy import super_clusters

HOME = super_clusters.HOME
"""The super cluster that runs the control planes of tenants. It is the first of several."""


class Key(NamedTuple):
    """One tenant object and its twin. `namespace` and `name` are those of the tenant object."""

    tenant: str
    """UID of the VirtualCluster."""
    super_cluster: str
    kind: str
    namespace: str
    name: str


# Kinds of keys in addition to the kinds of synced objects.
TOKEN = "Token"  # noqa: S105 - a kind of key, not a credential
"""One token Secret. The name is that of the super Secret."""
SERVICE_VARIABLES = "ServiceVariables"
"""One ConfigMap with service variables. The name is that of the super ConfigMap."""
DEFAULT_POLICY = "DefaultPolicy"
"""One default network policy of a super namespace. The name is that of the super NetworkPolicy."""
TENANT_NETWORK = "TenantNetwork"
"""Definition of the tenant's own network in a super namespace."""
NETWORK_CRD = "NetworkCrd"
"""Definition of a kind of additional networks in the tenant. The name is that of the kind."""
ADDRESS = "IPAddress"
"""One Service IP of the super cluster in the tenant's service range. The name is the address."""
EVENT = "Event"
"""One Event of the super cluster for the tenant. The name is that of the Event."""
NODE = "Node"
"""One virtual node."""
LEASE = "Lease"
"""Lease of the node that stands for a target. The name is that of the node."""
VOLUME = "PersistentVolume"
"""One volume. Either a super volume that the tenant sees under its own name, or a tenant's volume
that is synced to the super cluster."""
RESOURCE_QUOTA = "ResourceQuota"
"""One ResourceQuota of the syncer in a super namespace."""
LIMIT_RANGE = "LimitRange"
"""One LimitRange of the syncer in a super namespace."""
QUOTA_REPORT = "QuotaReport"
"""Report of the quota in the tenant. There is one per tenant, and it has no name."""
ASSIGNMENT = "Placement"
"""One tenant pod that needs an assigned cluster among several. The name is that of the pod."""
TENANT_STATUS = "Store"
"""Identity of the tenant's etcd. There is one per tenant, and it has no name."""


def get_tenant_namespace(key: Key) -> str:
    """Return the tenant namespace of a key.

    For a key of a Namespace this is the namespace itself.
    """
    return key.name if key.kind == "Namespace" else key.namespace


def build_group(key: Key) -> str:
    """Return the fairness group of a key. The queue is fair between groups.

    Each further super cluster of a tenant has its own group. Otherwise a super cluster that does
    not answer would occupy all workers of the tenant.
    """
    if key.super_cluster == HOME:
        return key.tenant
    return f"{key.tenant}@{key.super_cluster}"


def parse_group(group: str) -> str:
    """Return the UID of the VirtualCluster of a fairness group."""
    return group.partition("@")[0]
