"""The comparison of two clusters: what is taken for the same, and what never is."""

from pathlib import Path
from typing import Any

import pytest

from tools.compare.differences import differences
from tools.compare.expectation import ExpectedDifference, read, unequal
from tools.compare.normal_form import normal_form

LISTS = Path(__file__).parents[3] / "node"


def pod(suffix: str, uid: str, address: str, owner: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"web-5d-{suffix}",
            "generateName": "web-5d-",
            "uid": uid,
            "resourceVersion": uid,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "ownerReferences": [{"kind": "ReplicaSet", "uid": owner, "controller": True}],
            "managedFields": [{"manager": "kubelet", "subresource": "status", "time": "x"}],
        },
        "spec": {
            "containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}],
            "volumes": [{"name": f"kube-api-access-{suffix}"}],
        },
        "status": {"podIPs": [{"ip": address}], "podIP": address},
    }


def cluster(number: int, *addresses: str) -> list[dict[str, Any]]:
    """Return what a run of the same application looks like, for the nth time."""
    owner = f"{number}-owner"
    replica_set = {
        "kind": "ReplicaSet",
        "metadata": {"name": "web-5d", "uid": owner, "namespace": f"space-{number}"},
    }
    service = {
        "kind": "Service",
        "metadata": {"name": "web", "uid": f"{number}-service"},
        "spec": {"clusterIPs": [f"10.1.0.{number}"], "ports": [{"port": 80, "nodePort": number}]},
    }
    event = {
        "kind": "Event",
        "metadata": {"name": f"e{number}", "uid": f"{number}-e"},
        "involvedObject": {"kind": "Pod", "name": f"web-5d-aaaa{number}"},
        "reason": "Pulled",
        "message": f"Pulled in {number}7ms for web-5d-aaaa{number} at {addresses[0]}",
        "type": "Normal",
        "source": {"component": "kubelet"},
        "count": number,
    }
    pods = [
        pod(f"{'ab'[i] * 4}{number}", f"{number}-{i}", address, owner)
        for i, address in enumerate(addresses)
    ]
    return [replica_set, service, event, *pods]


def found(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[str]:
    forms = normal_form(left, "space-1"), normal_form(right, "space-2")
    return [str(difference) for difference in differences(*forms)]


def test_two_runs_of_the_same_do_not_differ():
    left, right = cluster(1, "10.0.0.1", "10.0.0.11"), cluster(2, "10.0.0.111", "10.0.0.1")
    assert found(left, right[::-1]) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        pytest.param(
            lambda o: o[3]["metadata"]["ownerReferences"][0].update(uid="another"),
            'Pod/web-5d-* metadata.ownerReferences[0].uid: "(uid of ReplicaSet/web-5d)" ->'
            ' "another"',
            id="an owner that is not there",
        ),
        pytest.param(
            lambda o: o[0]["metadata"].update(namespace="root-space-2"),
            'ReplicaSet/web-5d metadata.namespace: "(namespace)" -> "root-space-2"',
            id="a namespace of another name",
        ),
        pytest.param(
            lambda o: o[3]["status"].update(podIP="10.0.0.9"),
            'Pod/web-5d-* status.podIP: "(IP of Pod/web-5d-*)" -> "10.0.0.9"',
            id="an address of nobody",
        ),
        pytest.param(
            lambda o: o[1]["spec"]["ports"][0].pop("nodePort"),
            'Service/web spec.ports[80].nodePort: "(some)" -> absent',
            id="a number that is not given",
        ),
        pytest.param(
            lambda o: o[2].update(message="Pulled nothing"),
            "Event/Pod/web-5d-* Pulled: Pulled nothing: absent -> there",
            id="another Event",
        ),
        pytest.param(
            lambda o: o[3]["metadata"]["managedFields"][0].update(manager="other"),
            'Pod/web-5d-* metadata.managedFields: ["kubelet status"] -> ["other status"]',
            id="another writer",
        ),
        pytest.param(
            lambda o: o.pop(1), "Service/web: there -> absent", id="an object that is missing"
        ),
    ],
)
def test_what_is_not_the_same_is_seen(change, line: str):
    right = cluster(2, "10.0.0.2")
    change(right)
    assert line in found(cluster(1, "10.0.0.1"), right)


def test_items_are_matched_by_what_names_them():
    left, right = cluster(1, "10.0.0.1"), cluster(2, "10.0.0.2")
    left[3]["spec"]["containers"][0]["env"].insert(0, {"name": "B", "value": "2"})
    right[3]["spec"]["containers"][0]["env"].append({"name": "B", "value": "3"})
    assert found(left, right) == [
        'Pod/web-5d-* spec.containers[main].env[B].value: "2" -> "3"',
    ]


def test_the_list_must_be_equal_to_what_is_found():
    left, right = {"A/a": {"x": 1, "y": [1]}}, {"A/a": {"x": 2, "y": [1]}}
    there = differences(left, right)
    assert unequal(there, [ExpectedDifference("A/* x: 1 -> *", "why")]) == []
    assert unequal(there, []) == ["not in the list: A/a x: 1 -> 2"]
    assert unequal(
        there, [ExpectedDifference("A/a x: *", ""), ExpectedDifference("A/a y: *", "")]
    ) == ["in the list, not found: A/a y: *"]
    assert unequal(there, [ExpectedDifference("A/a x", "")]) == [
        "not in the list: A/a x: 1 -> 2",
        "in the list, not found: A/a x",
    ]


@pytest.mark.parametrize("path", sorted(LISTS.rglob("differences.yaml")), ids=str)
def test_each_tracked_difference_has_a_reason(path: Path):
    expected = read(path)
    assert expected
    assert all(len(each.reason.split()) > 4 for each in expected)
    lines = [each.line for each in expected]
    assert len(set(lines)) == len(lines)
