"""Rows about objects: what is created, and which twin is a hole."""

from __future__ import annotations

import pytest

from kubectl_vc.audit.objects import build_object, find_excluded_class
from kubectl_vc.audit.probes import OBJECT_PROBES, AuditFacts
from tenancy.policies import BASELINE_POLICY, ClassFilter
from tenancy.resources import NAMESPACES, PODS

FACTS = AuditFacts(
    policy=BASELINE_POLICY,
    decoy_uid="0b0e4a58-1c4f-4f5e-9b39-4a4d0a8f3a11",
    decoy_root="default-abcdef-shop",
    decoy_pod_ip="10.2.0.3",
    super_api_ip="10.9.0.1",
    storage_class="fast",
    runtime_class="gvisor",
)


@pytest.mark.parametrize("probe", OBJECT_PROBES, ids=lambda probe: probe.name)
def test_a_twin_with_the_trait_is_a_hole_and_one_without_is_none(probe):
    whole = build_object(probe, FACTS, "busybox")
    assert probe.applies(FACTS)
    assert probe.is_hole(whole, FACTS), "synced as it is, it must be a hole"
    plain = next(each for each in OBJECT_PROBES if each.name == "host-pid")
    bare = build_object(plain, FACTS, "busybox")
    bare["spec"].pop("hostPID")
    bare["metadata"]["annotations"] = {}
    if probe.resource is not PODS:
        bare["spec"] = {}
    assert not probe.is_hole(bare, FACTS)


def test_a_pod_of_a_row_keeps_the_rest_of_a_plain_pod():
    probe = next(each for each in OBJECT_PROBES if each.name == "privileged-container")
    pod = build_object(probe, FACTS, "busybox")
    assert pod["spec"]["containers"][0]["image"] == "busybox"
    assert pod["spec"]["containers"][0]["securityContext"] == {"privileged": True}
    assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "kubectl-vc-audit"


def test_a_namespace_of_a_row_has_the_forged_labels():
    probe = next(each for each in OBJECT_PROBES if each.resource is NAMESPACES)
    labels = build_object(probe, FACTS, "busybox")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    assert FACTS.decoy_uid in labels.values()


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (ClassFilter(names=("*",)), ""),
        (ClassFilter(names=("a",)), "b"),
        (ClassFilter(match_labels={"public": "true"}), "a"),
        (ClassFilter(), "a"),
    ],
)
def test_the_excluded_class_is_one_that_the_policy_leaves_out(chosen, expected):
    items = [
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "b", "labels": {"public": "true"}}},
    ]
    assert find_excluded_class(items, chosen) == expected
