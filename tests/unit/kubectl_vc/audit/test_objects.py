"""Rows about objects: what is created, and which twin is a hole."""

from __future__ import annotations

import pytest

from kubectl_vc.audit.object_probes import OBJECT_PROBES
from kubectl_vc.audit.objects import build_object, find_excluded_class
from tenancy.policies import ClassFilter
from tenancy.resources import NAMESPACES
from tests.unit.kubectl_vc.audit.test_object_probes import FACTS


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
