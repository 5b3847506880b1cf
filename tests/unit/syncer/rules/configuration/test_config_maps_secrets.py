"""ConfigMaps and Secrets: which of them are synced."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules import registry
from tenancy.policies import TenantPolicySpec, parse_tenant_policy
from tests.support.syncer.sessions import World


def policy(**spec: Any) -> TenantPolicySpec:
    return parse_tenant_policy({"metadata": {"name": "own"}, "spec": spec})


# Configuration.


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
@pytest.mark.parametrize("mode", ["Referenced", "All"])
def test_what_no_pod_names_goes_down_only_where_all_do(kind, mode):
    world = World(policy(sync={"configMaps": mode, "secrets": mode}))
    entry = world.tenant_has(kind, "c", type="Opaque")
    assert registry.BY_NAME[kind].wants(entry, world.session.view) is (mode == "All")


@pytest.mark.parametrize(
    "kind", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"]
)
def test_secrets_that_never_leave_are_not_even_looked_at_by_all(kind):
    world = World(policy(sync={"secrets": "All"}))
    entry = world.tenant_has("Secret", "c", type=kind)
    assert not registry.BY_NAME["Secret"].wants(entry, world.session.view)
