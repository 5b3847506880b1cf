"""A counter that only grows, over pods that come and go."""

from hypothesis import given
from hypothesis import strategies as st

from vnagent.totals import Totals


def test_time_of_pods_that_went_stays():
    """A fall would be read as a restart, and all of it counted again."""
    totals = Totals()
    assert totals.add("t", {"a", "b"}, {"a": 100, "b": 10}) == 110
    assert totals.add("t", {"b"}, {"b": 12}) == 112
    assert totals.add("t", {"b", "c"}, {"b": 12, "c": 1}) == 113


def test_a_pod_without_figures_has_not_gone():
    """Else it would be counted twice when it is back."""
    totals = Totals()
    totals.add("t", {"a"}, {"a": 100})
    assert totals.add("t", {"a"}, {}) == 100
    assert totals.add("t", {"a"}, {"a": 101}) == 101
    assert totals.add("t", {"a"}, {"a": 99}) == 101  # taken before, told after


def test_tenants_are_apart():
    """And those without pods are forgotten."""
    totals = Totals()
    assert totals.add("one", {"a"}, {"a": 5, "foreign": 7}) == 5
    assert totals.add("two", {"b"}, {"b": 3}) == 3
    assert len(totals) == 2
    assert totals.add("one", set(), {}) == 0
    assert len(totals) == 1


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2**64), min_size=1)))
def test_it_never_falls(steps):
    """Whatever comes, as long as there are pods; and it stays a number of 64 bits."""
    totals, last = Totals(), 0
    for step in steps:
        found = totals.add("t", step.keys(), step)
        assert last <= found < 2**64
        last = found
