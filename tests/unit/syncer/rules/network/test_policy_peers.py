"""Peers of the tenant, of its control plane and of the world outside of the super cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from syncer.model.super_cidrs import NO_CIDRS, SuperCidrs
from syncer.model.tenant_view import TargetNetwork
from syncer.rules.network import policy_peers
from syncer.rules.network.policy_peers import PolicyDirection
from tenancy import wellknown
from tenancy.addresses import parse_networks
from tests.support.syncer.tenant_views import RANGES, TENANT, network_view, policy

INGRESS, EGRESS = PolicyDirection.INGRESS, PolicyDirection.EGRESS


def is_taken(address: str, direction: PolicyDirection, ranges: SuperCidrs, **network: Any) -> bool:
    """Return whether blocks of a direction lose an address."""
    view = network_view(ranges=ranges, policy=policy(network=network))
    taken = policy_peers.build_subtracted(view, ranges)[direction]
    return bool(taken.count_overlapping(parse_networks((address,))[0]))


@pytest.mark.parametrize(
    ("address", "into", "out"),
    [
        ("10.244.0.7", True, True),
        ("10.96.0.7", True, True),
        ("192.0.2.7", False, True),
        ("169.254.169.254", False, True),
        ("fd00:ec2::254", False, True),
        ("64:ff9b::8.8.8.8", False, True),
        ("10.9.0.7", False, False),
        ("8.8.8.8", False, False),
    ],
)
def test_networks_that_blocks_lose(address: str, into: bool, out: bool):
    assert is_taken(address, INGRESS, RANGES) == into
    assert is_taken(address, EGRESS, RANGES) == out


@pytest.mark.parametrize(
    ("network", "is_private_taken"),
    [({}, True), ({"isolation": "Off"}, False), ({"superRanges": ["10.244.0.0/16"]}, False)],
)
def test_private_networks_while_no_range_of_pods_is_known(network, is_private_taken: bool):
    assert is_taken("10.9.0.7", EGRESS, NO_CIDRS, **network) == is_private_taken
    assert not is_taken("10.9.0.7", INGRESS, NO_CIDRS, **network)


@pytest.mark.parametrize(
    ("strays", "network", "taken", "is_taken_out"),
    [
        ((), {}, "10.9.0.7", False),
        (("10.8.0.1",), {}, "10.9.0.7", True),
        (("10.8.0.1",), {}, "8.8.8.8", False),
        (("10.8.0.1",), {"superRanges": ["10.8.0.0/16"]}, "10.9.0.7", False),
        (("10.8.0.1",), {"superRanges": ["10.7.0.0/16"]}, "10.9.0.7", True),
        (("10.8.0.1",), {"isolation": "Off"}, "10.9.0.7", False),
        (("203.0.113.1",), {}, "8.8.8.8", True),
        (("203.0.113.1",), {}, "2001:db8::1", False),
        (("2001:db8::1",), {}, "2001:db8:1::1", True),
        (("2001:db8::1",), {}, "8.8.8.8", False),
        ((), {}, "fd00::1", True),  # no range of IPv6 is known
    ],
)
def test_a_pod_outside_of_all_ranges_closes_its_family(
    strays: tuple[str, ...], network: dict[str, Any], taken: str, is_taken_out: bool
):
    ranges = SuperCidrs(pods=parse_networks(("10.244.0.0/16",)), stray_pods=parse_networks(strays))
    assert is_taken(taken, EGRESS, ranges, **network) == is_taken_out
    assert not is_taken("10.9.0.7", INGRESS, ranges)


def test_a_cluster_of_ipv6_alone_keeps_its_translator():
    ranges = SuperCidrs(pods=parse_networks(("fd10::/48",)))
    assert not is_taken("64:ff9b::8.8.8.8", EGRESS, ranges)
    assert is_taken("64:ff9b::a9fe:a9fe", EGRESS, ranges)


def world_of(ranges: SuperCidrs, **network: Any) -> list[dict[str, Any]]:
    """Return the peers of egress to the world."""
    view = network_view(ranges=ranges, policy=policy(network=network))
    return policy_peers.build_world_peers(policy_peers.build_subtracted(view, ranges)[EGRESS])


def test_tenants_share_the_networks_that_blocks_lose_while_nothing_changes():
    first, second = (network_view(policy=policy(network={})) for _ in range(2))
    shared = policy_peers.build_subtracted(first, RANGES)
    assert policy_peers.build_subtracted(second, RANGES) is shared


def test_peers_of_the_world_follow_each_change_at_once():
    before = world_of(RANGES)
    assert "203.0.113.9/32" not in before[0]["ipBlock"]["except"]
    more = replace(RANGES, nodes=(*RANGES.nodes, *parse_networks(("203.0.113.9",))))
    assert "203.0.113.9/32" in world_of(more)[0]["ipBlock"]["except"]
    assert (
        "203.0.113.9/32" in world_of(RANGES, superRanges=["203.0.113.9/32"])[0]["ipBlock"]["except"]
    )
    assert world_of(RANGES) == before


def test_a_caller_receives_blocks_of_its_own():
    before = world_of(RANGES)
    world_of(RANGES)[0]["ipBlock"]["except"].clear()
    world_of(RANGES)[0]["ipBlock"]["cidr"] = "10.0.0.0/8"
    assert world_of(RANGES) == before


def test_the_control_plane_of_a_target_is_known_by_its_addresses():
    network = TargetNetwork(endpoint="https://203.0.113.5:6443", resolvers=("203.0.113.53",))
    view = network_view(get_target_network=lambda: network)
    pods, *found = policy_peers.build_control_plane_peers(EGRESS, view)
    assert [each["ipBlock"]["cidr"] for each in found] == ["203.0.113.5/32", "203.0.113.53/32"]
    assert policy_peers.build_control_plane_peers(INGRESS, view)[1:] == []
    assert pods["namespaceSelector"]["matchLabels"][wellknown.NAMESPACE_NAME] == TENANT.root
    by_name = TargetNetwork(endpoint="https://api.example:6443", resolvers=())
    view = network_view(get_target_network=lambda: by_name)
    assert len(policy_peers.build_control_plane_peers(EGRESS, view)) == 1
