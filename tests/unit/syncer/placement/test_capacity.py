"""Free capacity of the nodes of a super cluster, counted from the product's own pods."""

from __future__ import annotations

from typing import Any

import orjson

from kubeio.cache.store import Entry, Store, parse_entry
from syncer.placement.capacity import ClusterCapacity
from tenancy import wellknown
from tenancy.policies import NodesSpec, PoolToleration


def node(name: str = "n", *, ready: bool = True, **spec: Any) -> Entry:
    status = {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    labels = {"disk": "fast", "hidden.example/rack": "7"}
    metadata = {"name": name, "uid": name, "resourceVersion": str(id(spec)), "labels": labels}
    return parse_entry(orjson.dumps({"metadata": metadata, "spec": spec, "status": status}))


def pod(name: str, cpu: str = "1", *, at: str = "n", version: str = "1", **status: str) -> Entry:
    metadata = {
        "name": name, "namespace": "x", "uid": name, "resourceVersion": version,
        "annotations": {wellknown.UID: f"{name}-above"},
    }  # fmt: skip
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    spec = {"containers": containers, **({"nodeName": at} if at else {})}
    return parse_entry(orjson.dumps({"metadata": metadata, "spec": spec, "status": status}))


def made(*entries: Entry) -> tuple[ClusterCapacity, Store, Store]:
    nodes, pods = Store(), Store()
    for entry in entries:
        nodes.put(entry, live=True)
    return ClusterCapacity(nodes, pods), nodes, pods


def cpu(inventory: ClusterCapacity) -> float:
    return float(inventory.compute_free()["cpu"])


def test_nodes_that_take_pods_count_with_the_labels_that_are_shown():
    inventory, nodes, _ = made(node(), node("shut", unschedulable=True), node("sick", ready=False))
    (room,) = inventory.list_nodes("Standard")
    assert (room.name, dict(room.labels)) == ("n", {"disk": "fast"})
    assert inventory.list_nodes("Full")[0].labels["hidden.example/rack"] == "7"
    assert inventory.list_nodes("Standard", "target-c2")[0].name == "target-c2"
    assert cpu(inventory) == 4
    assert inventory.node_totals.allocatable["cpu"] == "4"
    nodes.put(node("more"), live=True)
    assert len(inventory.list_nodes("Standard")) == 2
    assert inventory.node_totals.allocatable["cpu"] == "8"
    nodes.discard(nodes.get("", "n"), live=True)  # type: ignore[arg-type]
    assert [each.name for each in inventory.list_nodes("Standard")] == ["more"]
    assert inventory.node_totals.allocatable["cpu"] == "4"


def test_a_node_pool_leaves_its_nodes_without_the_taints_that_pods_tolerate():
    """SEC-81: or no pod of the tenant would find a node, in a tenant with targets."""
    taint = {"key": "pool", "value": "a", "effect": "NoSchedule"}
    inventory, _, _ = made(node(taints=[taint]), node("other"))
    fast = NodesSpec(selector={"hidden.example/rack": "7", "disk": "fast"})
    tolerated = (PoolToleration(key="pool", operator="Exists"),)
    rooms = inventory.list_nodes("Standard", pool=fast)
    assert [len(room.taints) for room in rooms] == [1, 0]
    pool = NodesSpec(selector=fast.selector, tolerations=tolerated)
    assert [len(room.taints) for room in inventory.list_nodes("Standard", pool=pool)] == [0, 0]
    elsewhere = NodesSpec(selector={"hidden.example/rack": "8"})
    assert not inventory.list_nodes("Standard", pool=elsewhere)
    racks = NodesSpec(selector={"hidden.example/rack": "7"})
    (room, _) = inventory.list_nodes("Standard", pool=racks)
    assert room.labels == {"disk": "fast", "hidden.example/rack": "7"}, "a pod may name its pool"


def test_our_pods_take_what_they_ask_until_they_end():
    """A2-14."""
    inventory, _, pods = made(node())
    pods.put(pod("a"), live=True)
    pods.put(pod("b", at=""), live=True)
    assert cpu(inventory) == 2, "one that waits will want its room, too"
    assert inventory.list_nodes("Standard")[0].free["cpu"] == 3
    assert inventory.list_nodes("Standard")[0].free["pods"] == 9
    pods.put(pod("b", version="2"), live=True)
    assert inventory.list_nodes("Standard")[0].free["cpu"] == 2
    pods.put(pod("b", version="3", phase="Succeeded"), live=True)
    assert cpu(inventory) == 3
    pods.discard(pod("a"), live=True)
    assert cpu(inventory) == 4


def test_what_runs_on_a_node_that_is_shut_takes_nothing_of_the_others():
    inventory, nodes, pods = made(node(), node("m"))
    for name in ("a", "b", "c", "d"):
        pods.put(pod(name, at="m"), live=True)
    assert cpu(inventory) == 4
    nodes.put(node("m", unschedulable=True), live=True)
    assert cpu(inventory) == 4
    nodes.discard(nodes.get("", "m"), live=True)  # type: ignore[arg-type]
    assert cpu(inventory) == 4
    pods.put(pod("w", at=""), live=True)
    assert cpu(inventory) == 3, "one that waits takes its room all the same"


def test_what_is_promised_is_taken_until_it_is_seen_or_given_up():
    inventory, _, pods = made(node())
    for name in ("a", "b"):
        inventory.reserve(f"{name}-above", {"cpu": 1})  # type: ignore[dict-item]
    assert cpu(inventory) == 2
    pods.put(pod("a"), live=True)
    assert cpu(inventory) == 2, "counted once"
    inventory.release("b-above")
    assert cpu(inventory) == 3


def test_what_was_there_before_counts():
    nodes, pods = Store(), Store()
    nodes.put(node(), live=True)
    pods.put(pod("a"), live=True)
    assert cpu(ClusterCapacity(nodes, pods)) == 3
