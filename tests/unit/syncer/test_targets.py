"""Which other super clusters are followed, with which credential, and whether they are the same."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kubeio import errors
from kubeio.endpoint import Endpoint
from kubeio.worker import Wait
from syncer import access, supercluster, targets
from syncer import target as target_module
from syncer.anchor import Anchor
from syncer.breaker import DEADLINE_SECONDS, FAILURES, Breaker
from syncer.home import Home
from syncer.muster import LEAST
from syncer.supercluster import AT_TARGETS, SuperCluster
from syncer.target import AWAY_SECONDS, LOOK_SECONDS, SETTLE_SECONDS, Plan, Target
from syncer.targets import Targets
from tenancy import marks
from tenancy.super_clusters import SuperClusterSpec
from tests.unit.syncer.sessions import Api, put

IDENTITY = "kube-system-of-c2"
SERVER = "https://192.0.2.7:6443"


class Followed:
    """A target that only writes down that it is followed."""

    made: list[Followed]
    fails: Exception | None = None

    def __init__(self, plan: Plan, home: Home, *, changed: Callable[[], None]) -> None:
        self.plan, self.changed, self.cluster = plan, changed, home
        self.said: list[Plan] = []
        self.is_ended = False
        Followed.made.append(self)

    def says(self, plan: Plan) -> None:
        self.said.append(plan)

    async def run(self) -> None:
        if Followed.fails is not None:
            raise Followed.fails
        try:
            await asyncio.Event().wait()
        finally:
            self.is_ended = True


class Watch:
    """A reflector whose events the test makes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()


class Yard:
    """A home cluster with a keeper of targets."""

    def __init__(self, keeper: Targets, api: Api) -> None:
        self.keeper, self.api, self.revision = keeper, api, 1
        self.conditions: list[dict[str, str]] = []

    async def secret(self, **data: str) -> None:
        """Write the Secret: a token, unless told otherwise."""
        usual = {"server": SERVER, "ca.crt": "ca", "token": "t"}
        encoded = {k: base64.b64encode(v.encode()).decode() for k, v in (usual | data).items()}
        self.api.objects["Secret", "target-c2"] = {"data": encoded}
        self.revision += 1
        metadata = {"name": "target-c2", "uid": "s", "resourceVersion": str(self.revision)}
        put(self.keeper._secrets, {"kind": "Secret", "metadata": metadata})
        await asyncio.sleep(0.02)

    async def declare(self, *, uid: str = "r1", identity: str = IDENTITY, **spec: Any) -> None:
        """Write the SuperCluster."""
        self.revision += 1
        metadata = {"name": "c2", "uid": uid, "resourceVersion": str(self.revision)}
        put(
            self.keeper._declared,
            {
                "kind": "SuperCluster",
                "metadata": metadata,
                "spec": {"secretRef": {"name": "target-c2"}, **spec},
                "status": {"identity": identity, "conditions": self.conditions} if identity else {},
            },
        )
        await asyncio.sleep(0.02)


@pytest.fixture
async def yard(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Yard]:
    Followed.made, Followed.fails = [], None
    monkeypatch.setattr(targets, "Target", Followed)
    monkeypatch.setattr(targets, "Reflector", Watch)
    api = Api()
    keeper = Targets(Home(api, namespace="vc-manager"), wire=lambda _: None)  # type: ignore[arg-type]
    task = asyncio.ensure_future(keeper.run())
    await asyncio.sleep(0)
    yield Yard(keeper, api)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_nothing_is_asked_of_secrets_before_there_is_a_target(yard: Yard):
    assert yard.keeper._watching is None
    await yard.declare()
    assert yard.keeper._watching is not None


async def test_a_target_is_followed_once_it_is_known_who_it_is(yard: Yard):
    await yard.secret()
    await yard.declare(identity="")
    assert Followed.made == []
    await yard.declare()
    (made,) = Followed.made
    assert (made.plan.identity, made.plan.registration) == (IDENTITY, "r1")
    assert (made.plan.endpoint.server, made.plan.endpoint.token) == (SERVER, "t")
    assert yard.keeper.followed["c2"] is made  # type: ignore[comparison-overlap]
    assert '"t"' not in repr(made.plan)


async def test_the_home_cluster_is_no_target(yard: Yard):
    metadata = {"name": "home", "uid": "h", "resourceVersion": "1"}
    put(yard.keeper._declared, {"kind": "SuperCluster", "metadata": metadata, "spec": {}})
    await asyncio.sleep(0.02)
    assert not yard.keeper._keepers


@pytest.mark.parametrize("same", [{"labels": {"zone": "b"}}, {"network": {"reachable": True}}])
async def test_what_is_said_of_a_target_takes_no_new_client(yard: Yard, same: Any):
    await yard.secret()
    await yard.declare()
    await yard.declare(**same)
    await yard.secret()
    assert len(Followed.made) == 1
    assert not Followed.made[0].is_ended
    spec = Followed.made[0].said[-1].spec
    assert (spec.labels, spec.network.reachable) == (
        same.get("labels", {}),
        bool(same.get("network")),
    )


async def test_another_credential_address_or_registration_is_followed_anew_at_once(yard: Yard):
    await yard.secret()
    await yard.declare()
    await yard.secret(token="u")
    await yard.declare(server="https://192.0.2.8:6443")
    await yard.declare(server="https://192.0.2.8:6443", uid="r2")
    await yard.declare(server="https://192.0.2.8:6443", uid="r2", identity="another")
    assert [each.is_ended for each in Followed.made] == [True, True, True, True, False]
    last = Followed.made[-1].plan
    assert (last.endpoint.token, last.endpoint.server) == ("u", "https://192.0.2.8:6443")
    assert (last.registration, last.identity) == ("r2", "another")


async def test_a_credential_that_was_taken_away_is_used_no_longer(yard: Yard):
    await yard.secret()
    await yard.declare()
    del yard.api.objects["Secret", "target-c2"]
    yard.keeper._touch("c2")
    await asyncio.sleep(0.02)
    assert Followed.made[0].is_ended
    assert yard.keeper.followed == {}


@pytest.mark.parametrize("problem", [errors.Unavailable("silent"), errors.TooManyRequests("busy")])
async def test_a_home_cluster_that_does_not_answer_changes_nothing(
    yard: Yard, problem: errors.KubeError
):
    await yard.secret()
    await yard.declare()
    yard.api.refusals["get Secret"] = problem
    yard.keeper._touch("c2")
    await asyncio.sleep(0.02)
    assert not Followed.made[0].is_ended


async def test_a_target_that_goes_is_left_and_may_come_again(yard: Yard):
    await yard.secret()
    await yard.declare()
    yard.keeper._declared.discard(yard.keeper._declared.list()[0], live=True)
    await asyncio.sleep(0.02)
    assert Followed.made[0].is_ended
    assert (yard.keeper._keepers, yard.keeper._changed) == ({}, {})
    await yard.declare(uid="r2")
    assert [each.is_ended for each in Followed.made] == [True, False]


@pytest.mark.parametrize(
    "fault",
    [errors.Unavailable("no route"), Wait("another cluster answers"), TypeError("a surprise")],
)
async def test_one_that_cannot_be_followed_is_tried_later_and_troubles_nobody(
    yard: Yard, fault: Exception
):
    Followed.fails = fault
    await yard.secret()
    await yard.declare()
    await asyncio.sleep(0.05)
    assert len(Followed.made) == 1, "not in a circle"
    Followed.fails = None
    await yard.secret(token="u")  # a change is no reason to wait
    assert len(Followed.made) == 2
    assert not Followed.made[1].is_ended


@pytest.mark.parametrize("spec", [{"server": "https://127.0.0.1:6443"}, {"server": 7}])
async def test_one_that_is_declared_wrong_is_not_followed(yard: Yard, spec: Any):
    await yard.secret()
    await yard.declare(**spec)
    assert Followed.made == []
    await yard.declare()
    assert len(Followed.made) == 1


# --- the target itself ----------------------------------------------------------------------------


def test_a_target_is_watched_for_pods_and_what_they_need_and_nothing_else():
    plurals = {resource.plural for resource in AT_TARGETS}
    assert plurals == {
        "configmaps",
        "namespaces",
        "networkpolicies",
        "poddisruptionbudgets",
        "pods",
        "secrets",
        "serviceaccounts",
    }
    watched = {
        each.resource.plural
        for each in SuperCluster(Api(), name="c2").reflectors  # type: ignore[arg-type]
    }
    assert watched == plurals | {"nodes", "servicecidrs", "events"}
    granted = {name for row in access.TARGET_ACCESS for name in row.resources}
    assert watched <= granted


def made_target(changed: Callable[[], None] = lambda: None) -> Target:
    """Return a target that is not followed yet."""
    plan = Plan(
        name="c2",
        registration="r1",
        identity=IDENTITY,
        endpoint=Endpoint(server=SERVER, token="t"),
        spec=SuperClusterSpec(),
        version="v1.36.4",
        refusal="",
    )
    return Target(plan, Home(Api(), namespace="vc-manager"), changed=changed)  # type: ignore[arg-type]


async def test_a_target_that_does_not_answer_is_away_until_it_does(monkeypatch: Any):
    told: list[str] = []
    target = made_target(lambda: told.append(target.problem))
    plan: Any = SimpleNamespace(spec=target.spec, version=target.version, refusal="")
    answers: list[Exception | None] = [errors.Unavailable("no route"), None, None, None, None]

    async def raw(*_: Any, **__: Any) -> bytes:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return b"ok"

    proofs: list[Exception | None] = [Wait("another cluster answers"), None]

    async def verify(_: float) -> None:
        proof = proofs.pop(0)
        if proof is not None:
            raise proof

    monkeypatch.setattr(target.client, "raw", raw)
    monkeypatch.setattr(target.anchor, "verify", verify)
    await target._look()
    assert "no route" in target.problem
    assert target.away_seconds() > 0
    await target._look()
    assert "another cluster" in target.problem, "what came back is not what went"
    await target._look()
    assert target.away_seconds() == 0
    assert target.problem == ""
    assert [bool(each) for each in told] == [True, False]
    await target._look()
    assert proofs == [], "as long as it goes on to answer it is the same"
    target.cluster.reflectors[0].restarts += 1
    proofs.append(Wait("another cluster answers"))
    await target._look()
    assert "another cluster" in target.problem, "it was exchanged between two looks"
    target.problem = ""
    told.pop()
    plan.version = "v1.37.0"
    target.says(plan)
    target.says(plan)
    assert (target.version, len(told)) == ("v1.37.0", 3)


async def test_its_silence_counts_from_its_last_good_answer(monkeypatch: pytest.MonkeyPatch):
    """Looks are ten seconds apart and may take five: a failed one is not when it died."""
    target, now, answers = made_target(), [1000.0], [True, False, False, True, False]
    monkeypatch.setattr(target_module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def raw(*_: Any, **__: Any) -> bytes:
        if answers.pop(0):
            return b"ok"
        now[0] += DEADLINE_SECONDS
        raise errors.Unavailable("silent")

    async def verify(_: float) -> None:
        """Have it be the one that is meant."""

    monkeypatch.setattr(target.client, "raw", raw)
    monkeypatch.setattr(target.anchor, "verify", verify)
    await target._look()
    assert target.away_seconds() == 0
    for silent in (15.0, 30.0):
        now[0] += LOOK_SECONDS
        await target._look()
        assert target.away_seconds() == silent
    assert target.away_seconds() < AWAY_SECONDS, "it is known to be silent before that is said"
    now[0] = 1000.0 + AWAY_SECONDS
    assert target.away_seconds() == AWAY_SECONDS, "between two looks"
    await target._look()
    assert target.away_seconds() == 0
    now[0] += LOOK_SECONDS
    await target._look()
    assert target.away_seconds() == LOOK_SECONDS + DEADLINE_SECONDS, "anew, from the last answer"


async def test_a_watch_that_fails_for_long_is_told_as_not_followed(monkeypatch: Any):
    target = made_target()
    home: Any = target._home
    metadata = {"name": "c2", "uid": "r1", "resourceVersion": "1"}
    put(home.super_clusters, {"metadata": metadata, "spec": {}})

    async def raw(*_: Any, **__: Any) -> bytes:
        return b"ok"

    async def silent(*_: Any, **__: Any) -> bytes:
        raise errors.Unavailable("no route")

    async def sure(_: float) -> None:
        return

    async def looked() -> tuple[str, str]:
        await target._look()
        await target._say()
        (found,) = home.client.bodies[-1]["status"]["conditions"]
        return found["status"], found["message"]

    monkeypatch.setattr(target.client, "raw", raw)
    monkeypatch.setattr(target.anchor, "verify", sure)
    assert (await looked())[0] == "True"
    failing = target.cluster.reflectors[1]
    failing.problem = "403: forbidden"
    assert (await looked())[0] == "True", "a watch is broken now and then"
    status, message = await looked()
    assert status == "False"
    assert message == f"{failing.resource.plural} are not followed: 403: forbidden"
    assert target.behind == message
    monkeypatch.setattr(target.client, "raw", silent)
    assert (await looked())[0] == "True", "it is away, and so is said elsewhere"
    monkeypatch.setattr(target.client, "raw", raw)
    failing.problem = ""
    assert (await looked())[0] == "True"


async def test_what_is_missing_is_proved_by_the_anchor_unless_much_is(monkeypatch: Any):
    target = made_target()
    asked: list[float] = []

    async def verify(since: float) -> None:
        asked.append(since)
        if since == 2.0:  # a list came meanwhile
            for number in range(LEAST):
                target.muster.absent("t", str(number))

    monkeypatch.setattr(target.anchor, "verify", verify)
    await target.prove(1.0, "t")
    assert asked == [1.0]
    with pytest.raises(Wait, match="many pods are missing"):
        await target.prove(2.0, "t")
    with pytest.raises(Wait, match="many pods are missing"):
        await target.prove(3.0, "t")
    assert asked == [1.0, 2.0]


async def test_what_is_held_is_said_at_once_and_a_word_is_heard(monkeypatch: Any):
    target = made_target()
    home: Any = target._home
    metadata = {"name": "c2", "uid": "r1", "resourceVersion": "1"}
    target._ready_at = time.monotonic()
    held = {"type": "LossesHeld", "status": "True", "reason": "PodsMissing", "message": "m"}
    word = {marks.CONFIRM_LOSSES: "0123456789abcdef"}
    put(home.super_clusters, {
        "metadata": {**metadata, "annotations": word},
        "spec": {}, "status": {"conditions": [held]},
    })  # fmt: skip
    await target._say()
    assert home.client.writes() == [("apply", "SuperCluster", "c2")]
    kept = home.client.bodies[-1]["status"]["conditions"][1]
    assert (kept["status"], kept["message"]) == ("True", "m"), "nobody has looked yet"
    target._ready_at -= SETTLE_SECONDS + 1
    await target._say()
    assert home.client.bodies[-1]["status"]["conditions"][1]["status"] == "False"
    assert [each[0] for each in home.client.writes()] == ["apply", "patch", "apply"]
    metadata["resourceVersion"] = "2"
    put(home.super_clusters, {"metadata": metadata, "spec": {}})
    for number in range(LEAST):
        target.muster.absent("t", str(number))
    assert target._news.is_set()
    home.client.refusals["apply"] = errors.Unavailable("silent")
    await target._say()
    home.client.refusals.clear()
    await target._say()
    said = home.client.bodies[-1]["status"]["conditions"]
    assert [each["type"] for each in said] == ["Followed", "LossesHeld"]
    word = {marks.CONFIRM_LOSSES: target.muster.state}
    metadata |= {"resourceVersion": "3", "annotations": word}
    put(home.super_clusters, {"metadata": metadata, "spec": {}, "status": {"conditions": said}})
    await target._say()
    assert not target.muster.is_held
    assert home.client.bodies[-1]["status"]["conditions"][1]["status"] == "False"
    metadata |= {"resourceVersion": "4", "uid": "r2"}
    put(home.super_clusters, {"metadata": metadata, "spec": {}, "status": {"conditions": said}})
    before = len(home.client.asked)
    await target._say()
    assert len(home.client.asked) == before, "that is another registration"


async def test_a_target_whose_lists_never_end_says_what_is_missing(monkeypatch: Any):
    monkeypatch.setattr("syncer.target.FIRST_LISTS_SECONDS", 0.01)
    target = made_target()
    home: Any = target._home
    put(home.super_clusters, {"metadata": {"name": "c2", "uid": "r1", "resourceVersion": "1"}})
    target.cluster.reflectors[2].problem = "403: nodes are forbidden"
    listing = asyncio.ensure_future(target._listed())
    await asyncio.sleep(0.05)
    (said,) = home.client.bodies[-1]["status"]["conditions"]
    assert (said["type"], said["status"]) == ("Followed", "False")
    assert said["message"].startswith("waits for configmaps, ")
    assert said["message"].endswith("; 403: nodes are forbidden")
    for reflector in target.cluster.reflectors:
        reflector._synced.set()  # type: ignore[union-attr]
    await asyncio.wait_for(listing, 5)


async def test_what_we_say_ourselves_is_no_reason_to_look_again(yard: Yard):
    """Or each failure would be followed by the next at once, said in other words."""
    Followed.fails = errors.Unavailable("no route")
    await yard.secret()
    await yard.declare()
    for number in range(3):
        ours = {"type": "Followed", "status": "False", "reason": "R", "message": str(number)}
        yard.conditions = [ours]
        await yard.declare()
    assert len(Followed.made) == 1
    yard.conditions = [{"type": "Ready", "status": "True", "reason": "R", "message": ""}]
    await yard.declare()
    assert len(Followed.made) == 2


async def test_one_that_cannot_be_followed_says_why(yard: Yard):
    Followed.fails = errors.Unavailable("no route")
    await yard.secret()
    await yard.declare()
    (said,) = yard.api.bodies[-1]["status"]["conditions"]
    assert (said["type"], said["status"], said["message"]) == ("Followed", "False", "no route")


def test_a_target_has_a_side_of_its_own_in_metrics_up_to_a_number(monkeypatch: Any):
    monkeypatch.setattr(supercluster, "_sides", set())
    monkeypatch.setattr(supercluster, "MOST_SIDES", 2)
    found = [supercluster.side_of(name, "r") for name in ("a", "b", "c", "a")]
    assert found == ["target-a", "target-b", "target-other", "target-a"]
    assert supercluster.side_of("home", "") == "super"


def test_what_may_be_kept_of_a_list_is_bounded_in_a_target_alone():
    api: Any = Api()
    there = SuperCluster(api, name="c2", registration="r1").reflectors
    assert {each._most for each in there} == {supercluster.MOST_LIST_BYTES}  # type: ignore[union-attr]
    home = Home(api, namespace="vc-manager").reflectors
    assert {getattr(each, "_most", None) for each in home} == {None}


@pytest.mark.parametrize(
    ("found", "refusal"),
    [
        ([], "is not ready (nobody has looked yet)"),
        ([{"type": "Ready", "status": "False", "reason": "NetworksOverlap"}],
         "is not ready (NetworksOverlap)"),
        ([{"type": "Ready", "status": "True", "reason": "Ready"}], ""),
    ],
)  # fmt: skip
async def test_pods_are_placed_in_one_that_is_said_to_be_ready(
    yard: Yard, found: Any, refusal: str
):
    await yard.secret()
    yard.conditions = found
    await yard.declare()
    assert Followed.made[0].plan.refusal == refusal


def test_a_breaker_says_who_is_silent():
    found = Breaker(lambda: 0.0, whose="the super cluster c2's")
    for _ in range(FAILURES):
        found.failed()
    with pytest.raises(Wait, match="the super cluster c2's API does not answer"):
        found.check()


# --- the anchor -----------------------------------------------------------------------------------


def anchored(uid: str | None, clock: Any) -> tuple[Anchor, Api]:
    """Return the anchor of a target that has this kube-system."""
    api = Api()
    if uid is not None:
        api.objects["Namespace", "kube-system"] = {"metadata": {"uid": uid}}
    made = Anchor(api, name="c2", identity=IDENTITY, clock=clock)  # type: ignore[arg-type]
    return made, api


async def test_the_anchor_holds_only_when_it_was_looked_at_after_what_it_is_to_prove():
    now = 10.0
    anchor, api = anchored(IDENTITY, lambda: now)
    await anchor.verify(9.0)
    await anchor.verify(10.0)
    assert len(api.asked) == 1, "one look proves all that was read before it"
    now = 11.0
    await anchor.verify(10.5)
    assert len(api.asked) == 2


@pytest.mark.parametrize("uid", ["another", None])
async def test_another_cluster_proves_nothing(uid: str | None):
    anchor, _ = anchored(uid, lambda: 10.0)
    with pytest.raises(Wait, match="another cluster answers for c2"):
        await anchor.verify(9.0)
    with pytest.raises(Wait):
        await anchor.verify(9.0)


async def test_a_cluster_that_does_not_answer_proves_nothing():
    anchor, api = anchored(IDENTITY, lambda: 10.0)
    api.refusals["get Namespace"] = errors.Unavailable("silent")
    with pytest.raises(errors.Unavailable):
        await anchor.verify(9.0)
