"""The node that stands for a target, and what of a pod is meant for it alone."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules.placement import target_node
from syncer.rules.placement.target_node import strip_target_constraints
from tenancy import wellknown
from tenancy.super_clusters import VirtualNodeTaint

BEGAN = "2026-01-01T00:00:00Z"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
LABELS = target_node.build_labels("c2", {"tier": "gold"}, {ZONE: "z1"})
ECI = VirtualNodeTaint(key="eci", effect="NoSchedule", value="yes")
NAME = "target-c2"


def real(name: str = "n", *, ready: bool = True, shut: bool = False, **amounts: str) -> Any:
    given = {"cpu": "4", "memory": "8Gi", "pods": "110", **amounts}
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": shut},
        "status": {
            "capacity": given,
            "allocatable": given,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def pod(**spec: Any) -> Any:
    return {"metadata": {"name": "p"}, "spec": {"containers": [], **spec}}


def left(**spec: Any) -> Any:
    return strip_target_constraints(pod(**spec), "c2", LABELS, [ECI])["spec"]


def required(*terms: Any) -> Any:
    listed = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": listed}}


def terms_of(spec: Any) -> Any:
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    found = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return found and found["nodeSelectorTerms"]


def item(key: str, operator: str = "In", *values: str) -> Any:
    return {"key": key, "operator": operator, "values": list(values)}


def test_its_labels_are_ours_the_super_clusters_and_where_it_is():
    assert LABELS["tier"] == "gold"
    assert LABELS[ZONE] == "z1"
    assert (LABELS["type"], LABELS[wellknown.TARGET]) == ("virtual-kubelet", "c2")
    assert LABELS["kubernetes.io/hostname"] == NAME
    assert LABELS["virtual-kubelet.io/provider"] == "virtual-cluster"
    assert LABELS["kubernetes.io/role"] == "agent", "as virtual-kubelet's nodes say"
    assert LABELS["node-role.kubernetes.io/agent"] == "", "what `kubectl get nodes` shows"
    assert LABELS["node.kubernetes.io/exclude-from-external-load-balancers"] == "true"
    given = {
        "virtual-kubelet.io/provider": "eci",
        f"{wellknown.DOMAIN}/target": "c9",
        REGION: "own",
    }
    mixed = target_node.build_labels("c2", given, {REGION: "r"})
    assert mixed["virtual-kubelet.io/provider"] == "eci"
    assert mixed[wellknown.TARGET] == "c2", "what is ours is not to be given"
    assert mixed[REGION] == "own"
    assert ZONE not in target_node.build_labels("c2", {}, {})


def test_the_node_reports_whose_it_is_and_has_the_taints_that_were_declared():
    made = target_node.build_node("c2", "r1", LABELS, [ECI])
    assert made["metadata"]["name"] == NAME
    assert made["metadata"]["annotations"] == {
        wellknown.UID: "r1", wellknown.SUPER_CLUSTER: "r1", wellknown.CORDONED: "false",
        wellknown.LABELS: ",".join(sorted([*LABELS, wellknown.VIRTUAL_NODE])),
    }  # fmt: skip
    assert "unschedulable" not in made["spec"]
    assert made["metadata"]["labels"][wellknown.VIRTUAL_NODE] == "true"
    assert made["spec"]["taints"] == [{"key": "eci", "value": "yes", "effect": "NoSchedule"}]
    assert target_node.is_target_node(made)
    assert not target_node.is_target_node({"metadata": {"annotations": {wellknown.UID: "n"}}})
    assert not target_node.is_target_node({})
    shut = target_node.build_node("c2", "r1", LABELS, [], shut=True)
    assert shut["spec"]["taints"] == [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    ]


def test_a_label_of_ours_that_is_over_is_taken_off_and_counts_no_more():
    """Otherwise a pod that asks for the former zone would run in another one."""
    shown = target_node.build_node("c2", "r1", LABELS, [])
    fewer = target_node.build_labels("c2", {"tier": "gold"}, {})
    assert target_node.is_node_current(shown, target_node.build_node("c2", "r1", LABELS, []))
    assert not target_node.is_node_current(shown, target_node.build_node("c2", "r1", fewer, []))
    metadata = shown["metadata"]
    labels = {**metadata["labels"], "disk": "fast"}
    assert target_node.list_own_labels(labels, metadata["annotations"]) == {"disk": "fast"}
    assert target_node.list_own_labels(labels, {}) == labels, "of before they were recorded"


def test_a_taint_that_is_declared_stands_once_also_when_the_target_is_away():
    declared = VirtualNodeTaint(key="node.kubernetes.io/unreachable", effect="NoExecute", value="x")
    shut = target_node.build_node("c2", "r1", LABELS, [declared], shut=True)
    assert [taint["key"] for taint in shut["spec"]["taints"]] == [declared.key]


def whole(*nodes: Any) -> target_node.NodeTotals:
    """Return nodes together."""
    return target_node.sum_nodes([target_node.build_share(each) for each in nodes])


def status_of(*nodes: Any, version: str = "v1.36.4", problem: str = "", **more: Any) -> Any:
    """Return what is said of these nodes."""
    return target_node.build_status(
        whole(*nodes), version=version, problem=problem, **{"now": BEGAN, **more}
    )


def placed(name: str, **labels: Any) -> Any:
    """Return a node with labels."""
    made = real(name)
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def test_it_is_where_all_its_nodes_are():
    both = {REGION: "r", ZONE: "z1"}
    assert whole(placed("a", **both), placed("b", **{REGION: "r", ZONE: "z2"})).topology == {
        REGION: "r"
    }
    assert whole(placed("a", **both), placed("b", **both)).topology == both
    assert whole(placed("a", **both), real("b")).topology == {}, (
        "one that says nothing is elsewhere"
    )
    assert whole().topology == {}


def test_its_status_is_what_its_ready_nodes_have_together():
    """A2-02."""
    nodes = [real("a"), real("b", cpu="1500m"), real("c", ready=False), real("d", shut=True)]
    status = status_of(*nodes)
    assert status["allocatable"] == {
        "cpu": "5500m", "ephemeral-storage": "0", "memory": "17179869184", "pods": "220",
    }  # fmt: skip
    (ready,) = status["conditions"]
    assert (ready["status"], ready["reason"]) == ("True", "TargetReady")
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.4"
    away = status_of(*nodes, problem="dial 10.0.0.7: no route")
    (condition,) = away["conditions"]
    assert (condition["status"], condition["reason"]) == ("Unknown", "TargetUnreachable")
    assert "10.0.0.7" not in condition["message"], "addresses stay below"
    shown = {"metadata": {}, "status": status}
    assert target_node.is_status_current(shown, status_of(*nodes, now="2026-01-02T00:00:00Z"))
    assert not target_node.is_status_current(shown, away)
    assert not target_node.is_status_current(shown, status_of(*nodes, version="v1.36.5"))
    assert not target_node.is_status_current(shown, status_of(*nodes, real("e")))
    assert set(status_of()["capacity"].values()) == {"0"}


def test_what_others_report_that_there_is_is_left_alone():
    """A tenant may offer more by the node, as it may by one of its own."""
    status = status_of(real("a", memory="8G"))
    assert (status["capacity"]["cpu"], status["capacity"]["memory"]) == ("4", "8G")
    shown = {**status["capacity"], "example.com/dongle": "3"}
    assert target_node.is_status_current({"status": {**status, "capacity": shown}}, status)
    for other in ({**shown, "cpu": "3"}, {"example.com/dongle": "3"}, None):
        assert not target_node.is_status_current({"status": {**status, "capacity": other}}, status)


def test_a_condition_keeps_its_time_until_it_is_another():
    later = "2026-01-02T00:00:00Z"
    shown = {"status": status_of(real("a"))}
    for more, time in (({}, BEGAN), ({"problem": "no route"}, later)):
        (ready,) = status_of(real("a"), real("b"), now=later, virtual_node=shown, **more)[
            "conditions"
        ]
        assert ready["lastTransitionTime"] == time


def test_what_a_target_reports_of_its_nodes_may_be_anything():
    odd = real("odd")
    odd["status"] |= {"capacity": 7, "allocatable": [1]}
    huge = [real(str(number), memory="1E") for number in range(10)]
    assert whole(odd, {}, real("a")).capacity["cpu"] == "4"
    assert whole(real("a", pods="1500m", memory="1500m")).capacity["pods"] == "1"
    assert whole(real("a", pods="1500m", memory="1500m")).capacity["memory"] == "1"
    assert whole(real("a", pods="1E")).capacity["pods"] == "1M"
    for value in (["z"], 7, "no place", "", "z" * 64, "z\n"):
        assert whole(placed("a", **{ZONE: value})).topology == {}
    assert whole(*huge).capacity["memory"] == str(2**63 - 1), "all that an API server can hold"


def test_its_address_is_that_of_its_agent_and_of_nothing_else():
    """Fields that a tenant adds stay its own, and cause no write."""
    bare = status_of()
    assert "addresses" not in bare
    status = status_of(agent="10.2.0.9")
    assert status["addresses"] == [{"type": wellknown.AGENT_ADDRESS, "address": "10.2.0.9"}]
    assert not target_node.is_status_current({"status": bare}, status)
    assert not target_node.is_status_current({"status": status}, bare)
    other = status_of(agent="10.2.0.8")
    assert not target_node.is_status_current({"status": status}, other)
    own = {"type": "InternalIP", "address": "192.0.2.1"}
    more = {**status, "addresses": [own, *status["addresses"]]}
    assert target_node.is_status_current({"status": more}, status)


def test_a_selector_loses_what_the_node_itself_answers():
    spec = left(nodeSelector={"type": "virtual-kubelet", "disk": "fast", ZONE: "z1"})
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert "nodeSelector" not in left(nodeSelector={wellknown.TARGET: "c2"})
    assert "nodeName" not in left(nodeName=NAME)


def test_terms_that_do_not_hold_there_are_dropped_and_the_rest_is_kept():
    here, there = item(wellknown.TARGET, "In", "c2"), item(wellknown.TARGET, "In", "c3")
    fast, slow = item("disk", "In", "fast"), item("disk", "In", "slow")
    spec = left(affinity=required(
        {"matchExpressions": [here, fast]}, {"matchExpressions": [there, slow]},
    ))  # fmt: skip
    assert terms_of(spec) == [{"matchExpressions": [fast]}]


def test_a_term_that_is_wholly_answered_opens_every_node_there():
    spec = left(affinity=required(
        {"matchExpressions": [item(wellknown.TARGET, "Exists")]},
        {"matchExpressions": [item("disk", "In", "fast")]},
    ))  # fmt: skip
    assert "affinity" not in spec


def test_where_no_term_holds_none_is_left_and_no_node_will_do():
    spec = left(affinity=required({"matchExpressions": [item(wellknown.TARGET, "In", "c3")]}))
    assert terms_of(spec) == []
    assert terms_of(left(affinity=required({}))) == [], "an empty term held nowhere before"


@pytest.mark.parametrize(("name", "is_open"), [(NAME, True), ("n7", False)])
def test_the_name_of_the_node_is_answered_too(name: str, is_open: bool):
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    spec = left(affinity=required({"matchFields": [field]}))
    assert terms_of(spec) == (None if is_open else [])


def test_preferences_keep_what_is_about_the_nodes_there_and_other_affinity_stays():
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [item(ZONE, "In", "z1")]}},
                {"weight": 2, "preference": {"matchExpressions": [item("disk", "Exists")]}},
                {"weight": 3, "preference": {"matchExpressions": [item(ZONE, "In", "z9")]}},
            ]
        },
        "podAntiAffinity": {"x": 1},
    }
    found = left(affinity=affinity)["affinity"]
    (kept,) = found["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert kept["weight"] == 2
    assert found["podAntiAffinity"] == {"x": 1}


def test_tolerations_of_the_nodes_own_taints_go_no_further():
    eci, other = {"key": "eci", "operator": "Exists"}, {"key": "x", "operator": "Exists"}
    assert left(tolerations=[eci, other])["tolerations"] == [other]
    assert "tolerations" not in left(tolerations=[eci])
    untouched = strip_target_constraints(pod(tolerations=[eci]), "c2", LABELS, [])
    assert untouched["spec"]["tolerations"] == [eci]


def test_the_pod_itself_is_not_touched_and_what_is_malformed_stays():
    given = pod(nodeSelector={"type": "virtual-kubelet"}, nodeName=NAME)
    before = repr(given)
    strip_target_constraints(given, "c2", LABELS, [ECI])
    assert repr(given) == before
    for odd in ({"nodeSelector": "x"}, {"affinity": 5}, {"tolerations": {"key": "eci"}}):
        assert left(**odd) == {"containers": [], **odd}
    assert left(affinity={"nodeAffinity": 7}) == {"containers": [], "affinity": {"nodeAffinity": 7}}


@pytest.mark.parametrize(
    ("node", "target"), [(NAME, "c2"), ("worker-target-1", ""), ("n", ""), ("target-a-b", "a-b")]
)
def test_a_name_leads_back(node: str, target: str):
    assert target_node.parse_node_name(node) == target
