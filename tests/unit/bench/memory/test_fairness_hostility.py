"""Effects of a hostile tenant on good tenants, and its acts."""

from __future__ import annotations

from typing import Any

import pytest

from bench.memory import fairness
from tenancy.resources import NODES, PODS
from tests.support.load_shapes import SHAPES
from tests.support.memapi import clusters, hostility, verbs
from tests.support.memapi.refusals import StatusError


def load(*tenants: list[tuple[float, float]]) -> dict[str, Any]:
    """A load of which each tenant's pods were made at a time and were so late."""
    return {
        "sent_at": [[at for at, _ in each] for each in tenants],
        "late_ms": [[late for _, late in each] for each in tenants],
    }


def test_pods_count_only_while_the_hostile_tenant_acts():
    alone = load([(0.0, 10.0), (1.0, 10.0)])
    beside = load([(9.0, 500.0), (10.0, 15.0)], [(11.0, 15.0), (20.0, 500.0)])
    found = fairness.felt_beside_hostile(alone, beside, {"begun_at": 10.0, "ended_at": 12.0})
    assert found["beside_pods"] == 2
    assert found["p99_to_alone"] == pytest.approx(1.5)
    assert found["jain_beside"] == 1.0


@pytest.mark.parametrize("name", hostility.ACTS)
def test_each_act_changes_the_tenant_again_and_again(name: str):
    tenant = clusters.tenant(0, SHAPES["bare"])
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    verbs.create(tenant, tenant.of(PODS), "default", body, "load")
    verbs.create(tenant, tenant.of(NODES), "", {"metadata": {"name": "n"}}, "syncer")
    before, done = tenant.revision, 0
    for number in range(60):
        try:
            hostility.ACTS[name](tenant, number)
            done += 1
        except StatusError:
            pass
    assert done == 60
    assert tenant.revision > before
    names = [each.name for kind in tenant.collections.values() for each in kind.all()]
    assert sum(1 for each in names if each.startswith("hostile-")) <= 60
