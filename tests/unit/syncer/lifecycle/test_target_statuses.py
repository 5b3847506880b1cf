"""Status entries of a tenant's targets: phases, counts, and when they are written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeio import errors
from syncer.clusters.target_cluster import UNREACHABLE_SECONDS
from syncer.lifecycle import target_statuses
from syncer.lifecycle.target_statuses import TargetStatuses
from tenancy.specs import TargetGrant
from tests.support.syncer.target_sessions import TargetWorldOfTenant, pod_of


@pytest.fixture
async def target_world() -> TargetWorldOfTenant:
    made = TargetWorldOfTenant()
    made.joined()
    await made.declare("c2")
    made.world.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    return made


def create(target_world: TargetWorldOfTenant) -> TargetStatuses:
    return TargetStatuses(target_world.world.link, target_world.targets.get_ready)


def written(target_world: TargetWorldOfTenant) -> list[Any]:
    """Return each list of targets that was written."""
    return [body["status"]["targets"] for body in target_world.world.below.bodies if body]


@pytest.mark.parametrize(
    ("is_granted", "seconds", "phase"),
    [
        pytest.param(True, 0.0, "Granted", id="answers"),
        pytest.param(True, UNREACHABLE_SECONDS - 1, "Granted", id="a short outage"),
        pytest.param(True, UNREACHABLE_SECONDS, "Away", id="an outage"),
        pytest.param(True, None, "Away", id="never connected"),
        pytest.param(False, None, "Draining", id="withdrawn"),
        pytest.param(False, 0.0, "Draining", id="withdrawn, answers"),
    ],
)
async def test_the_phase_of_a_target(
    target_world: TargetWorldOfTenant, is_granted: bool, seconds: float | None, phase: str
):
    if seconds is not None:
        target_world.ready().get_unreachable_seconds = lambda: seconds
    if not is_granted:
        target_world.world.link.grants.update_granted({})
    target_world.world.link.assignments.assign(pod_of(target_world), "c2")
    assert create(target_world).build("c2") == {"name": "c2", "phase": phase, "pods": 1}


async def test_a_new_phase_is_written_at_once_and_a_new_count_later(
    target_world: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 0.01)
    statuses = create(target_world)
    statuses.set_names(["c2"])
    assert await statuses.update()
    assert [each[0]["phase"] for each in written(target_world)] == ["Away"]
    target_world.world.link.assignments.assign(pod_of(target_world), "c2")
    assert await statuses.update()
    await statuses.write_counts()
    assert len(written(target_world)) == 1, "the count is not due yet"
    await asyncio.wait_for(statuses.wait_recount(), 1)
    await statuses.write_counts()
    assert [each[0]["pods"] for each in written(target_world)] == [0, 1]
    statuses.close()


async def test_a_failed_write_is_reported_and_repeated(target_world: TargetWorldOfTenant):
    statuses = create(target_world)
    statuses.set_names(["c2"])
    target_world.world.below.refusals["apply VirtualCluster"] = errors.Unavailable("silent")
    assert not await statuses.update()
    target_world.world.below.refusals.clear()
    assert await statuses.update()
    assert written(target_world)[-1] == [{"name": "c2", "phase": "Away", "pods": 0}]
    statuses.close()


async def test_pods_of_the_home_cluster_are_not_counted(target_world: TargetWorldOfTenant):
    statuses = create(target_world)
    statuses.handle_pod_count("home")
    assert statuses._timer is None
    statuses.handle_pod_count("c2")
    assert statuses._timer is not None
    statuses.close()
    assert statuses._timer.cancelled()
