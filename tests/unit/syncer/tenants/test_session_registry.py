"""Registry of the sessions of all tenants."""

from __future__ import annotations

from syncer.tenants.session_registry import SessionRegistry
from tenancy.super_clusters import HOME
from tests.support.syncer.sessions import TENANT
from tests.support.syncer.two_clusters import SplitWorld


def test_a_session_is_found_by_its_super_cluster_and_tenant_until_it_is_removed():
    split, registry = SplitWorld(), SessionRegistry()
    at_target = registry.of_cluster("c2")
    registry.add(split.session)
    registry.add(split.far)
    assert dict(registry.sessions[HOME]) == {TENANT.uid: split.session}
    assert dict(at_target) == {TENANT.uid: split.far}, "the mapping follows later changes"
    registry.remove(split.far)
    registry.remove(split.far)
    assert not at_target
