"""The strict reading of a CNI configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model.rejections import RejectedError
from syncer.rules.network.attachments import cni_config, plugin_tables
from tests.support.syncer.attachments import bridge


def refused(text: Any) -> str:
    """Return the sentences of a refusal."""
    with pytest.raises(RejectedError) as problem:
        cni_config.parse_config(text if isinstance(text, str) else json.dumps(text))
    return str(problem.value)


def test_a_plain_configuration_and_a_list_are_the_same():
    plain = cni_config.parse_config(json.dumps(bridge(name=None, cniVersion=None)))
    listed = cni_config.parse_config(
        json.dumps({"cniVersion": "1.0.0", "plugins": [bridge(name=None, cniVersion=None)]})
    )
    assert plain == listed
    assert (plain.version, plain.main["bridge"], plain.ipam["type"]) == (
        *("1.0.0", "br-shared", "whereabouts"),
    )


HOSTILE: dict[str, Any] = {
    "empty": "",
    "no object": "[]",
    "no JSON": "{",
    "deep": '{"type":' + "[" * 5000,
    "huge": json.dumps({"type": "bridge", "name": "x" * 20_000}),
    "number too large": '{"type":"bridge","bridge":"br-shared","vlan":' + "9" * 5000 + "}",
    "constant": '{"type":"bridge","bridge":"br-shared","mtu":NaN}',
    "repeated key": '{"type":"bridge","bridge":"br-shared","bridge":"br-other"}',
    "repeated key inside": '{"type":"bridge","bridge":"b","ipam":{"type":"static","type":"dhcp"}}',
    "other case": bridge() | {"Type": "host-device"},
    "unknown plugin": bridge(type="host-device"),
    "multus": bridge(type="multus"),
    "plugin by path": bridge(type="../../evil"),
    "delegate": bridge(delegate={"type": "bridge"}),
    "delegates": bridge(delegates=[]),
    "gateway": bridge(isGateway=True),
    "default gateway": bridge(isDefaultGateway=True),
    "masquerade": bridge(ipMasq=True),
    "promiscuous": bridge(promiscMode=True),
    "untagged frames as well": bridge(preserveDefaultVlan=True),
    "trunk": bridge(vlanTrunk=[{"minID": 1, "maxID": 4094}]),
    "data folder": bridge(ipam={"type": "static", "dataDir": "/etc"}),
    "host-local": bridge(ipam={"type": "host-local", "subnet": "10.0.0.0/24"}),
    "DHCP": bridge(ipam={"type": "dhcp"}),
    "log file": bridge(ipam={"type": "whereabouts", "log_file": "/etc/passwd"}),
    "kubeconfig": bridge(ipam={"type": "whereabouts", "kubernetes": {"kubeconfig": "/root/k"}}),
    "pool of another": bridge(ipam={"type": "whereabouts", "network_name": "theirs"}),
    "device missing": bridge(bridge=None),
    "vlan as text": bridge(vlan="100"),
    "flag as vlan": bridge(vlan=True),
    "passthru": {"type": "macvlan", "master": "eth1", "mode": "passthru"},
    "macvlan without master": {"type": "macvlan", "mode": "bridge"},
    "vlan on macvlan": {"type": "macvlan", "master": "eth1", "vlan": 3},
    "no plugins": {"plugins": []},
    "many plugins": {"plugins": [bridge(name=None, cniVersion=None)] * 9},
    "nested list": {"plugins": [{"plugins": [bridge()]}]},
    "plugin is a text": {"plugins": ["bridge"]},
    "key beside the list": {"plugins": [bridge(name=None, cniVersion=None)], "args": {}},
    "chained firewall": {"plugins": [bridge(name=None, cniVersion=None), {"type": "firewall"}]},
    "sysctl": {
        "plugins": [bridge(name=None, cniVersion=None), {"type": "tuning", "sysctl": {"a": "1"}}]
    },
    "port mappings": bridge(capabilities={"portMappings": True}),
    "runtime configuration": bridge(runtimeConfig={"ips": ["10.0.0.1"]}),
    "route without destination": bridge(
        ipam={"type": "whereabouts", "routes": [{"gw": "10.0.0.1"}]}
    ),
    "ipam is a list": bridge(ipam=[]),
    "old version": bridge(cniVersion="0.1.0"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_everything_that_is_not_listed_is_refused_with_the_field_and_a_remedy(case):
    found = refused(HOSTILE[case])
    assert "spec.config" in found
    assert "(rule network-" in found
    assert len(found) < 2000


def test_a_refusal_names_the_key_and_the_keys_that_are_offered():
    found = refused(bridge(isGateway=True))
    assert "spec.config.isGateway is not offered. Remove it" in found
    assert "bridge, macspoofchk" in found


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "ipam", "plugins", "bridge", "range", "x", "delegate"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_is_accepted_has_listed_keys_only(value):
    try:
        found = cni_config.parse_config(json.dumps(value))
    except RejectedError:
        return
    row = plugin_tables.MAIN_PLUGINS[found.main["type"]]
    known = {"type", "ipam", "capabilities", row.device_key, row.vlan_key, *row.keys}
    assert set(found.main) <= known
