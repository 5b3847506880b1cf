"""Virtual nodes: what of a super node a tenant sees, and what of its own changes counts."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncer.rules.nodes import tenant_node_changes, virtual_nodes
from syncer.rules.nodes.node_agents import NodeAgent
from syncer.rules.nodes.tenant_node_changes import NodeAdditions, TenantTaint
from tenancy import wellknown
from tenancy.policies import NodeView


def super_node() -> dict[str, Any]:
    """Return a node as a kubelet keeps it."""
    return {
        "metadata": {
            "name": "n1",
            "uid": "node-uid",
            "labels": {
                "kubernetes.io/hostname": "n1",
                "node-role.kubernetes.io/control-plane": "",
                "cloud.example/rack": "7",
                "disk": "ssd",
            },
            "annotations": {ATTACHES: "true", "secret": "x"},
        },
        "spec": {
            "podCIDR": "10.1.0.0/24",
            "providerID": "aws:///i-123",
            "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "x"}],
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "192.0.2.1"},
                {"type": "ExternalIP", "address": "203.0.113.1"},
            ],
            "capacity": {"cpu": "4"},
            "allocatable": {"cpu": "3"},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "lastHeartbeatTime": "now",
                    "lastTransitionTime": "then",
                }
            ],
            "nodeInfo": {"machineID": "m", "systemUUID": "s", "kubeletVersion": "v1.36.4"},
            "images": [{"names": ["secret"]}],
            "declaredFeatures": ["A"],
        },
    }


ATTACHES = "volumes.kubernetes.io/controller-managed-attach-detach"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def status_of(below: Any, agent: NodeAgent | None, view: NodeView = "Standard") -> Any:
    """Return the status of a virtual node that is not there yet."""
    return virtual_nodes.build_status(below, agent, view, now=NOW)


def directness(status: Any) -> Any:
    """Return the one condition that says how the node's pods are reached."""
    (found,) = [each for each in status["conditions"] if each["type"] == wellknown.KUBELET_DIRECT]
    return found


def test_a_virtual_node_shows_what_a_tenant_may_see():
    shown, status = (
        virtual_nodes.build_node(super_node()),
        status_of(super_node(), NodeAgent("10.2.0.5")),
    )
    assert shown["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n1",
        "disk": "ssd",
        wellknown.VIRTUAL_NODE: "true",
    }
    annotations = shown["metadata"]["annotations"]
    assert annotations[wellknown.UID] == "node-uid"
    assert annotations[ATTACHES] == "true"
    assert shown["spec"] == {"taints": [{"key": "k", "effect": "NoExecute"}]}
    assert status["addresses"] == [
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": wellknown.AGENT_ADDRESS, "address": "10.2.0.5"},
    ]
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10550
    assert status["declaredFeatures"] == ["A"]
    assert status["nodeInfo"]["machineID"] == ""
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.4"
    for secret in ("secret", "aws", "203.0.113.1", "lastHeartbeatTime"):
        assert secret not in str(shown) + str(status)


def test_a_node_without_its_agent_is_as_ready_as_before():
    """REL-93: what is synced does not need agents. Calls alone have nowhere to go."""
    with_agent, without = (status_of(super_node(), each) for each in (NodeAgent("10.2.0.5"), None))
    agent = {"type": wellknown.AGENT_ADDRESS, "address": "10.2.0.5"}
    assert without == {
        **with_agent,
        "addresses": [each for each in with_agent["addresses"] if each != agent],
        "conditions": [*with_agent["conditions"][:-1], without["conditions"][-1]],
    }
    found = without["conditions"][-1]
    assert (found["type"], found["status"]) == (wellknown.KUBELET_DIRECT, "Unknown")


@pytest.mark.parametrize(
    ("agent", "status", "reason"),
    [
        (NodeAgent("10.2.0.5"), "True", "Kubelet"),
        (NodeAgent("10.2.0.5", wellknown.UPSTREAM_API_SERVER), "False", "KubeletUntrusted"),
        (NodeAgent("10.2.0.5", wellknown.UPSTREAM_CONFIGURED), "False", "Configured"),
        (None, "Unknown", "NoAgent"),
    ],
)
def test_a_condition_names_the_way_to_a_nodes_pods_and_why(agent, status, reason):
    """Calls that do not work on a node are named in its conditions."""
    found = directness(status_of(super_node(), agent))
    assert (found["status"], found["reason"]) == (status, reason)
    assert found["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert ("kubectl top" in found["message"]) == (status == "False")


def test_the_time_of_the_condition_is_when_it_became_so():
    """Otherwise every node would be written for each repeated Event."""
    before = {"status": status_of(super_node(), NodeAgent("10.2.0.5"))}
    later = NOW + timedelta(hours=1)
    same = virtual_nodes.build_status(
        super_node(), NodeAgent("10.2.0.6"), "Standard", before, now=later
    )
    assert directness(same) == directness(before["status"])
    other = virtual_nodes.build_status(super_node(), None, "Standard", before, now=later)
    assert directness(other)["lastTransitionTime"] == "2026-01-02T04:04:05Z"


def test_a_super_nodes_condition_of_our_kind_is_not_shown_twice():
    """A tenant's cluster may be a super cluster. An API server refuses two of one type."""
    below = super_node()
    ours = {"type": wellknown.KUBELET_DIRECT, "status": "True"}
    odd = {**below, "status": {**below["status"]}}
    odd["status"]["conditions"] = [*below["status"]["conditions"], ours]
    assert status_of(odd, None) == status_of(below, None)
    assert virtual_nodes.build_node(odd) == virtual_nodes.build_node(below)


def test_a_heartbeat_is_no_change_and_a_tenants_label_stays():
    wanted, status = (
        virtual_nodes.build_node(super_node()),
        status_of(super_node(), NodeAgent("10.2.0.5")),
    )
    virtual = {
        **wanted,
        "metadata": {
            **wanted["metadata"],
            "labels": {**wanted["metadata"]["labels"], "mine": "1"},
        },
        "status": {
            **status,
            "conditions": [{**each, "lastHeartbeatTime": None} for each in status["conditions"]],
        },
    }
    assert virtual_nodes.is_node_current(virtual, wanted)
    outline = wanted["metadata"]["annotations"][wellknown.LAST_WRITTEN_DIGEST]
    assert virtual_nodes.is_status_current(virtual, status, outline)
    changed = status_of(super_node(), NodeAgent("10.2.0.6"))
    assert not virtual_nodes.is_status_current(virtual, changed, outline)
    added = copy.deepcopy(virtual)
    added["status"]["conditions"].append({"type": "Own", "status": "True"})
    added["status"]["capacity"]["example.com/fan"] = "2"
    assert virtual_nodes.is_status_current(added, status, outline)
    gone = super_node()
    gone["status"]["conditions"] = []
    fewer = virtual_nodes.build_node(gone)["metadata"]["annotations"][wellknown.LAST_WRITTEN_DIGEST]
    assert not virtual_nodes.is_status_current(
        virtual, status_of(gone, NodeAgent("10.2.0.5")), fewer
    )
    hidden = status_of(super_node(), None, "Minimal")
    assert not virtual_nodes.is_status_current(virtual, hidden, outline)  # its addresses are to go
    narrow = virtual_nodes.build_node(super_node(), "Minimal")["metadata"]["annotations"][
        wellknown.LAST_WRITTEN_DIGEST
    ]
    assert narrow != outline  # and so are labels


OWN_TAINT = {"key": "own", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def tainted(*taints: dict[str, Any], recorded: str | None = "k:NoExecute") -> dict[str, Any]:
    """Return the virtual node with these taints. `recorded` are those that we have put there."""
    virtual = copy.deepcopy(virtual_nodes.build_node(super_node()))
    virtual["spec"]["taints"] = list(taints)
    virtual["metadata"]["annotations"].pop(wellknown.TAINTS)
    if recorded is not None:
        virtual["metadata"]["annotations"][wellknown.TAINTS] = recorded
    return virtual


def below(*taints: dict[str, Any]) -> dict[str, Any]:
    """Return the super node with these taints."""
    return {**super_node(), "spec": {"taints": list(taints)}}


OURS = {"key": "k", "effect": "NoExecute"}


def test_a_tenants_taint_stays_beside_ours_in_whatever_order():
    virtual = tainted(OWN_TAINT, OURS)
    wanted = virtual_nodes.build_node(super_node(), "Standard", virtual)
    assert wanted["spec"]["taints"] == [OURS, OWN_TAINT]
    assert virtual_nodes.is_node_current(virtual, wanted)


def test_a_taint_that_went_in_the_super_cluster_goes_and_the_tenants_stays():
    virtual = tainted(OWN_TAINT, OURS)
    wanted = virtual_nodes.build_node(below(), "Standard", virtual)
    assert wanted["spec"]["taints"] == [OWN_TAINT]
    assert not virtual_nodes.is_node_current(virtual, wanted)
    assert wanted["metadata"]["annotations"][wellknown.TAINTS] == ""


@pytest.mark.parametrize("there", [[], [{**OURS, "value": "theirs"}]])
def test_a_tenant_gets_a_taint_of_ours_back(there):
    virtual = tainted(*there)
    wanted = virtual_nodes.build_node(super_node(), "Standard", virtual)
    assert wanted["spec"]["taints"] == [OURS]
    assert not virtual_nodes.is_node_current(virtual, wanted)


def test_what_the_super_cluster_taints_itself_is_ours_from_then_on():
    virtual = tainted(OWN_TAINT, recorded="")
    same = {"key": "own", "effect": "NoExecute", "value": "theirs"}
    wanted = virtual_nodes.build_node(below(same), "Standard", virtual)
    assert wanted["spec"]["taints"] == [same]
    assert not virtual_nodes.is_node_current(virtual, wanted)


def test_a_node_from_before_taints_were_recorded_has_only_ours():
    virtual = tainted(OWN_TAINT, OURS, recorded=None)
    assert virtual_nodes.build_node(super_node(), "Standard", virtual)["spec"]["taints"] == [OURS]
    foreign = {"metadata": {"annotations": {}}, "spec": {"taints": [OWN_TAINT]}}
    assert virtual_nodes.list_own_taints(foreign) == [OWN_TAINT]


def added(virtual: dict[str, Any], view: NodeView = "Standard") -> NodeAdditions | None:
    return tenant_node_changes.read_additions(virtual, super_node()["metadata"]["labels"], view)


def test_what_counts_as_the_tenants_own():
    virtual = tainted(OURS)
    assert added(virtual) is None
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    virtual = tainted(OWN_TAINT, OURS, soft)
    virtual["metadata"]["labels"] |= {
        "mine": "1",
        "disk": "overwritten",
        "cloud.example/rack": "8",
        f"sub.{wellknown.DOMAIN}/x": "1",
    }
    found = added(virtual)
    assert found is not None
    assert found.own_label_keys == {"mine", "cloud.example/rack"}
    assert found.taints == (TenantTaint("own", "", "NoExecute"),)
    assert not found.is_cordoned
    full = added(virtual, "Full")
    assert full is not None
    assert full.own_label_keys == {"mine"}
    cordoned = tainted(OURS)
    cordoned["spec"]["unschedulable"] = True
    assert added(cordoned) == NodeAdditions(frozenset(), cordoned["metadata"]["labels"], (), True)


@pytest.mark.parametrize("effect", [["NoSchedule"], {"a": 1}, None, 7])
def test_a_taint_of_any_shape_harms_no_client(effect):
    assert added(tainted(OURS, {"key": "own", "effect": effect})) is None
