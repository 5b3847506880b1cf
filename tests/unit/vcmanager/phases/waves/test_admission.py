"""Which tenants of a ClusterVersion may change now: a table, and properties of any sequence."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy.control_plane_specs import RolloutSpec, RolloutWindow
from vcmanager.phases.waves.admission import (
    TenantState,
    compute_limit,
    decide_admission,
    is_within_window,
)

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday
WAITING = TenantState(uid="w1")
SECOND = TenantState(uid="w2")
NEW = TenantState(uid="new", is_new=True)
BROKEN = TenantState(uid="broken", is_broken=True)


def holder(uid="h", minutes=1):
    return TenantState(uid=uid, slot_since=NOW - timedelta(minutes=minutes))


LATE = holder("late", 20)
CLOSED = RolloutWindow(start="13:00", duration_minutes=60)


@pytest.mark.parametrize(
    ("spec", "tenants", "admitted", "hold"),
    [
        ({}, [WAITING], {"w1"}, None),
        ({}, [WAITING, SECOND], {"w1"}, None),
        ({"max_unavailable": 2}, [WAITING, SECOND], {"w1", "w2"}, None),
        ({"max_unavailable": 1}, [holder(), WAITING], {"h"}, "SlotsTaken"),
        ({"max_unavailable": 2}, [holder(), WAITING, SECOND], {"h", "w1"}, None),
        ({"max_unavailable": "50%"}, [holder(), WAITING], {"h", "w1"}, None),
        ({"max_unavailable": 1}, [LATE, WAITING], {"late"}, "Stopped"),
        ({"max_unavailable": 9}, [LATE, WAITING], {"late"}, "Stopped"),
        ({"max_failed": 1}, [LATE, WAITING], {"late", "w1"}, None),
        ({"max_failed": 1}, [LATE, holder(), WAITING], {"late", "h"}, "SlotsTaken"),
        ({"deadline_seconds": 3600}, [LATE, WAITING], {"late"}, "SlotsTaken"),
        ({"paused": True}, [holder(), WAITING], {"h"}, "Paused"),
        ({"paused": True}, [LATE, WAITING], {"late"}, "Stopped"),
        ({"window": CLOSED}, [holder(), WAITING], {"h"}, "OutsideWindow"),
        ({"paused": True}, [NEW, BROKEN, WAITING], {"new"}, "Paused"),
        ({"max_unavailable": 1}, [LATE, NEW, BROKEN], {"late", "new"}, "Stopped"),
        ({"window": CLOSED}, [NEW, BROKEN, WAITING], {"new", "broken"}, "OutsideWindow"),
        ({"window": CLOSED}, [holder(), BROKEN], {"h"}, "OutsideWindow"),
        ({"max_unavailable": 1}, [holder(), NEW, BROKEN], {"h", "new"}, "SlotsTaken"),
        ({"max_unavailable": 1}, [NEW, BROKEN, WAITING], {"new", "broken"}, None),
    ],
)
def test_the_table(spec, tenants, admitted, hold):
    decision = decide_admission(tenants, RolloutSpec(**spec), fleet=4, now=NOW)
    assert (decision.admitted, decision.hold) == (admitted, hold)


@pytest.mark.parametrize(
    ("wanted", "fleet", "limit"),
    [
        (1, 100, 1),
        (5, 2, 5),
        (0, 100, 1),
        (-3, 100, 1),
        ("10%", 100, 10),
        ("10%", 19, 1),
        ("10%", 0, 1),
        ("100%", 7, 7),
        ("900%", 7, 7),
        ("x%", 100, 1),
        ("", 100, 1),
        ("10", 100, 1),
    ],
)
def test_the_limit(wanted, fleet, limit):
    assert compute_limit(wanted, fleet) == limit


@pytest.mark.parametrize(
    ("window", "at", "is_open"),
    [
        (None, "04T12:00", True),
        (("22:00", 240, ()), "04T21:59", False),
        (("22:00", 240, ()), "04T22:00", True),
        (("22:00", 240, ()), "05T01:59", True),
        (("22:00", 240, ()), "05T02:00", False),
        (("22:00", 240, ("Wed",)), "05T01:00", True),
        (("22:00", 240, ("Thu",)), "05T01:00", False),
        (("22:00", 240, ("Thu",)), "05T23:00", True),
        (("00:00", 1440, ("Sat", "Sun")), "07T12:00", True),
        (("00:00", 1440, ("Sat", "Sun")), "09T12:00", False),
        (("nonsense", 1440, ()), "04T12:00", False),
    ],
)
def test_the_window(window, at, is_open):
    made = window and RolloutWindow(start=window[0], duration_minutes=window[1], days=window[2])
    now = datetime.fromisoformat(f"2026-03-{at}+00:00")
    assert is_within_window(made, now) is is_open


STATES = st.lists(
    st.builds(
        TenantState,
        uid=st.uuids().map(str),
        slot_since=st.none() | st.integers(0, 60).map(lambda each: NOW - timedelta(minutes=each)),
        is_new=st.booleans(),
        is_broken=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda each: each.uid,
)
SPECS = st.builds(
    RolloutSpec,
    max_unavailable=st.integers(-1, 12) | st.sampled_from(["1%", "25%", "100%", "?"]),
    max_failed=st.integers(0, 3),
    deadline_seconds=st.integers(60, 4000),
    paused=st.booleans(),
)


@given(STATES, SPECS)
def test_any_state(tenants, spec):
    decision = decide_admission(tenants, spec, fleet=len(tenants), now=NOW)
    holders = {each.uid for each in tenants if each.slot_since is not None}
    urgent = {each.uid for each in tenants if each.is_new} - holders
    assert holders | urgent <= decision.admitted
    assert decision.new_slots.isdisjoint(holders | urgent)
    assert decision.admitted == holders | urgent | decision.new_slots
    limit = compute_limit(spec.max_unavailable, len(tenants))
    if decision.new_slots:
        assert len(holders - decision.failed) + len(decision.new_slots) <= limit
        assert not spec.paused
        assert len(decision.failed) <= spec.max_failed
    elif decision.hold is None:
        assert all(each.uid in holders | urgent for each in tenants)
