"""Kinds of objects that the page of a namespace can show. Pure.

Hazard: Secrets and ConfigMaps must be read as metadata only. A page must never contain a value.
"""

from dataclasses import dataclass

from tenancy import names
from tenancy.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    INGRESSES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)


@dataclass(frozen=True, slots=True)
class ShownKind:
    """One synced kind. Its key in URLs is the plural."""

    resource: Resource
    metadata_only: bool = False


KINDS: dict[str, ShownKind] = {
    each.resource.plural: each
    for each in (
        ShownKind(PODS),
        ShownKind(SERVICES),
        ShownKind(PERSISTENT_VOLUME_CLAIMS),
        ShownKind(CONFIG_MAPS, metadata_only=True),
        ShownKind(SECRETS, metadata_only=True),
        ShownKind(INGRESSES),
        ShownKind(NETWORK_POLICIES),
        ShownKind(POD_DISRUPTION_BUDGETS),
        ShownKind(ENDPOINT_SLICES, metadata_only=True),
    )
}
DEFAULT_KIND = PODS.plural


def build_tenant_name(kind: ShownKind, name: str) -> str:
    """Return the name of the tenant object of a copy."""
    is_root_ca = kind.resource is CONFIG_MAPS and name == names.SUPER_ROOT_CA
    return names.TENANT_ROOT_CA if is_root_ca else name
