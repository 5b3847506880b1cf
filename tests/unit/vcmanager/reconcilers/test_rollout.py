"""Waves of many tenants: limit, stop, repair, pause, restart (issue 31, guarded upgrades)."""

import contextlib
import itertools
import random

import pytest

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter
from telemetry import metrics
from tests.support.vcmanager.rollouts import VERSION, RolloutApi, RolloutStage
from vcmanager.phases.waves.control_plane_change import ControlPlaneChange
from vcmanager.reconcilers import rollout
from vcmanager.runtime.keys import build_rollout_key


def sample(state):
    labels = {"cluster_version": VERSION, "state": state}
    return metrics.REGISTRY.get_sample_value("vc_rollout_tenants", labels)


async def test_ten_tenants_change_two_at_a_time():
    """REL-110."""
    stage = RolloutStage(10, maxUnavailable="20%")
    waves = 0
    while set(stage.running.values()) != {2} or stage.down:
        await stage.work_all()
        assert 0 < len(stage.down) <= 2
        assert stage.down == stage.api.marked
        assert stage.api.condition["reason"] == "Progressing"
        stage.come_back(*stage.down)
        waves += 1
        assert waves <= 10
    await stage.work_all()
    assert waves == 5
    assert stage.api.marked == set()
    assert (stage.api.condition["status"], stage.api.condition["reason"]) == ("True", "UpToDate")
    assert await stage.reconcile_rollout() == Done()
    assert (sample("current"), sample("waiting")) == (10, 0)


async def test_a_tenant_that_does_not_come_back_stops_the_wave_until_it_is_mended():
    """REL-111."""
    stage = RolloutStage(5, maxUnavailable=1)
    await stage.work_all()
    assert stage.down == {"t0"}
    stage.pass_time(minutes=16)
    await stage.work_all()
    assert stage.down == {"t0"}
    assert stage.api.condition["reason"] == "DeadlineExceeded"
    assert "t0" not in stage.api.condition["message"]  # users may read it
    assert stage.events.reasons == ["RolloutStopped"]
    assert "Tenants: default/t0." in stage.events.messages[0]
    assert (sample("failed"), sample("waiting")) == (1, 4)
    stage.pass_time(hours=5)
    await stage.work_all()
    assert [stage.running[f"t{each}"] for each in range(5)] == [2, 1, 1, 1, 1]
    assert stage.events.reasons == ["RolloutStopped"]
    stage.come_back("t0")
    for _ in range(12):
        await stage.work_all()
        stage.come_back(*stage.down)
    assert set(stage.running.values()) == {2}
    assert sample("failed") == 0


async def test_a_stopped_wave_goes_on_after_the_operator_continues_it():
    """REL-111."""
    stage = RolloutStage(3, maxUnavailable=1)
    await stage.work_all()
    stage.pass_time(minutes=16)
    await stage.work_all()
    stage.api.version["spec"]["rollout"]["maxFailed"] = 1
    await stage.work_all()
    assert stage.down == {"t0", "t1"}
    assert stage.api.condition["reason"] == "Progressing"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"paused": True}, "Paused"),
        ({"window": {"start": "13:00", "durationMinutes": 60}}, "OutsideWindow"),
    ],
)
async def test_nothing_begins_while_it_must_not(spec, reason):
    stage = RolloutStage(3, **spec)
    await stage.work_all()
    assert not stage.down
    assert stage.api.condition["reason"] == reason
    assert isinstance(await stage.reconcile_rollout(), RequeueAfter)
    stage.pass_time(minutes=90)
    stage.api.version["spec"]["rollout"].pop("paused", None)
    await stage.reconcile_rollout()
    assert [each.name for each in stage.woken] == ["t0"]


@pytest.mark.parametrize("spec", [{}, {"paused": True}], ids=["stopped", "paused"])
async def test_a_lost_node_brings_no_held_change_to_its_tenants(spec):
    stage = RolloutStage(4, maxUnavailable=1)
    await stage.work_all()
    assert stage.api.marked == {"t0"}
    stage.down |= {"t1", "t2", "t3"}  # after the faulty version has stopped t0
    stage.pass_time(minutes=20)
    stage.api.version["spec"]["rollout"] |= spec
    await stage.work_all()
    assert stage.api.condition["reason"] == "DeadlineExceeded"
    stage.pass_time(minutes=3)
    await stage.work_all()
    assert [name for name in stage.running if stage.running[name] == stage.wanted] == ["t0"]
    assert stage.api.marked == {"t0"}


async def test_a_broken_tenant_is_repaired_outside_of_the_window_and_takes_a_slot():
    window = {"start": "13:00", "durationMinutes": 60}
    stage = RolloutStage(3, maxUnavailable=1, window=window)
    stage.down |= {"t1", "t2"}
    await stage.work_all()
    assert stage.api.marked == set()  # they may be back in a moment
    stage.pass_time(minutes=3)
    await stage.work_all()
    assert stage.api.marked == {"t1"}
    assert [name for name in stage.running if stage.running[name] == stage.wanted] == ["t1"]


async def test_a_second_look_writes_nothing():
    stage = RolloutStage(3, maxUnavailable=1)
    await stage.work_all()
    before = stage.api.version["metadata"]["resourceVersion"]
    await stage.reconcile_rollout()
    assert stage.api.version["metadata"]["resourceVersion"] == before


async def test_two_processes_do_not_take_the_same_slot():
    stage = RolloutStage(2, maxUnavailable=1)
    await stage.reconcile_rollout()
    fetch = stage.api.get

    async def fetch_and_lose(resource, name, **more):
        found = await fetch(resource, name, **more)
        stage.api.get = fetch
        await stage.work("t1")
        return found

    stage.api.get = fetch_and_lose
    with pytest.raises(errors.Conflict):
        await stage.work("t0")
    assert stage.down == stage.api.marked == {"t1"}


async def test_a_tenant_that_ends_or_leaves_gives_its_slot_back():
    stage = RolloutStage(3, maxUnavailable=1)
    await stage.work_all()
    assert stage.api.marked == {"t0"}
    del stage.api.tenants["t0"]
    await stage.reconcile_rollout()
    assert stage.api.marked == set()
    assert [each.name for each in stage.woken] == ["t1"]
    await stage.work("t1")
    stage.api.tenants["t1"]["metadata"]["deletionTimestamp"] = "now"
    await stage.reconcile_rollout()
    assert stage.api.marked == set()


async def test_a_waiting_tenant_costs_no_request_while_all_slots_are_taken():
    stage = RolloutStage(50, maxUnavailable=1)
    await stage.work_all()
    before = stage.api.lists
    for name in list(stage.api.tenants)[1:]:
        assert await stage.work(name) is ControlPlaneChange.WAITING
    assert stage.api.lists == before


@pytest.mark.parametrize("seed", range(20))
async def test_any_order_of_reconciles_and_restarts_keeps_the_limit_and_ends(seed):
    """REL-110. Means are built again for each reconcile, so nothing is kept in memory."""
    chance = random.Random(seed)  # noqa: S311
    limit = chance.randint(1, 3)
    stage = RolloutStage(7, maxUnavailable=limit)
    names = list(stage.api.tenants)
    for _ in range(400):
        match chance.randrange(8):
            case 0:
                await stage.reconcile_rollout()
            case 1 if stage.down:
                stage.come_back(chance.choice(sorted(stage.down)))
            case 2 if chance.random() < 0.05:
                stage.wanted += 1
            case _:
                await stage.work(chance.choice(names))
        assert len(stage.down) <= limit
        assert stage.down <= stage.api.marked
    for _ in range(30):
        await stage.work_all()
        stage.come_back(*names)
    assert set(stage.running.values()) == {stage.wanted}
    assert stage.api.marked == set()


async def test_a_tenant_whose_reconciles_fail_does_not_hold_back_the_others():
    stage = RolloutStage(3, paused=True)
    await stage.work_all()
    (ready,) = [
        each for each in stage.api.tenants["t0"]["status"]["conditions"] if each["type"] == "Ready"
    ]
    ready["status"] = "False"
    stage.api.version["spec"]["rollout"] = {"maxUnavailable": 1}
    stage.woken.clear()
    await stage.reconcile_rollout()
    assert [each.name for each in stage.woken] == ["t1"]


class CrashError(Exception):
    """The process ends at a request."""


class CrashingApi(RolloutApi):
    """Ends the process at one request, before or after it has an effect."""

    def __init__(self, *, at, is_done, **spec):
        super().__init__(3, **spec)
        self.left, self.is_done = at, is_done

    async def get(self, *args, **more):
        return await self._request(super().get(*args, **more))

    async def list(self, *args, **more):
        return await self._request(super().list(*args, **more))

    async def patch(self, *args, **more):
        return await self._request(super().patch(*args, **more))

    async def _request(self, request):
        self.left -= 1
        if self.left == 0 and not self.is_done:
            request.close()
            raise CrashError
        answer = await request
        if self.left == 0:
            raise CrashError
        return answer


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_request_leaves_nothing_stuck(is_done):
    """REL-110: an index sweep over all requests of a rollout to three tenants."""
    points = 0
    for at in itertools.count(1):
        stage = RolloutStage(3, maxUnavailable=1)
        stage.api = CrashingApi(at=at, is_done=is_done, maxUnavailable=1)
        for _ in range(20):
            for name in stage.api.tenants:
                with contextlib.suppress(CrashError):
                    await stage.work(name)
                assert len(stage.down) <= 1
                assert stage.down <= stage.api.marked
            with contextlib.suppress(CrashError):
                await stage.reconcile_rollout()
            stage.come_back(*stage.down)
        assert set(stage.running.values()) == {2}, at
        assert stage.api.marked == set(), at
        assert stage.api.condition["reason"] == "UpToDate", at
        if stage.api.left > 0:
            break
        points += 1
    print(f"crashed at {points} requests")
    assert points > 20


async def test_without_the_cluster_version_there_are_no_metrics():
    stage = RolloutStage(1)
    await stage.reconcile_rollout()
    assert sample("current") == 1
    stage.api.version = {}
    assert await rollout.reconcile_rollout(stage.means, build_rollout_key(VERSION)) == Done()
    assert sample("current") is None


async def test_an_invalid_cluster_version_is_left_to_its_tenants():
    stage = RolloutStage(1)
    stage.api.version["spec"]["kubernetesVersion"] = 1
    assert await stage.reconcile_rollout() == Done()
    assert "conditions" not in stage.api.version["status"]
