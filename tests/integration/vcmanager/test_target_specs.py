"""Answers of the API servers to an invalid SuperCluster or target."""

from __future__ import annotations

import pytest

from kubeio import errors
from tenancy import resources
from tests.integration.vcmanager.conftest import ManagerStage

SHUTS = {"effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("c-x", {}, "needs a secretRef"),
        ("home", {"secretRef": {"name": "x"}}, "remove it from home"),
        ("home", {"server": "https://x"}, "Remove server and tlsServerName"),
        ("a.b", {"secretRef": {"name": "x"}}, "must be a DNS label"),
        ("c-x", {"secretRef": {"name": "x"}, "server": "http://10.0.0.5"}, "https URL"),
        ("c-x", {"secretRef": {"name": "x"}, "server": "10.0.0.5:6443"}, "https URL"),
        ("c-x", {"secretRef": {"name": "x"}, "network": {"podCIDRs": ["x"]}}, "must be a network"),
        ("c-x", {"secretRef": {"name": "x"}, "mode": "magic"}, "supported values"),
        ("c-x", {"secretRef": {"name": "x"}, "taints": [{"key": "a", "effect": "b"}]}, "supported"),
        ("c-x", {"secretRef": {"name": "x"}, "taints": [{"key": "a b", **SHUTS}]}, "taints"),
        ("c-x", {"secretRef": {"name": "x"}, "taints": [{"key": "a", **SHUTS}] * 2}, "Duplicate"),
        ("c-x", {"secretRef": {"name": "x"}, "labels": {"a b": "c"}}, "that nodes can have"),
        ("c-x", {"secretRef": {"name": "x"}, "labels": {"a": "c d"}}, "labels"),
        ("x" * 57, {"secretRef": {"name": "x"}}, "at most 56"),
    ],
)
async def test_what_cannot_be_meant_is_refused_by_the_api(stage: ManagerStage, name, spec, words):
    body = {
        "apiVersion": resources.SUPER_CLUSTERS.api_version,
        "kind": "SuperCluster",
        "metadata": {"name": name},
        "spec": spec,
    }
    with pytest.raises(errors.Invalid, match=words):
        await stage.admin.create(resources.SUPER_CLUSTERS, body)


async def test_labels_and_taints_that_nodes_have_are_taken(stage: ManagerStage):
    labels = {"topology.kubernetes.io/zone": "z-1", "a": "", "a.b/C_d": "E.f"}
    taints = [{"key": "example.com/a", **SHUTS}, {"key": "example.com/a", "effect": "NoExecute"}]
    spec = {"secretRef": {"name": "x"}, "labels": labels, "taints": taints}
    body = {
        "apiVersion": resources.SUPER_CLUSTERS.api_version,
        "kind": "SuperCluster",
        "metadata": {"name": "x" * 56},
        "spec": spec,
    }
    await stage.admin.create(resources.SUPER_CLUSTERS, body, dry_run=True)


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "a", "operator": "NotIn"},
        {"key": "a", "operator": "In", "values": []},
        {"key": "a", "operator": "Exists", "values": ["b"]},
    ],
)
async def test_an_empty_selector_is_refused(stage: ManagerStage, expression):
    selector = {"matchExpressions": [expression]}
    body = {
        "apiVersion": resources.VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {
            "clusterVersionName": "v1.36",
            "targets": [{"name": "c2", "namespaceSelector": selector}],
        },
    }
    with pytest.raises(errors.Invalid, match="In and NotIn need values"):
        await stage.admin.create(resources.VIRTUAL_CLUSTERS, body, dry_run=True)
    expression |= {"operator": "NotIn", "values": ["b"]}
    await stage.admin.create(resources.VIRTUAL_CLUSTERS, body, dry_run=True)
