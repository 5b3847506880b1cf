"""Network policies of additional interfaces."""

from __future__ import annotations

import pytest

from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.rules.network.attachments import multi_network_policies as policies
from tenancy import wellknown
from tests.support.syncer.attachments import attachment_view
from tests.support.syncer.tenant_views import as_live

MINE = "default-abc123-vc-"


def said(spec=None, networks="lab"):
    return {
        "kind": policies.KIND,
        "metadata": {
            "name": "p",
            "namespace": "web",
            "uid": "p-uid",
            "annotations": {policies.POLICY_FOR: networks} if networks is not None else {},
        },
        "spec": spec if spec is not None else {"podSelector": {}},
    }


def build(spec=None, networks="lab", **fields):
    view = attachment_view(**{"multiNetworkPolicies": "Allow", **fields})
    return policies.build_policy(said(spec, networks), view)


@pytest.mark.parametrize(
    ("networks", "wanted"),
    [
        ("lab", f"{MINE}web/lab"),
        ("db/lab, lab", f"{MINE}db/lab,{MINE}web/lab"),
    ],
)
def test_the_networks_are_those_of_the_tenant(networks, wanted):
    found = build(networks=networks)
    assert found["metadata"]["annotations"][policies.POLICY_FOR] == wanted


@pytest.mark.parametrize("networks", [None, "", "a/b/c", "Lab", "lab,,lab", ",".join(["lab"] * 17)])
def test_a_policy_for_no_network_is_refused(networks):
    with pytest.raises(RejectedError, match="must list 1 to 16 networks"):
        build(networks=networks)


def test_selectors_select_pods_of_the_tenant_only():
    peers = [
        {"namespaceSelector": {"matchLabels": {}}},
        {"podSelector": {"matchLabels": {"app": "db"}}},
        {"ipBlock": {"cidr": "10.100.0.0/16"}},
    ]
    found = build({"podSelector": {}, "ingress": [{"from": peers}]})["spec"]["ingress"][0]["from"]
    assert found[0]["namespaceSelector"]["matchLabels"][wellknown.VC_UID] == "vc-uid"
    assert found[1:] == [
        {"podSelector": {"matchLabels": {"app": "db"}}},
        {"ipBlock": {"cidr": "10.100.0.0/16"}},
    ]


def test_a_rule_goes_with_its_last_peer_and_a_rule_without_peers_stays():
    nothing = {"namespaceSelector": {"matchLabels": {"no": "such"}}}
    spec = {"podSelector": {}, "egress": [{"to": [nothing]}, {"ports": [{"port": 5432}]}]}
    assert build(spec)["spec"]["egress"] == [{"ports": [{"port": 5432}]}]


def test_a_policy_that_is_not_offered_is_refused():
    with pytest.raises(ForbiddenObjectError, match="has no effect"):
        build(multiNetworkPolicies="Refuse")
    with pytest.raises(ForbiddenObjectError, match="not offered"):
        build(types=[])


def test_malformed_peers_and_unknown_fields_are_refused():
    for spec in (
        {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "x"}}]}]},
        {"podSelector": {}, "other": 1},
    ):
        with pytest.raises(RejectedError):
            build(spec)


def test_a_changed_live_policy_is_drift():
    twin = build()
    live = as_live(twin)
    assert policies.build_change(live, twin) is None
    live["spec"] = {**twin["spec"], "policyTypes": ["Egress"]}
    assert policies.build_change(live, twin) is not None
