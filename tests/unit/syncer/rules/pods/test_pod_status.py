"""Parts of a status that are synced back, and conditions that are synced to the super cluster."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules.pods import pod_patch, pod_status
from tenancy import wellknown
from tenancy.ownership import Tenant

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
GATE = "example.com/ready"


def sides(**status: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a tenant pod with a gate, and its twin with this status."""
    own = {"type": GATE, "status": "True", "message": "m" * 5000}
    pod = {
        "metadata": {"name": "p", "namespace": "web", "uid": "up", "generation": 3},
        "spec": {
            "containers": [{"name": "main", "image": "i:1"}],
            "readinessGates": [{"conditionType": GATE}],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort", "conditions": [own]},
    }
    twin = {
        "metadata": {
            "name": "p",
            "namespace": f"{TENANT.root}-web",
            "uid": "below",
            "generation": 2,
        },
        "spec": {"containers": [{"name": "main", "image": "i:1"}, {"name": "sidecar"}]},
        "status": {"phase": "Running", "qosClass": "Burstable", **status},
    }
    return pod, twin


def up(pod: dict[str, Any], twin: dict[str, Any]) -> dict[str, Any]:
    """Return the status that the tenant pod gets."""
    return pod_status.build_status(pod, twin, pod_status.build_name_pairs(pod, twin, TENANT))


def test_the_twins_status_goes_up_without_what_is_not_the_tenants():
    below = [
        {"type": "Ready", "status": "True"},
        {"type": GATE, "status": "False"},
        {"type": f"{wellknown.DOMAIN}/internal", "status": "True"},
    ]
    pod, twin = sides(
        conditions=below,
        containerStatuses=[{"name": "main", "ready": True}, {"name": "sidecar", "ready": False}],
        nominatedNodeName="secret-node",
        volumeHealth=[{"name": "v", "healthConditions": [{"message": "pool-7 is full"}]}],
        podIP="10.0.0.1",
    )
    found = up(pod, twin)
    assert found["phase"] == "Running"
    assert found["podIP"] == "10.0.0.1"
    assert not {"qosClass", "nominatedNodeName", "volumeHealth"} & set(found)
    assert [item["name"] for item in found["containerStatuses"]] == ["main"]
    assert [item["type"] for item in found["conditions"]] == ["Ready", GATE]
    assert found["conditions"][1]["status"] == "True"  # the tenant's own word


def test_messages_lose_the_names_of_the_super_cluster():
    message = f"back-off restarting failed container=main pod=p_{TENANT.root}-web(below)"
    pod, twin = sides(
        containerStatuses=[{"name": "main", "state": {"waiting": {"message": message}}}]
    )
    shown = up(pod, twin)["containerStatuses"][0]["state"]["waiting"]["message"]
    assert shown == "back-off restarting failed container=main pod=p_web(up)"


def test_observed_generations_count_as_the_tenants():
    pod, twin = sides(observedGeneration=2, conditions=[{"type": "Ready", "observedGeneration": 1}])
    found = up(pod, twin)
    assert found["observedGeneration"] == 3
    assert found["conditions"][0]["observedGeneration"] == 2
    # Two changes went down at once, and the kubelet has seen neither.
    pod["status"] = {"observedGeneration": 1}
    twin["status"]["observedGeneration"] = 1
    assert up(pod, twin)["observedGeneration"] == 1
    twin["status"]["observedGeneration"] = 2
    assert up(pod, twin)["observedGeneration"] == 3


def test_no_patch_when_nothing_differs_and_nulls_for_what_went():
    pod, twin = sides(podIP="10.0.0.1")
    names = pod_status.build_name_pairs(pod, twin, TENANT)
    pod["status"] = {**up(pod, twin), "qosClass": "BestEffort"}
    assert pod_status.build_status_patch(pod, twin, names) is None
    del twin["status"]["podIP"]
    patch = pod_status.build_status_patch(pod, twin, names)
    assert patch == {"metadata": {"uid": "up"}, "status": {"podIP": None}}


def test_a_fresh_pod_without_conditions_needs_no_write():
    pod, twin = sides()
    pod["spec"].pop("readinessGates")
    pod["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    twin["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    assert pod_status.build_status_patch(pod, twin, []) is None


def test_gate_conditions_go_down_once_and_short():
    pod, twin = sides(conditions=[{"type": "Ready", "status": "False"}])
    patch = pod_status.build_gate_patch(pod, twin)
    assert patch is not None
    assert patch["metadata"] == {"uid": "below"}
    (condition,) = patch["status"]["conditions"]
    assert (condition["type"], condition["status"]) == (GATE, "True")
    assert len(condition["message"]) == 1024
    twin["status"]["conditions"].append(condition)
    assert pod_status.build_gate_patch(pod, twin) is None


def merged(twin: dict[str, Any], patch: dict[str, Any]) -> None:
    """Change a twin as its API does: conditions are told apart by their types."""
    by_type = {item["type"]: item for item in twin["status"].get("conditions") or ()}
    for item in patch["status"]["conditions"]:
        by_type[item["type"]] = {**by_type.get(item["type"], {}), **item}
    twin["status"]["conditions"] = list(by_type.values())


@pytest.mark.parametrize(
    "conditions",
    [
        [{"type": GATE, "status": "True"}, {"type": GATE, "status": "False"}],
        [{"type": GATE, "status": "True", "lastTransitionTime": "2026-01-01T02:00:00.5+02:00"}],
        [{"type": GATE, "status": "True", "lastTransitionTime": "2026-01-01T02:00:00"}],
        [{"type": GATE, "status": "True", "lastTransitionTime": "0001-01-01T00:00:00+14:00"}],
        [{"type": GATE, "status": "True", "lastTransitionTime": 7, "message": ["m"]}],
        [{"type": GATE, "status": {"a": 1}, "reason": 7}],
        [{"type": [GATE]}, "odd", {"type": GATE, "status": "True"}],
    ],
    ids=[
        "twice",
        "another zone",
        "no zone",
        "before all time",
        "no texts",
        "no status",
        "no shape",
    ],
)
def test_conditions_that_a_tenant_forged_settle_after_one_write(conditions: list[Any]):
    pod, twin = sides(conditions=[])
    pod["status"]["conditions"] = conditions
    patch = pod_status.build_gate_patch(pod, twin)
    assert patch is not None
    for condition in patch["status"]["conditions"]:
        time = condition.get("lastTransitionTime", "2026-01-01T00:00:00Z")
        assert time == "2026-01-01T00:00:00Z"
        assert {type(value) for value in condition.values()} == {str}
    merged(twin, patch)
    assert pod_status.build_gate_patch(pod, twin) is None
    assert up(pod, twin)["conditions"]
    first = [item for item in twin["status"]["conditions"] if item["type"] == GATE]
    assert first[0].get("status", "True") == "True"


@pytest.mark.parametrize("kind", ["Ready", "PodScheduled", "ContainersReady", "DisruptionTarget"])
def test_a_gate_of_a_kubelets_condition_is_no_fight_with_the_kubelet(kind: str):
    pod, twin = sides(conditions=[{"type": kind, "status": "False"}])
    pod["spec"]["readinessGates"] = [{"conditionType": kind}, "odd", {"conditionType": 7}]
    pod["status"]["conditions"] = [{"type": kind, "status": "True"}]
    assert pod_status.build_gate_patch(pod, twin) is None
    assert {"type": kind, "status": "False"} in up(pod, twin)["conditions"]


def test_what_may_change_on_a_running_pod():
    pod, twin = sides()
    pod["metadata"]["labels"] = {"a": "1"}
    pod["spec"]["containers"][0]["image"] = "i:2"
    pod["spec"]["activeDeadlineSeconds"] = 9
    tolerated = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}
    injected = {"key": "injected", "operator": "Exists"}
    pod["spec"]["tolerations"] = [tolerated, {"key": "other", "operator": "Exists"}]
    twin["spec"]["tolerations"] = [injected]
    twin["metadata"]["annotations"] = {wellknown.CONTAINERS: "main"}
    patch = pod_patch.build_running_patch(pod, twin, TENANT)
    assert patch is not None
    assert patch["metadata"]["uid"] == "below"
    assert patch["metadata"]["labels"]["a"] == "1"
    assert patch["spec"] == {
        "containers": [{"name": "main", "image": "i:2"}],
        "activeDeadlineSeconds": 9,
        "tolerations": [injected, tolerated],
    }


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match.", "OutOfcpu"),
        ("0/1 nodes are available: 1 Insufficient memory.", "OutOfmemory"),
        ("0/1 nodes are available: 1 Insufficient ephemeral-storage.", "OutOfephemeral-storage"),
        ("0/1 nodes are available: 1 Too many pods.", "OutOfpods"),
        ("1 node(s) didn't have free ports for the requested pod ports", "NodePorts"),
        ("0/1 nodes are available: 1 Insufficient example.com/gpu.", ""),
        ("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", ""),
        ("0/1 nodes are available: 1 node(s) had untolerated taint {a: b}.", ""),
        ("", ""),
    ],
)
def test_what_a_kubelet_would_not_have(message, reason):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    twin = {"status": {"conditions": [{**condition, "message": message}]}}
    found = pod_status.find_kubelet_rejection(twin)
    assert (found.reason if found else "") == reason
    twin["status"]["nominatedNodeName"] = "n"  # type: ignore[assignment]
    assert pod_status.find_kubelet_rejection(twin) is None, "room is being made"
    twin["status"] = {"conditions": [{**condition, "type": "Ready", "message": message}]}
    assert pod_status.find_kubelet_rejection(twin) is None
