"""Pods that count beside greedy ones, and the effects on each other."""

from typing import Any

import pytest

from bench.memory import fairness


def load(*tenants: list[tuple[float, float]], begun: float, ended: float) -> dict[str, Any]:
    """A load of which each tenant's pods were made at a time and were so late."""
    return {
        "sent_at": [[at for at, _ in each] for each in tenants],
        "late_ms": [[late for _, late in each] for each in tenants],
        "begun_at": begun,
        "ended_at": ended,
        "took_s": ended - begun,
    }


ALONE = load([(0.0, 10.0), (1.0, 10.0)], [(0.5, 10.0)], begun=0.0, ended=1.0)
GREEDY_ALONE = load([(0.0, 900.0)], begun=0.0, ended=4.0)
GREEDY = load([(10.0, 900.0)], [(10.0, 300.0)], begun=10.0, ended=16.0)
REGULAR = load(
    [(9.9, 5.0), (10.0, 20.0), (16.1, 5.0)], [(16.0, 40.0), (17.0, 5.0)], begun=9.9, ended=17.0
)


def test_only_what_is_made_while_the_greedy_are_at_it_is_beside_them():
    assert fairness.during(REGULAR, GREEDY) == [[20.0], [40.0]]


def test_who_comes_later_does_not_make_the_figure_better():
    found = fairness.mutual_effects(ALONE, REGULAR, GREEDY, GREEDY_ALONE)
    assert found["beside_pods"] == 2
    assert found["beside_ready_ms"]["p50"] == 20.0
    assert found["p99_to_alone"] == pytest.approx(4.0)
    assert found["jain_beside"] == pytest.approx(0.9)


def test_what_the_greedy_lose_is_to_their_own_time_alone():
    found = fairness.mutual_effects(ALONE, REGULAR, GREEDY, GREEDY_ALONE)
    assert found["greedy_s_to_alone"] == pytest.approx(1.5)
    assert found["jain_greedy"] == pytest.approx(0.8)


def test_a_tenant_without_a_pod_beside_them_has_no_part_in_the_index():
    late = load([(10.0, 20.0)], [(17.0, 5.0)], begun=10.0, ended=17.0)
    assert fairness.mutual_effects(ALONE, late, GREEDY, GREEDY_ALONE)["jain_beside"] == 1.0


def test_changes_and_the_writes_that_they_became_are_reported():
    storm = {"changes": 900, "begun_at": 10.0, "ended_at": 16.0}
    found = fairness.in_storm(ALONE, REGULAR, storm, 300)
    assert (found["storm_changes"], found["storm_writes"]) == (900, 300)
    assert (found["stormed_pods"], found["stormed_p99_to_alone"]) == (2, pytest.approx(4.0))


def test_writes_to_other_pods_and_other_kinds_are_not_the_storms():
    writes = {
        "patch pods/status greedy-00001": 3,
        "patch pods/status stormed-00001": 5,
        "patch nodes/status greedy-node": 7,
    }
    assert fairness.writes_to(writes, "greedy-") == 3
