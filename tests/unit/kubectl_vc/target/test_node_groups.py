"""Findings of the doctor in MachineDeployments, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_vc.target import node_groups
from kubectl_vc.target.node_groups import LABELS, MAX_SIZE, MIN_SIZE, NodeGroups

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
GOOD = {
    MIN_SIZE: "0",
    MAX_SIZE: "3",
    f"{CAPACITY}/cpu": "4",
    f"{CAPACITY}/memory": "16Gi",
}
ROLE = "node-role.kubernetes.io/vlan"
NEW = ("registry.k8s.io/autoscaling/cluster-autoscaler:v1.27.1", "x/cluster-api-controller:v1.4.2")


def group(
    annotations: dict[str, str] | None = None,
    *,
    replicas: int = 0,
    labels: dict[str, str] | None = None,
    name: str = "md-0",
) -> dict[str, Any]:
    template = {"metadata": {"labels": labels or {}}}
    return {
        "metadata": {"name": name, "namespace": "ca-test", "annotations": annotations or {}},
        "spec": {"replicas": replicas, "template": template},
    }


def checked(*groups: dict[str, Any], images: tuple[str, ...] = NEW) -> list[tuple[str, str]]:
    found = node_groups.list_check_results("c2", NodeGroups(groups, images))
    assert {(each.target, each.check) for each in found} <= {("c2", "NodeGroups")}
    return [(each.result, each.message) for each in found]


def test_a_good_group_has_one_result():
    assert checked(group(GOOD)) == [
        ("ok", "MachineDeployment ca-test/md-0: scales from 0 to 3 nodes")
    ]
    assert checked() == []


def test_a_group_without_limits_is_noted_and_the_annotations_are_named():
    ((state, text),) = checked(group())
    assert state == "note"
    assert MIN_SIZE in text
    assert MAX_SIZE in text


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({MAX_SIZE: None}, "is missing and counts as 0"),
        ({MAX_SIZE: "0"}, "Set 1 or more"),
        ({MAX_SIZE: "many"}, "is 'many', and the group is ignored"),
        ({MIN_SIZE: "-1"}, "is '-1', and the group is ignored"),
        ({MIN_SIZE: "1.5"}, "is '1.5', and the group is ignored"),
        ({MIN_SIZE: "4"}, "Raise the maximum"),
        ({f"{CAPACITY}/memory": "16GB"}, f"{CAPACITY}/memory is '16GB', which is no quantity"),
        ({f"{CAPACITY}/memory": "16 Gi"}, "is '16 Gi', which is no quantity"),
        ({f"{CAPACITY}/memory": "16gi"}, "is '16gi', which is no quantity"),
        ({f"{CAPACITY}/cpu": "4 cores"}, "is '4 cores', which is no quantity"),
        ({f"{CAPACITY}/ephemeral-disk": "50GiB"}, "is '50GiB', which is no quantity"),
        ({f"{CAPACITY}/cpu": None}, f"{CAPACITY}/cpu is missing or 0"),
        ({f"{CAPACITY}/cpu": "0"}, f"{CAPACITY}/cpu is missing or 0"),
        ({f"{CAPACITY}/maxPods": "1k"}, "is '1k', and the group is ignored at 0 nodes"),
    ],
)
def test_a_fault_is_one_sentence_with_its_annotation(changed, expected):
    """A4-08."""
    annotations = {key: value for key, value in (GOOD | changed).items() if value is not None}
    ((state, text),) = checked(group(annotations))
    assert state == "wrong"
    assert expected in text
    assert text.startswith("MachineDeployment ca-test/md-0: ")


@pytest.mark.parametrize("value", ["16Gi", "16G", "17179869184", "1.5Gi", ".5Ti", "16e9", "+16Gi"])
def test_what_kubernetes_reads_is_good(value):
    assert [state for state, _ in checked(group(GOOD | {f"{CAPACITY}/memory": value}))] == ["ok"]


def test_a_missing_minimum_counts_as_zero():
    annotations = {key: value for key, value in GOOD.items() if key != MIN_SIZE}
    assert checked(group(annotations)) == [
        ("ok", "MachineDeployment ca-test/md-0: scales from 0 to 3 nodes")
    ]


def test_a_group_with_nodes_needs_no_capacity():
    assert [state for state, _ in checked(group({MAX_SIZE: "3"}, replicas=1))] == ["ok"]


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (NEW, []),
        (("x/cluster-autoscaler:v1.26.2", NEW[1]), ["cluster-autoscaler 1.26.2 ignores"]),
        (("x/cluster-autoscaler:v1.27.0", NEW[1]), ["cluster-autoscaler 1.27.0 ignores"]),
        (("cluster-autoscaler-arm64:1.26.2@sha256:00", NEW[1]), ["autoscaler 1.26.2 ignores"]),
        ((NEW[0], "localhost:5000/cluster-api-controller:v1.3.3"), ["Cluster API 1.3.3 does not"]),
        (("x/my-cluster-autoscaler:v1.0.0", "cluster-api-controller"), ["not found", "not found"]),
    ],
)
def test_labels_need_versions(images, expected):
    """A4-12."""
    labelled = group(GOOD | {LABELS: f"{ROLE}=7"}, labels={ROLE: "7"})
    found = checked(labelled, images=images)[1:]
    assert len(found) == len(expected)
    for (state, text), part in zip(found, expected, strict=True):
        assert part in text
        assert (state == "note") == (part == "not found")
    assert not checked(group(GOOD), images=images)[1:]


@pytest.mark.parametrize(
    ("key", "template", "expected"),
    [
        ("network", {"network": "vlan-7"}, "does not copy to nodes by default"),
        (ROLE, {}, "Add it to spec.template.metadata.labels"),
        (ROLE, {ROLE: ""}, None),
        ("x.node.cluster.x-k8s.io/y", {"x.node.cluster.x-k8s.io/y": ""}, None),
        ("xnode.cluster.x-k8s.io/y", {"xnode.cluster.x-k8s.io/y": ""}, "does not copy"),
    ],
)
def test_a_promised_label_must_come_to_the_nodes(key, template, expected):
    ((state, text),) = checked(group(GOOD | {LABELS: f"{key}=1"}, labels=template))
    if expected is None:
        assert state == "ok"
    else:
        assert state == "note"
        assert expected in text


def test_hostile_words_are_shown_in_quotes_and_short():
    ((_, text),) = checked(group(GOOD | {f"{CAPACITY}/cpu": "\x1b[2J" + "x" * 500}))
    assert "\x1b" not in text
    assert len(text) < 400


def test_an_odd_shape_stops_nothing():
    odd = {"metadata": {"name": "odd", "annotations": [1]}, "spec": None}
    assert [state for state, _ in checked(odd, group(GOOD))] == ["note", "ok"]
