"""Effects of a dead target on other tenants: a large effect is a finding."""

from __future__ import annotations

import math

import pytest

from tests.chaos.processes import outage
from tests.chaos.processes.small import OUTAGE_SECONDS


@pytest.mark.parametrize(
    ("p99", "found"),
    [
        ((50.0, 60.0, 80.0), 1.2),
        ((80.0, 60.0, 50.0), 1.2),
        ((50.0, 60.5, 80.0), 1.21),
        ((80.0, 60.5, 50.0), 1.21),
        ((80.0, 40.0, 77.0), 40 / 77),
    ],
)
def test_it_is_compared_with_the_better_of_before_and_after(
    p99: tuple[float, float, float], found: float
):
    assert outage.ratio(*p99) == pytest.approx(found)
    told = outage.slower(outage.ratio(*p99), p99)
    assert [each.rule for each in told] == (["slower"] if found > outage.GOAL else [])


def test_what_was_not_measured_is_reported():
    p99 = (50.0, math.nan, 50.0)
    assert outage.slower(outage.ratio(*p99), p99)


def test_a_small_outage_is_long_enough_to_be_noticed():
    """Otherwise its node would never be checked."""
    assert outage.NOTICED_SECONDS <= OUTAGE_SECONDS
