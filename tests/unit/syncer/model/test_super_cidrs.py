"""Ranges of addresses of the super cluster's nodes, pods and Services."""

from __future__ import annotations

import ipaddress

from kubeio.cache.store import Store
from syncer.model.super_cidrs import MAX_STRAYS, SuperCidrTracker
from tenancy.addresses import parse_networks
from tests.support.syncer.nodes import node
from tests.support.syncer.sessions import put


def test_the_ranges_follow_nodes_and_service_ranges():
    nodes, cidrs, calls = Store(), Store(), []
    ranges = SuperCidrTracker(nodes, cidrs)
    ranges.subscribe(lambda: calls.append(1))
    put(nodes, node("a", "192.0.2.7", "10.244.0.0/24"))
    last = put(nodes, node("b", "192.0.2.8", "10.244.1.0/24"))
    put(nodes, node("b", "192.0.2.8", "10.244.1.0/24", version="2"))
    put(cidrs, {"metadata": {"name": "k", "uid": "k"}, "spec": {"cidrs": ["10.96.0.0/16"]}})
    assert len(calls) == 3
    found = ranges.get_current()
    assert found.pods == parse_networks(("10.244.0.0/23",))
    assert found.nodes == parse_networks(("192.0.2.7", "192.0.2.8"))
    assert found.services == parse_networks(("10.96.0.0/16",))
    nodes.discard(last, live=True)
    assert ranges.get_current().pods == parse_networks(("10.244.0.0/24",))


def test_a_pod_outside_of_the_ranges_is_remembered_until_a_range_has_it():
    nodes, calls = Store(), []
    ranges = SuperCidrTracker(nodes, Store())
    put(nodes, node("a", "192.0.2.7", "10.244.0.0/24"))
    ranges.subscribe(lambda: calls.append(1))
    for name, address in (
        ("a", "10.244.0.7"),  # in the range
        ("a", "192.0.2.7"),  # a pod of the host
        ("b", "10.8.0.1"),  # the node is not known yet
        ("a", "10.9.0.1"),
        ("a", "10.9.3.4"),  # the same larger network
        ("a", "2001:db8::1"),
    ):
        ranges.observe_pod(name, ipaddress.ip_address(address))
    assert ranges.get_current().stray_pods == parse_networks(("10.9.0.1", "2001:db8::1"))
    assert len(calls) == 2
    put(nodes, node("b", "192.0.2.8", "10.9.0.0/16"))
    assert ranges.get_current().stray_pods == parse_networks(("2001:db8::1",))


def test_the_number_of_remembered_addresses_is_bounded():
    nodes = Store()
    ranges = SuperCidrTracker(nodes, Store())
    put(nodes, node("a", "192.0.2.7", "10.244.0.0/24"))
    for number in range(2 * MAX_STRAYS):
        ranges.observe_pod("a", ipaddress.ip_address(f"10.{number}.0.1"))
    assert len(ranges.get_current().stray_pods) == MAX_STRAYS


def test_a_node_without_any_address_reports_nothing():
    nodes = Store()
    ranges = SuperCidrTracker(nodes, Store())
    put(nodes, {"metadata": {"name": "a", "uid": "a"}, "status": {"addresses": [{"address": 7}]}})
    put(nodes, node("b", "not-an-address", ""))
    assert ranges.get_current().nodes == ()


def test_the_api_server_counts_as_a_node():
    """Its address may be a load balancer's, which is that of no node."""
    nodes, slices, calls = Store(), Store(), []
    ranges = SuperCidrTracker(nodes, Store())
    ranges.add_api_slices(slices)
    ranges.subscribe(lambda: calls.append(1))
    put(nodes, node("a", "192.0.2.7", ""))
    endpoints = [{"addresses": ["203.0.113.1"]}, {"addresses": "malformed"}]
    put(slices, {"metadata": {"name": "kubernetes", "uid": "k"}, "endpoints": endpoints})
    assert ranges.get_current().nodes == parse_networks(("192.0.2.7", "203.0.113.1"))
    assert len(calls) == 2
