"""Capacity of nodes, as reported by an untrusted cluster."""

import pytest

from tenancy.super_clusters import ClusterRanges
from vcmanager.targets import node_inventory
from vcmanager.targets.node_inventory import NodeInventory


def node(*, ready="True", cidrs=(), allocatable=None, **spec):
    return {
        "spec": {"podCIDRs": [*cidrs], **spec},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": allocatable or {"cpu": "1500m", "memory": "1Gi", "pods": "110"},
        },
    }


def counted(*nodes) -> NodeInventory:
    made = NodeInventory()
    made.add_nodes(nodes)
    return made


def test_nodes_that_take_pods_are_added_up():
    found = counted(node(), node(allocatable={"cpu": "2", "memory": "524288Ki", "pods": 10}))
    assert found.nodes == 2
    assert found.format_capacity() == {"cpu": "3500m", "memory": "1536Mi", "pods": "110"}


@pytest.mark.parametrize(
    "shut",
    [
        node(ready="False"),
        node(ready="Unknown"),
        node(unschedulable=True),
        node(taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]),
        {},
        {"spec": None, "status": None},
    ],
)
def test_others_are_not(shut):
    assert (counted(shut).nodes, counted(shut).format_capacity()) == (0, {})


def test_what_no_node_can_have_is_left_out():
    odd = {"cpu": "9e999", "memory": "-1Gi", "pods": "many", "ephemeral-storage": 5}
    assert counted(node(allocatable=odd)).format_capacity() == {}


def test_a_node_with_another_taint_takes_some_pods():
    assert counted(node(taints=[{"key": "gpu", "effect": "NoSchedule"}])).nodes == 1


def test_ranges_of_nodes_are_joined_and_what_is_none_is_left_out():
    found = counted(
        node(cidrs=["10.244.0.0/24", "fd00:1::/64"]),
        node(cidrs=["10.244.1.0/24"], ready="False"),
        node(cidrs=["junk", None, ["x"]]),
        {"spec": {"podCIDR": "10.244.2.0/24"}},
    )
    assert found.collapse_pod_ranges() == ("10.244.0.0/23", "10.244.2.0/24", "fd00:1::/64")


def test_there_is_an_end_to_ranges():
    many = [node(cidrs=[f"10.{n // 128}.{n % 128 * 2}.0/24"]) for n in range(1000)]
    assert len(counted(*many).collapse_pod_ranges()) == node_inventory.MAX_RANGES


def test_service_ranges_come_from_service_cidrs():
    found = [{"spec": {"cidrs": ["10.96.0.0/12", "x"]}}, {"spec": None}, {}]
    assert node_inventory.list_service_ranges(found) == ("10.96.0.0/12",)


def test_what_an_administrator_reports_wins():
    seen = ClusterRanges(pods=("10.244.0.0/16",), services=("10.96.0.0/12",))
    known = node_inventory.choose_ranges(seen, ClusterRanges(pods=("10.1.0.0/16",)))
    assert known == ClusterRanges(pods=("10.1.0.0/16",), services=("10.96.0.0/12",))
