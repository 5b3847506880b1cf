"""Scheduling of a super pod: shown nodes, terms about the tenant alone, spreading."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.rejections import RejectedError, UnschedulableError
from syncer.rules.pods import pod_build, scheduling
from tenancy import wellknown
from tests.support.syncer.pods import FACTS, TENANT, below, build, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}


def on_nodes(*terms: dict[str, Any], preferred: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """Return a spec with an affinity to nodes."""
    found: dict[str, Any] = {}
    if terms:
        found[REQUIRED] = {"nodeSelectorTerms": list(terms)}
    if preferred:
        found[PREFERRED] = [{"weight": 1, "preference": each} for each in preferred]
    return {"affinity": {"nodeAffinity": found}}


def near(term: dict[str, Any], *, field: str = "podAffinity", soft: bool = False) -> dict[str, Any]:
    """Return a spec with an affinity to pods."""
    listed = [{"weight": 1, "podAffinityTerm": term}] if soft else [term]
    return {"affinity": {field: {PREFERRED if soft else REQUIRED: listed}}}


def refused(spec: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return why a pod is refused: rules, places and words."""
    with pytest.raises(RejectedError) as raised:
        pod_build.build_super_pod(pod(**spec), FACTS)
    return [(problem.rule, problem.path, problem.text) for problem in raised.value.problems]


# --- nodes ----------------------------------------------------------------------------------------

UNKNOWN = "names node-9, which is not a node of this cluster. Leave it out"
HIDDEN = (
    "uses the node label node-role.kubernetes.io/worker, which is hidden here. Use one that"
    " `kubectl get nodes --show-labels` lists"
)
NINTH = {"matchFields": [{**NODE, "values": ["node-1", "node-9"]}]}
ROLE = {"key": "node-role.kubernetes.io/worker", "operator": "Exists"}


@pytest.mark.parametrize(
    "spec", [{"nodeSelector": {ROLE["key"]: ""}}, on_nodes({"matchExpressions": [ROLE]})]
)
def test_a_label_that_no_node_shows_waits_for_one(spec):
    """The tenant may put it on one of its nodes."""
    with pytest.raises(UnschedulableError, match=ROLE["key"]):
        pod_build.build_super_pod(pod(**spec), FACTS)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"nodeName": "node-9"}, ("node-name", "spec.nodeName", UNKNOWN)),
        (on_nodes(NINTH), ("node-name", "spec.affinity.nodeAffinity", UNKNOWN)),
        (on_nodes(preferred=(NINTH,)), ("node-name", "spec.affinity.nodeAffinity", UNKNOWN)),
        (
            {"topologySpreadConstraints": [{"topologyKey": ROLE["key"], "maxSkew": 1}]},
            ("node-label", "spec.topologySpreadConstraints.topologyKey", HIDDEN),
        ),
        *(
            (
                near({"topologyKey": ROLE["key"]}, field=field, soft=soft),
                ("node-label", f"spec.affinity.{field}.topologyKey", HIDDEN),
            )
            for field in ("podAffinity", "podAntiAffinity")
            for soft in (False, True)
        ),
    ],
)
def test_what_the_tenants_nodes_do_not_show_is_refused_in_words(spec, told):
    assert refused(spec) == [told]


OURS = {"key": f"{wellknown.DOMAIN}/virtualnode", "operator": "Exists"}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"nodeSelector": {"disk": "ssd", OURS["key"]: ""}}, f"spec.nodeSelector[{OURS['key']}]"),
        (on_nodes({"matchExpressions": [OURS]}), "spec.affinity.nodeAffinity"),
        (on_nodes(preferred=({"matchExpressions": [OURS]},)), "spec.affinity.nodeAffinity"),
    ],
)
def test_our_own_labels_of_nodes_are_refused_in_words(spec, path):
    """No one puts them on a node but the syncer, so that no node could be waited for."""
    text = HIDDEN.replace(ROLE["key"], OURS["key"])
    assert refused(spec) == [("node-label", path, text)]


def test_every_place_that_is_refused_is_reported():
    spread = {"topologyKey": ROLE["key"], "maxSkew": 1}
    asked = {"nodeSelector": {OURS["key"]: ""}, "topologySpreadConstraints": [spread, dict(spread)]}
    assert [path for _, path, _ in refused(asked)] == [
        f"spec.nodeSelector[{OURS['key']}]",
        "spec.topologySpreadConstraints.topologyKey",
        "spec.topologySpreadConstraints.topologyKey",
    ]
    names = {"nodeName": "node-9", **on_nodes(NINTH, NINTH)}
    assert [(rule, path) for rule, path, _ in refused(names)] == [
        ("node-name", "spec.affinity.nodeAffinity"),
        ("node-name", "spec.affinity.nodeAffinity"),
        ("node-name", "spec.nodeName"),
    ]
    term = {"topologyKey": ROLE["key"]}
    both = {"affinity": {"podAffinity": {REQUIRED: [term, dict(term)]}}}
    assert [rule for rule, _, _ in refused(both)] == ["node-label", "node-label"]
    mixed = {"affinity": {"podAffinity": {REQUIRED: [term, {"topologyKey": "disk"}]}}}
    assert [rule for rule, _, _ in refused(mixed)] == ["node-label"]


def test_nodes_that_a_pod_names_and_the_tenant_has_not_got_are_found_everywhere():
    other = {"matchFields": [{**NODE, "values": ["node-8", 7, ""]}, {**NODE, "values": None}]}
    spec = {"nodeName": "node-9", **on_nodes(NINTH, {}, preferred=(other,))}
    assert scheduling.list_unknown_nodes(spec, {"node-1"}) == ["node-9", "node-9", "node-8"]
    assert scheduling.list_unknown_nodes({}, {"node-1"}) == []
    assert scheduling.list_unknown_nodes({"nodeName": "node-1"}, {"node-1"}) == []


def test_a_node_that_a_pod_names_is_demanded_in_each_of_its_terms():
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}
    terms = (
        {"matchFields": [field]},
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
    )
    found = build(pod(nodeName="node-1", **on_nodes(*terms)))["spec"]
    assert "nodeName" not in found
    assert found["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchFields": [field, NODE]},
        {**terms[1], "matchFields": [NODE]},
    ]
    alone = build(pod(nodeName="node-1"))["spec"]
    assert alone["affinity"] == {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [NODE]}]}}
    }


# --- pods -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("field", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(
    ("meant", "namespaces"),
    [
        ({}, None),
        ({"namespaces": ["db"]}, [below("db")]),
        ({"namespaces": []}, None),
        ({"namespaceSelector": {}}, [below("db"), below("other"), below("web")]),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, [below("db"), below("web")]),
        (
            {"namespaces": ["other"], "namespaceSelector": {"matchLabels": {"team": "a"}}},
            [below("db"), below("other"), below("web")],
        ),
        ({"namespaceSelector": {"matchLabels": {"team": "none"}}}, ["no-such-namespace"]),
    ],
)
def test_a_term_sees_pods_of_this_tenant_in_the_namespaces_that_it_means(
    field, soft, meant, namespaces
):
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["a"],
        "mismatchLabelKeys": ["b"],
        **meant,
    }
    found = build(pod(**near(term, field=field, soft=soft)))["spec"]["affinity"][field]
    (made,) = found[PREFERRED if soft else REQUIRED]
    made = made["podAffinityTerm"] if soft else made
    expected = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web", wellknown.VC_UID: TENANT.uid}},
    }
    assert made == ({**expected, "namespaces": namespaces} if namespaces else expected)


def test_a_term_that_selects_no_pod_goes_on_doing_so():
    found = build(pod(**near({"topologyKey": "kubernetes.io/hostname"})))["spec"]["affinity"]
    assert found == {"podAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname"}]}}


# --- spreading ------------------------------------------------------------------------------------


def test_pods_of_a_controller_are_spread_as_the_scheduler_would():
    owner = {"kind": "ReplicaSet", "name": "r", "uid": "r-uid", "controller": True}
    selector = {"matchLabels": {wellknown.CONTROLLER: "r-uid"}}
    spread = [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector,
        }
        for key, skew in (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))
    ]
    found = build(pod({"ownerReferences": [owner]}))["spec"]
    assert found["topologySpreadConstraints"] == spread
    own = [{"topologyKey": "kubernetes.io/hostname", "maxSkew": 1}]
    kept = build(pod({"ownerReferences": [owner]}, topologySpreadConstraints=own))["spec"]
    assert kept["topologySpreadConstraints"] == own
    for other in ({**owner, "kind": "Job"}, {**owner, "controller": False}):
        assert "topologySpreadConstraints" not in build(pod({"ownerReferences": [other]}))["spec"]


@pytest.mark.parametrize(
    ("keys", "expressions"),
    [
        (None, None),
        ([], None),
        (["app"], [{"key": "app", "operator": "In", "values": ["web"]}]),
        (["absent"], []),
    ],
)
def test_label_keys_of_a_constraint_become_what_the_pod_has(keys, expressions):
    constraint = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "labelSelector": {"matchLabels": {"x": "y"}},
        **({} if keys is None else {"matchLabelKeys": keys}),
    }
    found = build(pod({"labels": {"app": "web"}}, topologySpreadConstraints=[constraint]))
    (made,) = found["spec"]["topologySpreadConstraints"]
    assert "matchLabelKeys" not in made
    assert made["labelSelector"].get("matchExpressions") == expressions


def test_a_key_that_the_api_server_merged_already_is_not_merged_again():
    there = {"key": "app", "operator": "In", "values": ["web"]}
    constraint = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "labelSelector": {"matchExpressions": [there]},
        "matchLabelKeys": ["app"],
    }
    found = build(pod({"labels": {"app": "web"}}, topologySpreadConstraints=[constraint]))
    (made,) = found["spec"]["topologySpreadConstraints"]
    assert made["labelSelector"] == {"matchExpressions": [there]}
