"""The super pod of a tenant pod, aspect by aspect."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings

from syncer.model import object_meta
from syncer.model.rejections import RejectionProblem
from syncer.rules.pods import pod_build
from syncer.rules.pods.pod_fields import POD_SPEC
from tenancy import names, wellknown
from tenancy.policies import MetadataSpec, TenantPolicySpec
from tests.support import built_pods
from tests.support.schemas import SchemaNode, of_table
from tests.support.syncer.pods import FACTS, TENANT, below, build, pod


def test_a_plain_pod():
    spec = build(pod(serviceAccountName="robot", schedulerName="own", priority=7))["spec"]
    assert spec["serviceAccountName"] == names.WORKLOAD_ACCOUNT
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["dnsPolicy"] == "None"
    assert spec["dnsConfig"] == {
        "nameservers": ["10.96.8.10"],
        "searches": ["web.svc.cluster.local", "svc.cluster.local", "cluster.local"],
        "options": [{"name": "ndots", "value": "5"}],
    }
    assert spec["containers"][0]["env"] == []
    assert not {"schedulerName", "priority", "nodeName", "status"} & set(spec)


def test_the_metadata_is_ours_and_names_the_containers():
    made = build(
        pod(
            {"labels": {"app": "x"}, "finalizers": ["f/x"], "generateName": "p-"},
            initContainers=[{"name": "setup", "image": "i"}],
        )
    )["metadata"]
    assert set(made) == {"name", "namespace", "labels", "annotations"}
    assert made["namespace"] == below("web")
    assert made["annotations"][wellknown.CONTAINERS] == "setup,main"


def test_annotations_pass_that_are_listed_for_pods():
    listed = {"kubectl.kubernetes.io/default-container": "main", "note": "x"}
    others = {"service.kubernetes.io/topology-mode": "Auto", "other.example/y": "1"}
    made = build(pod({"annotations": {**listed, **others}}))["metadata"]["annotations"]
    assert listed.items() <= made.items()
    assert not others.keys() & made.keys()


def test_a_pod_with_a_controller_can_be_drained_and_is_spread():
    owner = {"kind": "ReplicaSet", "uid": "rs", "name": "rs", "controller": True}
    made = build(pod({"ownerReferences": [owner]}))
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "name": below("web"),
            "uid": "space-uid",
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]
    assert made["metadata"]["labels"][wellknown.CONTROLLER] == "rs"
    constraints = made["spec"]["topologySpreadConstraints"]
    assert {item["whenUnsatisfiable"] for item in constraints} == {"ScheduleAnyway"}
    assert all(
        item["labelSelector"]["matchLabels"] == {wellknown.CONTROLLER: "rs"} for item in constraints
    )
    own = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
        }
    ]
    kept = build(pod({"ownerReferences": [owner]}, topologySpreadConstraints=own))
    assert kept["spec"]["topologySpreadConstraints"] == own
    job = {**owner, "kind": "Job"}
    assert "topologySpreadConstraints" not in build(pod({"ownerReferences": [job]}))["spec"]
    assert "ownerReferences" not in build(pod())["metadata"]


def test_reserved_keys_are_left_out_with_a_word():
    forged = {f"{wellknown.DOMAIN}/more": "x", "note": "y"}
    built = pod_build.build_super_pod(
        pod({"annotations": forged, "labels": {wellknown.VC_UID: "z"}}), FACTS
    )
    assert f"{wellknown.DOMAIN}/more" not in built.pod["metadata"]["annotations"]
    labels = built.pod["metadata"]["labels"]
    assert labels[wellknown.VC_UID] == TENANT.uid
    assert labels[wellknown.translate_label_key(wellknown.VC_UID)] == "z"
    assert [(notice.rule, notice.path) for notice in built.adjustments] == [
        ("reserved-key", f"metadata.annotations[{wellknown.DOMAIN}/more]"),
    ]


DOTTED = {"run.oci.handler": "x", "note": "y", "far.example/a": "z"}
LISTED = MetadataSpec(annotations={"Pod": ("run.oci.handler",)})


@pytest.mark.parametrize(
    ("annotations", "passing", "told"),
    [
        (DOTTED, MetadataSpec(), ["run.oci.handler"]),
        (DOTTED, LISTED, []),
        ({"note": "y", "far.example/a": "z"}, MetadataSpec(), []),
        (None, MetadataSpec(), []),
    ],
    ids=["unlisted", "listed", "none", "no annotations"],
)
def test_dotted_annotations_without_a_prefix_are_left_out_with_a_notice(annotations, passing, told):
    facts = FACTS._replace(policy=TenantPolicySpec(metadata=passing))
    built = pod_build.build_super_pod(pod({"annotations": annotations}), facts)
    text = (
        "is left out in the super cluster. If it is needed there, ask your platform administrator"
        " to list it in spec.metadata.annotations.Pod of the TenantPolicy"
    )
    assert built.adjustments == tuple(
        RejectionProblem("annotation", f"metadata.annotations[{key}]", text) for key in told
    )


def test_annotation_without_room_is_left_out_with_a_notice():
    facts = FACTS._replace(policy=TenantPolicySpec(metadata=LISTED))
    own = {"run.oci.handler": "x" * (object_meta.MAX_ANNOTATIONS_BYTES - 100)}
    built = pod_build.build_super_pod(pod({"annotations": own}), facts)
    assert not own.keys() & built.pod["metadata"]["annotations"].keys()
    ((rule, path, text),) = [(each.rule, each.path, each.text) for each in built.adjustments]
    assert (rule, path) == ("too-large", "metadata.annotations")
    assert "run.oci.handler is left out there" in text


def test_super_pod_has_the_labels_of_network_policies():
    made = pod_build.build_super_pod(pod(), FACTS._replace(policy_labels={"selected": "x"})).pod
    assert made["metadata"]["labels"]["selected"] == "x"


def test_terms_that_select_pods_stay_inside_the_tenant():
    def term(**fields: Any) -> dict[str, Any]:
        return {"topologyKey": "kubernetes.io/hostname", **fields}

    selector = {"matchLabels": {"app": "db"}}
    terms = [
        term(labelSelector=copy.deepcopy(selector)),
        term(labelSelector=copy.deepcopy(selector), namespaces=["db"]),
        term(labelSelector=copy.deepcopy(selector), namespaceSelector={}),
        term(
            labelSelector=copy.deepcopy(selector),
            namespaceSelector={"matchLabels": {"team": "nobody"}},
        ),
        term(labelSelector={"matchExpressions": []}, matchLabelKeys=["app"]),
        term(),
    ]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    made = build(pod(affinity=affinity))["spec"]["affinity"]["podAntiAffinity"]
    found = made["requiredDuringSchedulingIgnoredDuringExecution"]
    for each in found[:5]:
        assert each["labelSelector"]["matchLabels"][wellknown.VC_UID] == TENANT.uid
    assert "namespaces" not in found[0]
    assert found[1]["namespaces"] == [below("db")]
    assert found[2]["namespaces"] == sorted(map(below, ("db", "other", "web")))
    assert found[3]["namespaces"] == ["no-such-namespace"]
    assert "matchLabelKeys" not in found[4]
    assert "labelSelector" not in found[5]  # selects no pod, and goes on doing so
    assert not any("namespaceSelector" in each for each in found)


def test_selectors_get_the_label_keys_of_super_pods():
    passing = MetadataSpec(label_domains=("istio.io",))
    facts = FACTS._replace(policy=TenantPolicySpec(metadata=passing))
    selector = {"matchLabels": {"istio.io/rev": "1", "far.example/b": "2"}}
    part = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [part]}
    tenant_pod = pod(
        affinity={"podAffinity": required}, topologySpreadConstraints=[{**part, "maxSkew": 1}]
    )
    made = pod_build.build_super_pod(tenant_pod, facts).pod["spec"]
    (term,) = made["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (constraint,) = made["topologySpreadConstraints"]
    translated = {"istio.io/rev": "1", wellknown.translate_label_key("far.example/b"): "2"}
    for each in (term, constraint):
        assert translated.items() <= each["labelSelector"]["matchLabels"].items()
        assert "far.example/b" not in each["labelSelector"]["matchLabels"]


def test_label_keys_of_spread_constraints_are_merged_once():
    merged = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    constraints = [
        {"topologyKey": "kubernetes.io/hostname", "matchLabelKeys": ["app"], "labelSelector": each}
        for each in (merged, {"matchLabels": {"x": "y"}})
    ]
    made = build(pod({"labels": {"app": "web"}}, topologySpreadConstraints=constraints))
    for each in made["spec"]["topologySpreadConstraints"]:
        assert each["labelSelector"]["matchExpressions"] == merged["matchExpressions"]
        assert "matchLabelKeys" not in each


def test_a_node_of_the_tenant_is_asked_of_the_scheduler():
    made = build(pod(nodeName="node-1"))["spec"]
    terms = made["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    ]
    assert "nodeName" not in made


def test_what_is_left_out_or_changed_is_reported():
    tolerations = [
        {"operator": "Exists"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    ]
    built = pod_build.build_super_pod(
        pod(tolerations=tolerations, terminationGracePeriodSeconds=86400), FACTS
    )
    assert built.pod["spec"]["tolerations"] == tolerations[1:]
    assert built.pod["spec"]["terminationGracePeriodSeconds"] == 600
    assert {notice.rule for notice in built.adjustments} == {"toleration", "grace"}


@pytest.mark.parametrize("field", ["schedulingGroup", "workloadRef"])
def test_a_pod_of_a_group_is_placed_on_its_own_and_reported(field: str):
    built = pod_build.build_super_pod(pod(**{field: {"podGroupName": "g"}}), FACTS)
    assert field not in built.pod["spec"]
    assert [(each.rule, each.path) for each in built.adjustments] == [
        ("scheduling-group", f"spec.{field}")
    ]
    assert pod_build.build_super_pod(pod(**{field: None}), FACTS).adjustments == ()


def test_a_drain_of_the_super_cluster_does_not_wait_for_a_tenants_responders():
    responders = [{"name": "example.com/slow", "priority": 100000}]
    built = pod_build.build_super_pod(pod(evictionResponders=responders), FACTS)
    assert "evictionResponders" not in built.pod["spec"]
    assert [(each.rule, each.path) for each in built.adjustments] == [
        ("eviction-responders", "spec.evictionResponders")
    ]
    for value in ([], None):
        assert pod_build.build_super_pod(pod(evictionResponders=value), FACTS).adjustments == ()


@pytest.mark.parametrize(("kind", "told"), [("DaemonSet", set()), ("ReplicaSet", {"toleration"})])
def test_what_the_daemon_set_controller_lets_its_pods_tolerate_is_left_out_without_a_word(
    kind: str, told: set[str]
):
    owner = {"kind": kind, "name": "o", "uid": "o", "controller": True}
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    built = pod_build.build_super_pod(
        pod({"ownerReferences": [owner]}, tolerations=tolerations), FACTS
    )
    assert "tolerations" not in built.pod["spec"]
    assert {notice.rule for notice in built.adjustments} == told


def test_claims_are_named_as_they_are_and_ephemeral_ones_by_the_pod():
    made = build(
        pod(
            containers=[
                {
                    "name": "main",
                    "image": "i",
                    "volumeDevices": [{"name": "raw", "devicePath": "/dev/x"}],
                }
            ],
            volumes=[
                {"name": "raw", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
                {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {"x": "y"}}}},
            ],
        )
    )["spec"]
    assert made["volumes"] == [
        {"name": "raw", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
        {"name": "own", "persistentVolumeClaim": {"claimName": "p-own"}},
    ]
    assert made["containers"][0]["volumeDevices"] == [{"name": "raw", "devicePath": "/dev/x"}]


def test_classes_pass_when_they_are_shown_and_only_by_name():
    offered = {("PriorityClass", "high"), ("RuntimeClass", "kata")}
    placement = FACTS.scheduling._replace(is_class_shown=lambda kind, name: (kind, name) in offered)
    facts = FACTS._replace(scheduling=placement)
    asked = pod(
        priorityClassName="high",
        priority=1_000_000,
        preemptionPolicy="PreemptLowerPriority",
        runtimeClassName="kata",
    )
    spec = pod_build.build_super_pod(asked, facts).pod["spec"]
    assert (spec["priorityClassName"], spec["runtimeClassName"]) == ("high", "kata")
    assert not {"priority", "preemptionPolicy", "overhead"} & set(spec)
    other = pod_build.build_super_pod(pod(priorityClassName="low"), facts).pod["spec"]
    assert "priorityClassName" not in other


_TEXTS = SchemaNode("list", item=lambda: SchemaNode("text"))


_OPTION = SchemaNode(
    "object", fields={"name": lambda: SchemaNode("text"), "value": lambda: SchemaNode("text")}
)


_DNS = SchemaNode(
    "object",
    fields={
        "nameservers": lambda: _TEXTS,
        "options": lambda: SchemaNode("list", item=lambda: _OPTION),
        "searches": lambda: _TEXTS,
    },
)


_TABLE = of_table(POD_SPEC)


SPEC = SchemaNode("object", fields={**_TABLE.fields, "dnsConfig": lambda: _DNS})


METADATA = SchemaNode(
    "object", fields={name: lambda: SchemaNode("map") for name in ("labels", "annotations")}
)


@settings(max_examples=150, deadline=None)
@given(pod=built_pods.pods(SPEC, METADATA))
def test_what_is_built_has_only_leaves_of_the_table(pod):
    built_pods.check(pod, FACTS)
