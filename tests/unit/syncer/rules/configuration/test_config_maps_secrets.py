"""ConfigMaps and Secrets: which of them are synced."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules import registry
from tenancy.policies import TenantPolicySpec, parse_tenant_policy
from tests.support.syncer.sessions import SessionWorld


def policy(**spec: Any) -> TenantPolicySpec:
    return parse_tenant_policy({"metadata": {"name": "own"}, "spec": spec})


# Configuration.


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
@pytest.mark.parametrize("mode", ["Referenced", "All"])
def test_what_no_pod_names_goes_down_only_where_all_do(kind, mode):
    world = SessionWorld(policy(sync={"configMaps": mode, "secrets": mode}))
    entry = world.tenant_has(kind, "c", type="Opaque")
    assert registry.KINDS_BY_NAME[kind].is_wanted(entry, world.session.view) is (mode == "All")


@pytest.mark.parametrize(
    "kind", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"]
)
def test_secrets_that_never_leave_are_not_even_looked_at_by_all(kind):
    world = SessionWorld(policy(sync={"secrets": "All"}))
    entry = world.tenant_has("Secret", "c", type=kind)
    assert not registry.KINDS_BY_NAME["Secret"].is_wanted(entry, world.session.view)
