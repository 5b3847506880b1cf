"""The twin of a NetworkAttachmentDefinition."""

from __future__ import annotations

import json

import pytest

from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.rules.network.attachments import definitions
from tenancy.policy.network_attachments import DisputedAttachments
from tests.support.syncer.attachments import (
    OWN,
    SHARED,
    attachment_view,
    bridge,
    definition,
    offered,
)
from tests.support.syncer.tenant_views import OTHER, as_live


def build(config, view=None, **fields):
    return definitions.build_definition(definition(config, **fields), view or attachment_view())


def config_of(twin):
    return json.loads(twin["spec"]["config"])


def test_the_twin_is_in_the_super_namespace_with_the_tenants_share():
    found = build(bridge())
    assert found["metadata"]["namespace"] == "default-abc123-vc-web"
    main = config_of(found)["plugins"][0]
    assert (main["bridge"], main["vlan"], main["ipam"]["range_start"]) == (
        *(SHARED, 100, "10.100.8.0"),
    )


def test_equal_networks_of_two_tenants_never_meet():
    """The same name, the same VLAN number and the same range: another VLAN and another pool."""
    said = bridge(bridge=OWN, vlan=0, ipam={"type": "whereabouts", "range": "10.20.0.0/16"})
    one = config_of(build(said))
    view = attachment_view(tenant=OTHER, service_range="10.96.12.0/22")
    other = config_of(build(said, view))
    assert one["plugins"][0]["vlan"] != other["plugins"][0]["vlan"]
    assert one["plugins"][0]["ipam"]["network_name"] != other["plugins"][0]["ipam"]["network_name"]
    assert one["name"] != other["name"]


def test_the_text_is_compact_json_without_escapes_for_the_gate():
    text = build(bridge())["spec"]["config"]
    assert text.startswith('{"cniVersion":"')
    assert not {" ", "\n", "\\"} & set(text)


def test_untagged_has_no_vlan_key_and_the_plugin_vlan_needs_one():
    assert "vlan" not in config_of(build(bridge(vlan=0)))["plugins"][0]
    assert config_of(build(bridge()))["plugins"][0]["preserveDefaultVlan"] is False
    said = {"type": "vlan", "master": SHARED, "vlanId": 0}
    with pytest.raises(RejectedError, match="needs a VLAN"):
        build(said)


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        (bridge(bridge="docker0"), "network-device"),
        (bridge(vlan=7), "network-vlan"),
        ({"type": "ipvlan", "master": SHARED, "mode": "l2"}, "network-type"),
        ({"plugins": [{"type": "macvlan", "master": SHARED}, {"type": "sbr"}]}, "network-type"),
        (bridge(ipam={"type": "whereabouts", "range": "10.0.0.0/24"}), "network-range"),
        ("", "network-config"),
    ],
)
def test_what_the_policy_does_not_offer_is_refused_and_a_twin_deleted(config, rule):
    with pytest.raises(ForbiddenObjectError) as problem:
        build(config)
    assert {each.rule for each in problem.value.problems} == {rule}


def test_without_an_offer_nothing_is_synced():
    with pytest.raises(ForbiddenObjectError, match="not offered to this cluster"):
        build(bridge(), attachment_view(types=[]))


def test_policies_that_divide_differently_offer_nothing():
    view = attachment_view()
    own = view.policy.network.attachments
    fields = {name: getattr(own, name) for name in own.__struct_fields__}
    network = type(view.policy.network)(attachments=DisputedAttachments(**fields, dispute="both"))
    policy = type(view.policy)(network=network)
    object.__setattr__(view, "policy", policy)
    with pytest.raises(ForbiddenObjectError, match="two policies divide it differently"):
        build(bridge(), view)


def test_the_name_of_the_tenants_own_network_is_reserved():
    with pytest.raises(RejectedError, match="reserved"):
        build(bridge(), name="vc-network")


def test_an_unknown_field_is_refused():
    said = definition(bridge())
    said["spec"]["device"] = "eth0"
    with pytest.raises(RejectedError, match="device"):
        definitions.build_definition(said, attachment_view())


def test_annotations_that_name_devices_stay_in_the_tenant():
    said = definition(bridge())
    said["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/resourceName": "intel.com/sriov"}
    found = definitions.build_definition(said, attachment_view())
    assert "k8s.v1.cni.cncf.io/resourceName" not in found["metadata"]["annotations"]


def test_a_change_of_the_live_configuration_is_drift():
    twin = build(bridge())
    live = as_live(twin)
    assert definitions.build_change(live, twin) is None
    live["spec"] = {"config": "{}"}
    assert definitions.build_change(live, twin)["spec"] == twin["spec"]


def test_the_offer_of_these_tests_is_valid():
    assert offered().network.attachments.is_offered
