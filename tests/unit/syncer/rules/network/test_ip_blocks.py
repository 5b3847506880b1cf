import pytest

from syncer.model.super_cidrs import CidrSet
from syncer.rules.network import ip_blocks
from tenancy.addresses import parse_networks


def nets(*texts):
    return CidrSet(parse_networks(texts))


@pytest.mark.parametrize(
    ("cidr", "excepts"),
    [
        ("10.0.0.0", []),
        ("10.0.0.0/33", []),
        (10, []),
        (None, []),
        ("10.0.0.0/8", "10.1.0.0/16"),
        ("10.0.0.0/8", None),
        ("10.0.0.0/8", ["11.0.0.0/16"]),
        ("10.0.0.0/8", ["10.0.0.0/8"]),
        ("10.0.0.0/8", ["fd00::/64"]),
        ("10.0.0.0/8", ["10.1.0.0/16", 7]),
        ("::ffff:10.0.0.0/104", []),
    ],
    ids=str,
)
def test_block_that_the_api_refuses_is_none(cidr, excepts):
    assert ip_blocks.parse_block(cidr, excepts) is None


@pytest.mark.parametrize(
    ("cidr", "excepts", "taken", "synced"),
    [
        ("203.0.113.0/24", [], ["10.96.0.0/16"], {"cidr": "203.0.113.0/24"}),
        (
            "10.0.0.0/8",
            [],
            ["10.96.0.0/16", "192.0.2.7/32"],
            {"cidr": "10.0.0.0/8", "except": ["10.96.0.0/16"]},
        ),
        (
            "10.0.0.0/8",
            ["10.96.1.0/24"],
            ["10.96.0.0/16"],
            {"cidr": "10.0.0.0/8", "except": ["10.96.0.0/16"]},
        ),
        ("10.96.7.0/24", [], ["10.96.0.0/16"], None),
        ("10.0.0.0/31", ["10.0.0.0/32"], ["10.0.0.1/32"], None),
        ("fd00::/64", [], ["10.96.0.0/16"], {"cidr": "fd00::/64"}),
    ],
    ids=[
        "nothing of it taken",
        "a part of it taken",
        "an exception lies in a taken network",
        "all of it taken",
        "what the exceptions leave is taken",
        "the other address family",
    ],
)
def test_synced_block_has_no_taken_address(cidr, excepts, taken, synced):
    block = ip_blocks.parse_block(cidr, excepts)
    assert block is not None
    assert block.subtract(nets(*taken)) == synced


@pytest.mark.parametrize(
    ("blocks", "covered"),
    [
        ([("10.0.0.0/8", []), ("fd00::/8", [])], True),
        ([("10.0.0.0/8", [])], False),
        ([("10.0.0.0/8", ["10.96.3.0/24"]), ("fd00::/8", [])], False),
        ([("10.96.0.0/17", []), ("10.96.128.0/17", []), ("fd00::/8", [])], False),
        ([], False),
    ],
    ids=["both", "one family only", "an exception in it", "two halves", "no block"],
)
def test_network_is_covered_by_one_whole_block(blocks, covered):
    parsed = [ip_blocks.parse_block(*each) for each in blocks]
    wanted = nets("10.96.0.0/16", "fd00:1::/32")
    assert ip_blocks.is_covered([each for each in parsed if each], wanted) is covered


def test_size_counts_what_a_block_may_become():
    block = ip_blocks.parse_block("10.0.0.0/8", ["10.1.0.0/16", "10.2.0.0/16"])
    assert block is not None
    assert block.estimate_size(nets("10.96.0.0/16", "10.98.0.0/16", "192.0.2.7/32")) == 5
