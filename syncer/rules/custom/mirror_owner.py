"""Owners of mirrored objects: the one object of a tenant that a super object belongs to.

Pure. Hazard: with two owners, a tenant would see the names of another one. Such an object has no
owner.
"""

from collections.abc import Mapping
from typing import Any

from kubeio.cache.store import Entry
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping
from tenancy import wellknown
from tenancy.sync_rules import field_paths
from tenancy.sync_rules.specs import SyncRule

OTHER_NAMESPACE = "another-namespace"
"""Replaces a super namespace that is not the tenant's."""


def is_shown(rule: SyncRule, entry: Entry, view: TenantView) -> bool:
    """Return whether a rule shows a tenant a super object. Copies of tenants are never shown."""
    if not rule.spec.selector.matches(entry.labels) or wellknown.CONTROLLED in entry.labels:
        return False
    if rule.spec.mirror_owner is None:
        return True
    owner = find_owner_namespace(rule, entry.decode())
    return owner is not None and view.get_tenant_namespace(owner) is not None


def find_owner_namespace(rule: SyncRule, body: Mapping[str, Any]) -> str | None:
    """Return the super namespace that an object with one owner names, or None."""
    owner = rule.spec.mirror_owner
    places = list(field_paths.iterate_places(body, owner.path)) if owner is not None else []
    found = [as_mapping(holder[key]).get("namespace") for holder, key, _ in places]
    return found[0] if len(found) == 1 and isinstance(found[0], str) and found[0] else None


def restore_owner_namespace(rule: SyncRule, shown: dict[str, Any], view: TenantView) -> None:
    """Replace the super namespace of the owner with the tenant's name, in place."""
    owner = rule.spec.mirror_owner
    for holder, key, _ in field_paths.iterate_places(shown, owner.path) if owner else ():
        found = holder[key]
        if isinstance(found, dict):
            found["namespace"] = (
                view.get_tenant_namespace(found.get("namespace", "")) or OTHER_NAMESPACE
            )
