"""Permissions that are derived from the registry of kinds."""

from __future__ import annotations

from syncer.clusters.super_cluster import OWNED
from syncer.rbac import SUPER_ACCESS, TENANT_ACCESS
from syncer.rules.registry import KINDS, Flow
from syncer.tenants.connection import WATCHED


def may(rows, group: str, resource: str) -> set[str]:
    """Return the verbs that a table grants for a resource."""
    return {
        verb
        for row in rows
        if row.group == group and resource in row.resources
        for verb in row.verbs
    }


def test_what_is_watched_may_be_watched():
    for resource, _, _ in WATCHED:
        assert {"list", "watch"} <= may(TENANT_ACCESS, resource.group, resource.plural)
    for resource in OWNED:
        assert {"list", "watch", "create"} <= may(SUPER_ACCESS, resource.group, resource.plural)


def test_status_goes_up_and_never_down():
    for row in KINDS:
        has_status = bool(may(TENANT_ACCESS, row.resource.group, f"{row.resource.plural}/status"))
        assert has_status == (row.flow is Flow.DOWN_UP)
    assert may(SUPER_ACCESS, "", "services/status") == set()


def test_nothing_of_a_tenant_is_written_but_what_goes_up():
    assert "create" not in may(TENANT_ACCESS, "", "pods")
    assert may(TENANT_ACCESS, "", "secrets") == {"get", "list", "watch"}
    assert may(TENANT_ACCESS, "", "namespaces") == {"get", "list", "watch"}
