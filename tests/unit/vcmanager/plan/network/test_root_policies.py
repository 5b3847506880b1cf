"""The NetworkPolicies of a root namespace: who reaches which component, and what it reaches."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any

import pytest

from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tests.support import policy_matrix
from tests.support.policy_matrix import NetworkHost, NetworkPod, NetworkPort
from vcmanager.plan.network import root_policies
from vcmanager.plan.network.root_policies import PolicyInput, SuperNetworks

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
OTHER = Tenant(name="other", namespace="default", uid="other-uid", root="default-def456-other")
NAME = "kubernetes.io/metadata.name"
COMPONENTS = ("etcd", "apiserver", "controller-manager", "coredns", "metrics-server")
NODES: list[dict[str, Any]] = [
    {
        "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "fd10::/64"]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "203.0.113.7"},
                {"type": "Hostname", "address": "node-1"},
            ]
        },
    },
    {"spec": {}, "status": {}},
]
SERVICES = ipaddress.ip_network("198.18.0.0/16")


def wish(**fields: Any) -> PolicyInput:
    """Return the inputs of a tenant with all components."""
    found = {
        "tenant": TENANT,
        "selectors": {name: {"matchLabels": {"component-name": name}} for name in COMPONENTS},
        "api_port": 6443,
        "has_known_ports": True,
        "components_namespace": "vc-manager",
        "networks": root_policies.read_super_networks(NODES, [SERVICES]),
        **fields,
    }
    return PolicyInput(**found)


def pod(component: str, tenant: Tenant = TENANT, ip: str = "10.244.0.3") -> NetworkPod:
    """Return a pod of a root namespace."""
    labels = ownership.build_owner_labels(tenant, "")
    return NetworkPod(
        ip=ip,
        name=component,
        namespace=tenant.root,
        labels={"component-name": component, **labels},
        namespace_labels={**labels, NAME: tenant.root},
    )


def workload(tenant: Tenant = TENANT) -> NetworkPod:
    """Return a pod of a super namespace."""
    labels = ownership.build_owner_labels(tenant, "web")
    name = f"{tenant.root}-web"
    return NetworkPod(
        ip="10.244.0.9",
        name="web",
        namespace=name,
        labels=labels,
        namespace_labels={**labels, NAME: name},
    )


def component_of_ours(name: str, namespace: str = "vc-manager") -> NetworkPod:
    """Return a pod of a namespace without a tenant."""
    return NetworkPod(
        ip="10.244.0.11",
        name=name,
        namespace=namespace,
        labels={"app.kubernetes.io/name": name},
        namespace_labels={NAME: namespace},
    )


OUTSIDE = NetworkHost("8.8.8.8")
NODE = NetworkHost("203.0.113.7")
FOREIGN_PODS = (workload(OTHER), pod("apiserver", OTHER), pod("coredns", OTHER))
INTO: list[tuple[str, Any, int, bool]] = [
    *[("etcd", pod("apiserver"), port, True) for port in (2379, 2380)],
    *[("etcd", each, 2379, False) for each in (*FOREIGN_PODS, workload(), OUTSIDE, NODE)],
    *[("etcd", each, 2381, False) for each in (*FOREIGN_PODS, workload(), pod("apiserver"))],
    *[("etcd", component_of_ours("vc-syncer"), port, False) for port in (2379, 2381)],
    ("etcd", component_of_ours("vc-manager"), 2379, True),
    *[("etcd", component_of_ours("vc-manager"), port, False) for port in (2380, 2381)],
    ("etcd", component_of_ours("vc-manager", "elsewhere"), 2379, False),
    *[("apiserver", each, 6443, True) for each in (workload(), pod("coredns"), OUTSIDE, NODE)],
    ("apiserver", component_of_ours("vc-syncer"), 6443, True),
    *[("apiserver", each, 6443, False) for each in FOREIGN_PODS],
    ("apiserver", workload(), 6444, False),
    *[("controller-manager", each, 10257, False) for each in (*FOREIGN_PODS, workload(), OUTSIDE)],
    *[("coredns", each, 1053, True) for each in (workload(), pod("apiserver"))],
    *[("coredns", each, 1053, False) for each in (*FOREIGN_PODS, OUTSIDE)],
    *[("metrics-server", each, 10250, False) for each in (*FOREIGN_PODS, OUTSIDE)],
]


@pytest.mark.parametrize(("component", "source", "port", "passes"), INTO)
def test_into_a_component(component: str, source: NetworkHost, port: int, passes: bool):
    """SEC-43: each row is one connection into a component."""
    found = root_policies.build_network_policies(wish())
    assert passes == policy_matrix.may(found, pod(component), source, NetworkPort(port), "Ingress")


def test_dns_by_udp():
    found = root_policies.build_network_policies(wish())
    assert policy_matrix.may(found, pod("coredns"), workload(), NetworkPort(1053, "UDP"), "Ingress")


OUT: list[tuple[str, Any, int, bool]] = [
    ("apiserver", pod("etcd"), 2379, True),
    ("apiserver", workload(), 8443, True),
    ("apiserver", component_of_ours("vn-agent"), 10550, True),
    ("apiserver", component_of_ours("vn-agent-target"), 10550, True),
    ("apiserver", component_of_ours("vn-agent"), 10551, False),
    ("apiserver", component_of_ours("vn-agent", "elsewhere"), 10550, False),
    *[("apiserver", component_of_ours(name), 8080, False) for name in ("vc-manager", "vc-syncer")],
    ("apiserver", OUTSIDE, 443, True),
    *[("apiserver", each, 443, False) for each in (*FOREIGN_PODS, NODE)],
    *[
        ("apiserver", NetworkHost(ip), 443, False)
        for ip in (
            *("169.254.169.254", "100.100.100.200", "198.18.0.1", "10.0.0.1", "fd00:ec2::254"),
            *("64:ff9b::a9fe:a9fe", "64:ff9b::203.0.113.7"),
        )
    ],
    *[(name, NetworkHost("192.0.2.53"), 53, True) for name in COMPONENTS],
    *[(name, OUTSIDE, 443, False) for name in ("etcd", "coredns", "controller-manager")],
    ("metrics-server", component_of_ours("vn-agent"), 10550, True),
    ("metrics-server", workload(), 8443, False),
]


@pytest.mark.parametrize(("component", "target", "port", "passes"), OUT)
def test_out_of_a_component(component: str, target: NetworkHost, port: int, passes: bool):
    found = root_policies.build_network_policies(wish())
    assert passes == policy_matrix.may(found, pod(component), target, NetworkPort(port), "Egress")


def test_private_networks_by_the_setting():
    egress = root_policies.parse_egress("10.9.0.0/16, 10.8.0.1")
    found = root_policies.build_network_policies(wish(egress=egress))
    for ip, passes in (("10.9.1.1", True), ("10.8.0.1", True), ("10.8.0.2", False)):
        assert passes == policy_matrix.may(
            found, pod("apiserver"), NetworkHost(ip), NetworkPort(443), "Egress"
        )


def test_without_pod_ranges_the_api_is_open_to_every_address():
    networks = SuperNetworks()
    found = root_policies.build_network_policies(wish(networks=networks))
    for port, passes in ((6443, True), (2379, False)):
        assert passes == policy_matrix.may(
            found, pod("apiserver"), workload(OTHER), NetworkPort(port), "Ingress"
        )


def test_listed_ranges_close_the_api_to_their_pods_and_not_to_their_nodes():
    listed = [ipaddress.ip_network("10.128.0.0/14"), ipaddress.ip_network("203.0.113.0/24")]
    networks = root_policies.read_super_networks(NODES, [SERVICES], listed)
    found = root_policies.build_network_policies(wish(networks=networks))
    for source, passes in (
        (workload(OTHER), False),  # by podCIDRs
        (replace(workload(OTHER), ip="10.129.0.3"), False),
        (replace(workload(), ip="10.129.0.3"), True),
        (replace(component_of_ours("vc-syncer"), ip="10.129.0.3"), True),
        (NetworkHost("203.0.113.8"), False),
        (NODE, True),
        (OUTSIDE, True),
    ):
        assert passes == policy_matrix.may(
            found, pod("apiserver"), source, NetworkPort(6443), "Ingress"
        )


def test_a_bundle_by_its_own_selectors_and_ports():
    selectors = {
        "etcd": {"matchLabels": {"app": "store"}},
        "apiserver": {"matchLabels": {"a": "b"}},
    }
    found = root_policies.build_network_policies(
        wish(selectors=selectors, has_known_ports=False, api_port="https")
    )
    by_name = {each["metadata"]["name"]: each for each in found}
    assert set(by_name) == {"isolation", "etcd", "apiserver"}
    assert by_name["etcd"]["spec"]["podSelector"] == selectors["etcd"]
    assert by_name["etcd"]["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}]
    ports = by_name["apiserver"]["spec"]["ingress"][0]["ports"]
    assert ports == [{"port": "https", "protocol": "TCP"}]


def test_each_pod_is_isolated_in_both_directions():
    isolation = root_policies.build_network_policies(wish())[0]
    assert isolation["spec"]["podSelector"] == {}
    assert isolation["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert isolation["spec"]["ingress"] == []


def test_metrics_of_etcd_are_open_to_the_named_scrapers_alone():
    scraper = {
        "namespaceSelector": {"matchLabels": {NAME: "monitoring"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
    }
    found = root_policies.build_network_policies(replace(wish(), scrapers=(scraper,)))
    for source, port, passes in (
        (component_of_ours("prometheus", "monitoring"), 2381, True),
        (component_of_ours("prometheus", "monitoring"), 2379, False),
        (component_of_ours("other", "monitoring"), 2381, False),
        (component_of_ours("prometheus", "elsewhere"), 2381, False),
        (workload(), 2381, False),
    ):
        assert passes == policy_matrix.may(
            found, pod("etcd"), source, NetworkPort(port), "Ingress"
        ), (source, port)


@pytest.mark.parametrize(
    ("labels", "ip", "port", "passes"),
    [
        ({wellknown.USES_BUCKET: "true"}, "93.184.216.34", 443, True),
        ({wellknown.USES_BUCKET: "true"}, "93.184.216.34", 22, False),
        ({wellknown.USES_BUCKET: "true"}, "169.254.169.254", 443, False),
        ({wellknown.USES_BUCKET: "true"}, "10.9.0.1", 443, False),
        ({wellknown.USES_BUCKET: "true"}, "10.8.0.1", 9000, True),
        ({}, "93.184.216.34", 443, False),
        ({}, "10.8.0.1", 9000, False),
    ],
)
def test_only_snapshots_in_a_bucket_reach_servers_and_only_at_their_port(labels, ip, port, passes):
    found = root_policies.build_network_policies(
        wish(egress=root_policies.parse_egress("10.8.0.1"))
    )
    source = pod("snapshot")
    source = replace(source, labels={**source.labels, **labels})
    assert passes == policy_matrix.may(found, source, NetworkHost(ip), NetworkPort(port), "Egress")


def test_the_policy_of_snapshots_names_no_other_pod():
    found = root_policies.build_network_policies(wish())
    (spec,) = (each["spec"] for each in found if each["metadata"]["name"] == "snapshot")
    labels = {"component-name": "snapshot", wellknown.USES_BUCKET: "true"}
    assert spec["podSelector"] == {"matchLabels": labels}
    assert spec["policyTypes"] == ["Egress"]


@pytest.mark.parametrize(
    ("source", "passes"),
    [
        *[(component_of_ours(each), True) for each in ("api-proxy", "vc-syncer", "vc-manager")],
        *[(each, True) for each in (workload(), pod("coredns"))],
        *[(component_of_ours(each), False) for each in ("vn-agent", "prometheus")],
        (component_of_ours("api-proxy", "elsewhere"), False),
        *[(each, False) for each in (OUTSIDE, NODE, *FOREIGN_PODS)],
    ],
)
def test_behind_the_proxy_the_api_is_closed_to_all_others(source: NetworkHost, passes: bool):
    found = root_policies.build_network_policies(wish(is_behind_proxy=True))
    assert passes == policy_matrix.may(
        found, pod("apiserver"), source, NetworkPort(6443), "Ingress"
    )
    assert not policy_matrix.may(
        found, pod("etcd"), component_of_ours("api-proxy"), NetworkPort(2379), "Ingress"
    )
