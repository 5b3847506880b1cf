"""Networks that a TenantPolicy offers."""

from __future__ import annotations

import msgspec
import pytest

from tenancy.policies import parse_tenant_policy
from tenancy.policy import network_attachments as attachments
from tenancy.policy.network_attachments import NetworkAttachments
from tenancy.specs import InvalidSpecError


def offer(*devices, **fields):
    return msgspec.convert({"types": ["bridge"], "devices": devices, **fields}, NetworkAttachments)


SHARED = {"name": "br", "vlans": ["100-109"], "ranges": ["10.0.0.0/16"]}
OWN = {"name": "br", "tenantVlans": "1000-1999", "ranges": ["10.0.0.0/16"]}


def test_without_types_nothing_is_offered():
    assert not NetworkAttachments().is_offered
    assert offer(SHARED).is_offered
    assert not offer(SHARED).conflict


@pytest.mark.parametrize(
    ("text", "wanted"), [("7", [7]), ("0", [0]), ("9-11", [9, 10, 11]), ("4094", [4094])]
)
def test_vlans_are_read(text, wanted):
    assert list(attachments.parse_vlans(text)) == wanted


@pytest.mark.parametrize("text", ["", "x", "11-9", "4095", "1-4095", "-1", "1-2-3"])
def test_other_texts_are_no_vlans(text):
    with pytest.raises(attachments.InvalidAttachmentsError):
        attachments.parse_vlans(text)


def test_a_device_without_vlans_is_untagged():
    device = offer({"name": "br"}).devices[0]
    assert attachments.list_shared_vlans(device) == {0}
    assert attachments.list_shared_vlans(offer(OWN).devices[0]) == frozenset()


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"devices": [SHARED, SHARED]}, "names one device twice"),
        ({"devices": [{"name": "a/b"}]}, "name of an interface"),
        ({"devices": [{**OWN, "vlans": ["1"]}]}, "Keep one of them"),
        ({"devices": [{"name": "br", "tenantVlans": "0-9"}]}, "must not contain 0"),
        ({"devices": [{"name": "br", "vlans": ["x"]}]}, "is no VLAN"),
        ({"devices": [{"name": "br", "ranges": ["10.0.0.1/16"]}]}, "host bits"),
        ({"devices": [{"name": "br", "ranges": ["10.0.0.0/16", "10.0.1.0/24"]}]}, "overlaps"),
        ({"devices": [SHARED], "primaryDevice": "br"}, "is no device with tenantVlans"),
        ({"devices": [OWN], "primaryDevice": "br", "types": ["macvlan"]}, "Add it to types"),
    ],
)
def test_values_that_no_network_can_have_make_the_policy_unreadable(spec, text):
    body = {
        "metadata": {"name": "p"},
        "spec": {"network": {"attachments": {"types": ["bridge"], **spec}}},
    }
    with pytest.raises(InvalidSpecError, match=text) as problem:
        parse_tenant_policy(body)
    assert "spec.network.attachments" in str(problem.value)


@pytest.mark.parametrize(
    ("one", "other", "is_conflict"),
    [
        (SHARED, SHARED, False),
        (OWN, OWN, False),
        (SHARED, {**SHARED, "ranges": ["10.0.0.0/17"]}, True),
        (SHARED, {**SHARED, "ranges": ["10.1.0.0/16"]}, False),
        (SHARED, {**SHARED, "vlans": ["200"], "ranges": ["10.0.0.0/17"]}, False),
        (SHARED, {**SHARED, "name": "other", "ranges": ["10.0.0.0/17"]}, False),
        (OWN, {**OWN, "tenantVlans": "1500-1600"}, True),
        (OWN, {**OWN, "tenantVlans": "2000-2100"}, False),
        (OWN, {"name": "br", "vlans": ["1500"]}, True),
        (OWN, {"name": "br", "vlans": ["100"]}, False),
    ],
)
def test_policies_conflict_if_they_divide_the_same_differently(one, other, is_conflict):
    for mine, theirs in ((one, other), (other, one)):
        found = attachments.resolve_conflict(offer(mine), {"theirs": offer(theirs)})
        assert bool(found.conflict) is is_conflict
        if is_conflict:
            assert "TenantPolicy theirs" in found.conflict


def test_a_disputed_offer_is_different_for_the_digest_of_a_plan():
    own = offer(OWN)
    disputed = attachments.resolve_conflict(own, {"x": offer({**OWN, "tenantVlans": "1500"})})
    assert msgspec.json.encode(own) != msgspec.json.encode(disputed)


def test_networks_that_cannot_be_read_are_left_out():
    assert [str(each) for each in attachments.list_networks(["10.0.0.0/8", "x"])] == ["10.0.0.0/8"]
