"""Rows of reliability as scenes: minutes of trouble in virtual time, judged by the machine.

At each request and at rest the machine looks for what is lost, doubled, left behind, deleted by
mistake or never at rest; each test adds what its row asks besides. Times are those of the virtual
clock, so nothing here depends on how busy a machine is.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bench.memapi.direct import Fate
from bench.memapi.refusals import RefusedError
from bench.memapi.watches import Object
from tenancy import marks
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.properties import scenes
from tests.properties.machine import rest
from tests.properties.machine import tenant_edits as edits
from tests.properties.machine.run import Outcome
from tests.properties.machine.world import World
from tests.properties.scenes import Rule, play

T0 = 12.0
"""When a scene begins, in seconds: the tenants are engaged by then."""
MINUTE = 60.0
WEB = "web"
_LINE = re.compile(r"(?P<at>[\d.]+) (?P<side>\w+) (?P<method>[A-Z]+) (?P<path>\S+) \d+")
FULL = RefusedError(500, "InternalError", "etcdserver: mvcc: database space exceeded")
DENIED = RefusedError(403, "Forbidden", 'admission webhook "gold.example" denied the request')
QUOTA = RefusedError(403, "Forbidden", 'pods "a" is forbidden: exceeded quota: gold')
NO_WEBHOOK = RefusedError(500, "InternalError", 'failed calling webhook "w": connection refused')
AWAY = RefusedError(503, "ServiceUnavailable", "not now")
BUSY = RefusedError(429, "TooManyRequests", "too many requests", retry_after=1)
CONFLICT = RefusedError(409, "Conflict", "the object has been modified")


def now() -> float:
    return asyncio.get_running_loop().time()


def nothing(_: World) -> None:
    """Let time go by."""


def space(world: World) -> None:
    edits.make_space(world, (0, 1, 0, 0, 0))


def pod(name: int = 0, tenant: int = 0, needs: int = 0) -> Callable[[World], None]:
    """Have a tenant make a pod: `a` for 0, `b` for 1; it needs a ConfigMap for 1."""

    def made(world: World) -> None:
        edits.make_space(world, (tenant, 1, 0, 0, 0))
        edits.make_pod(world, (tenant, 1, name, needs, 0))

    return made


def config_map(value: int) -> Callable[[World], None]:
    def written(world: World) -> None:
        edits.make(world, (0, 1, 0, 0, value))
        edits.edit(world, (0, 1, 0, 0, value))

    return written


def label(value: int) -> Callable[[World], None]:
    return lambda world: edits.edit_pod(world, (0, 1, 0, 1, value))


def twin(world: World, resource: Resource, name: str = "a", tenant: int = 0) -> Object | None:
    """Return what is below of an object in the tenant's namespace `web`."""
    stored = world.below.of(resource).get(world.tenants[tenant].below(WEB), name)
    return None if stored is None else stored.decode()


def own(world: World, resource: Resource, name: str = "a", tenant: int = 0) -> Object | None:
    """Return a tenant's object in its namespace `web`."""
    stored = world.tenants[tenant].cluster.of(resource).get(WEB, name)
    return None if stored is None else stored.decode()


def is_running(world: World, name: str = "a", tenant: int = 0) -> bool:
    """Tell whether a tenant reads of its pod that it runs."""
    found = own(world, PODS, name, tenant)
    return found is not None and found["status"].get("phase") == "Running"


def synced(world: World, tenant: int = 0) -> str:
    """Return the reason of the condition `Synced` of a VirtualCluster."""
    name = world.tenants[tenant].tenant.name
    stored = world.below.of(VIRTUAL_CLUSTERS).get("default", name)
    assert stored is not None
    found = stored.decode()["status"].get("conditions") or ()
    return next((str(each["reason"]) for each in found if each["type"] == marks.SYNCED), "")


def events(world: World) -> list[tuple[str, str]]:
    """Return reasons and words of the Events in the tenant's namespace `web`."""
    return [
        (body["reason"], body["message"])
        for body in (each.decode() for each in world.tenants[0].cluster.of(EVENTS).all())
        if body["metadata"]["namespace"] == WEB
    ]


class Seen:
    """What scenes look at while they go on: facts by their names."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def that(self, name: str, look: Callable[[World], Any]) -> Callable[[World], None]:
        """Look at something when the scene comes to it."""

        def looked(world: World) -> None:
            self.facts[name] = look(world)

        return looked

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]


def asked(outcome: Outcome, side: str, *methods: str, path: str = "") -> list[float]:
    """Return when requests were sent to a side, those about Leases apart."""
    found = [match for line in outcome.trace if (match := _LINE.fullmatch(line))]
    return [
        float(match["at"])
        for match in found
        if match["side"] == side
        and match["method"] in methods
        and path in match["path"]
        and "/leases/" not in match["path"]
    ]


def holds(outcome: Outcome) -> None:
    assert not outcome.breaks, scenes.told(outcome)


def between(first: float, last: float, fate: Callable[[], Fate], *sides: str) -> Rule:
    """Have every request of some seconds of a scene meet the same."""

    def rule(side: str, *_: Any) -> Fate | None:
        return fate() if first <= now() - T0 < last and side in sides else None

    return rule


def refusing(problem: RefusedError, first: float, last: float, side: str, where: str = "") -> Rule:
    """Have a side refuse writes whose target has these words in it."""

    def rule(to: str, request: Any, _: Any) -> Fate | None:
        is_hit = request.method != "GET" and to == side and where in request.target
        return Fate(refusal=problem) if is_hit and first <= now() - T0 < last else None

    return rule


def silent(side: str) -> Callable[[World], None]:
    """Have a firewall forget a side's connections: what is said on them arrives nowhere."""

    def forgotten(world: World) -> None:
        for tap in world.faults.of(side):
            tap.hold()

    return forgotten


def restart(world: World) -> None:
    """Kill the syncer and start it again."""
    (replica,) = world.replicas
    replica.kill()
    world.loop.call_later(1.0, replica.start)


# --- knowledge that is not there yet, or old ------------------------------------------------------


@pytest.mark.parametrize("kind", ["pods", "configmaps", "services", "namespaces"])
@pytest.mark.parametrize("fate", [Fate(is_swallowed=True), Fate(refusal=AWAY)])
def test_a_list_that_is_withheld_deletes_nothing(kind: str, fate: Fate):
    """REL-05: a syncer that starts does not take what it has not been shown for gone."""
    seen = Seen()

    def rule(side: str, request: Any, _: Any) -> Fate | None:
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

    def rule(side: str, request: Any, _: Any) -> Fate | None:
        is_old = request.method == "GET" and side == "tenant0" and now() - T0 > 12
        return Fate(behind=40) if is_old else None

    def stall(world: World) -> None:
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
def test_a_tenant_of_an_older_backup_loses_nothing_below(bump: int):
    """REL-17: with and without a bumped revision, until somebody says that it is meant."""
    seen = Seen()
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


# --- tenants that are away, slow, full, or refuse -------------------------------------------------


@pytest.mark.parametrize(
    ("fate", "seconds"),
    [(Fate(is_lost=True), 40.0), (Fate(is_swallowed=True), 60.0)],
    ids=["stopped", "swallowed"],
)
def test_a_tenant_is_away_for_ten_minutes(fate: Fate, seconds: float):
    """REL-15: nothing of it is deleted, it is said so, and soon after its return all is in step."""
    seen = Seen()
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


def test_a_tenant_that_takes_29_seconds_for_an_answer_slows_down_nobody_else():
    """REL-16: the other's pods run as fast as ever; the slow one's get there in the end."""
    seen = Seen()
    outcome = play(
        *((pod(number), 0.0) for number in range(3)),
        (nothing, 5.0),
        (label(1), 30.0),
        (pod(0, tenant=1), 3.0),
        (seen.that("first", lambda world: is_running(world, tenant=1)), 0.0),
        (pod(1, tenant=1), 3.0),
        (seen.that("second", lambda world: is_running(world, "b", tenant=1)), 60.0),
        rule=between(5.0, 300.0, lambda: Fate(before=14.5, after=14.5), "tenant0"),
        tenants=2,
    )
    holds(outcome)
    assert seen["first"]
    assert seen["second"]


def test_a_tenant_whose_store_is_full_keeps_what_it_has():
    """REL-19: pods stay below, writes to it are few, and its statuses follow when it is mended."""
    seen = Seen()
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


def test_a_namespace_that_hangs_keeps_its_record_below():
    """REL-22: something in it has a finalizer; its pods go, and the super namespace stays."""
    seen = Seen()

    def held(world: World) -> None:
        body = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        world.make(world.tenants[0].cluster, CONFIG_MAPS, WEB, body)

    def freed(world: World) -> None:
        def without(found: Object) -> Object:
            return {**found, "metadata": {**found["metadata"], "finalizers": []}}

        world.change(world.tenants[0].cluster.of(CONFIG_MAPS), WEB, "held", without)

    def spaces(world: World) -> tuple[bool, bool, bool]:
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
    """REL-27: writes of pods fail in the tenant; a ConfigMap goes down, and statuses follow."""
    seen = Seen()
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


# --- a super cluster that is away, full, refuses, or goes back ------------------------------------


def test_a_super_cluster_that_restarts_again_and_again_under_changes():
    """REL-28: every 20 seconds for 20 minutes; nothing is deleted by mistake, none is lost."""
    chance = random.Random(28)  # noqa: S311 - the same at each run

    def away(side: str, *_: Any) -> Fate | None:
        is_away = side == "super" and T0 < now() < T0 + 1200 and now() % 20 < 2
        return Fate(is_lost=True) if is_away else None

    def cut(world: World) -> None:
        for tap in world.faults.of("super"):
            tap.cut()

    changes = (edits.make_pod, edits.edit_pod, edits.end_pod, edits.renew_pod, edits.edit)

    def change(world: World) -> None:
        numbers = [chance.randrange(1000) for _ in range(5)]
        chance.choice(changes)(world, (0, 1, *numbers[2:]))

    turn = ((cut, 0.0), *((change, 2.0) for _ in range(10)))
    outcome = play((space, 8.0), *(turn * 60), rule=away)
    holds(outcome)
    assert outcome.requests > 1000


def test_a_super_cluster_of_an_older_backup_has_again_what_tenants_have():
    """REL-29: what the backup lacks is made anew, and what it still has of the past goes."""
    seen = Seen()
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

    def rule(side: str, request: Any, sender: Any) -> Fate | None:
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
    """REL-32: a list anew after each cut, under changes, and it ends in step."""

    def forget(world: World) -> None:
        for side in ("super", "tenant0"):
            world.at(side).compact()
            for tap in world.faults.of(side):
                tap.cut()

    changes = [(pod(number % 3), every / 2) for number in range(20)]
    changes += [(label(number), every / 2) for number in range(20)]
    outcome = play((space, 1.0), *(each for change in changes for each in (change, (forget, 0.0))))
    holds(outcome)


def test_a_fifth_of_all_requests_is_turned_away():
    """REL-33: nobody asks again sooner than told, and all comes to rest while it goes on."""
    chance = random.Random(33)  # noqa: S311 - the same at each run
    seen = Seen()
    refused: dict[tuple[str, str, bytes | None], float] = {}
    early: list[tuple[str, float]] = []

    def rule(side: str, request: Any, _: Any) -> Fate | None:
        if not T0 <= now() < T0 + 120:
            return None
        asked_for = (side, f"{request.method} {request.target}", request.body)
        since = now() - refused.pop(asked_for, float("-inf"))
        if since < 1.0:
            early.append((asked_for[1], since))
        if chance.random() >= 0.2:
            return None
        refused[asked_for] = now()
        return Fate(refusal=BUSY, retry_after="1")

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
    seen = Seen()

    def rule(side: str, request: Any, _: Any) -> Fate | None:
        is_change = request.method in ("PUT", "PATCH") and "/web" in request.target
        is_hit = is_change and side == "super" and T0 + 5 < now() < T0 + 305
        return Fate(refusal=CONFLICT) if is_hit and chance.random() < 0.9 else None

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
def test_what_is_refused_below_is_told_and_made_when_it_may_be(problem: RefusedError):
    """REL-36, REL-43, V-10: told without super names; made soon after a change."""
    seen = Seen()
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

    def fight(world: World) -> None:
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


# --- wires ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["super", "tenant0"])
def test_a_firewall_that_forgets_watches_is_noticed(side: str):
    """REL-46: within 75 seconds, and what happened meanwhile arrives."""
    seen = Seen()
    outcome = play(
        (config_map(0), 0.0),
        (pod(needs=1), 5.0),
        (silent(side), 0.5),
        (pod(1), 0.0),
        (label(1), 75.0),
        (seen.that("open", rest.problems), 0.0),
    )
    holds(outcome)
    assert seen["open"] == []


@pytest.mark.parametrize("seconds", [1.0, 10.0, 60.0, 600.0])
@pytest.mark.parametrize("way", ["there", "back", "watches"])
@pytest.mark.parametrize("side", ["super", "tenant0"])
def test_one_way_is_cut_for_a_while(side: str, way: str, seconds: float):
    """REL-48: what is sent, what is answered, or what is told, between the syncer and one side."""
    fates = {"there": Fate(is_swallowed=True), "back": Fate(is_unanswered=True)}

    def cut(world: World) -> None:
        taps = world.faults.of(side)
        for tap in taps:
            tap.hold()
            if way == "watches":
                world.loop.call_later(seconds, tap.release)

    rule = between(4.0, 4.0 + seconds, lambda: fates[way], side) if way in fates else None
    outcome = play(
        (config_map(0), 0.0),
        (pod(needs=1), 4.0),
        (cut, seconds / 4),
        (pod(1), seconds / 4),
        (lambda world: edits.renew_pod(world, (0, 1, 0, 0, 1)), seconds / 4),
        (config_map(1), seconds / 4),
        rule=rule,
    )
    holds(outcome)


def _doubled(lines: Sequence[bytes]) -> list[bytes]:
    return [line for line in lines for _ in range(2)]


def _shuffled(lines: Sequence[bytes]) -> list[bytes]:
    return random.Random(49).sample(list(lines), len(lines))  # noqa: S311 - the same each time


def _garbled(lines: Sequence[bytes]) -> list[bytes]:
    return [line[: len(line) // 2] + b"\n" for line in lines]


def _replayed(lines: Sequence[bytes]) -> list[bytes]:
    return [*lines, *lines[::-1], *lines]


@pytest.mark.parametrize("order", [_doubled, _shuffled, _garbled, _replayed])
@pytest.mark.parametrize("side", ["super", "tenant0"])
def test_watches_that_tell_late_twice_in_disorder_or_nonsense(side: str, order: Any):
    """REL-49: and all of it again and again, while things change."""

    def hold(world: World) -> None:
        taps = world.faults.of(side)
        for tap in taps:
            tap.hold()
            world.loop.call_later(2.5, tap.release, order)

    turn = (
        (hold, 0.0),
        (label(1), 0.5),
        (lambda world: edits.renew_pod(world, (0, 1, 0, 1, 2)), 0.5),
        (config_map(1), 0.5),
        (lambda world: edits.end_pod(world, (0, 1, 1, 2)), 0.5),
        (pod(1), 2.0),
        (config_map(2), 1.0),
    )
    holds(play((config_map(0), 0.0), (pod(needs=1), 4.0), *(turn * 5)))


def test_half_an_hour_of_slow_and_lossy_wires():
    """REL-54: 300 ms there and back, one of fifty lost: nobody gives up the Lease for that."""
    chance = random.Random(54)  # noqa: S311 - the same at each run

    def rule(*_: Any) -> Fate | None:
        if now() < T0:
            return None
        is_lost = chance.random() < 0.02
        return Fate(is_lost=True, after=0.3) if is_lost else Fate(before=0.15, after=0.15)

    outcome = play(
        (space, 1.0),
        *((pod(number % 3), 20.0) for number in range(30)),
        *((label(number), 20.0) for number in range(60)),
        rule=rule,
    )
    holds(outcome)
    assert outcome.starts == 1
    assert outcome.seconds > 1800


# --- load -----------------------------------------------------------------------------------------


def test_a_name_is_used_again_and_again():
    """REL-07: a thousand lives of pods under one name, some of them within one request."""
    chance = random.Random(7)  # noqa: S311 - the same at each run
    turns = [(chance.randrange(4), chance.choice((0.0, 0.002, 0.01, 0.1))) for _ in range(1000)]

    def again(grace: int) -> Callable[[World], None]:
        def renewed(world: World) -> None:
            if grace == 3:
                edits.end_pod(world, (0, 1, 0, grace))
            else:
                edits.renew_pod(world, (0, 1, 0, 0, 0))

        return renewed

    outcome = play((pod(), 4.0), *((again(grace), pause) for grace, pause in turns))
    holds(outcome)


def test_a_map_that_fifty_pods_use_is_written_once():
    """REL-81: no pod is written for it."""

    def pods(world: World) -> None:
        for number in range(50):
            body = edits.pod(world.tenants[0], f"p{number}", (0, 1, 0, 1, 0))
            world.make(world.tenants[0].cluster, PODS, WEB, body)

    began = T0 + 20
    outcome = play((space, 1.0), (config_map(0), 0.0), (pods, 19.0), (config_map(1), 10.0))
    holds(outcome)
    writes = ("POST", "PUT", "PATCH", "DELETE")
    maps = asked(outcome, "super", *writes, path="/configmaps")
    assert len([at for at in maps if at >= began]) == 1
    assert [at for at in asked(outcome, "super", *writes, path="/pods") if at >= began] == []


def test_readiness_that_flips_twenty_times_a_second():
    """REL-82: the tenant is told the latest, and no oftener than once a second."""

    def flip(number: int) -> Callable[[World], None]:
        def flipped(world: World) -> None:
            collection = world.below.of(PODS)
            stored = collection.get(world.tenants[0].below(WEB), "a")
            assert stored is not None
            body = stored.decode()
            ready = ("True", "False")[number % 2]
            body["status"]["conditions"] = [
                {**each, "status": ready} if each["type"] == "Ready" else each
                for each in body["status"]["conditions"]
            ]
            collection.put(body)

        return flipped

    began = T0 + 5
    outcome = play((pod(), 5.0), *((flip(number), 0.05) for number in range(2401)))
    holds(outcome)
    writes = [at for at in asked(outcome, "tenant0", "PATCH", "PUT", path="/status") if at >= began]
    assert 2 < len(writes) <= 120
