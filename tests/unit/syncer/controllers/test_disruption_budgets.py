"""Reconciler of PodDisruptionBudgets: raised at once, lowered after a grace period."""

from __future__ import annotations

import pytest

from kubeio.controller.worker import RequeueAfter
from syncer.controllers.disruption_budgets import LOWERING_DELAY_SECONDS
from syncer.tenants.memory.grace_timers import GRACE_PERIOD_SECONDS
from tests.support.syncer.reconciles import reconcile
from tests.support.syncer.sessions import SessionWorld, put

# --- budgets are lowered slowly -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unready", "seconds"), [(0, GRACE_PERIOD_SECONDS), (1, LOWERING_DELAY_SECONDS)]
)
async def test_a_budget_is_raised_at_once_and_lowered_after_a_while(unready, seconds):
    world = SessionWorld()
    world.ready()
    now = 100.0
    world.session.grace_timers._clock = lambda: now
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 2}
    status = {"desiredHealthy": 2, "observedGeneration": 1}
    world.tenant_has("PodDisruptionBudget", "x", spec=spec, status=status)
    world.super_has("PodDisruptionBudget", "x", spec={"minAvailable": 2, "selector": {}})
    for number in range(2 + unready):
        entry = world.super_has("Pod", f"p{number}")
        body = entry.decode()
        body["metadata"] |= {"labels": {**entry.labels, "app": "web"}, "resourceVersion": "61"}
        ready = {"type": "Ready", "status": "True" if number < 2 else "False"}
        body["status"] = {"conditions": [ready]}
        put(world.super_cluster.stores["Pod"], body)
    waits = await reconcile(world, "PodDisruptionBudget")
    assert isinstance(waits, RequeueAfter)
    now += seconds - 1
    waits = await reconcile(world, "PodDisruptionBudget")
    assert isinstance(waits, RequeueAfter)
    assert world.below.writes() == []
    now += 1
    await reconcile(world, "PodDisruptionBudget")
    assert world.below.writes() == [("replace", "PodDisruptionBudget", "x")]
    assert world.below.bodies[-1]["spec"]["minAvailable"] == 1
