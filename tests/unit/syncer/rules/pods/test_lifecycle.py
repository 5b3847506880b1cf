"""The written rules of a pod's life, and that every life comes to its end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.rules.pods import lifecycle, pod_status
from syncer.rules.pods.lifecycle import PodStep, SuperPodState, TenantPodState, decide_step

PLAIN = TenantPodState(
    node="",
    deleting=False,
    grace_seconds=None,
    is_terminal=False,
    had_twin=False,
    was_twin_deleted=False,
    is_lost=False,
    has_controller=False,
)
TWIN = SuperPodState(node="", deleting=False, grace_seconds=None)


@pytest.mark.parametrize(
    ("pod", "twin", "expected"),
    [
        (PLAIN, None, PodStep.CREATE),
        (PLAIN, TWIN, PodStep.SYNC),
        (PLAIN, TWIN._replace(node="n"), PodStep.SYNC),
        (PLAIN, TWIN._replace(deleting=True), PodStep.WAIT),
        (PLAIN._replace(node="n"), TWIN._replace(node="n", deleting=True), PodStep.EVICT),
        (PLAIN._replace(node="n"), TWIN._replace(node="m"), PodStep.MISPLACED),
        # Bound by the tenant itself, or lost before it began: made for the node it names.
        (PLAIN._replace(node="n"), None, PodStep.CREATE),
        (PLAIN._replace(node="n", had_twin=True), None, PodStep.LOST),
        (
            PLAIN._replace(node="n", had_twin=True, was_twin_deleted=True),
            None,
            PodStep.DELETED_IN_SUPER,
        ),
        (PLAIN._replace(had_twin=True, was_twin_deleted=True), None, PodStep.CREATE),
        (PLAIN._replace(is_terminal=True, had_twin=True), None, PodStep.NOTHING),
        (PLAIN._replace(node="n", is_lost=True, is_terminal=True), None, PodStep.NOTHING),
        (
            PLAIN._replace(node="n", is_lost=True, is_terminal=True, has_controller=True),
            None,
            PodStep.DELETE_LOST,
        ),
        (
            PLAIN._replace(node="n", is_terminal=True),
            TWIN._replace(node="n", deleting=True),
            PodStep.SYNC,
        ),
        (PLAIN._replace(deleting=True, grace_seconds=30), TWIN, PodStep.DELETE_TWIN),
        (PLAIN._replace(deleting=True, grace_seconds=30), None, PodStep.FINISH),
        (PLAIN._replace(deleting=True, grace_seconds=0), None, PodStep.NOTHING),
        (
            PLAIN._replace(deleting=True, grace_seconds=30),
            TWIN._replace(deleting=True, grace_seconds=30),
            PodStep.SYNC,
        ),
        (
            PLAIN._replace(deleting=True, grace_seconds=5),
            TWIN._replace(deleting=True, grace_seconds=30),
            PodStep.DELETE_TWIN,
        ),
    ],
)
def test_the_rules(pod, twin, expected):
    assert decide_step(pod, twin) is expected


graces = st.sampled_from([None, 0, 5, 30])
pod_sides = st.builds(
    TenantPodState,
    node=st.sampled_from(["", "n", "m"]),
    deleting=st.booleans(),
    grace_seconds=graces,
    is_terminal=st.booleans(),
    had_twin=st.booleans(),
    was_twin_deleted=st.booleans(),
    is_lost=st.booleans(),
    has_controller=st.booleans(),
)
twins = st.none() | st.builds(
    SuperPodState,
    node=st.sampled_from(["", "n", "m"]),
    deleting=st.booleans(),
    grace_seconds=graces,
)


@given(pod_sides, twins)
def test_a_twin_is_only_deleted_when_the_tenant_deletes(pod, twin):
    if decide_step(pod, twin) is PodStep.DELETE_TWIN:
        assert pod.deleting


@given(pod_sides, twins)
def test_a_tenant_pod_is_only_let_go_without_a_twin(pod, twin):
    if decide_step(pod, twin) in (
        PodStep.FINISH,
        PodStep.DELETED_IN_SUPER,
        PodStep.LOST,
        PodStep.DELETE_LOST,
    ):
        assert twin is None


@given(pod_sides, twins)
def test_a_finished_pod_is_never_started_again(pod, twin):
    """V-09: whatever became of its twin."""
    if pod.is_terminal and not pod.deleting:
        assert decide_step(pod, twin) not in (
            PodStep.CREATE,
            PodStep.EVICT,
            PodStep.DELETED_IN_SUPER,
            PodStep.LOST,
        )


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
    side = lifecycle.build_pod_state(body)
    assert side == TenantPodState(
        node="n",
        deleting=True,
        grace_seconds=7200,
        is_terminal=True,
        had_twin=True,
        was_twin_deleted=False,
        is_lost=True,
        has_controller=True,
    )
    assert lifecycle.compute_twin_grace(side) == 600
    assert lifecycle.compute_twin_grace(side._replace(grace_seconds=0)) == 0
    assert lifecycle.compute_twin_grace(side._replace(grace_seconds=0, node="")) is None
    assert lifecycle.compute_twin_grace(side._replace(grace_seconds=None)) is None
    lost = pod_status.build_lost_patch(body)["status"]
    assert lifecycle.build_pod_state({**body, "status": lost}).is_lost


@pytest.mark.parametrize(
    ("spec", "grace", "forced"),
    [({"nodeName": "n"}, 0, True), ({"nodeName": "n"}, 30, False), ({}, 0, False)],
)
def test_only_a_pod_with_a_node_can_have_been_forced_away(spec, grace, forced):
    last = {"metadata": {"deletionGracePeriodSeconds": grace}, "spec": spec}
    assert lifecycle.was_force_deleted(last) is forced
