"""Addresses of additional networks, cut to the tenant's part."""

from __future__ import annotations

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules.network.attachments import ipam, segments
from tests.support.syncer.attachments import OWN, SHARED, attachment_view

PATH = "spec.config.ipam"


def build(said, *, device=SHARED, vlan=100):
    view = attachment_view()
    found = view.policy.network.attachments.get_device(device)
    segment = segments.build_segment(found, vlan, view, path="spec.config")
    return ipam.build_ipam(said, segment, PATH)


def refused(said, **fields):
    with pytest.raises(RejectedError) as problem:
        build(said, **fields)
    return str(problem.value)


def test_whereabouts_gets_the_tenants_part_and_a_pool_of_its_own():
    found = build({"type": "whereabouts", "range": "10.100.0.0/16"})
    assert (found["range"], found["range_start"], found["range_end"]) == (
        *("10.100.0.0/16", "10.100.8.0", "10.100.11.255"),
    )
    assert found["network_name"].startswith("vc-")


def test_a_wish_for_fewer_addresses_is_kept_inside_the_part():
    said = {"range_start": "10.100.9.5", "range_end": "10.100.200.1", "type": "whereabouts"}
    found = build(said)
    assert (found["range_start"], found["range_end"]) == ("10.100.9.5", "10.100.11.255")


def test_a_vlan_of_its_own_leaves_out_the_first_and_the_last_address():
    found = build({"type": "whereabouts", "range": "10.20.0.0/16"}, device=OWN, vlan=0)
    assert (found["range_start"], found["range_end"]) == ("10.20.0.1", "10.20.255.254")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"range": "192.168.0.0/24"}, "Use a part of 10.100.0.0/16"),
        ({"range": "10.0.0.0/8"}, "Use a part of 10.100.0.0/16"),
        ({"range": "10.100.64.0/24"}, "Use a part of 10.100.8.0/22"),
        ({"range_start": "10.100.12.0"}, "Use a part of 10.100.8.0/22"),
        ({"range_start": "fd00::1"}, "no address of"),
        ({"gateway": "10.9.0.1"}, "10.9.0.1 is no address of 10.100.0.0/16"),
        ({"routes": [{"dst": "0.0.0.0/0", "gw": "10.9.0.1"}]}, "10.9.0.1 is no address"),
    ],
)
def test_addresses_of_others_are_refused(said, text):
    assert text in refused({"type": "whereabouts", **said})


def test_a_gateway_may_be_anywhere_in_the_range():
    assert build({"type": "whereabouts", "gateway": "10.100.0.1"})["gateway"] == "10.100.0.1"


def test_static_addresses_must_be_the_tenants():
    own = {"type": "static", "addresses": [{"address": "10.100.8.7/16"}]}
    assert build(own) == own
    other = {"type": "static", "addresses": [{"address": "10.100.12.7/16"}]}
    assert "Use an address of 10.100.8.0/22" in refused(other)


def test_a_device_without_ranges_offers_no_addresses():
    assert build({}, device="br-bare", vlan=0) == {}
    assert "Remove it" in refused({"type": "whereabouts"}, device="br-bare", vlan=0)
