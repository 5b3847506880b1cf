"""Addresses of the targets, from the super cluster's objects."""

from __future__ import annotations

from typing import Any

from kubectl_vc.audit.addresses import SuperObjects, TargetAddress, TenantObjects, find_endpoints
from kubectl_vc.audit.probes import METADATA_ADDRESSES, Target


def pod(name: str, ip: str, node: str, *ports: Any, owner: str = "") -> dict[str, Any]:
    declared = [
        {"name": port[0], "containerPort": port[1]}
        if isinstance(port, tuple)
        else {"containerPort": port}
        for port in ports
    ]
    metadata: dict[str, Any] = {"name": name}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"ports": declared}]},
        "status": {"podIP": ip},
    }


def service(name: str, ip: str, *ports: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"clusterIP": ip, "ports": list(ports)}}


def node(name: str, ip: str) -> dict[str, Any]:
    addresses = [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}]
    return {
        "metadata": {"name": name},
        "status": {
            "addresses": addresses,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


OWN = TenantObjects(
    root_pods=[
        pod("etcd-0", "10.1.0.1", "n1", 2379, 2380),
        pod("apiserver-0", "10.1.0.2", "n1", 6443),
    ],
    root_services=[],
    server_pod=pod("server", "10.1.0.3", "n1", 8080),
    server_services=[service("server", "10.9.0.3", {"port": 80})],
)
DECOY = TenantObjects(
    root_pods=[
        pod("etcd-0", "10.2.0.1", "n2", 2379),
        pod("apiserver-0", "10.2.0.2", "n2", 6443),
        pod("controller-manager-0", "10.2.0.4", "n2", 10257),
    ],
    root_services=[
        service("kubernetes", "10.9.2.1", {"port": 443}),
        service("etcd", "None", {"port": 2379}),
        service("dns", "10.9.2.10", {"port": 53, "protocol": "UDP"}),
    ],
    server_pod=pod("server", "10.2.0.3", "n2", 8080),
    server_services=[service("server", "10.9.0.4", {"port": 80, "nodePort": 30080})],
)
SUPER = SuperObjects(
    nodes=[node("n1", "192.0.2.1"), node("n2", "192.0.2.2"), node("idle", "192.0.2.3")],
    component_pods=[
        pod("agent-idle", "10.3.0.9", "idle", ("kubelet", 10550), owner="agent"),
        pod("agent-n1", "10.3.0.1", "n1", ("kubelet", 10550), ("http", 10551), owner="agent"),
        pod("syncer", "10.3.0.2", "n2", ("http", 8081), owner="syncer"),
    ],
    api_services=[service("kubernetes", "10.9.0.1", {"port": 443})],
    api_slices=[
        {"ports": [{"port": 6443}], "endpoints": [{"addresses": ["192.0.2.100", "192.0.2.101"]}]}
    ],
)
FOUND = find_endpoints(OWN, DECOY, SUPER)


def at(target: Target) -> set[tuple[str, int]]:
    return {(each.host, each.port) for each in FOUND if each.target is target}


def test_each_target_has_its_addresses():
    assert at(Target.OWN_API) == {("10.1.0.2", 6443)}
    assert at(Target.OWN_POD) == {("10.9.0.3", 80)}
    assert at(Target.OWN_ETCD) == {("10.1.0.1", 2379)}
    assert at(Target.OWN_ETCD_METRICS) == {("10.1.0.1", 2380), ("10.1.0.1", 2381)}
    assert at(Target.DECOY_POD) == {("10.2.0.3", 8080)}
    assert at(Target.DECOY_SERVICE) == {("10.9.0.4", 80)}
    assert at(Target.DECOY_NODE_PORT) == {("192.0.2.2", 30080)}
    assert at(Target.DECOY_API) == {("10.2.0.2", 6443)}
    assert at(Target.DECOY_API_SERVICE) == {("10.9.2.1", 443)}
    assert at(Target.DECOY_CONTROL_PLANE) == {
        ("10.2.0.1", 2379),
        ("10.2.0.1", 2380),
        ("10.2.0.1", 2381),
        ("10.2.0.4", 10257),
    }
    assert at(Target.SUPER_API) == {
        ("10.9.0.1", 443),
        ("192.0.2.100", 6443),
        ("192.0.2.101", 6443),
    }
    assert at(Target.METADATA) == set(METADATA_ADDRESSES)


def test_components_are_one_pod_of_each_workload_on_a_node_in_use():
    assert at(Target.AGENT) == {("10.3.0.1", 10550)}
    assert at(Target.COMPONENT) == {("10.3.0.1", 10551), ("10.3.0.2", 8081)}


def test_kubelets_are_those_of_the_nodes_in_use():
    assert at(Target.KUBELET) == {("192.0.2.1", 10250), ("192.0.2.2", 10250)}


def test_an_address_on_a_node_names_it_for_the_control():
    assert all(each.node for each in FOUND if each.target in (Target.KUBELET, Target.DECOY_API))
    assert TargetAddress(Target.METADATA, "fd00:ec2::254", 80).address == "[fd00:ec2::254]:80"


def test_no_address_occurs_twice():
    assert len(FOUND) == len(set(FOUND))
