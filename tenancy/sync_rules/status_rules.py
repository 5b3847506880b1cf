"""Special rules that an API server has for single built-in kinds of SyncRules.

Pure. A kind without a row is treated as a custom resource. Must not know objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenancy.resources import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInKind:
    """Special rules for the status of one kind."""

    status_subresources: tuple[str, ...] = ()
    """Subresources to which a writer of the status also needs a right. No request names them."""
    fixed_status_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Fields of the status that may appear and disappear, but not change. The value has the fields
    that must disappear together with it."""


RESOURCE_CLAIM = "ResourceClaim"
"""Kind of claims for devices."""
DEVICE_GROUP = "resource.k8s.io"
"""API group of dynamic resource allocation."""

BUILT_IN_KINDS: Mapping[tuple[str, str], BuiltInKind] = {
    # The strategy of ResourceClaims in pkg/registry/resource/resourceclaim has these rules. The
    # reservations are those of the tenant's own pods, by its own controller. Without an allocation
    # the API server refuses them.
    (DEVICE_GROUP, RESOURCE_CLAIM): BuiltInKind(
        status_subresources=("binding",),
        fixed_status_fields={"allocation": ("reservedFor", "devices")},
    ),
}
"""Rows by group and kind."""
_CUSTOM = BuiltInKind()


def get_built_in_kind(resource: Resource) -> BuiltInKind:
    """Return the special rules of a kind. Most kinds have none."""
    return BUILT_IN_KINDS.get((resource.group, resource.kind), _CUSTOM)


def is_device_claim(resource: Resource) -> bool:
    """Return whether a kind is that of claims for devices."""
    return (resource.group, resource.kind) == (DEVICE_GROUP, RESOURCE_CLAIM)
