"""The status of a pod's networks, in the tenant's names only."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from syncer.rules.network.attachments import network_status

NAMESPACES = {"default-abc123-vc-web": "web", "default-abc123-vc-db": "db"}
KEY, OLD_KEY = network_status.STATUS_ANNOTATIONS


def translate(entries):
    text = entries if isinstance(entries, str) else json.dumps(entries)
    return json.loads(network_status.translate_status(text, NAMESPACES))


def test_names_are_the_tenants_and_unknown_fields_are_left_out():
    found = translate(
        [
            {
                "name": "cbr0",
                "interface": "eth0",
                "ips": ["10.244.0.7"],
                "default": True,
                "dns": {},
            },
            {
                "name": "default-abc123-vc-web/lab",
                "interface": "net1",
                "ips": ["10.100.8.9"],
                "mac": "02:00:00:00:00:01",
                "mtu": 1500,
                "gateway": ["10.100.0.1"],
                "dns": {"nameservers": ["10.100.0.2"], "domain": "super.example"},
                "device-info": {"type": "pci", "pci": {"pci-address": "0000:3b:02.2"}},
            },
        ]
    )
    assert found == [
        {
            "name": "",
            "interface": "eth0",
            "ips": ["10.244.0.7"],
            "default": True,
            "dns": {},
        },
        {
            "name": "web/lab",
            "interface": "net1",
            "ips": ["10.100.8.9"],
            "mac": "02:00:00:00:00:01",
            "mtu": 1500,
            "gateway": ["10.100.0.1"],
            "dns": {"nameservers": ["10.100.0.2"]},
        },
    ]


def test_a_network_of_another_namespace_is_left_out():
    assert translate([{"name": "default-def456-other-web/lab", "interface": "net1"}]) == []
    assert translate([{"name": "kube-system/storage", "interface": "net1"}]) == []


def test_the_tenants_own_network_has_its_name_without_a_namespace():
    said = [{"name": "default-abc123-vc-web/vc-network", "default": True}]
    assert translate(said)[0]["name"] == "vc-network"


def test_a_status_that_cannot_be_read_is_empty():
    for text in ("", "{", "{}", "null", "[1]", "x" * 40_000):
        assert translate(text) == []


def test_a_patch_has_only_what_differs_and_what_the_twin_has():
    below = {KEY: json.dumps([{"name": "default-abc123-vc-web/lab"}])}
    patch = network_status.build_status_patch({OLD_KEY: "mine"}, below, NAMESPACES)
    assert set(patch) == {KEY}
    assert network_status.build_status_patch(patch, below, NAMESPACES) == {}
    assert network_status.build_status_patch({KEY: "mine"}, {}, NAMESPACES) == {}


LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(
        ["default-def456-other-web/secret", "kube-system/secret", "secret", "10.0.0.1", "eth0"]
    ),
)
ENTRY = st.dictionaries(
    st.sampled_from(["name", "interface", "ips", "dns", "default", "device-info", "x", "mtu"]),
    st.one_of(LEAF, st.lists(LEAF, max_size=3), st.dictionaries(st.text(max_size=4), LEAF)),
)


@given(st.lists(ENTRY, max_size=5))
def test_no_name_of_another_namespace_ever_comes_up(entries):
    for each in translate(entries):
        assert each["name"] in ("", "vc-network") or each["name"].split("/")[0] in {"web", "db"}
        assert "secret" not in json.dumps({**each, "interface": ""})
