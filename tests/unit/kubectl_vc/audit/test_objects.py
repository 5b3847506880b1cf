"""Rows about objects: what is created, and which twin is a hole."""

from __future__ import annotations

import pytest
from msgspec import structs

from kubectl_vc.audit.object_probes import OBJECT_PROBES, AuditFacts
from kubectl_vc.audit.objects import build_object, find_excluded_class
from kubectl_vc.audit.prober import build_plain_pod
from syncer.model.rejections import RejectedError
from syncer.rules.pods import pod_build
from tenancy.policies import BASELINE_POLICY, ClassFilter
from tenancy.resources import NAMESPACES, PODS
from tests.support.syncer.pods import FACTS as BUILD_FACTS

POLICY = structs.replace(
    BASELINE_POLICY, network=structs.replace(BASELINE_POLICY.network, service_types=("ClusterIP",))
)
FACTS = AuditFacts(
    policy=POLICY,
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


@pytest.mark.parametrize(
    "probe", [each for each in OBJECT_PROBES if each.resource is PODS], ids=lambda probe: probe.name
)
def test_the_rules_of_the_syncer_leave_no_hole(probe):
    """No false alarm: what they build from the object of each row lacks its trait."""
    made = build_object(probe, FACTS, "busybox")
    made["metadata"] |= {"namespace": "web", "uid": "pod-uid"}
    try:
        twin = pod_build.build_super_pod(made, BUILD_FACTS._replace(policy=POLICY)).pod
    except RejectedError:
        return
    assert not probe.is_hole(twin, FACTS)


def test_the_rules_of_the_syncer_accept_the_plain_pod():
    """Otherwise they would refuse each row for another reason than its trait."""
    made = build_plain_pod("plain", "busybox")
    made["metadata"] |= {"namespace": "web", "uid": "pod-uid"}
    assert pod_build.build_super_pod(made, BUILD_FACTS._replace(policy=POLICY)).pod


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
