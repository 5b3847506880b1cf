"""The super cluster of a pod: exclusions, unknown capacity, and scores."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from syncer.rules.placement.cluster_scheduler import (
    Assignment,
    CandidateCluster,
    NodeCapacity,
    NoFit,
    PodRequirements,
    build_requirements,
    choose_cluster,
    compute_requests,
)

BIG = {"cpu": Decimal(8), "memory": Decimal(2) ** 34, "pods": Decimal(110)}
SMALL = {"cpu": Decimal(1), "memory": Decimal(2) ** 30, "pods": Decimal(110)}
ECI = {"key": "eci", "value": "yes", "effect": "NoSchedule"}


def room(name: str = "n", free: Any = BIG, taints: Any = (), **labels: str) -> NodeCapacity:
    return NodeCapacity(name, {"kubernetes.io/os": "linux", **labels}, taints, free)


def home(*rooms: NodeCapacity, **more: Any) -> CandidateCluster:
    found = {
        "weight": 100,
        "namespaces": None,
        "accepts_all_pods": True,
        "free": BIG,
        "is_home": True,
    }
    return CandidateCluster(name="home", nodes=rooms or (room(),), **{**found, **more})


def far(*rooms: NodeCapacity, name: str = "c2", **more: Any) -> CandidateCluster:
    labels = {"type": "virtual-kubelet", "tenancy.x-k8s.io/target": name}
    found = {
        "weight": 100,
        "namespaces": None,
        "accepts_all_pods": True,
        "free": BIG,
        "labels": labels,
    }
    return CandidateCluster(name=name, nodes=rooms or (room(),), **{**found, **more})


def asked(**spec: Any) -> PodRequirements:
    return build_requirements({"spec": spec}, {"team": "a"})


def said(found: Assignment | NoFit) -> str:
    assert isinstance(found, NoFit)
    return found.message


def affinity(*terms: Any) -> Any:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expression(key: str, operator: str, *values: str) -> Any:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_selector_of_the_node_that_stands_for_a_cluster_leads_there():
    ask = asked(nodeSelector={"type": "virtual-kubelet"})
    assert choose_cluster(ask, [home(), far()]) == Assignment("c2")
    ask = asked(nodeSelector={"tenancy.x-k8s.io/target": "c3"})
    assert choose_cluster(ask, [home(), far(), far(name="c3")]) == Assignment("c3")


def test_a_selector_of_real_nodes_leads_to_a_cluster_that_has_such():
    """A1-15."""
    ask = asked(nodeSelector={"disk": "fast"})
    assert choose_cluster(ask, [home(), far(room(disk="fast"))]) == Assignment("c2")
    both = asked(nodeSelector={"disk": "fast", "type": "virtual-kubelet"})
    assert choose_cluster(both, [home(room(disk="fast")), far(room(disk="fast"))]) == Assignment(
        "c2"
    )
    message = said(choose_cluster(both, [home(room(disk="fast")), far()]))
    assert message.startswith("0/2 clusters are available: home has no node that matches")
    assert "(disk, type)" in message


def test_terms_of_affinity_are_alternatives_and_mix_both_kinds_of_labels():
    """A1-15."""
    to_c2 = expression("tenancy.x-k8s.io/target", "In", "c2")
    fast = expression("disk", "In", "fast")
    ask = asked(affinity=affinity(to_c2, fast))
    assert choose_cluster(ask, [home(), far()]) == Assignment("c2")
    assert choose_cluster(ask, [home(room(disk="fast")), far(refusal="is away")]) == Assignment(
        "home"
    )
    nobody = asked(affinity=affinity({"matchExpressions": []}))
    assert isinstance(choose_cluster(nobody, [home(), far()]), NoFit), "an empty term holds nowhere"
    named = asked(affinity=affinity({"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["n7"]}]}))  # fmt: skip
    assert choose_cluster(named, [home(), far(room("n7"))]) == Assignment("c2")


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("In", ["1", "5"], True), ("In", ["4"], False),
        ("NotIn", ["4"], True), ("NotIn", ["5"], False),
        ("Exists", [], True), ("DoesNotExist", [], False),
        ("Gt", ["4"], True), ("Gt", ["5"], False), ("Lt", ["6"], True), ("Lt", ["5"], False),
        ("Gt", ["x"], False), ("Gt", ["--1"], False), ("Gt", [], False), ("Near", ["5"], False),
    ],
)  # fmt: skip
def test_each_operator(operator: str, values: list[str], holds: bool):
    ask = asked(affinity=affinity(expression("cores", operator, *values)))
    assert (choose_cluster(ask, [home(room(cores="5"))]) == Assignment("home")) is holds


def test_what_no_node_anywhere_has_is_not_foreseen_and_excludes_no_one():
    """A4-14: an autoscaler may bring such a node: the cluster's own scheduler finds out."""
    ask = asked(nodeSelector={"gpu": "yes"})
    assert choose_cluster(ask, [home(peers=1), far()]) == Assignment("c2")
    assert choose_cluster(ask, [home(room(gpu="yes")), far()]) == Assignment("home"), "now it is"


def test_a_cluster_without_nodes_is_judged_by_what_stands_for_it():
    empty = far(labels={"zone": "z"})._replace(nodes=(), free={})
    assert choose_cluster(asked(nodeSelector={"zone": "z"}), [home(), empty]) == Assignment("c2")
    assert choose_cluster(asked(nodeSelector={"zone": "y"}), [empty]) != Assignment("c2")
    other = asked(nodeSelector={"tenancy.x-k8s.io/target": "c3"})
    assert isinstance(choose_cluster(other, [empty]), NoFit)
    assert choose_cluster(asked(), [home(), empty]) == Assignment("home"), (
        "what is sure comes first"
    )
    assert choose_cluster(asked(), [empty]) == Assignment("c2")


def test_a_taint_keeps_off_who_does_not_tolerate_it_and_is_named():
    """A2-09."""
    tainted = far(taints=[ECI])
    ask = asked(nodeSelector={"type": "virtual-kubelet"})
    message = said(choose_cluster(ask, [tainted]))
    assert "c2 had untolerated taint {eci=yes:NoSchedule}" in message
    for toleration in (
        {"key": "eci", "operator": "Exists"},
        {"key": "eci", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"operator": "Exists"},
        {"key": "eci", "value": "yes"},
    ):
        assert choose_cluster(asked(tolerations=[toleration]), [tainted]) == Assignment("c2")
    for toleration in (
        {"key": "eci", "operator": "Equal", "value": "no"},
        {"key": "eci", "operator": "Exists", "effect": "NoExecute"},
        {"key": "other", "operator": "Exists"},
        {"key": "", "operator": "Equal"},
        "eci",
    ):
        assert isinstance(choose_cluster(asked(tolerations=[toleration]), [tainted]), NoFit)
    soft = {**ECI, "effect": "PreferNoSchedule"}
    assert choose_cluster(asked(), [far(taints=[soft])]) == Assignment("c2")


def test_taints_of_real_nodes_count_with_the_tolerations_that_go_down():
    shut = room(taints=[{"key": "gpu", "effect": "NoSchedule"}])
    ask = asked(tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert choose_cluster(ask, [home(shut, peers=0), far(peers=5)]) == Assignment("c2")
    assert choose_cluster(ask, [home(shut)]) == Assignment("home"), (
        "not sure, and no reason to say no"
    )


def test_a_namespace_that_a_grant_does_not_select_stays_away():
    """A0-09, A1-07."""
    granted = far(namespaces={"matchLabels": {"team": "b"}})
    assert "is not granted to this namespace" in said(choose_cluster(asked(), [granted]))
    assert choose_cluster(asked(), [far(namespaces={"matchLabels": {"team": "a"}})]) == Assignment(
        "c2"
    )
    assert choose_cluster(asked(), [far(namespaces={})]) == Assignment("c2")


@pytest.mark.parametrize("key", ["tenancy.x-k8s.io/elect", "multicluster.admiralty.io/elect"])
@pytest.mark.parametrize("label", ["tenancy.x-k8s.io/elect", "multicluster-scheduler"])
def test_only_the_elected_go_where_no_others_may(key: str, label: str):
    """A0-09, A0-10, A1-07: an annotation of the pod and a label of its namespace, ours or not."""
    choosy = far(accepts_all_pods=False)

    def found(
        annotations: Any, labels: dict[str, str], *others: CandidateCluster
    ) -> Assignment | NoFit:
        return choose_cluster(
            build_requirements({"metadata": {"annotations": annotations}}, labels),
            [choosy, *others],
        )

    enabled = {label: "enabled"}
    assert found({key: ""}, enabled) == Assignment("c2")
    assert found({key: ""}, enabled, home(peers=9)) == Assignment("c2")
    for marked, labels in (
        ({}, enabled),
        (None, enabled),
        ({key: ""}, {}),
        ({key: ""}, {label: "disabled"}),
        ({f"{key}ed": ""}, enabled),
    ):
        why = "c2 accepts only pods with the annotation tenancy.x-k8s.io/elect"
        assert why in said(found(marked, labels))
        assert found(marked, labels, home(peers=9)) == Assignment("home")


@pytest.mark.parametrize(
    "volume", [{"persistentVolumeClaim": {"claimName": "c"}}, {"ephemeral": {"x": 1}}]
)
def test_a_pod_with_a_claim_stays_at_home(volume: Any):
    """A2-12."""
    ask = asked(volumes=[{"name": "v", **volume}])
    assert choose_cluster(ask, [home(peers=9), far()]) == Assignment("home")
    assert "does not support pods with claims yet" in said(choose_cluster(ask, [far()]))


def test_a_cluster_without_a_resolver_takes_who_needs_none():
    silent = far(has_dns=False)
    assert "has no DNS server for tenants" in said(choose_cluster(asked(), [silent]))
    assert choose_cluster(asked(dnsPolicy="None"), [silent]) == Assignment("c2")


def test_a_runtime_class_is_of_the_home_cluster():
    assert choose_cluster(asked(runtimeClassName="kata"), [home(peers=9), far()]) == Assignment(
        "home"
    )


def test_who_refuses_reports_why_and_no_one_at_all_is_reported_too():
    assert "c2 is away" in said(choose_cluster(asked(), [far(refusal="is away")]))
    assert "none is granted" in said(choose_cluster(asked(), []))
    assert "home did not run the pod in time" in said(choose_cluster(asked(), [home()], {"home"}))


def test_ten_of_one_owner_are_spread_and_weights_count():
    peers = {"home": 0, "c2": 0}
    for _ in range(10):
        found = choose_cluster(asked(), [home(peers=peers["home"]), far(peers=peers["c2"])])
        peers[found.name] += 1  # type: ignore[union-attr]
    assert peers == {"home": 5, "c2": 5}
    peers = {"home": 0, "c2": 0}
    for _ in range(10):
        pair = [home(peers=peers["home"], weight=25), far(peers=peers["c2"], weight=100)]
        peers[choose_cluster(asked(), pair).name] += 1  # type: ignore[union-attr]
    assert peers == {"home": 2, "c2": 8}


def test_of_equals_the_one_with_more_room_and_always_the_same_one():
    assert choose_cluster(asked(), [home(free=SMALL), far()]) == Assignment("c2")
    assert choose_cluster(asked(), [home(), far(free=SMALL)]) == Assignment("home")
    pair = [far(name="b"), far(name="a")]
    assert choose_cluster(asked(), pair) == choose_cluster(asked(), pair[::-1]) == Assignment("a")


def test_where_there_is_room_comes_before_everything():
    ask = asked(containers=[{"resources": {"requests": {"cpu": "2"}}}])
    tight = home(room(free=SMALL), free=SMALL)
    assert choose_cluster(ask, [tight, far(peers=50)]) == Assignment("c2")
    assert choose_cluster(ask, [tight]) == Assignment("home"), "an autoscaler may be there"
    promised = home(free=SMALL)
    assert choose_cluster(ask, [promised, far(peers=50)]) == Assignment("c2"), (
        "what is promised is taken"
    )


def test_requests_are_counted_as_a_scheduler_counts_them():
    def container(cpu: str, **more: Any) -> Any:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [container("3"), container("1", restartPolicy="Always")],
        "containers": [container("500m"), container("1")],
        "overhead": {"cpu": "100m"},
    }
    assert compute_requests(spec)["cpu"] == Decimal("3.1")
    spec["containers"].append(container("2"))  # type: ignore[attr-defined]
    assert compute_requests(spec)["cpu"] == Decimal("4.6")
    odd = [container("x"), container("-1"), {"resources": 5}]
    assert compute_requests({"containers": odd}) == {
        "cpu": 0, "memory": 0, "ephemeral-storage": 0, "pods": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": ["x"], "affinity": "x", "tolerations": {}, "containers": 7},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 5}}},
        {"nodeSelector": {"a": 5}},
        {"volumes": [{"name": 1}, None], "initContainers": [None]},
    ],
)
def test_what_is_malformed_is_for_others_to_refuse(spec: Any):
    choose_cluster(build_requirements({"spec": spec}, {}), [home(), far()])
    choose_cluster(build_requirements({}, {}), [home(), far()])


def test_there_is_an_end_to_what_is_compared():
    terms = [expression("k", "In", *(str(n) for n in range(100))) for _ in range(200)]
    rooms = [room(str(number)) for number in range(100)]
    ask = asked(affinity=affinity(*terms))
    assert ask.comparison_size > 10_000
    assert choose_cluster(ask, [home(*rooms)]) == Assignment("home"), (
        "not foreseen, and not looked at"
    )
