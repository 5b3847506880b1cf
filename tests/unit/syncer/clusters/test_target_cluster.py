"""One target: what is watched there, when it is away, and what proves that something is missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kubeio import errors
from kubeio.config.endpoint import Endpoint
from kubeio.controller.worker import NotReadyYet
from syncer.clusters import target_cluster as target_module
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.target_cluster import (
    HEALTH_CHECK_SECONDS,
    SESSION_START_SECONDS,
    UNREACHABLE_SECONDS,
    TargetCluster,
    TargetPlan,
)
from syncer.safety.circuit_breaker import REQUEST_DEADLINE_SECONDS
from syncer.safety.pod_loss_guard import MIN_MISSING_PODS
from tenancy import wellknown
from tenancy.super_clusters import SuperClusterSpec
from tests.support.syncer.sessions import RecordingClient, put

IDENTITY = "kube-system-of-c2"
SERVER = "https://192.0.2.7:6443"


def made_target(changed: Callable[[], None] = lambda: None) -> TargetCluster:
    """Return a target that is not followed yet."""
    plan = TargetPlan(
        name="c2",
        registration="r1",
        identity=IDENTITY,
        endpoint=Endpoint(server=SERVER, token="t"),
        spec=SuperClusterSpec(),
        version="v1.36.4",
        refusal="",
    )
    return TargetCluster(
        plan, HomeCluster(RecordingClient(), namespace="vc-manager"), on_changed=changed
    )  # type: ignore[arg-type]


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

    proofs: list[Exception | None] = [NotReadyYet("another cluster answers"), None]

    async def verify(_: float) -> None:
        proof = proofs.pop(0)
        if proof is not None:
            raise proof

    monkeypatch.setattr(target.client, "raw", raw)
    monkeypatch.setattr(target.cluster_identity, "verify_identity", verify)
    await target._check_health()
    assert "no route" in target.problem
    assert target.get_unreachable_seconds() > 0
    await target._check_health()
    assert "another cluster" in target.problem, "what came back is not what went"
    await target._check_health()
    assert target.get_unreachable_seconds() == 0
    assert target.problem == ""
    assert [bool(each) for each in told] == [True, False]
    await target._check_health()
    assert proofs == [], "as long as it goes on to answer it is the same"
    target.cluster.reflectors[0].restarts += 1
    proofs.append(NotReadyYet("another cluster answers"))
    await target._check_health()
    assert "another cluster" in target.problem, "it was exchanged between two looks"
    target.problem = ""
    told.pop()
    plan.version = "v1.37.0"
    target.update_plan(plan)
    target.update_plan(plan)
    assert (target.version, len(told)) == ("v1.37.0", 3)


async def test_its_silence_counts_from_its_last_good_answer(monkeypatch: pytest.MonkeyPatch):
    """Looks are ten seconds apart and may take five: a failed one is not when it died."""
    target, now, answers = made_target(), [1000.0], [True, False, False, True, False]
    monkeypatch.setattr(target_module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def raw(*_: Any, **__: Any) -> bytes:
        if answers.pop(0):
            return b"ok"
        now[0] += REQUEST_DEADLINE_SECONDS
        raise errors.Unavailable("silent")

    async def verify(_: float) -> None:
        """Have it be the one that is meant."""

    monkeypatch.setattr(target.client, "raw", raw)
    monkeypatch.setattr(target.cluster_identity, "verify_identity", verify)
    await target._check_health()
    assert target.get_unreachable_seconds() == 0
    for silent in (15.0, 30.0):
        now[0] += HEALTH_CHECK_SECONDS
        await target._check_health()
        assert target.get_unreachable_seconds() == silent
    assert target.get_unreachable_seconds() < UNREACHABLE_SECONDS, (
        "it is known to be silent before that is said"
    )
    now[0] = 1000.0 + UNREACHABLE_SECONDS
    assert target.get_unreachable_seconds() == UNREACHABLE_SECONDS, "between two looks"
    await target._check_health()
    assert target.get_unreachable_seconds() == 0
    now[0] += HEALTH_CHECK_SECONDS
    await target._check_health()
    assert target.get_unreachable_seconds() == HEALTH_CHECK_SECONDS + REQUEST_DEADLINE_SECONDS, (
        "anew, from the last answer"
    )


async def test_a_watch_that_fails_for_long_is_reported_as_not_followed(monkeypatch: Any):
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
        await target._check_health()
        await target._write_conditions()
        (found,) = home.client.bodies[-1]["status"]["conditions"]
        return found["status"], found["message"]

    monkeypatch.setattr(target.client, "raw", raw)
    monkeypatch.setattr(target.cluster_identity, "verify_identity", sure)
    assert (await looked())[0] == "True"
    failing = target.cluster.reflectors[1]
    failing.problem = "403: forbidden"
    assert (await looked())[0] == "True", "a watch is broken now and then"
    status, message = await looked()
    assert status == "False"
    assert message == f"{failing.resource.plural} are not watched: 403: forbidden"
    assert target.watch_problem == message
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
            for number in range(MIN_MISSING_PODS):
                target.pod_loss_guard.add_missing("t", str(number))

    monkeypatch.setattr(target.cluster_identity, "verify_identity", verify)
    await target.prove_missing(1.0, "t")
    assert asked == [1.0]
    with pytest.raises(NotReadyYet, match="many pods are missing"):
        await target.prove_missing(2.0, "t")
    with pytest.raises(NotReadyYet, match="many pods are missing"):
        await target.prove_missing(3.0, "t")
    assert asked == [1.0, 2.0]


async def test_what_is_held_is_reported_at_once_and_a_word_is_accepted(monkeypatch: Any):
    target = made_target()
    home: Any = target._home
    metadata = {"name": "c2", "uid": "r1", "resourceVersion": "1"}
    target._ready_at = time.monotonic()
    held = {"type": "LossesHeld", "status": "True", "reason": "PodsMissing", "message": "m"}
    word = {wellknown.CONFIRM_LOSSES: "0123456789abcdef"}
    put(home.super_clusters, {
        "metadata": {**metadata, "annotations": word},
        "spec": {}, "status": {"conditions": [held]},
    })  # fmt: skip
    await target._write_conditions()
    assert home.client.writes() == [("apply", "SuperCluster", "c2")]
    kept = home.client.bodies[-1]["status"]["conditions"][1]
    assert (kept["status"], kept["message"]) == ("True", "m"), "nobody has looked yet"
    target._ready_at -= SESSION_START_SECONDS + 1
    await target._write_conditions()
    assert home.client.bodies[-1]["status"]["conditions"][1]["status"] == "False"
    assert [each[0] for each in home.client.writes()] == ["apply", "patch", "apply"]
    metadata["resourceVersion"] = "2"
    put(home.super_clusters, {"metadata": metadata, "spec": {}})
    for number in range(MIN_MISSING_PODS):
        target.pod_loss_guard.add_missing("t", str(number))
    assert target._wake.is_set()
    home.client.refusals["apply"] = errors.Unavailable("silent")
    await target._write_conditions()
    home.client.refusals.clear()
    await target._write_conditions()
    said = home.client.bodies[-1]["status"]["conditions"]
    assert [each["type"] for each in said] == ["Followed", "LossesHeld"]
    word = {wellknown.CONFIRM_LOSSES: target.pod_loss_guard.loss_state}
    metadata |= {"resourceVersion": "3", "annotations": word}
    put(home.super_clusters, {"metadata": metadata, "spec": {}, "status": {"conditions": said}})
    await target._write_conditions()
    assert not target.pod_loss_guard.is_held
    assert home.client.bodies[-1]["status"]["conditions"][1]["status"] == "False"
    metadata |= {"resourceVersion": "4", "uid": "r2"}
    put(home.super_clusters, {"metadata": metadata, "spec": {}, "status": {"conditions": said}})
    before = len(home.client.asked)
    await target._write_conditions()
    assert len(home.client.asked) == before, "that is another registration"


async def test_a_target_whose_lists_never_end_reports_what_is_missing(monkeypatch: Any):
    monkeypatch.setattr("syncer.clusters.target_cluster.FIRST_LISTS_SECONDS", 0.01)
    target = made_target()
    home: Any = target._home
    put(home.super_clusters, {"metadata": {"name": "c2", "uid": "r1", "resourceVersion": "1"}})
    target.cluster.reflectors[2].problem = "403: nodes are forbidden"
    listing = asyncio.ensure_future(target._wait_first_lists())
    await asyncio.sleep(0.05)
    (said,) = home.client.bodies[-1]["status"]["conditions"]
    assert (said["type"], said["status"]) == ("Followed", "False")
    assert said["message"].startswith("waits for configmaps, ")
    assert said["message"].endswith("; 403: nodes are forbidden")
    for reflector in target.cluster.reflectors[:-1]:  # no namespace has Secrets to list
        reflector.synced = True  # type: ignore[misc]
    target.cluster.reflectors[0]._first_list.set()  # type: ignore[union-attr]
    await asyncio.wait_for(listing, 5)
