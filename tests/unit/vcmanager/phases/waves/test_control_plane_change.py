"""The condition ControlPlaneUpToDate, and the end of a change."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tenancy import wellknown
from tenancy.control_plane_specs import ClusterVersionStatus, RolloutSlot, RolloutStatus
from tests.support.vcmanager.factories import TENANT, wish
from tests.support.vcmanager.rollouts import RolloutStage
from tests.unit.vcmanager.phases.waves.test_pending_changes import DESIRED, running
from vcmanager.phases.waves import control_plane_change, pending_changes
from vcmanager.phases.waves.control_plane_change import ControlPlaneChange
from vcmanager.runtime.keys import build_rollout_key
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

SLOT = RolloutSlot(uid=TENANT.uid, since="2026-03-01T12:00:00Z")
PLAN = SimpleNamespace(workloads=(DESIRED,))
CURRENT = {"observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": 1}


def wanted(*, marked=False):
    rollout = RolloutStatus(slots=(SLOT,) * marked)
    return replace(wish(), version_status=ClusterVersionStatus(rollout=rollout))


async def admit(monkeypatch, pending, *, marked=False, status=CURRENT, replicas=1, **spec):
    async def list_pending_changes(*_, **__):
        return pending

    monkeypatch.setattr(pending_changes, "list_pending_changes", list_pending_changes)
    live = {**running(), "status": status}
    live["metadata"]["generation"] = 1
    live["spec"] = {**live["spec"], "replicas": replicas}
    return await control_plane_change.admit_change(
        RolloutStage(1, **spec).means,
        wanted(marked=marked),
        PLAN,
        body={},
        snapshot=ObservedObjects(namespace=None, objects={"StatefulSet": {"apiserver": live}}),
        mounted_secrets=[],
    )


@pytest.mark.parametrize(
    ("pending", "more", "change"),
    [
        ([], {}, ControlPlaneChange.NONE),
        ([], {"marked": True}, ControlPlaneChange.NONE),
        ([], {"status": {**CURRENT, "readyReplicas": 0}}, ControlPlaneChange.NONE),
        (
            *([], {"status": {**CURRENT, "readyReplicas": 0}, "marked": True}),
            ControlPlaneChange.ROLLING_OUT,
        ),
        ([], {"status": {**CURRENT, "updatedReplicas": 0}}, ControlPlaneChange.ROLLING_OUT),
        ([], {"status": {**CURRENT, "observedGeneration": 0}}, ControlPlaneChange.ROLLING_OUT),
        (["StatefulSet etcd"], {}, ControlPlaneChange.ROLLING_OUT),
        (["StatefulSet etcd"], {"paused": True}, ControlPlaneChange.WAITING),
        # A tenant that wakes serves no client, so its change does not wait.
        (["StatefulSet etcd"], {"paused": True, "replicas": 0}, ControlPlaneChange.ROLLING_OUT),
        (["StatefulSet etcd"], {"paused": True, "marked": True}, ControlPlaneChange.ROLLING_OUT),
    ],
)
async def test_the_state_of_a_change(monkeypatch, pending, more, change):
    found, message = await admit(monkeypatch, pending, **more)
    assert found is change
    assert message.endswith(".")


@pytest.mark.parametrize("change", ControlPlaneChange)
def test_the_condition_leaves_the_tenant_ready(change):
    report = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    control_plane_change.set_condition(report, change, "so it is")
    report.summarize(blocked=None, is_stalled=False, is_deleting=False)
    assert report.is_true(wellknown.READY)
    assert report.is_settled
    is_done = change is ControlPlaneChange.NONE
    assert report.is_true(wellknown.CONTROL_PLANE_UP_TO_DATE) is is_done


@pytest.mark.parametrize(
    ("marked", "change", "is_ready", "is_released", "is_queued"),
    [
        (True, ControlPlaneChange.NONE, True, True, True),
        (True, ControlPlaneChange.NONE, False, False, True),
        (True, ControlPlaneChange.ROLLING_OUT, True, False, True),
        (False, ControlPlaneChange.WAITING, True, False, True),
        (False, ControlPlaneChange.ROLLING_OUT, True, False, False),
        (False, ControlPlaneChange.NONE, True, False, False),
    ],
)
async def test_the_end_of_a_change(marked, change, is_ready, is_released, is_queued):
    stage, later = RolloutStage(1), []
    status = {"slots": [{"uid": TENANT.uid, "since": "s"}]}
    stage.api.version["status"] = {"rollout": status}
    means = replace(stage.means, enqueue_after=lambda *each: later.append(each))
    await control_plane_change.finish_change(
        means, wanted(marked=marked), change, is_ready=is_ready
    )
    assert (stage.api.marked == set()) is is_released
    assert later == [(build_rollout_key("v1.36"), 2.0)] * is_queued
