"""The written rules of a pod's life, and that every life comes to its end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.rules.pods import pod_facts, pod_status
from syncer.rules.pods.lifecycle import PodSide, Step, TwinSide, step

PLAIN = PodSide(
    node="",
    deleting=False,
    grace_seconds=None,
    is_terminal=False,
    was_below=False,
    was_taken=False,
    is_lost=False,
    has_controller=False,
)
TWIN = TwinSide(node="", deleting=False, grace_seconds=None)


@pytest.mark.parametrize(
    ("pod", "twin", "expected"),
    [
        (PLAIN, None, Step.CREATE),
        (PLAIN, TWIN, Step.FOLLOW),
        (PLAIN, TWIN._replace(node="n"), Step.FOLLOW),
        (PLAIN, TWIN._replace(deleting=True), Step.WAIT),
        (PLAIN._replace(node="n"), TWIN._replace(node="n", deleting=True), Step.EVICT),
        (PLAIN._replace(node="n"), TWIN._replace(node="m"), Step.MISPLACED),
        # Bound by the tenant itself, or lost before it began: made for the node it names.
        (PLAIN._replace(node="n"), None, Step.CREATE),
        (PLAIN._replace(node="n", was_below=True), None, Step.LOST),
        (PLAIN._replace(node="n", was_below=True, was_taken=True), None, Step.TAKEN),
        (PLAIN._replace(was_below=True, was_taken=True), None, Step.CREATE),
        (PLAIN._replace(is_terminal=True, was_below=True), None, Step.NOTHING),
        (PLAIN._replace(node="n", is_lost=True, is_terminal=True), None, Step.NOTHING),
        (
            PLAIN._replace(node="n", is_lost=True, is_terminal=True, has_controller=True),
            None,
            Step.COLLECT,
        ),
        (
            PLAIN._replace(node="n", is_terminal=True),
            TWIN._replace(node="n", deleting=True),
            Step.FOLLOW,
        ),
        (PLAIN._replace(deleting=True, grace_seconds=30), TWIN, Step.DELETE_TWIN),
        (PLAIN._replace(deleting=True, grace_seconds=30), None, Step.FINISH),
        (PLAIN._replace(deleting=True, grace_seconds=0), None, Step.NOTHING),
        (
            PLAIN._replace(deleting=True, grace_seconds=30),
            TWIN._replace(deleting=True, grace_seconds=30),
            Step.FOLLOW,
        ),
        (
            PLAIN._replace(deleting=True, grace_seconds=5),
            TWIN._replace(deleting=True, grace_seconds=30),
            Step.DELETE_TWIN,
        ),
    ],
)
def test_the_rules(pod, twin, expected):
    assert step(pod, twin) is expected


graces = st.sampled_from([None, 0, 5, 30])
pod_sides = st.builds(
    PodSide,
    node=st.sampled_from(["", "n", "m"]),
    deleting=st.booleans(),
    grace_seconds=graces,
    is_terminal=st.booleans(),
    was_below=st.booleans(),
    was_taken=st.booleans(),
    is_lost=st.booleans(),
    has_controller=st.booleans(),
)
twins = st.none() | st.builds(
    TwinSide, node=st.sampled_from(["", "n", "m"]), deleting=st.booleans(), grace_seconds=graces
)


@given(pod_sides, twins)
def test_a_twin_is_only_deleted_when_the_tenant_deletes(pod, twin):
    if step(pod, twin) is Step.DELETE_TWIN:
        assert pod.deleting


@given(pod_sides, twins)
def test_a_tenant_pod_is_only_let_go_without_a_twin(pod, twin):
    if step(pod, twin) in (Step.FINISH, Step.TAKEN, Step.LOST, Step.COLLECT):
        assert twin is None


@given(pod_sides, twins)
def test_a_finished_pod_is_never_started_again(pod, twin):
    """V-09: whatever became of its twin."""
    if pod.is_terminal and not pod.deleting:
        assert step(pod, twin) not in (Step.CREATE, Step.EVICT, Step.TAKEN, Step.LOST)


def test_the_facts_are_read_from_the_bodies():
    body = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 7200,
            "ownerReferences": [{"kind": "Job", "uid": "j", "controller": True}],
        },
        "spec": {"nodeName": "n"},
        "status": {"phase": "Failed", "reason": "SuperPodLost", "startTime": "x"},
    }
    side = pod_facts.pod_side(body)
    assert side == PodSide(
        node="n",
        deleting=True,
        grace_seconds=7200,
        is_terminal=True,
        was_below=True,
        was_taken=False,
        is_lost=True,
        has_controller=True,
    )
    assert pod_facts.grace_down(side) == 600
    assert pod_facts.grace_down(side._replace(grace_seconds=0)) == 0
    assert pod_facts.grace_down(side._replace(grace_seconds=0, node="")) is None
    assert pod_facts.grace_down(side._replace(grace_seconds=None)) is None
    lost = pod_status.lost(body)["status"]
    assert pod_facts.pod_side({**body, "status": lost}).is_lost


@pytest.mark.parametrize(
    ("spec", "grace", "forced"),
    [({"nodeName": "n"}, 0, True), ({"nodeName": "n"}, 30, False), ({}, 0, False)],
)
def test_only_a_pod_with_a_node_can_have_been_forced_away(spec, grace, forced):
    last = {"metadata": {"deletionGracePeriodSeconds": grace}, "spec": spec}
    assert pod_facts.was_forced(last) is forced
