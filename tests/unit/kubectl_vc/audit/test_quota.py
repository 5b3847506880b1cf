"""The probe of a quota: what two pods request, and what their twins prove."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kubectl_vc.audit.decision import Verdict
from kubectl_vc.audit.quota import choose_request, find_limit, judge_quota


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ({}, None),
        ({"bytes/configmaps": "256Mi"}, None),
        ({"requests.cpu": "4"}, ("cpu", Decimal(4))),
        ({"cpu": 4, "memory": "8Gi"}, ("cpu", Decimal(4))),
        ({"memory": "1Ki"}, ("memory", Decimal(1024))),
        ({"cpu": "0"}, None),
    ],
)
def test_the_limit_is_one_that_pods_use(quota, expected):
    assert find_limit(quota) == expected


def pod(cpu: str) -> dict:
    return {"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}, {}]}}


def test_each_pod_requests_more_than_half_of_the_rest():
    assert choose_request("cpu", Decimal(4), []) == "2400m"
    assert choose_request("cpu", Decimal(4), [pod("1"), pod("500m")]) == "1500m"
    assert choose_request("cpu", Decimal(4), [pod("5")]) == "0"


@pytest.mark.parametrize(
    ("synced", "verdict"), [(0, Verdict.UNKNOWN), (1, Verdict.PASSED), (2, Verdict.FAILED)]
)
def test_only_one_of_the_two_may_be_synced(synced, verdict):
    assert judge_quota(synced, "1 of cpu").verdict is verdict
