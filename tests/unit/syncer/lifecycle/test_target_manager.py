"""Connected targets, their credentials, and the check of their identity."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import NotReadyYet
from syncer.clusters import super_cluster
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.target_cluster import TargetPlan
from syncer.lifecycle import target_manager
from syncer.lifecycle.target_manager import TargetManager
from tests.support.eventually import eventually
from tests.support.syncer.idle import idle
from tests.support.syncer.sessions import RecordingClient, put

IDENTITY = "kube-system-of-c2"
SERVER = "https://192.0.2.7:6443"


class RecordedTarget:
    """A target that only writes down that it is followed."""

    made: list[RecordedTarget]
    fails: Exception | None = None

    def __init__(
        self, plan: TargetPlan, home: HomeCluster, *, on_changed: Callable[[], None]
    ) -> None:
        self.plan, self.on_changed, self.cluster = plan, on_changed, home
        self.said: list[TargetPlan] = []
        self.is_ended = False
        RecordedTarget.made.append(self)

    def update_plan(self, plan: TargetPlan) -> None:
        self.said.append(plan)

    async def run(self) -> None:
        if RecordedTarget.fails is not None:
            raise RecordedTarget.fails
        try:
            await asyncio.Event().wait()
        finally:
            self.is_ended = True


class ManualReflector:
    """A reflector whose events the test makes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.started: list[tuple[str, str]] = []

    def start(self, namespace: str, name: str) -> None:
        self.started.append((namespace, name))

    def stop(self, namespace: str, name: str) -> None:
        self.started.remove((namespace, name))

    def list_names(self, namespace: str) -> list[str]:
        return [name for place, name in self.started if place == namespace]

    async def run(self) -> None:
        await asyncio.Event().wait()


class TargetManagerWorld:
    """A home cluster with a keeper of targets."""

    def __init__(self, keeper: TargetManager, api: RecordingClient) -> None:
        self.keeper, self.api, self.revision = keeper, api, 1
        api.space = "vc-manager"
        self.conditions: list[dict[str, str]] = []

    async def secret(self, **data: str) -> None:
        """Write the Secret: a token, unless told otherwise."""
        usual = {"server": SERVER, "ca.crt": "ca", "token": "t"}
        encoded = {k: base64.b64encode(v.encode()).decode() for k, v in (usual | data).items()}
        self.api.has("Secret", "target-c2", {"data": encoded})
        self.revision += 1
        metadata = {"name": "target-c2", "uid": "s", "resourceVersion": str(self.revision)}
        put(self.keeper._secrets, {"kind": "Secret", "metadata": metadata})
        await idle()

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
        await idle()


@pytest.fixture
async def manager_world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TargetManagerWorld]:
    RecordedTarget.made, RecordedTarget.fails = [], None
    monkeypatch.setattr(target_manager, "TargetCluster", RecordedTarget)
    monkeypatch.setattr(target_manager, "ScopedReflector", ManualReflector)
    api = RecordingClient()
    keeper = TargetManager(
        HomeCluster(api, namespace="vc-manager"), subscribe_events=lambda _: None
    )  # type: ignore[arg-type]
    task = asyncio.ensure_future(keeper.run())
    await asyncio.sleep(0)
    yield TargetManagerWorld(keeper, api)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_nothing_is_asked_of_secrets_before_there_is_a_target(
    manager_world: TargetManagerWorld,
):
    watches: Any = manager_world.keeper._secret_watches
    assert watches.started == []
    await manager_world.declare()
    assert ("vc-manager", "target-c2") in watches.started
    await manager_world.declare(secretRef={"name": "another"})
    assert {*watches.started} == {("vc-manager", "another")}


async def test_a_target_is_followed_once_it_is_known_who_it_is(manager_world: TargetManagerWorld):
    await manager_world.secret()
    await manager_world.declare(identity="")
    assert RecordedTarget.made == []
    await manager_world.declare()
    (made,) = RecordedTarget.made
    assert (made.plan.identity, made.plan.registration) == (IDENTITY, "r1")
    assert (made.plan.endpoint.server, made.plan.endpoint.token) == (SERVER, "t")
    assert manager_world.keeper.targets["c2"] is made  # type: ignore[comparison-overlap]
    assert '"t"' not in repr(made.plan)


async def test_the_home_cluster_is_no_target(manager_world: TargetManagerWorld):
    metadata = {"name": "home", "uid": "h", "resourceVersion": "1"}
    put(manager_world.keeper._declared, {"kind": "SuperCluster", "metadata": metadata, "spec": {}})
    await idle()
    assert not manager_world.keeper._supervisor._loops


@pytest.mark.parametrize("same", [{"labels": {"zone": "b"}}, {"network": {"reachable": True}}])
async def test_what_is_reported_of_a_target_takes_no_new_client(
    manager_world: TargetManagerWorld, same: Any
):
    await manager_world.secret()
    await manager_world.declare()
    await manager_world.declare(**same)
    await manager_world.secret()
    assert len(RecordedTarget.made) == 1
    assert not RecordedTarget.made[0].is_ended
    spec = RecordedTarget.made[0].said[-1].spec
    assert (spec.labels, spec.network.reachable) == (
        same.get("labels", {}),
        bool(same.get("network")),
    )


async def test_another_credential_address_or_registration_is_followed_again_at_once(
    manager_world: TargetManagerWorld,
):
    async def made(number: int) -> None:
        """Wait until there are so many clients, of which the last one alone goes on."""
        wanted = [True] * (number - 1) + [False]
        await eventually(
            lambda: [each.is_ended for each in RecordedTarget.made], until=wanted.__eq__
        )

    await manager_world.secret()
    await manager_world.declare()
    await made(1)
    await manager_world.secret(token="u")
    await made(2)
    await manager_world.declare(server="https://192.0.2.8:6443")
    await made(3)
    await manager_world.declare(server="https://192.0.2.8:6443", uid="r2")
    await made(4)
    await manager_world.declare(server="https://192.0.2.8:6443", uid="r2", identity="another")
    await made(5)
    last = RecordedTarget.made[-1].plan
    assert (last.endpoint.token, last.endpoint.server) == ("u", "https://192.0.2.8:6443")
    assert (last.registration, last.identity) == ("r2", "another")


async def test_a_credential_that_was_taken_away_is_used_no_longer(
    manager_world: TargetManagerWorld,
):
    await manager_world.secret()
    await manager_world.declare()
    manager_world.api.lacks("Secret", "target-c2")
    manager_world.keeper._supervisor.wake("c2")
    await idle()
    assert RecordedTarget.made[0].is_ended
    assert manager_world.keeper.targets == {}


@pytest.mark.parametrize("problem", [errors.Unavailable("silent"), errors.TooManyRequests("busy")])
async def test_a_home_cluster_that_does_not_answer_changes_nothing(
    manager_world: TargetManagerWorld, problem: errors.KubeError
):
    await manager_world.secret()
    await manager_world.declare()
    manager_world.api.refusals["get Secret"] = problem
    manager_world.keeper._supervisor.wake("c2")
    await idle()
    assert not RecordedTarget.made[0].is_ended


async def test_a_target_that_goes_is_left_and_may_come_again(manager_world: TargetManagerWorld):
    await manager_world.secret()
    await manager_world.declare()
    manager_world.keeper._declared.discard(manager_world.keeper._declared.list()[0], live=True)
    await idle()
    assert RecordedTarget.made[0].is_ended
    assert manager_world.keeper._supervisor._loops == {}
    await manager_world.declare(uid="r2")
    assert [each.is_ended for each in RecordedTarget.made] == [True, False]


@pytest.mark.parametrize(
    "fault",
    [
        errors.Unavailable("no route"),
        NotReadyYet("another cluster answers"),
        TypeError("a surprise"),
    ],
)
async def test_one_that_cannot_be_followed_is_tried_later_and_troubles_no_one(
    manager_world: TargetManagerWorld, fault: Exception
):
    RecordedTarget.fails = fault
    await manager_world.secret()
    await manager_world.declare()
    await asyncio.sleep(0.05)
    assert len(RecordedTarget.made) == 1, "not in a circle"
    RecordedTarget.fails = None
    await manager_world.secret(token="u")  # a change is no reason to wait
    assert len(RecordedTarget.made) == 2
    assert not RecordedTarget.made[1].is_ended


@pytest.mark.parametrize("spec", [{"server": "https://127.0.0.1:6443"}, {"server": 7}])
async def test_one_that_is_declared_wrong_is_not_followed(
    manager_world: TargetManagerWorld, spec: Any
):
    await manager_world.secret()
    await manager_world.declare(**spec)
    assert RecordedTarget.made == []
    await manager_world.declare()
    assert len(RecordedTarget.made) == 1


# --- the target itself ----------------------------------------------------------------------------


async def test_what_we_report_ourselves_is_no_reason_to_look_again(
    manager_world: TargetManagerWorld,
):
    """Otherwise each failure would be followed by the next one at once, in other words."""
    RecordedTarget.fails = errors.Unavailable("no route")
    await manager_world.secret()
    await manager_world.declare()
    for number in range(3):
        ours = {"type": "Followed", "status": "False", "reason": "R", "message": str(number)}
        manager_world.conditions = [ours]
        await manager_world.declare()
    assert len(RecordedTarget.made) == 1
    manager_world.conditions = [{"type": "Ready", "status": "True", "reason": "R", "message": ""}]
    await manager_world.declare()
    assert len(RecordedTarget.made) == 2


async def test_one_that_cannot_be_followed_reports_why(manager_world: TargetManagerWorld):
    RecordedTarget.fails = errors.Unavailable("no route")
    await manager_world.secret()
    await manager_world.declare()
    (said,) = manager_world.api.bodies[-1]["status"]["conditions"]
    assert (said["type"], said["status"], said["message"]) == ("Followed", "False", "no route")


def test_a_target_has_a_side_of_its_own_in_metrics_up_to_a_number(monkeypatch: Any):
    monkeypatch.setattr(super_cluster._TARGET_SIDES, "_labels", {})
    monkeypatch.setattr(super_cluster._TARGET_SIDES, "_limit", 2)
    found = [super_cluster.get_metric_side(name, "r") for name in ("a", "b", "c", "a")]
    assert found == ["target-a", "target-b", "target-other", "target-a"]
    assert super_cluster.get_metric_side("home", "") == "super"


@pytest.mark.parametrize(
    ("found", "refusal"),
    [
        ([], "is not ready (not checked yet)"),
        ([{"type": "Ready", "status": "False", "reason": "NetworksOverlap"}],
         "is not ready (NetworksOverlap)"),
        ([{"type": "Ready", "status": "True", "reason": "Ready"}], ""),
    ],
)  # fmt: skip
async def test_pods_are_placed_in_one_that_is_reported_to_be_ready(
    manager_world: TargetManagerWorld, found: Any, refusal: str
):
    await manager_world.secret()
    manager_world.conditions = found
    await manager_world.declare()
    assert RecordedTarget.made[0].plan.refusal == refusal


# --- the anchor -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "problem", "copies", "is_declared", "expected"),
    [
        (["c2"], "", True, True, True),
        (["c2"], "", False, True, False),
        (["c2"], "silent", False, True, True),
        (["c2"], None, False, True, True),
        (["c2"], None, False, False, False),
        ([], "silent", True, True, False),
    ],
    ids=["copies", "none", "away", "not-connected", "not-declared", "not-used"],
)
def test_a_target_may_have_copies_of_a_rule(
    status: list[str],
    problem: str | None,
    copies: bool,
    is_declared: bool,
    expected: bool,
):
    """`problem` is None for a target without a connection."""
    home = HomeCluster(RecordingClient(), namespace="vc-manager")  # type: ignore[arg-type]
    manager = TargetManager(home, subscribe_events=lambda _: None)
    metadata = {"name": "vc", "namespace": "d", "uid": "v", "resourceVersion": "1"}
    named = [{"name": name} for name in status]
    put(home.virtual_clusters, {"metadata": metadata, "status": {"targets": named}})
    if is_declared:
        put(home.super_clusters, {"metadata": {"name": "c2", "uid": "r", "resourceVersion": "1"}})
    if problem is not None:
        ruled = SimpleNamespace(may_have_copies=lambda kind: kind == "Widget" and copies)
        found: Any = SimpleNamespace(
            is_ready=True, problem=problem, cluster=SimpleNamespace(ruled=ruled)
        )
        manager.targets["c2"] = found
    rule: Any = SimpleNamespace(resource=SimpleNamespace(kind="Widget"))
    assert manager.may_have_copies(rule) is expected
