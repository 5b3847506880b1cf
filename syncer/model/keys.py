"""What a unit of work is called: one object, seen from both sides.

Pure. Hazard: a key names a place and proves nothing; which object stands there, UIDs say.
"""

from typing import NamedTuple

from tenancy import super_clusters

HOME = super_clusters.HOME
"""The super cluster that runs the tenants' control planes; the first of several to come."""


class Key(NamedTuple):
    """One tenant object and its twin; `namespace` and `name` are the tenant's."""

    tenant: str
    """UID of the VirtualCluster."""
    super_cluster: str
    kind: str
    namespace: str
    name: str


# Kinds of keys beside those of synced objects.
TOKEN = "Token"  # noqa: S105 - a kind of key, not a credential
"""One token Secret; the name is the super Secret's."""
ADDRESS = "IPAddress"
"""One super Service IP in the tenant's slice; the name is the address."""
EVENT = "Event"
"""One super Event on its way up; the name is the Event's."""
NODE = "Node"
"""One virtual node."""
LEASE = "Lease"
"""The lease of the node that stands for a target; the name is the node's."""
VOLUME = "PersistentVolume"
"""One volume: shown in the tenant under its own name, or the tenant's and carried down."""
PLACEMENT = "Placement"
"""One tenant pod that is to be seated in one of several super clusters; the name is the pod's."""
STORE = "Store"
"""The identity of the tenant's store; one per tenant, without a name."""


def tenant_namespace(key: Key) -> str:
    """Return the tenant namespace of a key: that of the object, or the one that it is."""
    return key.name if key.kind == "Namespace" else key.namespace


def group_of(key: Key) -> str:
    """Return whose turn it is when this key is taken: queues are fair between tenants.

    What a tenant has in each further super cluster has a turn of its own, or one that hangs would
    take all of the tenant's places.
    """
    if key.super_cluster == HOME:
        return key.tenant
    return f"{key.tenant}@{key.super_cluster}"


def tenant_of(group: str) -> str:
    """Return the UID of the VirtualCluster whose turn a group's is."""
    return group.partition("@")[0]
