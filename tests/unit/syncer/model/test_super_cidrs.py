"""Ranges of addresses of the super cluster's nodes, pods and Services."""

from __future__ import annotations

from kubeio.cache.store import Store
from syncer.model.super_cidrs import SuperCidrTracker
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
