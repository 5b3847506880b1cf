"""The share of a tenant: VLANs and addresses that no other tenant has."""

from __future__ import annotations

import ipaddress
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model.rejections import RejectedError
from syncer.rules.network.attachments import segments
from syncer.rules.network.attachments.segments import TenantShare
from tests.support.syncer.attachments import OWN, SHARED, attachment_view, offered


def device(name):
    return offered().network.attachments.get_device(name)


def segment(name, vlan, view=None, **fields):
    return segments.build_segment(device(name), vlan, view or attachment_view(), path="p", **fields)


def test_the_share_is_the_place_of_the_service_range():
    assert segments.compute_share(attachment_view()) == TenantShare(2, 6)
    assert segments.compute_share(attachment_view(service_range="10.96.252.0/22")) == (63, 6)


def test_without_the_whole_service_range_there_is_no_share():
    with pytest.raises(RejectedError, match="cannot be shared out"):
        segments.compute_share(attachment_view(service_range="10.7.0.0/22"))


def test_a_shared_vlan_has_a_part_of_the_range_for_each_tenant():
    found = segment(SHARED, 100)
    assert (found.vlan, str(found.ranges[0].own)) == (100, "10.100.8.0/22")


def test_a_vlan_of_its_own_has_the_whole_range_and_the_tenants_numbers():
    one = segment(OWN, 0)
    other = segment(OWN, 0, attachment_view(service_range="10.96.12.0/22"))
    assert (one.vlan, other.vlan) == (1031, 1046)
    assert str(one.ranges[0].own) == "10.20.0.0/16"
    assert segment(OWN, 14).vlan == 1045


@pytest.mark.parametrize(
    ("name", "vlan", "text"),
    [
        (SHARED, 7, "not offered on device br-shared. Use one of 0, 100-102"),
        (OWN, 15, "Your VLANs on device br-trunk are 0 to 14"),
        (OWN, -1, "Your VLANs on device br-trunk are 0 to 14"),
        ("br-bare", 3, "untagged"),
    ],
)
def test_another_vlan_is_refused(name, vlan, text):
    with pytest.raises(RejectedError, match=text):
        segment(name, vlan)


def test_a_plugin_without_tags_cannot_use_divided_vlans():
    with pytest.raises(RejectedError, match="Use bridge or vlan"):
        segment(OWN, 0, tags=False)


def test_a_range_that_the_platform_uses_is_refused():
    shared = {"name": SHARED, "vlans": ["100"], "ranges": ["10.244.0.0/20"]}
    view = attachment_view(devices=[shared], primaryDevice="")
    with pytest.raises(RejectedError, match="used by the platform"):
        segments.build_segment(
            view.policy.network.attachments.devices[0], 100, view, path="spec.config"
        )


def test_too_small_ranges_and_pools_are_refused():
    small = {"name": SHARED, "vlans": ["100"], "ranges": ["10.100.0.0/28"]}
    few = {"name": OWN, "tenantVlans": "1000-1009"}
    for one, vlan in ((small, 100), (few, 0)):
        view = attachment_view(devices=[one], primaryDevice="")
        with pytest.raises(RejectedError, match="for all clusters"):
            segments.build_segment(
                view.policy.network.attachments.devices[0], vlan, view, path="spec.config"
            )


SLICES = st.integers(min_value=0, max_value=6).flatmap(
    lambda bits: st.integers(min_value=0, max_value=2**bits - 1).map(
        lambda position: TenantShare(position, bits)
    )
)
WHOLE = [ipaddress.ip_network("10.100.0.0/16"), ipaddress.ip_network("fd00:7::/64")]


def service_range(share: TenantShare) -> ipaddress.IPv4Network:
    """Return the service range of a share, for ranges of different sizes."""
    length = 16 + share.bits
    return ipaddress.IPv4Network(((10 << 24) + (share.position << (32 - length)), length))


@given(st.lists(SLICES, min_size=2, max_size=6), st.sampled_from(WHOLE))
def test_disjoint_service_ranges_have_disjoint_addresses_and_vlans(shares, whole):
    for one, other in combinations(shares, 2):
        if service_range(one).overlaps(service_range(other)):
            continue
        mine, theirs = (segments.carve_network(whole, each) for each in (one, other))
        assert not mine.overlaps(theirs)
        assert mine.subnet_of(whole)
        vlans = [set(segments.list_own_vlans(device(OWN), each)) for each in (one, other)]
        assert not vlans[0] & vlans[1]


def test_pools_of_addresses_have_a_name_for_each_tenant_and_vlan():
    names = {
        segments.build_network_name(uid, name, vlan)
        for uid in ("a", "b")
        for name in (SHARED, OWN)
        for vlan in (0, 1)
    }
    assert len(names) == 8


@pytest.mark.parametrize(
    ("text", "is_own"),
    [
        ("10.100.8.0", True),
        ("10.100.11.255/16", True),
        ("10.100.8.9/22", True),
        ("10.100.8.9/8", False),
        ("10.100.8.9/x", False),
        ("10.100.12.0", False),
        ("fd00::1", False),
        ("x", False),
        (None, False),
    ],
)
def test_an_address_is_the_tenants_in_its_part_of_the_range_only(text, is_own):
    assert segments.owns_address(segment(SHARED, 100), text) is is_own
