"""Devices of ResourceClaims, as the quota evaluator of Kubernetes counts them."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules.quota.device_usage import compute_device_usage


def exactly(class_name: Any = "gpu", **fields: Any) -> dict[str, Any]:
    """Return a request for devices of one class."""
    return {"name": "r", "exactly": {"deviceClassName": class_name, **fields}}


def first_of(*alternatives: dict[str, Any]) -> dict[str, Any]:
    """Return a request with alternatives."""
    return {"name": "r", "firstAvailable": [each["exactly"] for each in alternatives]}


EXACT, ALL = {"allocationMode": "ExactCount"}, {"allocationMode": "All"}
REQUESTS: dict[str, tuple[list[Any], dict[str, int]]] = {
    "none": ([], {}),
    "a count": ([exactly(**EXACT, count=3)], {"gpu": 3}),
    "no count is one device, as the API server adds it": ([exactly(**EXACT)], {"gpu": 1}),
    "no mode is an exact count": ([exactly(count=2)], {"gpu": 2}),
    "all devices are as many as a claim can get": ([exactly(**ALL)], {"gpu": 32}),
    "an unknown mode is nothing": ([exactly(allocationMode="Half", count=9)], {"gpu": 0}),
    "requests of one class are added": ([exactly(count=2), exactly(**ALL)], {"gpu": 34}),
    "classes count apart": ([exactly(count=2), exactly("nic")], {"gpu": 2, "nic": 1}),
    "access of an administrator counts as well": (
        [exactly(adminAccess=True, count=2)],
        {"gpu": 2},
    ),
    "of alternatives the largest of each class counts": (
        [first_of(exactly(count=1), exactly(count=4), exactly("nic", count=2), exactly(count=3))],
        {"gpu": 4, "nic": 2},
    ),
    "an alternative may be all devices": (
        [first_of(exactly(count=1), exactly(**ALL))],
        {"gpu": 32},
    ),
    "alternatives are added to other requests": (
        [first_of(exactly(count=4), exactly("nic")), exactly(count=1)],
        {"gpu": 5, "nic": 1},
    ),
    "the form of v1beta1": (
        [{"name": "r", "deviceClassName": "gpu", "count": 2}, {"deviceClassName": "nic", **ALL}],
        {"gpu": 2, "nic": 32},
    ),
    "a request of a future form is nothing": ([{"name": "r", "anyOf": [{}]}], {}),
    "malformed": (
        [
            None,
            {"exactly": 1},
            {"firstAvailable": "x"},
            exactly(None),
            exactly({"a": 1}),
            exactly(count="many"),
            exactly(count=-4),
        ],
        {"gpu": 0},
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_claim_counts_as_the_evaluator_of_kubernetes_counts_it(name: str):
    requests, expected = REQUESTS[name]
    assert compute_device_usage({"spec": {"devices": {"requests": requests}}}) == {
        f"{class_name}.deviceclass.resource.k8s.io/devices": number * 1000
        for class_name, number in expected.items()
    }


@pytest.mark.parametrize("claim", [{}, {"spec": None}, {"spec": {"devices": []}}])
def test_a_claim_without_requests_uses_no_devices(claim: dict[str, Any]):
    assert compute_device_usage(claim) == {}


def test_the_status_counts_nothing():
    """A claim that waits for devices holds its place in the quota."""
    status = {"allocation": {"devices": {"results": [{"device": "a"}, {"device": "b"}]}}}
    claim = {"spec": {"devices": {"requests": [exactly()]}}, "status": status}
    assert sum(compute_device_usage(claim).values()) == 1000
