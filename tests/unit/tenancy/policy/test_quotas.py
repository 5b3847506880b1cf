"""Names and amounts of a quota."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy.policies import TenantPolicySpec, parse_tenant_policy
from tenancy.policy import quotas
from tenancy.policy.quotas import DEFAULT_QUOTA, MAX_AMOUNT, InvalidQuotaError
from tenancy.specs import InvalidSpecError

NAMES = {
    "pods": "Pod",
    "cpu": "Pod",
    "requests.cpu": "Pod",
    "limits.memory": "Pod",
    "requests.ephemeral-storage": "Pod",
    "requests.nvidia.com/gpu": "Pod",
    "hugepages-2Mi": "Pod",
    "requests.hugepages-1Gi": "Pod",
    "services.nodeports": "Service",
    "services.loadbalancers": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "requests.storage": "PersistentVolumeClaim",
    "gold.storageclass.storage.k8s.io/requests.storage": "PersistentVolumeClaim",
    "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "PersistentVolumeClaim",
    "count/ingresses.networking.k8s.io": "Ingress",
    "count/namespaces": "Namespace",
    "count/resourceclaims.resource.k8s.io": "ResourceClaim",
    "gpu.example.com.deviceclass.resource.k8s.io/devices": "ResourceClaim",
    f"{'c' * 225}.deviceclass.resource.k8s.io/devices": "ResourceClaim",
    f"{'c' * 226}.deviceclass.resource.k8s.io/devices": "",
    "gpu..com.deviceclass.resource.k8s.io/devices": "",
    "GPU.deviceclass.resource.k8s.io/devices": "",
    ".deviceclass.resource.k8s.io/devices": "",
    "deviceclass.resource.k8s.io/devices": "",
    "gpu.deviceclass.resource.k8s.io/claims": "",
    "configmaps": "ConfigMap",
    "bytes/configmaps": "ConfigMap",
    "bytes/secrets": "Secret",
    "storage": "",
    "limits.nvidia.com/gpu": "",
    "count/widgets.example.com": "",
    "bytes/pods": "",
    "pods ": "",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_resource_belongs_to_a_kind(name: str):
    assert quotas.get_kind(name) == NAMES[name]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", 1000),
        (1, 1000),
        ("250m", 250),
        ("1n", 1),
        ("1Gi", 2**30 * 1000),
        (0.5, 500),
        ("-1", 0),
        (-1, 0),
        ("much", 0),
        (None, 0),
        (True, 0),
        ({"a": 1}, 0),
        ("1e999", MAX_AMOUNT),
        ("9" * 40, MAX_AMOUNT),
    ],
)
def test_an_amount_is_a_whole_number_of_thousandths(value: Any, expected: int):
    assert quotas.parse_amount(value) == expected


@given(st.integers(0, 2**62), st.sampled_from(["bytes/secrets", "requests.memory", "pods", "cpu"]))
def test_an_amount_for_people_is_the_same_amount(amount: int, name: str):
    assert quotas.parse_amount(quotas.format_amount(name, amount)) == amount


def test_amounts_are_written_in_the_unit_of_their_resource():
    assert quotas.format_amount("requests.memory", 2**30 * 1000) == "1Gi"
    assert quotas.format_amount("pods", 1024_000) == "1024"
    assert quotas.format_amount("cpu", 1500) == "1500m"


@pytest.mark.parametrize(
    "quota", [{"storage": 1}, {"pods": "many"}, {"pods": "-1"}, {"count/widgets": "1"}]
)
def test_a_quota_that_cannot_be_read_is_refused(quota: dict[str, Any]):
    with pytest.raises(InvalidQuotaError):
        quotas.parse_hard(quota)
    body = {"metadata": {"name": "p"}, "spec": {"quota": quota}}
    with pytest.raises(InvalidSpecError, match=r"TenantPolicy p, spec\.quota"):
        parse_tenant_policy(body)


def test_a_policy_without_a_quota_has_the_default_and_an_empty_one_has_none():
    assert TenantPolicySpec().quota == DEFAULT_QUOTA
    assert quotas.parse_hard(DEFAULT_QUOTA)["bytes/secrets"] == 256 * 2**20 * 1000
    body: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"quota": {}}}
    assert parse_tenant_policy(body).quota == {}
    body["spec"] = {"quota": {"pods": 3, "cpu": "500m"}}
    assert quotas.parse_hard(parse_tenant_policy(body).quota) == {"pods": 3000, "cpu": 500}
