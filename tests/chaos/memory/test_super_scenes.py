"""Rows of reliability as scenes: a super cluster that is away, full, refuses, or goes back."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tenancy.resources import EVENTS, PODS
from tests.chaos.memory import rest
from tests.chaos.memory import tenant_edits as edits
from tests.chaos.memory.happenings import (
    FULL,
    T0,
    WEB,
    SceneFacts,
    asked,
    config_map,
    holds,
    is_running,
    label,
    nothing,
    now,
    pod,
    refusing,
    space,
    twin,
)
from tests.chaos.memory.scenes import play
from tests.chaos.memory.world import MachineWorld
from tests.support.memapi.direct import RequestFate
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object

DENIED = StatusError(403, "Forbidden", 'admission webhook "gold.example" denied the request')
QUOTA = StatusError(403, "Forbidden", 'pods "a" is forbidden: exceeded quota: gold')
BUSY = StatusError(429, "TooManyRequests", "too many requests", retry_after=1)
CONFLICT = StatusError(409, "Conflict", "the object has been modified")


def events(world: MachineWorld) -> list[tuple[str, str]]:
    """Return reasons and words of the Events in the tenant's namespace `web`."""
    return [
        (body["reason"], body["message"])
        for body in (each.decode() for each in world.tenants[0].cluster.of(EVENTS).all())
        if body["metadata"]["namespace"] == WEB
    ]


def test_a_super_cluster_that_restarts_again_and_again_under_changes():
    """REL-28: every 20 seconds for 20 minutes. Nothing is deleted by mistake, none is lost."""
    chance = random.Random(28)  # noqa: S311 - the same at each run

    def away(side: str, *_: Any) -> RequestFate | None:
        is_away = side == "super" and T0 < now() < T0 + 1200 and now() % 20 < 2
        return RequestFate(is_lost=True) if is_away else None

    def cut(world: MachineWorld) -> None:
        for tap in world.faults.of("super"):
            tap.cut()

    changes = (edits.make_pod, edits.edit_pod, edits.end_pod, edits.renew_pod, edits.edit)

    def change(world: MachineWorld) -> None:
        numbers = [chance.randrange(1000) for _ in range(5)]
        chance.choice(changes)(world, (0, 1, *numbers[2:]))

    turn = ((cut, 0.0), *((change, 2.0) for _ in range(10)))
    outcome = play((space, 8.0), *(turn * 60), rule=away)
    holds(outcome)
    assert outcome.requests > 1000


def test_a_super_cluster_of_an_older_backup_has_again_what_tenants_have():
    """REL-29: what the backup lacks is created again, and what it still has of the past goes."""
    seen = SceneFacts()
    states = []
    outcome = play(
        (pod(), 4.0),
        (lambda world: states.append(world.below.save()), 60.0),
        (pod(1), 4.0),
        (lambda world: edits.end_pod(world, (0, 1, 0, 3)), 5.0),
        (seen.that("before", lambda world: [twin(world, PODS, n) is None for n in "ab"]), 0.0),
        (lambda world: world.below.restore(states[0]), 0.0),
        (seen.that("restored", lambda world: [twin(world, PODS, n) is None for n in "ab"]), 0.0),
    )
    holds(outcome)
    assert seen["before"] == [True, False]
    assert seen["restored"] == [False, True]


@pytest.mark.parametrize("with_lease", [True, False])
def test_a_super_cluster_whose_store_is_full_is_not_stormed(with_lease: bool):
    """REL-30: two writes a second at most while it refuses, and all is made when it takes them."""
    full = refusing(FULL, 3.0, 603.0, "super")

    def rule(side: str, request: Any, sender: Any) -> RequestFate | None:
        is_spared = "/leases" in request.target and not with_lease
        return None if is_spared else full(side, request, sender)

    outcome = play(
        (pod(), 3.0),
        *((pod(number), 0.0) for number in (1, 2)),
        (config_map(1), 0.0),
        (label(2), 600.0),
        (nothing, 60.0),
        rule=rule,
    )
    holds(outcome)
    tries = asked(outcome, "super", "POST", "PUT", "PATCH", "DELETE")
    refused = [at for at in tries if T0 + 3 < at < T0 + 603]
    assert 0 < len(refused) <= 600
    for at in refused:
        assert len([other for other in refused if at <= other < at + 10]) <= 20


@pytest.mark.parametrize("every", [1.0, 5.0])
def test_history_that_is_forgotten_every_few_seconds(every: float):
    """REL-32: a list again after each cut, under changes, and it ends in step."""

    def forget(world: MachineWorld) -> None:
        for side in ("super", "tenant0"):
            world.at(side).compact()
            for tap in world.faults.of(side):
                tap.cut()

    changes = [(pod(number % 3), every / 2) for number in range(20)]
    changes += [(label(number), every / 2) for number in range(20)]
    outcome = play((space, 1.0), *(each for change in changes for each in (change, (forget, 0.0))))
    holds(outcome)


def test_a_fifth_of_all_requests_is_turned_away():
    """REL-33: no one asks again sooner than told, and all comes to rest while it goes on."""
    chance = random.Random(33)  # noqa: S311 - the same at each run
    seen = SceneFacts()
    refused: dict[tuple[str, str, bytes | None], float] = {}
    early: list[tuple[str, float]] = []

    def rule(side: str, request: Any, _: Any) -> RequestFate | None:
        if not T0 <= now() < T0 + 120:
            return None
        asked_for = (side, f"{request.method} {request.target}", request.body)
        since = now() - refused.pop(asked_for, float("-inf"))
        if since < 1.0:
            early.append((asked_for[1], since))
        if chance.random() >= 0.2:
            return None
        refused[asked_for] = now()
        return RequestFate(refusal=BUSY, retry_after="1")

    outcome = play(
        *((pod(number % 3), 1.0) for number in range(3)),
        (config_map(1), 1.0),
        *((label(number), 2.0) for number in range(20)),
        (nothing, 60.0),
        (seen.that("open", rest.problems), 20.0),
        rule=rule,
    )
    holds(outcome)
    assert seen["open"] == []
    assert early == []


def test_nine_of_ten_changes_meet_a_conflict():
    """REL-35: they are made in the end, and other keys are not kept waiting."""
    chance = random.Random(35)  # noqa: S311 - the same at each run
    seen = SceneFacts()

    def rule(side: str, request: Any, _: Any) -> RequestFate | None:
        is_change = request.method in ("PUT", "PATCH") and "/web" in request.target
        is_hit = is_change and side == "super" and T0 + 5 < now() < T0 + 305
        return RequestFate(refusal=CONFLICT) if is_hit and chance.random() < 0.9 else None

    outcome = play(
        (config_map(0), 0.0),
        (pod(needs=1), 5.0),
        *((label(number), 1.0) for number in range(10)),
        (config_map(2), 1.0),
        (pod(1), 5.0),
        (seen.that("other", lambda world: is_running(world, "b")), 240.0),
        (seen.that("open", rest.problems), 60.0),
        rule=rule,
    )
    holds(outcome)
    assert seen["other"]
    assert seen["open"] == []


@pytest.mark.parametrize("problem", [DENIED, QUOTA], ids=["webhook", "quota"])
def test_a_refused_object_is_reported_and_created_once_it_is_allowed(problem: StatusError):
    """REL-36, REL-43, V-10: reported without super names, soon after a change."""
    seen = SceneFacts()
    outcome = play(
        (pod(), 300.0),
        (seen.that("told", events), 0.0),
        (seen.that("below", lambda world: twin(world, PODS)), 1.0),
        (label(1), 10.0),
        (seen.that("made", lambda world: twin(world, PODS) is not None), 0.0),
        rule=refusing(problem, 0.0, 300.5, "super", "/pods"),
        excused=("I8",),  # the tenant is told of a refusal
    )
    holds(outcome)
    assert seen["below"] is None
    assert [reason for reason, _ in seen["told"]] == ["SyncFailed"]
    assert "gold" not in str(seen["told"])
    assert seen["made"]
    assert len(asked(outcome, "super", "POST", path="/pods")) < 60


def test_two_that_never_agree_do_not_load_the_servers():
    """REL-38: a controller below undoes each of our repairs, as fast as we make them."""
    told: list[Object] = []

    def fight(world: MachineWorld) -> None:
        def undo(found: Object) -> Object:
            labels = {**found["metadata"]["labels"], "app": "theirs"}
            return {**found, "metadata": {**found["metadata"], "labels": labels}}

        def undone(collection: Any, where: str, name: str) -> None:
            world.change(collection, where, name, undo)

        def heard(kind: str, body: Object) -> None:
            is_ours = body["metadata"].get("labels", {}).get("app") == "canary0-0"
            if kind == "MODIFIED" and is_ours and now() < T0 + 604:
                where, name = body["metadata"]["namespace"], body["metadata"]["name"]
                told.append(body)
                asyncio.get_running_loop().call_soon(undone, collection, where, name)

        collection = world.below.of(PODS)
        collection.listeners.append(heard)
        undone(collection, world.tenants[0].below(WEB), "a")

    outcome = play((pod(), 4.0), (fight, 600.0), (label(1), 60.0))
    holds(outcome)
    assert 3 <= len(told) <= 60
