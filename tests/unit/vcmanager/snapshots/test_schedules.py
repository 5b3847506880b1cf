"""Due, surplus and overdue snapshots of a schedule."""

import itertools
from datetime import timedelta

import msgspec
import pytest

from tenancy.conditions import format_time
from tenancy.snapshots import view
from tenancy.snapshots.specs import S3Storage, SnapshotSchedule, SnapshotStorage
from tests.support.vcmanager.factories import NOW
from tests.support.vcmanager.snapshots import snapshot_body
from vcmanager.snapshots import file_store, schedules

SCHEDULE = SnapshotSchedule(interval="1h", keep=2)


def made(name, minutes, phase="Complete", reason="", claim="snapshots"):
    body = snapshot_body(phase)
    body["spec"]["storage"] = {"persistentVolumeClaim": {"claimName": claim}}
    body["status"]["conditions"] = [{"type": "Complete", "status": "False", "reason": reason}]
    created = format_time(NOW - timedelta(minutes=minutes))
    body["metadata"] = {**body["metadata"], "name": name, "creationTimestamp": created}
    return view.parse_snapshot(body)


def plan(*existing, created=120, schedule=SCHEDULE):
    return schedules.plan_schedule(
        schedule,
        list(existing),
        cluster_name="web",
        cluster_created=format_time(NOW - timedelta(minutes=created)),
        now=NOW,
    )


@pytest.mark.parametrize(
    ("existing", "creates", "surplus", "overdue", "seconds"),
    [
        ([], True, [], False, 3600),
        ([made("a", 59)], False, [], False, 60),
        ([made("a", 60)], True, [], False, 3600),
        # Two are never saved at the same time, and a failed one waits for its interval, too.
        ([made("a", 200), made("b", 90, "Running")], False, [], True, -1800),
        ([made("a", 100), made("b", 10, "Failed")], False, [], False, 3000),
        ([made("a", 130), made("b", 70, "Failed")], True, [], True, 3600),
        ([made("a", 30), made("b", 90), made("c", 150)], False, ["c"], False, 1800),
        # A failed snapshot is no reason to delete a complete one.
        (
            [made("a", 30, "Failed"), made("b", 90), made("c", 150)],
            False,
            [],
            False,
            1800,
        ),
        (
            [made(str(number), 30 + number, "Failed") for number in range(4)],
            False,
            ["3", "2"],
            False,
            1800,
        ),
    ],
)
def test_what_is_due(existing, creates, surplus, overdue, seconds):
    found = plan(*existing)
    assert found.create == ("web-20260301-1200" if creates else "")
    assert [each.name for each in found.surplus] == surplus
    assert found.is_overdue is overdue
    assert found.next_seconds == seconds


def test_a_tenant_that_never_had_one_is_overdue_after_two_intervals():
    assert plan(created=121).is_overdue
    assert not plan(created=120).is_overdue


def test_an_interval_has_a_minimum():
    assert plan(made("a", 9), schedule=SnapshotSchedule(interval="1m")).create == ""
    assert plan(made("a", 10), schedule=SnapshotSchedule(interval="1m")).create


def full(name, minutes):
    return made(name, minutes, "Failed", "VolumeFull")


@pytest.mark.parametrize(
    ("existing", "creates", "room", "seconds"),
    [
        # A failure for another reason is no reason to delete.
        ([made("b", 90), made("a", 150), made("f", 10, "Failed", "JobFailed")], False, None, 3000),
        # The oldest one goes, and the next one is saved at once.
        ([made("b", 90), made("a", 150), full("f", 10)], True, "a", 3600),
        ([made("b", 90), made("a", 150), full("f", 70)], True, "a", 3600),
        # The last complete one stays, so the next one waits for the interval.
        ([made("a", 150), full("f", 10)], False, None, 3000),
        ([full("f", 10)], False, None, 3000),
        # While one is older than the failure, their number does not grow.
        ([made("b", 60), full("f", 70), made("a", 150)], True, "a", 3600),
        ([made("b", 30), full("f", 70), made("a", 150)], False, None, 1800),
        # After that one more may fit, because the volume may have grown.
        ([made("b", 60), made("a", 65), full("f", 70)], True, None, 3600),
        # Files on another claim make no room.
        ([made("b", 90, claim="snapshots-b"), made("a", 150), full("f", 10)], False, None, 3000),
        (
            [made("c", 1, "Running"), made("b", 90), made("a", 150), full("f", 10)],
            False,
            None,
            3540,
        ),
    ],
)
def test_room_is_made_on_a_full_volume(existing, creates, room, seconds):
    found = plan(*existing, schedule=SnapshotSchedule(interval="1h", keep=7))
    assert bool(found.create) is creates
    assert (found.room.name if found.room else None) == room
    assert found.next_seconds == seconds
    assert found.surplus == ()


def test_a_bucket_has_always_room():
    storage = SnapshotStorage(s3=S3Storage(endpoint="https://s3.example.com", bucket="tenants"))
    existing = [made("b", 90), made("a", 150), full("f", 10)]
    assert view.choose_room(existing, storage) is None
    assert view.VOLUME_FULL == file_store.VOLUME_FULL


def test_a_repeated_snapshot_has_another_name():
    """Otherwise a room would be made, and no snapshot be created."""
    existing = [made("b", 90), made("a", 150), full("web-20260301-1200", 0)]
    found = plan(*existing, schedule=SnapshotSchedule(interval="1h", keep=7))
    assert (found.create, found.room) == ("", None)


@pytest.mark.parametrize("fits", [2, 3, 6])
def test_a_volume_without_room_for_all_still_gets_each_new_snapshot(fits):
    """Play the volume: a save fails if as many complete files are on it as fit."""
    schedule, existing, saved = SnapshotSchedule(interval="1h", keep=7), [], []
    for minute in range(0, 40 * 60, 10):
        now = NOW + timedelta(minutes=minute)
        found = schedules.plan_schedule(
            schedule, existing, cluster_name="web", cluster_created=format_time(NOW), now=now
        )
        gone = {each.uid for each in (*found.surplus, *((found.room,) if found.room else ()))}
        existing = [each for each in existing if each.uid not in gone]
        if not found.create:
            continue
        has_room = sum(each.status.phase == "Complete" for each in existing) < fits
        each = made(found.create, -minute) if has_room else full(found.create, -minute)
        each = msgspec.structs.replace(each, uid=found.create)
        existing.append(each)
        saved += [now] * has_room
    gaps = {after - before for before, after in itertools.pairwise(saved)}
    assert max(gaps) <= timedelta(minutes=70)
    complete = [each for each in existing if each.status.phase == "Complete"]
    assert fits - 1 <= len(complete) <= fits
