"""Rows of reliability as scenes: tenants that are away, slow, full, or refuse."""

from __future__ import annotations

import pytest

from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS, VIRTUAL_CLUSTERS
from tests.chaos.memory import rest
from tests.chaos.memory import tenant_edits as edits
from tests.chaos.memory.happenings import (
    FULL,
    T0,
    WEB,
    SceneFacts,
    asked,
    between,
    config_map,
    holds,
    is_running,
    label,
    nothing,
    pod,
    refusing,
    silent,
    twin,
)
from tests.chaos.memory.scenes import play
from tests.chaos.memory.world import MachineWorld
from tests.support.memapi.direct import RequestFate
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object

NO_WEBHOOK = StatusError(500, "InternalError", 'failed calling webhook "w": connection refused')


def synced(world: MachineWorld, tenant: int = 0) -> str:
    """Return the reason of the condition `Synced` of a VirtualCluster."""
    name = world.tenants[tenant].tenant.name
    stored = world.below.of(VIRTUAL_CLUSTERS).get("default", name)
    assert stored is not None
    found = stored.decode()["status"].get("conditions") or ()
    return next((str(each["reason"]) for each in found if each["type"] == wellknown.SYNCED), "")


@pytest.mark.parametrize(
    ("fate", "seconds"),
    [(RequestFate(is_lost=True), 15.0), (RequestFate(is_swallowed=True), 30.0)],
    ids=["stopped", "swallowed"],
)
def test_a_tenant_is_away_for_ten_minutes(fate: RequestFate, seconds: float):
    """REL-15: nothing of it is deleted, it is said so, and soon after its return all is in step.

    A request that was swallowed still waits for its deadline then. 24 seeds took 9 to 25 s.
    """
    seen = SceneFacts()
    outcome = play(
        (pod(), 5.0),
        (silent("tenant0"), 10.0),
        (pod(tenant=1), 5.0),
        (seen.that("neighbour", lambda world: is_running(world, tenant=1)), 580.0),
        (seen.that("said", synced), 5.0),
        (pod(1), seconds),
        (seen.that("open", rest.problems), 0.0),
        (seen.that("new", lambda world: is_running(world, "b")), 60.0),
        (seen.that("said after", synced), 0.0),
        rule=between(5.0, 605.0, lambda: fate, "tenant0"),
        tenants=2,
    )
    holds(outcome)
    assert seen["neighbour"]
    assert seen["said"] == "TenantUnreachable"
    assert seen["open"] == []
    assert seen["new"]
    assert seen["said after"] == "Engaged"
    assert asked(outcome, "super", "DELETE") == []


def test_a_tenant_that_takes_29_seconds_for_an_answer_slows_down_no_other_tenant():
    """REL-16: the other's pods run as fast as ever. The slow one's get there in the end."""
    seen = SceneFacts()
    outcome = play(
        *((pod(number), 0.0) for number in range(3)),
        (nothing, 5.0),
        (label(1), 30.0),
        (pod(0, tenant=1), 3.0),
        (seen.that("first", lambda world: is_running(world, tenant=1)), 0.0),
        (pod(1, tenant=1), 3.0),
        (seen.that("second", lambda world: is_running(world, "b", tenant=1)), 60.0),
        rule=between(5.0, 300.0, lambda: RequestFate(before=14.5, after=14.5), "tenant0"),
        tenants=2,
    )
    holds(outcome)
    assert seen["first"]
    assert seen["second"]


def test_a_tenant_whose_store_is_full_keeps_what_it_has():
    """REL-19: pods stay below, writes to it are few, and its statuses follow when it is mended."""
    seen = SceneFacts()
    outcome = play(
        (pod(), 3.0),
        (pod(1), 0.0),
        (nothing, 600.0),
        (seen.that("below", lambda world: twin(world, PODS, "b") is not None), 0.0),
        (seen.that("said", synced), 60.0),
        rule=refusing(FULL, 3.0, 603.0, "tenant0"),
    )
    holds(outcome)
    assert seen["below"]
    tries = [at for at in asked(outcome, "tenant0", "POST", "PUT", "PATCH") if at < T0 + 603]
    assert 0 < len([at for at in tries if at > T0 + 3]) < 600
    assert asked(outcome, "super", "DELETE") == []


def test_a_namespace_that_hangs_keeps_its_record_in_the_super_cluster():
    """REL-22: something in it has a finalizer. Its pods go, and the super namespace stays."""
    seen = SceneFacts()

    def held(world: MachineWorld) -> None:
        body = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        world.make(world.tenants[0].cluster, CONFIG_MAPS, WEB, body)

    def freed(world: MachineWorld) -> None:
        def without(found: Object) -> Object:
            return {**found, "metadata": {**found["metadata"], "finalizers": []}}

        world.change(world.tenants[0].cluster.of(CONFIG_MAPS), WEB, "held", without)

    def spaces(world: MachineWorld) -> tuple[bool, bool, bool]:
        tenant = world.tenants[0]
        above = tenant.cluster.of(NAMESPACES).get("", WEB)
        below = world.below.of(NAMESPACES).get("", tenant.below(WEB))
        is_ending = below is not None and "deletionTimestamp" in below.decode()["metadata"]
        return above is not None, below is not None, is_ending

    outcome = play(
        (pod(), 4.0),
        (held, 1.0),
        (lambda world: edits.end_space(world, (0, 1)), 600.0),
        (seen.that("spaces", spaces), 0.0),
        (seen.that("pod", lambda world: twin(world, PODS)), 0.0),
        (freed, 20.0),
        (seen.that("spaces after", spaces), 0.0),
    )
    holds(outcome)
    assert seen["spaces"] == (True, True, False)
    assert seen["pod"] is None
    assert seen["spaces after"] == (False, False, False)


def test_a_tenants_dead_webhook_holds_up_no_other_kind():
    """REL-27: writes of pods fail in the tenant. A ConfigMap goes down, and statuses follow."""
    seen = SceneFacts()
    outcome = play(
        (config_map(0), 0.0),
        (pod(needs=1), 4.0),
        (pod(1), 5.0),
        (config_map(1), 5.0),
        (seen.that("map", lambda world: (twin(world, CONFIG_MAPS) or {}).get("data")), 100.0),
        (seen.that("told", lambda world: is_running(world, "b")), 0.0),
        (seen.that("below", lambda world: twin(world, PODS, "b") is not None), 60.0),
        rule=refusing(NO_WEBHOOK, 4.0, 115.0, "tenant0", "/pods/"),
    )
    holds(outcome)
    assert seen["map"] == {"k": "canary0-1"}
    assert seen["below"]
    assert not seen["told"]
