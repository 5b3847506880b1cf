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
async def yard() -> TargetWorldOfTenant:
    made = TargetWorldOfTenant()
    made.joined()
    await made.declare("c2")
    made.world.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    return made


def create(yard: TargetWorldOfTenant) -> TargetStatuses:
    return TargetStatuses(yard.world.link, yard.targets.get_ready)


def written(yard: TargetWorldOfTenant) -> list[Any]:
    """Return each list of targets that was written."""
    return [body["status"]["targets"] for body in yard.world.below.bodies if body]


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
    yard: TargetWorldOfTenant, is_granted: bool, seconds: float | None, phase: str
):
    if seconds is not None:
        yard.ready().get_unreachable_seconds = lambda: seconds
    if not is_granted:
        yard.world.link.grants.update_granted({})
    yard.world.link.assignments.assign(pod_of(yard), "c2")
    assert create(yard).build("c2") == {"name": "c2", "phase": phase, "pods": 1}


async def test_a_new_phase_is_written_at_once_and_a_new_count_later(
    yard: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 0.01)
    statuses = create(yard)
    statuses.set_names(["c2"])
    assert await statuses.update()
    assert [each[0]["phase"] for each in written(yard)] == ["Away"]
    yard.world.link.assignments.assign(pod_of(yard), "c2")
    assert await statuses.update()
    await statuses.write_counts()
    assert len(written(yard)) == 1, "the count is not due yet"
    await asyncio.wait_for(statuses.wait_recount(), 1)
    await statuses.write_counts()
    assert [each[0]["pods"] for each in written(yard)] == [0, 1]
    statuses.close()


async def test_a_failed_write_is_reported_and_repeated(yard: TargetWorldOfTenant):
    statuses = create(yard)
    statuses.set_names(["c2"])
    yard.world.below.refusals["apply VirtualCluster"] = errors.Unavailable("silent")
    assert not await statuses.update()
    yard.world.below.refusals.clear()
    assert await statuses.update()
    assert written(yard)[-1] == [{"name": "c2", "phase": "Away", "pods": 0}]
    statuses.close()


async def test_pods_of_the_home_cluster_are_not_counted(yard: TargetWorldOfTenant):
    statuses = create(yard)
    statuses.handle_pod_count("home")
    assert statuses._timer is None
    statuses.handle_pod_count("c2")
    assert statuses._timer is not None
    statuses.close()
    assert statuses._timer.cancelled()
