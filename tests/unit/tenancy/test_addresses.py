"""An address that is dialled with a credential must be of another machine."""

import ipaddress

import pytest

from tenancy import addresses


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"),
        *("169.254.169.254", "fe80::1", "fe80::1%eth0", "::ffff:169.254.1.1"),
        *("0.0.0.0", "::", "::ffff:0.0.0.0"),  # noqa: S104 - is refused
        *("224.0.0.1", "ff02::1", "::ffff:224.0.0.1"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "::127.0.0.1"),
        *("::ffff:0:127.0.0.1", "0.0.0.1", "240.0.0.1", "255.255.255.255"),
    ],
)
def test_what_means_no_other_machine_is_reported(text):
    assert addresses.check_remote_address(ipaddress.ip_address(text)).startswith("is ")


@pytest.mark.parametrize(
    "text", ["10.0.0.5", "192.0.2.7", "fd00::5", "::ffff:10.0.0.5", "64:ff9b::a00:5"]
)
def test_what_can_be_another_machine_is_fine(text):
    assert addresses.check_remote_address(ipaddress.ip_address(text)) == ""


def test_texts_are_networks_or_left_out():
    texts = ("10.0.1.7/24", "192.0.2.7", "fe80::1%eth0", "a.example", "", "fd00::/8")
    found = addresses.parse_networks(texts)
    assert [*map(str, found)] == ["10.0.1.0/24", "192.0.2.7/32", "fd00::/8"]


def test_networks_are_collapsed_with_ipv4_first():
    nets = addresses.parse_networks(("fd00::/8", "10.0.1.0/24", "10.0.0.0/24", "10.0.0.7"))
    assert [*map(str, addresses.collapse_networks(nets))] == ["10.0.0.0/23", "fd00::/8"]
