"""Time and writes of a restart in the middle of a churn."""

import math
from typing import Any

import pytest

from bench.memory import restarts

FOUND = {"lease_s": 7.0, "engage_s": 4.0}
CHURNED: dict[str, Any] = {
    "names": ["churn-0", "churn-1", "churn-2", "churn-3"],
    # one before the kill, two while no one works, one of which went before it was seen, one after
    "sent_at": {"churn-0": 99.0, "churn-1": 101.0, "churn-2": 106.0, "churn-3": 112.5},
    "ready_at": {"churn-0": 99.1, "churn-2": 110.0, "churn-3": 112.6},
}
LIFE = {
    "super": {"create pods churn-0": 1, "delete pods churn-0": 1},
    "tenant": {
        "create pods/binding churn-0": 1,
        "patch pods/status churn-0": 1,
        "delete pods churn-0": 1,
    },
    "changes": {"churn-0": 1},
}


def test_the_way_to_in_step_is_reported_in_its_parts_and_as_one():
    found = restarts.moments(CHURNED, FOUND, 100.0)
    assert found["in_step_s"] == pytest.approx(4.0)
    assert found["kill_to_in_step_s"] == pytest.approx(11.0)
    assert found["kill_to_first_new_pod_s"] == pytest.approx(10.0)
    assert found["made_while_away"] == 2


def test_in_step_is_not_who_has_still_to_carry_what_was_made_meanwhile():
    late = {**CHURNED, "ready_at": {**CHURNED["ready_at"], "churn-1": 113.0}}
    found = restarts.moments(late, FOUND, 100.0)
    assert found["in_step_s"] == pytest.approx(6.0)


def test_without_a_new_pod_there_is_no_first_one():
    found = restarts.moments({"sent_at": {}, "ready_at": {}}, FOUND, 100.0)
    assert math.isnan(found["kill_to_first_new_pod_s"])
    assert found["in_step_s"] == pytest.approx(4.0)


def test_a_whole_life_is_nothing_beyond_it():
    found = restarts.balance(CHURNED, LIFE, 2)
    assert (found["writes_beyond"], found["churned"]) == (0, 4)
    assert found["writes_per_churned"] == pytest.approx(5 / 4)


@pytest.mark.parametrize(
    ("side", "what", "beyond"),
    [
        ("super", "create pods churn-0", 1),
        ("tenant", "patch pods/status churn-0", 1),
        ("tenant", "delete pods churn-0", 1),
        ("super", "patch pods churn-0", 2),
        ("tenant", "patch pods/status held-00001", 2),
        ("super", "update secrets token", 2),
        ("super", "update leases vc-syncer", 0),
        ("tenant", "create events churn-0.", 0),
    ],
)
def test_a_second_write_and_one_to_others_are_beyond(side: str, what: str, beyond: int):
    written = {**LIFE, side: {**LIFE[side], what: 2}}
    assert restarts.balance(CHURNED, written, 2)["writes_beyond"] == beyond


def test_a_status_that_changed_again_is_written_again():
    tenant = {**LIFE["tenant"], "patch pods/status churn-0": 2}
    found = restarts.balance(CHURNED, {**LIFE, "tenant": tenant, "changes": {"churn-0": 2}}, 2)
    assert found["writes_beyond"] == 0


@pytest.mark.parametrize(("made", "beyond"), [(1, 0), (2, 0), (3, 1), (5, 3)])
def test_a_stores_epoch_is_counted_as_often_as_it_is_due(made: int, beyond: int):
    roots = {"patch namespaces root-a": 1, "patch namespaces root-b": made - 1}
    written = {
        "super": {**LIFE["super"], **{what: count for what, count in roots.items() if count}},
        "tenant": {**LIFE["tenant"], "patch configmaps virtual-cluster-store": 1},
        "changes": LIFE["changes"],
    }
    found = restarts.balance(CHURNED, written, 2)
    assert (found["writes_beyond"], found["epochs_counted"]) == (beyond, 1)


def test_other_config_maps_are_no_epoch():
    tenant = {**LIFE["tenant"], "patch configmaps kube-root-ca.crt": 1}
    assert restarts.balance(CHURNED, {**LIFE, "tenant": tenant}, 2)["writes_beyond"] == 1
