"""Metadata that a TenantPolicy lets pass: label domains and listed annotations."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model import object_meta
from tenancy import wellknown
from tenancy.policies import TenantPolicySpec, parse_tenant_policy


def policy(**spec: Any) -> TenantPolicySpec:
    return parse_tenant_policy({"metadata": {"name": "own"}, "spec": spec})


# Metadata.

METADATA = policy(
    metadata={
        "labelDomains": [
            *("istio.io", "node.kubernetes.io", "io.cilium.name", "control-plane"),
            wellknown.DOMAIN,
        ],
        "annotations": {
            "Service": ["cloud.example/internal"],
            "*": ["everywhere.example/a", f"{wellknown.DOMAIN}/uid"],
            "Pod": [
                "kubectl.kubernetes.io/last-applied-configuration",
                "io.katacontainers.config.runtime.x",
            ],
        },
    }
).metadata


@pytest.mark.parametrize(
    ("key", "passes"),
    [
        ("istio.io/rev", True),
        ("node.kubernetes.io/x", True),
        ("sub.istio.io/rev", False),  # domains are compared whole
        ("notistio.io/rev", False),
        ("io.cilium.name", True),  # a dotted label without a prefix is listed whole
        ("io.cilium.other", False),
        ("control-plane", True),
        ("kubernetes.io/x", False),
        (f"{wellknown.DOMAIN}/vcuid", False),  # never, whatever a policy says
    ],
)
def test_labels_of_listed_domains_pass(key, passes):
    assert object_meta.is_label_synced(key, METADATA) is passes


@pytest.mark.parametrize(
    ("kind", "key", "passes"),
    [
        ("Service", "cloud.example/internal", True),
        ("Pod", "cloud.example/internal", False),
        ("Pod", "everywhere.example/a", True),
        ("Pod", "io.katacontainers.config.runtime.x", True),
        ("Service", "io.katacontainers.config.runtime.x", False),
        ("Pod", f"{wellknown.DOMAIN}/uid", False),
        ("Pod", "kubectl.kubernetes.io/last-applied-configuration", False),
    ],
)
def test_listed_annotations_pass_by_exact_key_and_kind(kind, key, passes):
    assert object_meta.is_annotation_synced(kind, key, METADATA) is passes


def test_a_listed_annotation_holds_nothing_back_any_more():
    annotations = {"cloud.example/internal": "true"}
    assert object_meta.find_blocking_annotation("Service", annotations) is not None
    assert object_meta.find_blocking_annotation("Service", annotations, METADATA) is None
