"""The pause until a time, and the expiry, of a VirtualCluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import RequeueAfter
from tenancy import conditions, wellknown
from tests.support.vcmanager.factories import NOW, TENANT, RecordingClient, fake_means
from vcmanager.reconcilers.lifetime import scheduled_times
from vcmanager.reconcilers.lifetime.scheduled_times import ExpiryStep
from vcmanager.runtime.context import RESYNC_SECONDS
from vcmanager.runtime.status import ReconcileStatus


def at(**delta: float) -> str:
    return conditions.format_time(NOW + timedelta(**delta))


def body(*, labels: Any = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": TENANT.name,
            "namespace": TENANT.namespace,
            "uid": TENANT.uid,
            "resourceVersion": "7",
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {"clusterVersionName": "v1.36", **spec},
    }


@pytest.mark.parametrize(
    ("until", "more", "seconds"),
    [
        ("", {}, None),
        ("tomorrow", {}, None),
        ("2027-01-01T00:00:00", {}, None),
        (at(seconds=-1), {}, None),
        (at(seconds=90), {}, 90.0),
        (at(days=9), {}, RESYNC_SECONDS),
        (at(seconds=90), {"annotations": {wellknown.DELETE_AFTER: at(hours=1)}}, None),
    ],
)
def test_a_pause_ends_at_its_time_and_with_a_scheduled_deletion(until, more, seconds):
    """REL-134."""
    found = scheduled_times.get_pause(body(pausedUntil=until, **more), NOW)
    assert (found.seconds if found is not None else None) == seconds
    if found is not None:
        assert until in found.message
        assert "Remove spec.pausedUntil" in found.message


def paused(status: str, reason: str, since: str) -> dict[str, Any]:
    found = {"type": wellknown.PAUSED, "status": status, "reason": reason, "message": "words"}
    return {"conditions": [{**found, "lastTransitionTime": since}]}


def test_a_pause_lasts_at_most_90_days():
    """REL-134."""
    long = body(pausedUntil=at(days=3650))
    first = scheduled_times.get_pause(long, NOW)
    assert first is not None
    assert f"until {at(days=90)}" in first.message
    assert "at most 90 days" in first.message
    # A later time in the spec does not prolong the pause that has begun.
    long["status"] = paused("True", "PausedUntil", at(days=-89))
    found = scheduled_times.get_pause(long, NOW)
    assert found is not None
    assert f"until {at(days=1)}" in found.message

    long["status"] = paused("True", "PausedUntil", at(days=-90))
    assert scheduled_times.get_pause(long, NOW) is None
    report = ReconcileStatus(generation=1, now=at())
    scheduled_times.report_long_pause(long, NOW, report)
    report.summarize(blocked=None, is_stalled=False, is_deleting=False)
    status = report.build_status({})
    ended = conditions.find_condition(status["conditions"], wellknown.PAUSED)
    assert ended is not None
    assert status["endedPause"] == at(days=3650)
    assert (ended["status"], ended["reason"]) == ("False", "PauseTooLong")

    # It stays over until the spec has another time.
    long["status"] = paused("False", "PauseTooLong", at(days=-1))
    assert scheduled_times.get_pause(long, NOW) is None  # the status of an older vc-manager
    long["status"]["endedPause"] = status["endedPause"]
    assert scheduled_times.get_pause(long, NOW) is None
    long["spec"]["pausedUntil"] = at(days=30)
    again = scheduled_times.get_pause(long, NOW)
    assert again is not None
    assert "at most" not in again.message


@pytest.mark.parametrize(("reason", "kept"), [("PauseTooLong", at(days=3650)), ("PausedUntil", "")])
def test_a_failed_reconcile_keeps_the_pause_that_has_ended(reason, kept):
    old = paused("False", reason, at(days=-1))
    if kept:
        old["endedPause"] = kept
    report = ReconcileStatus(generation=1, now=at())
    report.carry_over(old)
    report.summarize(blocked=("Failed", "words"), is_stalled=False, is_deleting=False)
    assert report.build_status(old).get("endedPause", "") == kept


def test_the_pause_that_has_ended_is_forgotten_with_its_condition():
    old = {**paused("False", "PauseTooLong", at(days=-1)), "endedPause": at(days=3650)}
    report = ReconcileStatus(generation=1, now=at())
    report.summarize(blocked=None, is_stalled=False, is_deleting=False)
    assert "endedPause" not in report.build_status(old)


def test_a_pause_reports_who_set_it():
    found = body(pausedUntil=at(hours=1))
    fields = {"f:spec": {"f:pausedUntil": {}}}
    found["metadata"]["managedFields"] = [
        {"manager": "other", "fieldsV1": {"f:spec": {}}},
        {"manager": "kubectl-edit", "time": "2026-03-01T11:00:00Z", "fieldsV1": fields},
    ]
    pause = scheduled_times.get_pause(found, NOW)
    assert pause is not None
    assert "set by kubectl-edit at 2026-03-01T11:00:00Z" in pause.message


@pytest.mark.parametrize(
    ("expires", "protected", "scheduled", "step"),
    [
        (None, False, False, ExpiryStep.NOTHING),
        (timedelta(hours=25), False, False, ExpiryStep.NOTHING),
        (timedelta(hours=24), False, False, ExpiryStep.ANNOUNCE),
        (timedelta(seconds=1), True, False, ExpiryStep.ANNOUNCE),
        (timedelta(seconds=1), False, True, ExpiryStep.NOTHING),
        (timedelta(0), False, False, ExpiryStep.SCHEDULE),
        (timedelta(days=-9), False, False, ExpiryStep.SCHEDULE),
        (timedelta(0), True, False, ExpiryStep.HOLD),
        (timedelta(0), False, True, ExpiryStep.NOTHING),
        (timedelta(0), True, True, ExpiryStep.NOTHING),
    ],
)
def test_the_next_step_of_an_expiry(expires, protected, scheduled, step):
    """REL-135."""
    moment = NOW + expires if expires is not None else None
    assert (
        scheduled_times.decide_expiry(moment, NOW, protected=protected, scheduled=scheduled) is step
    )


async def schedule(found: dict[str, Any]) -> tuple[RecordingClient, bool, str]:
    client = RecordingClient()
    report = ReconcileStatus(generation=1, now=at())
    done = await scheduled_times.schedule_expired(fake_means(client), found, report)
    told = report._conditions.get(wellknown.EXPIRING, {})
    return client, done, str(told.get("reason", ""))


@pytest.mark.parametrize(("period", "after"), [("0s", at()), ("2h", at(hours=2))])
async def test_an_expired_tenant_is_scheduled_for_deletion_with_its_grace_period(period, after):
    """REL-135."""
    client, done, _ = await schedule(body(expiresAt=at(hours=-1), deletionGracePeriod=period))
    assert done
    assert client.calls == [("patch", TENANT.name)]
    metadata = client.bodies[0]["metadata"]
    assert metadata["annotations"] == {wellknown.DELETE_AFTER: after}
    assert (metadata["uid"], metadata["resourceVersion"]) == (TENANT.uid, "7")


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (body(), ""),
        (body(expiresAt="soon"), ""),
        (body(expiresAt=at(hours=25)), ""),
        (body(expiresAt=at(hours=1)), "ExpiresSoon"),
        (
            body(expiresAt=at(hours=-1), labels={wellknown.DELETION_PROTECTION: "enabled"}),
            "DeletionProtected",
        ),
        (body(expiresAt=at(hours=-1), annotations={wellknown.DELETE_AFTER: at(hours=1)}), ""),
    ],
)
async def test_otherwise_nothing_is_deleted(found, reason):
    client, done, told = await schedule(found)
    assert (client.calls, done, told) == ([], False, reason)


@pytest.mark.parametrize(
    ("expires", "seconds"),
    [
        ("", 600.0),
        (at(hours=25), 600.0),
        (at(hours=24, seconds=30), 30.0),
        (at(seconds=20), 20.0),
        (at(seconds=-20), 600.0),
    ],
)
def test_the_next_reconcile_is_not_later_than_the_next_step(expires, seconds):
    result = RequeueAfter(600.0)
    found = scheduled_times.limit_requeue(result, body(expiresAt=expires), NOW)
    assert found == RequeueAfter(seconds)


@pytest.mark.parametrize(
    ("expires", "created"), [(at(hours=25), False), (at(hours=2), True), (at(hours=-1), False)]
)
async def test_an_event_in_the_tenant_announces_the_deletion(expires, created):
    """REL-135."""
    tenant = RecordingClient()
    means = fake_means(RecordingClient())
    await scheduled_times.announce_expiry(means, tenant, body(expiresAt=expires))  # type: ignore[arg-type]
    assert bool(tenant.calls) is created
    if created:
        (event,) = tenant.bodies
        assert event["metadata"]["namespace"] == "default"
        assert (event["type"], event["reason"]) == ("Warning", "ExpiresSoon")
        assert expires in event["message"]


@pytest.mark.parametrize("problem", [errors.AlreadyExists("x"), errors.Forbidden("no")])
async def test_a_tenant_that_rejects_the_event_stops_nothing(problem):
    class Refusing(RecordingClient):
        async def create(self, *_: Any, **__: Any) -> dict[str, Any]:
            raise problem

    means = fake_means(RecordingClient())
    await scheduled_times.announce_expiry(means, Refusing(), body(expiresAt=at(hours=1)))  # type: ignore[arg-type]
