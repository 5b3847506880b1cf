"""Rows of reliability as scenes: what is known is not there yet, or old."""

from __future__ import annotations

from typing import Any

import pytest

from tenancy.resources import PODS
from tests.chaos.memory.happenings import (
    T0,
    SceneFacts,
    asked,
    config_map,
    holds,
    nothing,
    now,
    pod,
    twin,
)
from tests.chaos.memory.scenes import play
from tests.chaos.memory.world import MachineWorld
from tests.support.memapi.direct import RequestFate
from tests.support.memapi.refusals import StatusError

AWAY = StatusError(503, "ServiceUnavailable", "not now")


def restart(world: MachineWorld) -> None:
    """Kill the syncer and start it again."""
    (replica,) = world.replicas
    replica.kill()
    world.loop.call_later(1.0, replica.start)


@pytest.mark.parametrize("kind", ["pods", "configmaps", "services", "namespaces"])
@pytest.mark.parametrize("fate", [RequestFate(is_swallowed=True), RequestFate(refusal=AWAY)])
def test_a_list_that_is_withheld_deletes_nothing(kind: str, fate: RequestFate):
    """REL-05: a syncer that starts does not take what it has not been shown for gone."""
    seen = SceneFacts()

    def rule(side: str, request: Any, _: Any) -> RequestFate | None:
        is_list = request.method == "GET" and f"/{kind}?" in f"{request.target}?"
        return fate if is_list and side == "tenant0" and 9 < now() - T0 < 80 else None

    outcome = play(
        (config_map(0), 0.0),
        (pod(needs=1), 9.0),
        (restart, 70.0),
        (seen.that("pod", lambda world: twin(world, PODS) is not None), 0.0),
        rule=rule,
    )
    holds(outcome)
    assert seen["pod"]
    assert asked(outcome, "super", "DELETE") == []


def test_lists_of_the_past_delete_nothing():
    """REL-10: a tenant's server that lags behind, to a syncer that has just started."""

    def rule(side: str, request: Any, _: Any) -> RequestFate | None:
        is_old = request.method == "GET" and side == "tenant0" and now() - T0 > 12
        return RequestFate(behind=40) if is_old else None

    def stall(world: MachineWorld) -> None:
        for tap in world.faults.of("tenant0"):
            tap.hold()
            world.loop.call_later(20.0, tap.release)

    outcome = play(
        (config_map(0), 0.0),
        (pod(), 6.0),
        (pod(1, needs=1), 6.0),
        (restart, 0.0),
        *((nothing, 0.5) for _ in range(20)),
        *((stall, 0.5) for _ in range(40)),
        rule=rule,
    )
    holds(outcome)
    assert asked(outcome, "super", "DELETE") == []


@pytest.mark.parametrize("bump", [0, 100_000])
def test_a_tenant_of_an_older_backup_loses_nothing_in_the_super_cluster(bump: int):
    """REL-17: with and without a bumped revision, until someone says that it is meant."""
    seen = SceneFacts()
    states = []
    outcome = play(
        (pod(), 60.0),
        (lambda world: states.append(world.tenants[0].cluster.save()), 0.0),
        (pod(1), 60.0),
        (lambda world: world.restore(world.tenants[0], states[0], bump), 60.0),
        (seen.that("below", lambda world: twin(world, PODS, "b") is not None), 0.0),
        (seen.that("held", lambda world: world.holds(world.tenants[0])), 0.0),
    )
    holds(outcome)
    assert seen["below"]
    assert seen["held"]
