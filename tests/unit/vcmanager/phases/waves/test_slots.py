"""Slots as marks in the status of a ClusterVersion."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tenancy import conditions, wellknown
from tenancy.control_plane_specs import RolloutSlot, RolloutSpec, RolloutStatus, RolloutWindow
from tests.support.vcmanager.factories import NOW, TENANT
from tests.support.vcmanager.rollouts import VERSION, RolloutStage
from vcmanager.phases.waves import slots

MARK = RolloutSlot(uid=TENANT.uid, since=conditions.format_time(NOW))


def candidate(*, is_new=False, is_broken=False, rollout=None, **spec):
    return slots.Candidate(
        tenant=TENANT,
        version_name=VERSION,
        spec=RolloutSpec(**spec),
        rollout=rollout or RolloutStatus(),
        is_new=is_new,
        is_broken=is_broken,
    )


async def test_a_slot_is_marked_with_its_tenant_and_time():
    stage = RolloutStage(3)
    assert await slots.acquire_slot(stage.means, candidate()) == ""
    assert stage.api.version["status"]["rollout"] == {
        "tenants": 3,
        "waiting": 0,
        "slots": [
            {
                "uid": TENANT.uid,
                "since": "2026-03-01T12:00:00Z",
            }
        ],
    }


@pytest.mark.parametrize(
    "each",
    [
        candidate(is_new=True, paused=True),
        candidate(rollout=RolloutStatus(slots=(MARK,)), paused=True),
    ],
    ids=["new", "marked"],
)
async def test_these_need_no_mark(each):
    stage = RolloutStage(3, paused=True)
    assert await slots.acquire_slot(stage.means, each) == ""
    assert stage.api.version["status"] == {}


async def test_a_tenant_is_marked_once():
    """The second reconcile began before the first mark was written."""
    stage = RolloutStage(3)
    mark = {"uid": "t0", "since": "2026-03-01T12:00:00Z"}
    stage.api.version["status"] = {"rollout": {"slots": [mark]}}
    tenant = replace(TENANT, name="t0", uid="t0")
    assert await slots.acquire_slot(stage.means, replace(candidate(), tenant=tenant)) == ""
    assert stage.api.version["metadata"]["resourceVersion"] == "1"


async def test_a_tenant_that_waits_is_reported_with_the_reason():
    stage = RolloutStage(3, paused=True)
    assert await slots.acquire_slot(stage.means, candidate()) == (
        "ClusterVersion v1.36: spec.rollout.paused is true. The change of the control plane waits,"
        " and the tenant runs as before."
    )


@pytest.mark.parametrize("known", [{}, {"tenants": 3}], ids=["first time", "known rollout"])
async def test_a_broken_tenant_waits_unless_only_the_window_is_closed(known):
    window = {"start": "13:00", "durationMinutes": 60}
    stage, rollout = RolloutStage(3, paused=True), RolloutStatus(**known)
    waits = await slots.acquire_slot(
        stage.means, candidate(is_broken=True, rollout=rollout, paused=True)
    )
    assert "spec.rollout.paused is true" in waits
    stage = RolloutStage(3, window=window)
    spec = RolloutWindow(start="13:00", duration_minutes=60)
    for is_broken in (False, True):
        each = candidate(is_broken=is_broken, rollout=rollout, window=spec)
        assert bool(await slots.acquire_slot(stage.means, each)) is not is_broken
    assert stage.api.marked == {TENANT.uid}


async def test_a_slot_is_released_once():
    stage = RolloutStage(3)
    await slots.acquire_slot(stage.means, candidate())
    for _ in range(2):
        await slots.release_slot(stage.means, VERSION, TENANT.uid)
        assert stage.api.marked == set()
    assert stage.api.version["metadata"]["resourceVersion"] == "3"


@pytest.mark.parametrize(
    ("status", "minutes", "is_broken"),
    [("True", 9, False), ("False", 1, False), ("False", 2, True), ("Unknown", 9, True)],
)
def test_broken_is_what_is_not_ready_for_some_time(status, minutes, is_broken):
    since = conditions.format_time(NOW - timedelta(minutes=minutes))
    ready = {"type": wellknown.READY, "status": status, "lastTransitionTime": since}
    assert slots.is_broken({"status": {"conditions": [ready]}}, NOW) is is_broken


@pytest.mark.parametrize("status", [{}, {"conditions": [{"type": "Ready", "status": "False"}]}])
def test_without_a_time_nothing_is_broken(status):
    assert not slots.is_broken({"status": status}, NOW)


@pytest.mark.parametrize(
    ("metadata", "is_kept"),
    [
        ({}, True),
        ({"deletionTimestamp": "now"}, False),
        ({"annotations": {wellknown.DELETE_AFTER: "2026-03-01T12:00:00Z"}}, False),
        ({"uid": "another"}, False),
    ],
)
def test_slots_end_with_their_tenants(metadata, is_kept):
    users = [{"metadata": {"uid": TENANT.uid, **metadata}}]
    assert slots.drop_ended_slots([MARK], users) == (MARK,) * is_kept


def test_a_slot_without_a_valid_time_begins_now():
    (state,) = slots.build_holders([RolloutSlot(uid="u", since="noon")], NOW)
    assert state.slot_since == NOW
