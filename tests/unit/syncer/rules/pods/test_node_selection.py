"""Nodes of a pod by labels, taints and cordons of its tenant, as on a plain cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from syncer.model import builtin_policy, label_selectors
from syncer.model.rejections import RejectedError
from syncer.rules.nodes.tenant_node_changes import (
    NO_CHANGES,
    NodeAdditions,
    TenantNodeChanges,
    TenantTaint,
    combine_additions,
)
from syncer.rules.pods import node_selection, pod_build
from syncer.rules.pods.node_selection import (
    MAX_EXCLUDED_NODES,
    MAX_NAMED_NODES,
    PREFERRED,
    REQUIRED,
    NodeSelection,
    select_nodes,
)
from tenancy import wellknown
from tests.support.syncer.pods import FACTS, build, pod

HIDDEN = "cloud.example/rack"
"""A label that the view Standard does not show."""
OWN = "team"
GATE = TenantTaint("gate", "1", "NoSchedule")
CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


def node(
    *taints: TenantTaint, cordoned: bool = False, super_labels: Any = None, **labels: str
) -> NodeAdditions | None:
    """Return what a tenant added to a node that has these labels of its own."""
    if not (labels or taints or cordoned):
        return None
    return NodeAdditions(frozenset(labels), {**(super_labels or {}), **labels}, taints, cordoned)


def additions(**nodes: NodeAdditions | None) -> TenantNodeChanges:
    return combine_additions({name: found for name, found in nodes.items() if found is not None})


def terms(*found: Mapping[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(found)}}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    found = {"key": key, "operator": operator}
    return {**found, "values": list(values)} if values else found


def named(name: str, operator: str = "In") -> dict[str, Any]:
    return {"key": "metadata.name", "operator": operator, "values": [name]}


def chosen(
    spec: Mapping[str, Any], found: TenantNodeChanges, view: Any = "Standard"
) -> NodeSelection:
    choice = select_nodes(spec, found, view, "uid")
    assert choice is not None
    return choice


# --- against one cluster that has all the labels, taints and cordons ------------------------------

_KEYS = ("disk", OWN, HIDDEN)
_VALUES = ("1", "2")
_NAMES = ("a", "b", "c", "d")


def _labels() -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_VALUES), max_size=2)


@st.composite
def _expressions(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    found = {"key": draw(st.sampled_from(_KEYS)), "operator": operator}
    if operator in ("In", "NotIn"):
        found["values"] = draw(st.lists(st.sampled_from(_VALUES), min_size=1, max_size=2))
    elif operator in ("Gt", "Lt"):
        found["values"] = [draw(st.sampled_from(["0", "1", "2"]))]
    return found


@st.composite
def _terms(draw: st.DrawFn) -> dict[str, Any]:
    fields = st.builds(named, st.sampled_from(_NAMES), st.sampled_from(["In", "NotIn"]))
    parts = {
        "matchExpressions": draw(st.lists(_expressions(), max_size=2)),
        "matchFields": draw(st.lists(fields, max_size=1)),
    }
    return {field: part for field, part in parts.items() if part}


@st.composite
def _pods(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeSelector": draw(_labels())}
    required = draw(st.lists(_terms(), max_size=3))
    weights = st.sampled_from([1, 10, 100])
    soft = st.fixed_dictionaries({"weight": weights, "preference": _terms()})
    preferred = draw(st.lists(soft, max_size=2))
    affinity: dict[str, Any] = {PREFERRED: preferred} if preferred else {}
    if required:
        affinity[REQUIRED] = {"nodeSelectorTerms": required}
    if affinity:
        spec["affinity"] = {"nodeAffinity": affinity}
    spec["tolerations"] = draw(
        st.lists(st.sampled_from([{"key": "gate", "value": "1"}, CORDON]), max_size=1)
    )
    return spec


class ShownNode:
    """A node as both sides have it. One that is not shown has nothing of the tenant's."""

    def __init__(self, name: str, below: dict[str, str], own: dict[str, str] | None) -> None:
        self.name = name
        self.below = below
        visible = {k: v for k, v in below.items() if builtin_policy.is_visible_node_label(k)}
        self.above = {**(own or {}), **visible}
        self.taints: tuple[TenantTaint, ...] = ()
        self.is_cordoned = False
        self.own = frozenset(own or {}) - visible.keys()

    @property
    def added(self) -> NodeAdditions | None:
        if not (self.own or self.taints or self.is_cordoned):
            return None
        return NodeAdditions(self.own, self.above, self.taints, self.is_cordoned)


@st.composite
def _nodes(draw: st.DrawFn) -> list[ShownNode]:
    found = []
    for name in _NAMES:
        is_shown = draw(st.booleans())
        one = ShownNode(name, draw(_labels()), draw(_labels()) if is_shown else None)
        if is_shown:
            one.taints = draw(st.sampled_from([(), (), (GATE,)]))
            one.is_cordoned = draw(st.sampled_from([False, False, True]))
        found.append(one)
    return found


def _holds(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if item["operator"] in ("Gt", "Lt"):
        if item["key"] not in labels:
            return False
        there, wanted = int(labels[item["key"]]), int(item["values"][0])
        return there > wanted if item["operator"] == "Gt" else there < wanted
    return label_selectors.matches_expression(item, labels)


def _matches(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(item, labels) for item in expressions) and all(
        (name in item["values"]) is (item["operator"] == "In") for item in fields
    )


def _fits(name: str, labels: Mapping[str, str], selector: Mapping[str, str], required: Any) -> bool:
    """Tell what the scheduler's NodeAffinity does."""
    return all(labels.get(key) == value for key, value in selector.items()) and (
        required is None or any(_matches(term, name, labels) for term in required)
    )


def _weight(name: str, labels: Mapping[str, str], preferred: Iterable[Any]) -> int:
    return sum(
        int(item["weight"]) for item in preferred if _matches(item["preference"], name, labels)
    )


def _is_closed(one: ShownNode, spec: Mapping[str, Any]) -> bool:
    keys = {item["key"] for item in spec["tolerations"]}
    return bool(one.taints and "gate" not in keys) or (
        one.is_cordoned and CORDON["key"] not in keys
    )


@settings(max_examples=200, deadline=None)
@given(spec=_pods(), nodes=_nodes())
def test_a_choice_allows_what_one_cluster_would(spec, nodes):
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms")
    preferred = affinity.get(PREFERRED) or []
    found = combine_additions({one.name: one.added for one in nodes if one.added is not None})
    choice = select_nodes(spec, found, "Standard", "uid")
    allowed = {
        one.name
        for one in nodes
        if _fits(one.name, one.above, spec["nodeSelector"], required) and not _is_closed(one, spec)
    }
    if choice is None:
        event("as written")
        choice = NodeSelection(spec["nodeSelector"], required, preferred)
    if choice.problem:
        event("nowhere")
        assert not allowed
        return
    event("chosen")
    below = {
        one.name for one in nodes if _fits(one.name, one.below, choice.selector, choice.required)
    }
    assert below == allowed
    weights = [
        (
            _weight(one.name, one.above, preferred),
            _weight(one.name, one.below, choice.preferred),
        )
        for one in nodes
    ]
    # What holds for every node was left out, and moves none before another.
    assert len({above - there for above, there in weights}) == 1


# --- what is left as it was written ---------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodeSelector": {"disk": "ssd"}},
        terms({"matchExpressions": [expression("disk", "Exists")]}),
        terms({"matchFields": [named("n")]}),
        {"tolerations": [{"operator": "Exists"}]},
    ],
)
def test_a_pod_that_asks_for_nothing_of_the_tenants_stays_as_it_is(spec):
    assert select_nodes(spec, NO_CHANGES, "Standard") is None
    assert select_nodes(spec, additions(n=node(team="a")), "Standard") is None


def test_a_label_of_the_super_cluster_on_other_nodes_goes_on_counting():
    """`disk` is the tenant's on one node and the super cluster's on others, shown or not."""
    choice = chosen({"nodeSelector": {"disk": "ssd"}}, additions(n=node(disk="ssd")))
    assert choice.selector == {}
    assert choice.required == [
        {"matchFields": [named("n")]},
        {
            "matchExpressions": [expression("disk", "In", "ssd")],
            "matchFields": [named("n", "NotIn")],
        },
    ]


def test_a_key_that_only_the_tenants_nodes_carry_becomes_names():
    found = additions(n=node(**{HIDDEN: "7"}), o=node(**{HIDDEN: "8"}), p=node(**{HIDDEN: "7"}))
    spec = {"nodeSelector": {HIDDEN: "7", "disk": "ssd"}}
    choice = chosen(spec, found)
    assert choice.selector == {"disk": "ssd"}
    assert choice.required == [{"matchFields": [named("n")]}, {"matchFields": [named("p")]}]


def test_what_no_node_has_is_reported_by_its_name():
    choice = chosen({"nodeSelector": {HIDDEN: "7"}}, NO_CHANGES)
    assert f"{HIDDEN}=7" in choice.problem
    asked = terms({"matchExpressions": [expression(HIDDEN, "In", "7", "8")]})
    assert f"{HIDDEN} In (7,8)" in chosen(asked, NO_CHANGES).problem


def test_a_term_for_one_node_finds_no_label_on_another():
    found = additions(n=node(**{HIDDEN: "7"}), m=node(team="a"))
    term = {"matchExpressions": [expression(HIDDEN, "Exists")], "matchFields": [named("m")]}
    assert f"{HIDDEN} Exists" in chosen(terms(term), found).problem


# --- taints and cordons ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toleration", "is_open"),
    [
        ({"key": "gate", "value": "1"}, True),
        ({"key": "gate", "operator": "Equal", "value": "1", "effect": "NoSchedule"}, True),
        ({"key": "gate", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gate", "value": "2"}, False),
        ({"key": "gate"}, False),
        ({"key": "gate", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "gate", "operator": "Gt", "value": "0"}, False),
    ],
)
def test_a_taint_keeps_off_who_does_not_tolerate_it(toleration, is_open):
    choice = select_nodes({"tolerations": [toleration]}, additions(n=node(GATE)), "Standard")
    if is_open:
        assert choice is None
    else:
        assert choice is not None
        assert choice.required == [{"matchFields": [named("n", "NotIn")]}]


def test_a_cordon_keeps_new_pods_off_but_not_those_of_a_daemon_set():
    found = additions(n=node(cordoned=True))
    assert chosen({}, found).required == [{"matchFields": [named("n", "NotIn")]}]
    daemon = {"tolerations": [CORDON], **terms({"matchFields": [named("n")]})}
    assert select_nodes(daemon, found, "Standard") is None


def test_a_pod_for_one_node_that_is_closed_goes_nowhere():
    choice = chosen(terms({"matchFields": [named("n")]}), additions(n=node(GATE)))
    assert "every node is unschedulable or has a taint" in choice.problem
    assert "(n)" in choice.problem


def test_a_pod_that_names_its_node_passes_cordons_by_and_no_label():
    found = additions(n=node(GATE, cordoned=True, team="a"))
    assert select_nodes({"nodeName": "n"}, found, "Standard") is None
    choice = chosen({"nodeName": "n", "nodeSelector": {OWN: "a"}}, found)
    assert choice.required is not None
    assert choice.required[0] == {"matchFields": [named("n")]}


# --- limits ---------------------------------------------------------------------------------------


def test_of_very_many_nodes_each_pod_gets_some():
    found = additions(
        **{f"n{number}": node(**{HIDDEN: "1"}) for number in range(MAX_NAMED_NODES + 200)}
    )
    picked = [
        {
            name
            for term in select_nodes(
                {"nodeSelector": {HIDDEN: "1"}}, found, "Standard", uid
            ).required  # type: ignore[union-attr]
            for name in term["matchFields"][0]["values"]
        }
        for uid in ("one", "one", "two")
    ]
    assert [len(names) for names in picked] == [MAX_NAMED_NODES] * 3
    assert picked[0] == picked[1] != picked[2]


def test_a_pod_that_would_leave_out_too_many_is_refused():
    found = additions(
        **{f"n{number}": node(cordoned=True) for number in range(MAX_EXCLUDED_NODES + 1)}
    )
    with pytest.raises(RejectedError):
        select_nodes({}, found, "Standard")


def test_a_pod_of_very_many_terms_is_refused_before_they_are_compared():
    found = additions(**{f"n{number}": node(team="a") for number in range(100)})
    many = [{"matchExpressions": [expression(OWN, "Exists")]} for _ in range(1000)]
    with pytest.raises(RejectedError):
        select_nodes(terms(*many), found, "Standard")


# --- in a pod -------------------------------------------------------------------------------------


def with_additions(found: TenantNodeChanges) -> Any:
    return FACTS._replace(scheduling=FACTS.scheduling._replace(tenant_changes=found))


def test_a_chosen_pod_records_the_digest_of_its_choice_and_no_other_does():
    tenant_pod = pod(nodeSelector={OWN: "a"})
    found = additions(n=node(team="a"))
    built = pod_build.build_super_pod(tenant_pod, with_additions(found)).pod
    choice = chosen(tenant_pod["spec"], found)
    assert built["metadata"]["annotations"][wellknown.NODE_CHOICE] == choice.digest
    assert "nodeSelector" not in built["spec"]
    required = built["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    assert required["nodeSelectorTerms"][0] == {"matchFields": [named("n")]}
    plain = build(pod(nodeSelector={OWN: "a"}))
    assert wellknown.NODE_CHOICE not in plain["metadata"]["annotations"]
    assert plain["spec"]["nodeSelector"] == {OWN: "a"}


def test_of_very_many_nodes_a_pod_gets_those_of_its_uid():
    found = additions(**{f"n{number}": node(team="a") for number in range(MAX_NAMED_NODES + 200)})
    for uid in ("one", "two"):
        tenant_pod = pod({"uid": uid}, nodeSelector={OWN: "a"})
        spec = pod_build.build_super_pod(tenant_pod, with_additions(found)).pod["spec"]
        choice = select_nodes(tenant_pod["spec"], found, "Standard", uid)
        assert choice is not None
        terms_ = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert terms_ == list(choice.required or ())


def test_a_chosen_pod_keeps_all_else_that_it_specifies():
    found = additions(**{"node-1": node(team="a")})
    preferred = [{"weight": 5, "preference": {"matchExpressions": [expression(OWN, "Exists")]}}]
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = {"nodeAffinity": {PREFERRED: preferred}, "podAntiAffinity": {REQUIRED: [apart]}}
    tenant_pod = pod(nodeSelector={OWN: "a", "disk": "ssd"}, affinity=affinity)
    choice = chosen(tenant_pod["spec"], found)
    assert choice.required
    assert choice.preferred
    spec = pod_build.build_super_pod(tenant_pod, with_additions(found)).pod["spec"]
    assert spec["nodeSelector"] == choice.selector == {"disk": "ssd"}
    assert spec["affinity"]["nodeAffinity"] == {
        REQUIRED: {"nodeSelectorTerms": list(choice.required)},
        PREFERRED: list(choice.preferred),
    }
    (kept,) = spec["affinity"]["podAntiAffinity"][REQUIRED]
    assert kept["topologyKey"] == apart["topologyKey"]
    only = pod_build.build_super_pod(pod(nodeSelector={OWN: "a"}), with_additions(found)).pod[
        "spec"
    ]
    assert set(only["affinity"]["nodeAffinity"]) == {REQUIRED}
    assert "nodeSelector" not in only


def test_a_toleration_of_the_tenants_own_taint_is_left_out_without_a_word():
    tolerating = pod(tolerations=[{"key": "gate", "value": "1"}, {"key": "x", "value": "1"}])
    built = pod_build.build_super_pod(tolerating, with_additions(additions(n=node(GATE))))
    assert [notice.path for notice in built.adjustments] == ["spec.tolerations[1]"]
    assert "tolerations" not in built.pod["spec"]


def test_a_choice_that_changes_has_another_digest():
    one = chosen({"nodeSelector": {OWN: "a"}}, additions(n=node(team="a")))
    assert one.digest == chosen({"nodeSelector": {OWN: "a"}}, additions(n=node(team="a"))).digest
    assert one.digest != chosen({"nodeSelector": {OWN: "a"}}, additions(m=node(team="a"))).digest
    nowhere = node_selection.select_nodes({"nodeSelector": {HIDDEN: "a"}}, NO_CHANGES, "Standard")
    assert nowhere is not None
    assert nowhere.digest != one.digest


# --- hostile sizes --------------------------------------------------------------------------------


def labelled(count: int, *taints: TenantTaint) -> TenantNodeChanges:
    return combine_additions({f"node-{number}": node(*taints, team="a") for number in range(count)})


ANYWHERE = expression(OWN, "Exists")


@pytest.mark.parametrize(
    "spec",
    [
        terms(
            {"matchExpressions": [ANYWHERE, expression("disk", "NotIn", *map(str, range(2000)))]}
        ),
        terms(*({"matchExpressions": [ANYWHERE]} for _ in range(60))),
        {
            "affinity": {
                "nodeAffinity": {
                    PREFERRED: [
                        {"weight": 1, "preference": {"matchExpressions": [ANYWHERE]}}
                        for _ in range(60)
                    ]
                }
            }
        },
    ],
)
def test_what_would_be_long_to_compare_or_to_write_is_refused(spec):
    """Everyone waits for it, and each node that is named repeats the rest of its term."""
    with pytest.raises(RejectedError, match="has more terms of affinity than the syncer compares"):
        select_nodes(spec, labelled(100), "Standard")


def test_more_tolerations_than_are_compared_are_refused():
    """Before one of them is looked at."""
    taints = [TenantTaint(f"key-{number}", "", "NoSchedule") for number in range(4000)]
    spec = {"tolerations": [{"key": f"k-{number}"} for number in range(4000)]}
    with pytest.raises(RejectedError, match="has more tolerations than the syncer compares"):
        select_nodes(spec, labelled(1, *taints), "Standard")
