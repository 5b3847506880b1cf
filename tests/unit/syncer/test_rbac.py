"""Permissions that are derived from the registry of kinds."""

from __future__ import annotations

from syncer.clusters.super_cluster import OWNED_RESOURCES
from syncer.rbac import NAMESPACE_RBAC_RULES, SUPER_RBAC_RULES, TENANT_RBAC_RULES
from syncer.rules.registry import KINDS, SyncDirection
from syncer.rules.tenant_resources import WATCHED_RESOURCES
from tenancy.resources import SECRETS


def may(rows, group: str, resource: str) -> set[str]:
    """Return the verbs that a table grants for a resource."""
    return {
        verb
        for row in rows
        if row.group == group and resource in row.resources
        for verb in row.verbs
    }


def test_what_is_watched_may_be_watched():
    for resource, _, _ in WATCHED_RESOURCES:
        assert {"list", "watch"} <= may(TENANT_RBAC_RULES, resource.group, resource.plural)
    for resource in OWNED_RESOURCES:
        rows = NAMESPACE_RBAC_RULES if resource == SECRETS else SUPER_RBAC_RULES
        assert {"list", "watch", "create"} <= may(rows, resource.group, resource.plural)


def test_status_goes_up_and_never_down():
    for row in KINDS:
        has_status = bool(
            may(TENANT_RBAC_RULES, row.resource.group, f"{row.resource.plural}/status")
        )
        assert has_status == (row.direction is SyncDirection.DOWN_UP)
    assert may(SUPER_RBAC_RULES, "", "services/status") == set()


def test_nothing_of_a_tenant_is_written_but_what_goes_up():
    assert "create" not in may(TENANT_RBAC_RULES, "", "pods")
    assert may(TENANT_RBAC_RULES, "", "secrets") == {"get", "list", "watch"}
    assert may(TENANT_RBAC_RULES, "", "namespaces") == {"get", "list", "watch"}
