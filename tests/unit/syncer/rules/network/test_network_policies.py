"""The twin of a network policy, shape by shape, and how large it may be."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.model.super_cidrs import SuperCidrs
from syncer.model.tenant_view import TenantView
from syncer.rules.network import network_policies
from tenancy import wellknown
from tenancy.addresses import parse_networks
from tests.support.syncer.tenant_views import (
    NAME,
    TENANT,
    as_live,
    network_view,
    object_of,
    policy,
)


def twin_of(view: TenantView | None = None, **spec: Any) -> dict[str, Any]:
    """Return the spec of the twin of one policy."""
    body = object_of("NetworkPolicy", spec={"podSelector": {}, **spec})
    found: dict[str, Any] = network_policies.build_network_policy(body, view or network_view())[
        "spec"
    ]
    return found


def own_rules(spec: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """Return the rules less the last one, which is the way to the control plane."""
    rules: list[dict[str, Any]] = spec[field]
    assert wellknown.COMPONENT in str(rules[-1])
    return rules[:-1]


def test_a_peer_that_selects_no_namespace_takes_its_rule_along():
    nobody = [{"namespaceSelector": {"matchLabels": {"team": "none"}}}]
    view = network_view(namespaces={"web": {}})
    spec = twin_of(view, ingress=[{"from": nobody}], policyTypes=["Ingress"])
    assert own_rules(spec, "ingress") == []
    assert "egress" not in spec


def test_namespaces_are_listed_under_the_mark():
    view = network_view(namespaces={"a": {"team": "x"}, "b": {"team": "x"}, "c": {}})
    peers = [{"namespaceSelector": {"matchLabels": {"team": "x"}}}]
    (rule,) = own_rules(twin_of(view, ingress=[{"from": peers}]), "ingress")
    assert rule["from"] == [
        {
            "namespaceSelector": {
                "matchLabels": {wellknown.VC_UID: TENANT.uid},
                "matchExpressions": [
                    {
                        "key": NAME,
                        "operator": "In",
                        "values": ["default-abc123-vc-a", "default-abc123-vc-b"],
                    }
                ],
            }
        }
    ]


@pytest.mark.parametrize("cidr", ["10.244.3.0/24", "192.0.2.7/32", "10.96.8.1/32"])
def test_a_block_inside_the_super_cluster_is_dropped(cidr):
    spec = twin_of(egress=[{"to": [{"ipBlock": {"cidr": cidr}}]}], policyTypes=["Egress"])
    assert own_rules(spec, "egress") == []


def test_a_block_loses_the_ranges_inside_it():
    peers = [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]
    (rule,) = own_rules(twin_of(egress=[{"to": peers}]), "egress")
    blocks = [peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer]
    assert blocks == [
        {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.96.0.0/16", "10.244.0.0/16"]}
    ]


def test_ranges_of_the_policy_are_taken_out_too():
    view = network_view(policy=policy(network={"superRanges": ["203.0.113.0/24", "nonsense"]}))
    peers = [{"ipBlock": {"cidr": "203.0.113.0/25"}}]
    for field, side in (("ingress", "from"), ("egress", "to")):
        assert own_rules(twin_of(view, **{field: [{side: peers}]}), field) == []


def test_what_comes_through_a_node_keeps_its_address():
    peers = [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    (into,) = own_rules(twin_of(ingress=[{"from": peers}]), "ingress")
    assert into["from"] == peers
    (out,) = own_rules(twin_of(egress=[{"to": peers}]), "egress")
    assert out["to"][0]["ipBlock"]["except"] == ["192.0.2.7/32", "192.0.2.8/32"]


def test_excepts_that_leave_nothing_drop_the_block():
    half = SuperCidrs(pods=parse_networks(("10.0.0.0/9",)))
    peers = [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.128.0.0/9"]}}]
    spec = twin_of(network_view(ranges=half), ingress=[{"from": peers}])
    assert not [
        peer for rule in own_rules(spec, "ingress") for peer in rule["from"] if "ipBlock" in peer
    ]


@pytest.mark.parametrize(
    ("block", "has_pods"),
    [
        ({"cidr": "0.0.0.0/0"}, True),
        ({"cidr": "10.0.0.0/8"}, True),
        ({"cidr": "10.244.0.0/17"}, False),
        ({"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}, False),
        ({"cidr": "0.0.0.0/0", "except": ["10.244.7.0/24"]}, False),
        ({"cidr": "::/0"}, False),
    ],
)
def test_a_block_that_names_all_pods_names_the_tenants(block, has_pods):
    rules = own_rules(twin_of(egress=[{"to": [{"ipBlock": block}]}]), "egress")
    assert any("namespaceSelector" in peer for rule in rules for peer in rule["to"]) is has_pods


@pytest.mark.parametrize(
    ("spec", "rule", "path"),
    [
        ({"ingress": [{"from": [{}]}]}, "malformed", "spec.ingress[0].from[0]"),
        (
            {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]}]},
            "malformed",
            "spec.ingress[0].from[0]",
        ),
        (
            {"ingress": [{"from": [{"ipBlock": {"cidr": "::ffff:10.0.0.0/104"}}]}]},
            "malformed",
            "spec.ingress[0].from[0].ipBlock",
        ),
        (
            {"ingress": [{"from": [{"ipBlock": {"cidr": "1.0.0.0/8", "except": ["2.0.0.0/8"]}}]}]},
            "malformed",
            "spec.ingress[0].from[0].ipBlock",
        ),
        ({"ingress": [{"from": [{"ipBlock": {"cidr": 7}}]}]}, "malformed", None),
        (
            {"ingress": [{"from": [{"ipBlock": {"cidr": "1.0.0.0/8", "except": 1}}]}]},
            "malformed",
            None,
        ),
        ({"ingress": "all"}, "malformed", "spec.ingress"),
        ({"ingress": [["all"]]}, "malformed", "spec.ingress[0]"),
        ({"ingress": [{"from": {"a": 1}}]}, "malformed", "spec.ingress[0].from"),
        ({"podSelector": {"matchLabels": ["a"]}}, "malformed", "spec.podSelector.matchLabels"),
        (
            {"podSelector": {"matchExpressions": [{"key": ["a"], "operator": "Exists"}]}},
            "malformed",
            None,
        ),
        (
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}},
            "malformed",
            None,
        ),
        (
            {
                "ingress": [
                    {
                        "from": [
                            {
                                "namespaceSelector": {
                                    "matchExpressions": [{"key": "a", "operator": "Near"}]
                                }
                            }
                        ]
                    }
                ]
            },
            "malformed",
            None,
        ),
        ({"policyTypes": "Ingress"}, "malformed", "spec.policyTypes"),
        ({"policyTypes": ["Sideways"]}, "policy-type", "spec.policyTypes"),
        ({"tiers": [1]}, "unknown-field", "spec.tiers"),
    ],
)
def test_policies_that_are_rejected(spec, rule, path):
    with pytest.raises(RejectedError) as rejected:
        twin_of(**spec)
    assert {problem.rule for problem in rejected.value.problems} == {rule}
    assert path is None or rejected.value.problems[0].path == path


def test_selectors_of_pods_name_translated_keys_and_those_of_namespaces_the_tenants():
    inject, zone, forged = "sidecar.istio.io/inject", "topology.kubernetes.io/zone", "k8s.io/team"
    peer = {
        "podSelector": {"matchLabels": {inject: "true"}},
        "namespaceSelector": {"matchLabels": {forged: "x"}},
    }
    absent = {"key": zone, "operator": "DoesNotExist"}
    spec = twin_of(
        network_view(namespaces={"a": {forged: "x"}, "b": {}}),
        podSelector={"matchLabels": {wellknown.VC_UID: "u"}, "matchExpressions": [absent]},
        egress=[{"to": [peer]}],
    )
    key = wellknown.translate_label_key
    assert spec["podSelector"] == {
        "matchLabels": {key(wellknown.VC_UID): "u"},
        "matchExpressions": [{**absent, "key": key(zone)}],
    }
    (rule,) = own_rules(spec, "egress")
    (made,) = rule["to"]
    assert made["podSelector"] == {"matchLabels": {key(inject): "true"}}
    assert made["namespaceSelector"]["matchLabels"] == {wellknown.VC_UID: TENANT.uid}
    assert made["namespaceSelector"]["matchExpressions"][0]["values"] == ["default-abc123-vc-a"]


def test_a_cluster_without_policies_is_reported():
    refused = policy(sync={"networkPolicies": "Refuse"})
    with pytest.raises(ForbiddenObjectError):
        twin_of(network_view(policy=refused))


def test_an_added_peer_in_the_super_cluster_is_drift_and_a_default_is_not():
    body = object_of("NetworkPolicy", spec={"podSelector": {}, "ingress": []})
    twin = network_policies.build_network_policy(body, network_view())
    wide = as_live(twin, spec={**twin["spec"], "ingress": [{}]})
    put = network_policies.build_change(wide, twin)
    assert put is not None
    assert put["spec"] == twin["spec"]
    assert put["metadata"]["uid"] == "below"
    newer = as_live(twin, spec={**twin["spec"], "mode": "new"})
    assert network_policies.build_change(newer, twin) is None


# --- how large ------------------------------------------------------------------------------------

MANY_NODES = SuperCidrs(
    nodes=parse_networks(f"192.0.{n // 100}.{2 * (n % 100)}" for n in range(1000))
)


def too_large(view: TenantView, **spec: Any) -> str:
    """Return why a policy is rejected as too large."""
    with pytest.raises(RejectedError) as rejected:
        twin_of(view, **spec)
    (problem,) = rejected.value.problems
    assert problem.rule == "too-large"
    assert not isinstance(rejected.value, ForbiddenObjectError)
    return problem.text


def test_the_same_peer_counts_once():
    peers = [{"ipBlock": {"cidr": "0.0.0.0/0"}}] * 1000
    spec = twin_of(network_view(ranges=MANY_NODES), policyTypes=["Egress"], egress=[{"to": peers}])
    (rule,) = own_rules(spec, "egress")
    (block,) = [peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer]
    assert len([net for net in block["except"] if net.startswith("192.0.")]) == 1000


@pytest.mark.parametrize(
    "egress",
    [
        [
            {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [f"9.{n}.0.0/16"]}}]}
            for n in range(25)
        ],
        [{"ports": [{"port": 80 + n}]} for n in range(25)],
    ],
)
def test_blocks_times_the_addresses_below_have_a_limit(egress):
    view = network_view(ranges=MANY_NODES)
    assert "20000 networks" in too_large(view, egress=egress)
    assert twin_of(view, egress=egress[:15])


def test_selectors_times_namespaces_have_a_limit():
    view = network_view(namespaces={f"n{number}": {"team": "x"} for number in range(1000)})
    peers = [
        {
            "namespaceSelector": {"matchLabels": {"team": "x"}},
            "podSelector": {"matchLabels": {"a": str(n)}},
        }
        for n in range(25)
    ]
    assert "20000 networks" in too_large(view, ingress=[{"from": peers}])
    wide = {
        "matchExpressions": [
            {"key": "team", "operator": "In", "values": [str(n) for n in range(100)]}
        ]
    }
    assert "labels and values" in too_large(view, ingress=[{"from": [{"namespaceSelector": wide}]}])
    assert twin_of(view, ingress=[{"from": peers[:15]}])


@pytest.mark.parametrize(
    "ingress",
    [
        [{}] * 2001,
        [{"from": [{"podSelector": {}}] * 2000}],
        [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] * 2000}}]}],
    ],
)
def test_what_is_written_has_a_limit_too(ingress):
    assert "2000" in too_large(network_view(), ingress=ingress)


def test_the_ranges_are_looked_up_once_for_a_policy():
    view = network_view()
    calls, ranges = [], view.get_super_cidrs()
    object.__setattr__(view, "get_super_cidrs", lambda: calls.append(1) or ranges)
    peers = [{"ipBlock": {"cidr": f"198.51.{n}.0/24"}} for n in range(50)]
    twin_of(view, egress=[{"to": peers}, {"to": peers}], ingress=[{}])
    assert len(calls) == 1
