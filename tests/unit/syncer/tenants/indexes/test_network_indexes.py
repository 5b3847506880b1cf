"""Addresses, node ports and policies that were in the caches before a session subscribed."""

from __future__ import annotations

import ipaddress

import pytest

from syncer.model.super_cidrs import SuperCidrs
from syncer.tenants.indexes.network_indexes import NetworkIndexes
from tests.support.syncer.nodes import node
from tests.support.syncer.sessions import SessionWorld, put

ADDRESS = "10.244.1.3"


def test_what_the_caches_have_is_found_after_the_start():
    world = SessionWorld()
    world.super_has("Pod", "p", status={"phase": "Running", "podIPs": [{"ip": ADDRESS}]})
    ports = [{"port": 80, "protocol": "TCP", "nodePort": 31000}]
    world.super_has("Service", "s", spec={"type": "NodePort", "ports": ports})
    spec = {"podSelector": {}, "policyTypes": ["Egress"]}
    world.tenant_has("NetworkPolicy", "n", spec=spec)
    found = NetworkIndexes(world.super_cluster)
    assert not found.is_own_pod(ipaddress.ip_address(ADDRESS))
    found.fill(world.session.stores, world.session.tenant.uid)
    assert found.is_own_pod(ipaddress.ip_address(ADDRESS))
    assert list(found.node_ports.list_ports()) == [("TCP", 31000)]
    assert found.policy_selectors.build_labels("web", {})


@pytest.mark.parametrize(("uses_pod_ranges", "strays"), [(True, 1), (False, 0)])
def test_a_pod_outside_of_the_ranges_of_nodes_is_reported(uses_pod_ranges, strays):
    world = SessionWorld()
    put(world.super_cluster.nodes, node("n", "192.0.2.7", "10.8.0.0/24"))
    status = {"phase": "Running", "podIPs": [{"ip": ADDRESS}]}
    world.super_has("Pod", "p", spec={"nodeName": "n"}, status=status)
    found = NetworkIndexes(world.super_cluster, uses_pod_ranges=uses_pod_ranges)
    found.fill(world.session.stores, world.session.tenant.uid)
    assert len(world.super_cluster.cidr_tracker.get_current().stray_pods) == strays


def test_a_pod_of_another_tenant_is_not_found():
    world = SessionWorld()
    world.super_has("Pod", "p", status={"phase": "Running", "podIPs": [{"ip": ADDRESS}]})
    found = NetworkIndexes(world.super_cluster)
    found.fill(world.session.stores, "another-uid")
    assert not found.is_own_pod(ipaddress.ip_address(ADDRESS))


def test_the_address_of_a_node_is_not_that_of_a_pod(monkeypatch: pytest.MonkeyPatch):
    world = SessionWorld()
    world.super_has("Pod", "p", status={"phase": "Running", "podIPs": [{"ip": ADDRESS}]})
    indexes = world.session.network_indexes
    indexes.fill(world.session.stores, world.session.tenant.uid)
    assert indexes.is_own_pod(ipaddress.ip_address(ADDRESS))
    nodes = SuperCidrs(nodes=(ipaddress.ip_network(f"{ADDRESS}/32"),))
    monkeypatch.setattr(world.super_cluster.cidr_tracker, "get_current", lambda: nodes)
    assert not indexes.is_own_pod(ipaddress.ip_address(ADDRESS))
