"""Reserved keys are recognised by whole domains, in every spelling."""

import pytest

from tenancy import wellknown


@pytest.mark.parametrize(
    "key",
    [
        "tenancy.x-k8s.io/uid",
        "Tenancy.X-K8s.io/uid",
        "transparency.tenancy.x-k8s.io/clusterIP",
        "anything.tenancy.x-k8s.io/name",
    ],
)
def test_our_domains_are_reserved(key: str):
    assert wellknown.is_reserved_key(key)


@pytest.mark.parametrize(
    "key",
    ["app", "app.kubernetes.io/name", "mytenancy.x-k8s.io/uid", "x-k8s.io/uid", "tenancy.x-k8s.io"],
)
def test_look_alikes_are_not(key: str):
    assert not wellknown.is_reserved_key(key)
