"""The probe of a quota: what two pods request, and what their twins prove."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_vc.audit.decision import Verdict
from kubectl_vc.audit.quota import (
    QuotaRequest,
    QuotaRoom,
    choose_request,
    count_usage,
    find_limits,
    judge_quota,
)
from syncer.rules.quota.usage import compute_usage
from tenancy.policy.quotas import parse_amount


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ({}, {}),
        ({"bytes/configmaps": "256Mi", "requests.example.com/gpu": 0}, {}),
        ({"requests.cpu": "4"}, {"requests.cpu": 4000}),
        ({"cpu": 4, "memory": "1Ki"}, {"cpu": 4000, "memory": 1024_000}),
        ({"pods": 10, "limits.cpu": "500m"}, {"pods": 10_000, "limits.cpu": 500}),
        ({"cpu": "0"}, {"cpu": 0}),
    ],
)
def test_the_limits_are_those_that_the_probes_pods_use(quota, expected):
    assert find_limits(quota) == expected


def container(cpu: str, **fields: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **fields}


def pod(cpu: str, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [container(cpu)], **spec}, "status": {"phase": phase}}


def choose(quota: dict[str, Any], *pods: dict[str, Any]) -> QuotaRequest | None:
    return choose_request(QuotaRoom(find_limits(quota), count_usage(pods)))


CPU = {"requests.cpu": "4"}


def test_each_pod_requests_more_than_half_of_the_rest():
    assert choose(CPU) == QuotaRequest("cpu", "2400m")
    assert choose(CPU, pod("1"), pod("500m")) == QuotaRequest("cpu", "1500m")


def test_pods_that_have_ended_use_nothing():
    """Otherwise both pods of the probe fit, and a sound tenant would have a hole."""
    ended = [pod("1", phase) for phase in ("Succeeded", "Failed") for _ in range(3)]
    limits = {"requests.cpu": "10"}
    assert choose(limits, pod("1"), pod("1"), *ended) == QuotaRequest("cpu", "4800m")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"initContainers": [container("2")]}, "1200m"),
        ({"initContainers": [container("1", restartPolicy="Always")]}, "1200m"),
        ({"overhead": {"cpu": "1"}}, "1200m"),
        ({"resources": {"requests": {"cpu": "3"}}}, "600m"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_usage_is_that_of_the_accountant(more, expected):
    found = pod("1", **more)
    assert choose(CPU, found) == QuotaRequest("cpu", expected)
    assert count_usage([found]) == compute_usage("Pod", found)


def test_the_smallest_rest_of_a_resource_decides():
    assert choose({**CPU, "cpu": "2", "limits.cpu": "10"}) == QuotaRequest("cpu", "1200m")
    assert choose({"memory": "1Ki"}) == QuotaRequest("memory", "614")


@pytest.mark.parametrize(
    ("quota", "full"),
    [
        (CPU, ["requests.cpu"]),
        ({**CPU, "memory": "8Gi"}, ["requests.cpu"]),
        ({"pods": 1, "cpu": "9"}, ["pods"]),
        ({"count/pods": 1, "cpu": "9"}, ["count/pods"]),
    ],
)
def test_nothing_is_requested_if_nothing_is_left(quota, full):
    """A request of 0 would fit into a full quota, and both pods would be synced."""
    room = QuotaRoom(find_limits(quota), count_usage([pod("5")]))
    assert choose_request(room) is None
    assert room.full == full


def test_a_resource_of_which_the_probe_needs_nothing_may_be_used_up():
    assert choose({**CPU, "requests.example.com/gpu": 0, "ephemeral-storage": "0"}) is not None


@pytest.mark.parametrize("rest", [*range(1, 12), 999])
def test_one_request_fits_and_two_do_not(rest):
    found = choose({"cpu": f"{rest}m"})
    assert found is not None
    amount = parse_amount(found.amount)
    assert amount <= rest < 2 * amount


@pytest.mark.parametrize(
    ("synced", "is_exceeded", "verdict"),
    [
        (0, False, Verdict.UNKNOWN),
        (1, False, Verdict.PASSED),
        (2, True, Verdict.FAILED),
        (2, False, Verdict.UNKNOWN),
    ],
)
def test_only_one_of_the_two_may_be_synced(synced, is_exceeded, verdict):
    assert judge_quota(synced, "1 of cpu", is_exceeded=is_exceeded).verdict is verdict
