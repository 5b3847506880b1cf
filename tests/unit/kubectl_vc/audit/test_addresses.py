"""Addresses of the targets, from the super cluster's objects."""

from __future__ import annotations

from dataclasses import fields
from ipaddress import ip_address
from typing import Any

from kubectl_vc.audit.addresses import (
    SuperObjects,
    TargetAddress,
    TenantObjects,
    find_endpoints,
    find_source_families,
)
from kubectl_vc.audit.probes import METADATA_ADDRESSES, Place, Target
from tenancy.addresses import METADATA_NETWORKS


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
    dns_services=[
        service(
            "kube-dns",
            "10.9.0.10",
            {"port": 53, "protocol": "UDP"},
            {"port": 53},
            {"port": 9153},
        )
    ],
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
    assert at(Target.SUPER_DNS) == {("10.9.0.10", 53)}
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


# --- dual stack -----------------------------------------------------------------------------------


def to_ipv6(address: str) -> str:
    """Return the second address of an object: the same digits in an IPv6 network."""
    return f"fd00:{address.replace('.', ':')}"


def with_ipv6(found: Any) -> Any:
    """Return the same objects of a dual-stack cluster."""
    if isinstance(found, TenantObjects | SuperObjects):
        parts = {field.name: getattr(found, field.name) for field in fields(found)}
        return type(found)(**{name: with_ipv6(part) for name, part in parts.items()})
    if isinstance(found, list | tuple):
        return [more for each in found for more in (with_ipv6(each), *_further_node_address(each))]
    if not isinstance(found, dict):
        return found
    made = {key: with_ipv6(value) for key, value in found.items()}
    if "podIP" in found:
        made["podIPs"] = [{"ip": found["podIP"]}, {"ip": to_ipv6(found["podIP"])}]
    if found.get("clusterIP", "None") != "None":
        made["clusterIPs"] = [found["clusterIP"], to_ipv6(found["clusterIP"])]
    if "endpoints" in found and "addresses" in found["endpoints"][0]:
        hosts = found["endpoints"][0]["addresses"]
        made["endpoints"] = [{"addresses": [*hosts, *map(to_ipv6, hosts)]}]
    return made


def _further_node_address(found: Any) -> list[dict[str, Any]]:
    if isinstance(found, dict) and found.get("type") == "InternalIP":
        return [{**found, "address": to_ipv6(found["address"])}]
    return []


DUAL_OWN = with_ipv6(OWN)
DUAL = find_endpoints(DUAL_OWN, with_ipv6(DECOY), with_ipv6(SUPER))


def test_a_dual_stack_cluster_has_each_address_in_both_families():
    """A network plugin may enforce policies for IPv4 only."""
    expected = {
        (each.target, host, each.port)
        for each in FOUND
        for host in (each.host, to_ipv6(each.host))
        if each.target is not Target.METADATA
    }
    found = {(each.target, each.host, each.port) for each in DUAL}
    assert {each for each in found if each[0] is not Target.METADATA} == expected


def test_only_a_further_address_of_another_server_may_be_silent():
    """The audit's own server listens at each of its addresses."""
    assert not any(each.is_optional for each in FOUND)
    own_servers = (Target.DECOY_POD, Target.DECOY_SERVICE)
    slices = (Target.SUPER_API, Target.METADATA)  # listed one by one
    for each in DUAL:
        if each.family == 4 or each.target in own_servers:
            assert not each.is_optional
        elif each.target not in slices:
            assert each.is_optional


def test_an_ipv6_cluster_has_no_optional_address():
    found = find_endpoints(*map(only_ipv6, (OWN, DECOY, SUPER)))
    assert {each.family for each in found if each.target is not Target.METADATA} == {6}
    assert not any(each.is_optional for each in found)


def only_ipv6(found: Any) -> Any:
    """Return the same objects of a cluster without IPv4."""
    if isinstance(found, TenantObjects | SuperObjects):
        parts = {field.name: getattr(found, field.name) for field in fields(found)}
        return type(found)(**{name: only_ipv6(part) for name, part in parts.items()})
    if isinstance(found, dict):
        return {key: only_ipv6(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [only_ipv6(each) for each in found]
    is_address = isinstance(found, str) and found.count(".") == 3
    return to_ipv6(found) if is_address else found


def test_a_source_has_the_families_of_its_pods():
    both = frozenset({4, 6})
    assert find_source_families(OWN) == {
        Place.TENANT_POD: frozenset({4}),
        Place.TENANT_API: frozenset({4}),
    }
    assert find_source_families(DUAL_OWN) == {Place.TENANT_POD: both, Place.TENANT_API: both}


def test_each_metadata_address_of_the_audit_is_closed_by_the_default_policy():
    addresses = [ip_address(host) for host, _ in METADATA_ADDRESSES]
    assert all(any(each in net for net in METADATA_NETWORKS) for each in addresses)
    single = [net for net in METADATA_NETWORKS if net.num_addresses == 1]
    assert all(net.network_address in addresses for net in single)
