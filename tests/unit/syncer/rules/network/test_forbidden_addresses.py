import dataclasses

import pytest

from syncer.model.super_cidrs import CidrSet
from syncer.rules.network import forbidden_addresses
from tenancy.addresses import parse_networks
from tests.support.syncer.tenant_views import network_view, policy

LOCAL = "is local to a machine"
TAKEN = "belongs to the super cluster"
NONE = "is no address"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("203.0.113.9", ""),
        ("2001:db8::9", ""),
        ("10.96.0.1", TAKEN),
        ("fd00:96::1", TAKEN),
        *((local, LOCAL) for local in ("0.0.0.7", "127.1.2.3", "169.254.169.254", "224.0.0.1")),
        *((local, LOCAL) for local in ("255.255.255.255", "::", "::1", "fe80::1", "ff02::1")),
        # The same addresses inside IPv6.
        ("::ffff:10.96.0.1", TAKEN),
        ("::ffff:127.0.0.1", LOCAL),
        ("2002:0a60:0001::", TAKEN),
        ("64:ff9b::10.96.0.1", TAKEN),
        ("::10.96.0.1", TAKEN),
        ("::ffff:203.0.113.9", ""),
        *((text, NONE) for text in ("", "web", "10.96.0.0/16", "010.0.0.1", "fe80::1%eth0")),
        (None, NONE),
        (167772160, NONE),
    ],
    ids=str,
)
def test_address_is_forbidden(address, problem):
    taken = CidrSet(parse_networks(("10.96.0.0/16", "fd00:96::/32")))
    assert forbidden_addresses.find_problem(address, taken) == problem


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("192.0.2.7", TAKEN),
        ("10.96.0.1", TAKEN),
        ("10.96.8.1", TAKEN),
        ("198.51.100.1", TAKEN),
        ("10.244.0.9", ""),
    ],
    ids=["a node", "a service", "an own service", "listed in the policy", "a pod"],
)
def test_super_cluster_has_nodes_services_and_listed_ranges(address, problem):
    listed = policy(network={"superRanges": ["198.51.100.0/24"]})
    view = dataclasses.replace(network_view(), policy=listed)
    found = forbidden_addresses.list_super_cidrs(view, view.get_super_cidrs())
    assert forbidden_addresses.find_problem(address, found) == problem
