"""Changes that restart a tenant's connection, and changes that do not."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from syncer.lifecycle.tenant_plan import TenantPlan
from tenancy.specs import TargetGrant
from tests.support.syncer.sessions import CLUSTER

PLAN = TenantPlan(cluster=CLUSTER, kubeconfig=b"secret", service_range="10.96.8.0/22")


def change_spec(**changed: Any) -> TenantPlan:
    """Return the plan of the same tenant with other fields in its spec."""
    spec = msgspec.structs.replace(CLUSTER.spec, **changed)
    return replace(PLAN, cluster=msgspec.structs.replace(CLUSTER, spec=spec))


def change_policy(**changed: Any) -> TenantPlan:
    """Return the plan of the same tenant with another policy."""
    return replace(PLAN, policy=msgspec.structs.replace(PLAN.policy, **changed))


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAN, kubeconfig=b"other"),
        replace(PLAN, service_range="10.96.12.0/22"),
        change_spec(dns="none"),
        change_spec(metrics="managed"),
        change_spec(cluster_domain="other.local"),
        change_spec(targets=(TargetGrant(name="west"),)),
        change_policy(daemon_sets="Refuse"),
    ],
)
def test_change_restarts_the_connection(other):
    assert other.compute_digest() != PLAN.compute_digest()


@pytest.mark.parametrize("other", [replace(PLAN), change_policy(weight=7)])
def test_change_keeps_the_connection(other):
    assert other.compute_digest() == PLAN.compute_digest()


def test_secret_is_in_no_text():
    assert "secret" not in repr(PLAN)
