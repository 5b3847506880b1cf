"""A tenant's own network."""

from __future__ import annotations

import dataclasses
import json

import pytest
from msgspec.structs import replace

from kubeio.cache.store import Store
from syncer.model.rejections import RejectedError
from syncer.rules.network.attachments import definitions, primary_networks
from syncer.rules.pods import dns
from tests.support.syncer.attachments import NETWORK, OWN, attachment_view
from tests.support.syncer.tenant_views import OTHER, entry_of


def own_view(network=NETWORK, **fields):
    return attachment_view(network=network, **fields)


def plugin_of(view):
    return json.loads(primary_networks.check_network(view))["plugins"][0]


def test_the_network_is_a_vlan_of_the_tenants_own_with_its_range():
    found = plugin_of(own_view())
    assert (found["bridge"], found["vlan"], found["ipam"]["range"]) == (OWN, 1031, "10.20.0.0/16")
    assert found["ipam"]["exclude"] == ["10.20.0.1/32"]
    assert found["ipam"]["routes"] == [{"dst": "0.0.0.0/0", "gw": "10.20.0.1"}]


def test_two_tenants_may_have_equal_ranges():
    one = plugin_of(own_view())
    other = plugin_of(own_view(tenant=OTHER, service_range="10.96.12.0/22"))
    assert one["ipam"]["range"] == other["ipam"]["range"]
    assert one["vlan"] != other["vlan"]
    assert one["ipam"]["network_name"] != other["ipam"]["network_name"]


def test_the_definition_is_the_tenants_in_each_super_namespace():
    space = entry_of({"metadata": {"name": "web", "uid": "web-uid"}})
    found = primary_networks.build_network(space, own_view())
    assert (found["metadata"]["name"], found["metadata"]["namespace"]) == (
        *("vc-network", "default-abc123-vc-web"),
    )


@pytest.mark.parametrize(
    ("network", "fields", "text"),
    [
        (replace(NETWORK, driver="other"), {}, "Use one of multus-primary"),
        (replace(NETWORK, cidr="10.21.0.0/16", gateway=""), {}, "Choose a part of one of them"),
        (replace(NETWORK, cidr="x"), {}, "cidr 'x'"),
        (replace(NETWORK, cidr="10.20.0.8/30", gateway=""), {}, "at least 8 addresses"),
        (replace(NETWORK, gateway="10.9.0.1"), {}, "not in cidr"),
        (replace(NETWORK, dns=("x",)), {}, "dns 'x'"),
        (NETWORK, {"primaryDevice": ""}, "Set network.attachments.primaryDevice"),
        (NETWORK, {"types": []}, "Set network.attachments.primaryDevice"),
    ],
)
def test_a_bad_network_has_a_problem_with_a_remedy_and_no_pod(network, fields, text):
    view = own_view(network, **fields)
    assert text in primary_networks.find_problem(view)
    with pytest.raises(RejectedError, match="has no network yet"):
        primary_networks.build_annotation(view, "web")


def test_a_super_cluster_without_multus_is_a_problem_with_a_remedy():
    view = own_view()
    missing = {k: v for k, v in view.super_stores.items() if k != definitions.KIND}
    off = dataclasses.replace(view, super_stores=missing)
    assert "networkAttachments.enabled" in primary_networks.find_problem(off)
    bare = dataclasses.replace(view, super_stores={**missing, definitions.KIND: Store()})
    assert "Install Multus" in primary_networks.find_problem(bare)


def test_a_tenant_with_targets_has_no_network_of_its_own():
    view = own_view()
    split = dataclasses.replace(view, spec=replace(view.spec, targets=({"name": "x"},)))
    assert "Remove one of the two" in primary_networks.find_problem(split)


def test_a_tenant_without_a_network_is_as_before():
    view = attachment_view()
    assert primary_networks.find_problem(view) == ""
    assert primary_networks.build_annotation(view, "web") == ""


def test_pods_use_the_name_servers_of_the_network():
    found = dns.resolver_of(own_view(replace(NETWORK, dns=("10.20.0.2", "10.20.0.3"))))
    assert (found.server, found.additional_servers) == ("10.20.0.2", ("10.20.0.3",))
    assert dns.resolver_of(own_view()).server == ""
