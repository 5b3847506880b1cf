"""Quantiles, spreads, ratios and fairness."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.reports import statistics

VALUES = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=200)


@pytest.mark.parametrize(("part", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_quantile_is_one_of_the_values(part: float, expected: float):
    assert statistics.quantile(list(range(100, 0, -1)), part) == expected


@given(VALUES, st.floats(0, 1))
def test_enough_values_do_not_exceed_a_quantile(values: list[float], part: float):
    found = statistics.quantile(values, part)
    assert found in values
    assert sum(value <= found for value in values) >= part * len(values) - 1e-6
    assert sum(value < found for value in values) < max(part * len(values), 1)


def test_nothing_has_no_quantile():
    found = statistics.summary([])
    assert found.count == 0
    assert math.isnan(found.p50)
    assert math.isnan(found.worst)


def test_one_in_a_thousand_is_reported_of_where_there_are_a_thousand():
    assert "p999" not in statistics.summary(range(statistics.ENOUGH - 1)).as_dict()
    assert statistics.summary(range(1, 2001)).as_dict()["p999"] == 1998


def test_a_curve_goes_from_the_least_to_the_most():
    found = statistics.curve([3.0, 1.0, 2.0])
    assert (len(found), found[0], found[50], found[100]) == (101, 1.0, 2.0, 3.0)
    assert statistics.curve([]) == []


def test_a_spread_leaves_out_runs_without_a_figure():
    found = statistics.spread([3.0, math.nan, 1.0, 2.0])
    assert (found.count, found.median, found.low, found.high) == (3, 2.0, 1.0, 3.0)
    assert found.width == 1.0
    assert statistics.spread([math.nan]).count == 0


def test_ratios_go_pair_by_pair():
    assert statistics.ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]
    assert math.isnan(statistics.ratios([1.0], [0.0])[0])
    with pytest.raises(ValueError, match="zip"):
        statistics.ratios([1.0], [1.0, 2.0])


@given(VALUES)
def test_fairness_is_between_one_of_all_and_all(values: list[float]):
    assert 1 / len(values) - 1e-9 <= statistics.jain(values) <= 1 + 1e-9


def test_fairness_of_equals_and_of_one_who_takes_all():
    assert statistics.jain([5.0] * 8) == pytest.approx(1.0)
    assert statistics.jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
