"""Due, surplus and overdue snapshots of a schedule."""

from datetime import timedelta

import pytest

from tenancy.conditions import format_time
from tenancy.snapshots import view
from tenancy.snapshots.specs import SnapshotSchedule
from tests.support.vcmanager.factories import NOW
from tests.support.vcmanager.snapshots import snapshot_body
from vcmanager.snapshots import schedules

SCHEDULE = SnapshotSchedule(interval="1h", keep=2)


def made(name, minutes, phase="Complete"):
    body = snapshot_body(phase)
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
