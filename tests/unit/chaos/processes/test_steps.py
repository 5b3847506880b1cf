"""Scripts for real servers: the machine's steps that they can play, the same each time."""

from __future__ import annotations

import random

import pytest

from tests.chaos.processes import steps
from tests.chaos.processes.faults import FAULTS, FaultScript, is_list
from tests.chaos.processes.http import ProxiedRequest


@pytest.mark.parametrize(
    ("make", "table"), [(steps.script, steps.EDITS), (steps.breakdown, steps.FAULTS)]
)
def test_a_seed_is_a_script(make, table):
    for seed in range(20):
        assert make(seed, 30) == make(seed, 30)
        assert {step.name for step in make(seed, 30)} <= set(table)
    assert make(1, 30) != make(2, 30)


def test_every_fault_is_armed_by_some_seed():
    script = FaultScript(random.Random(0))  # noqa: S311 - the same each time
    for seed in range(100):
        for step in steps.breakdown(seed, 12):
            if step.name == "fault":
                script.arm("super", step.numbers)
    assert {armed.kind for armed in script.armed} == set(FAULTS)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", True),
        ("/api/v1/namespaces", True),
        ("/api/v1/namespaces/n", False),
        ("/api/v1/namespaces/n/pods", True),
        ("/api/v1/namespaces/n/pods/p", False),
        ("/apis/apps/v1/deployments", True),
        ("/apis/coordination.k8s.io/v1/namespaces/n/leases/l", False),
        ("/readyz", False),
    ],
)
def test_lists_are_distinguished_from_objects(path, expected):
    assert is_list(ProxiedRequest("GET", path, (), b"")) == expected
    assert not is_list(ProxiedRequest("POST", path, (), b""))
