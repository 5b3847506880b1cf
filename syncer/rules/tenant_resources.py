"""Resources that the syncer watches in each tenant, and the indexes of their caches.

Kinds of SyncRules and of additional networks are watched besides, in tenants that have them.
"""

from kubeio.cache.store import IndexFunction
from syncer.model.mirrored_kinds import MIRRORS
from syncer.rules.network import ingress_hosts
from syncer.rules.registry import KINDS
from syncer.rules.storage import claims, volumes
from tenancy import wellknown
from tenancy.resources import (
    IP_ADDRESSES,
    NODES,
    PERSISTENT_VOLUMES,
    SERVICE_ACCOUNTS,
    Resource,
)

WATCHED_RESOURCES: tuple[tuple[Resource, str, str], ...] = (
    *((kind.resource, kind.tenant_labels, kind.tenant_fields) for kind in KINDS),
    (SERVICE_ACCOUNTS, "", ""),
    (NODES, f"{wellknown.VIRTUAL_NODE}=true", ""),
    (IP_ADDRESSES, f"{wellknown.RESERVED_ADDRESS}=true", ""),
    (PERSISTENT_VOLUMES, "", ""),
    *((mirror.resource, "", "") for mirror in MIRRORS if not mirror.needs_crd),
)
"""Resources that are watched in each tenant: resource, label selector, field selector."""
OPTIONAL_RESOURCES: tuple[Resource, ...] = tuple(
    mirror.resource for mirror in MIRRORS if mirror.needs_crd
)
"""Resources that are watched in addition, in tenants that serve them."""
INDEXES: dict[str, dict[str, IndexFunction]] = {
    "Ingress": {ingress_hosts.BY_HOST_INDEX: ingress_hosts.index_by_host},
    "PersistentVolume": {volumes.BY_CLAIM_INDEX: volumes.index_by_claim},
    "PersistentVolumeClaim": {claims.BY_VOLUME_INDEX: claims.index_by_volume},
}
"""Indexes of their caches, by kind."""
