"""Decisions without a cluster: the syncer's rules on manifests as users write them."""

from typing import Any

import pytest

from kubectl_vc.diagnosis.sync_layers import SYNCED_KINDS
from kubectl_vc.policy import check
from kubectl_vc.policy.decision import decide_object
from syncer.rules.registry import KINDS_BY_NAME

CONTAINER = {"name": "c", "image": "busybox"}
BACKEND = {"service": {"name": "a", "port": {"number": 80}}}
PATHS = {"paths": [{"path": "/", "pathType": "Prefix", "backend": BACKEND}]}
SLICE = {"name": "e", "labels": {"kubernetes.io/service-name": "a"}}


def pod(container: Any = (), **spec: Any) -> dict[str, Any]:
    """Return a pod as a user writes it."""
    spec = {"containers": [{**CONTAINER, **dict(container)}], **spec}
    return {"kind": "Pod", "metadata": {"name": "web"}, "spec": spec}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    """Return a workload with one container."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(**spec)["spec"]}
    inner: dict[str, Any] = {"template": template}
    if kind == "CronJob":
        inner = {"jobTemplate": {"spec": inner}}
    return {"kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": inner}


def of(kind: str, **fields: Any) -> dict[str, Any]:
    """Return an object of another kind."""
    return {"kind": kind, "metadata": {"name": "web"}, **fields}


SOUND = {
    "Pod": pod(),
    "ConfigMap": of("ConfigMap", data={"a": "b"}),
    "Secret": of("Secret", type="Opaque", data={}),
    "Service": of("Service", spec={"ports": [{"port": 80}]}),
    "Ingress": of("Ingress", spec={"rules": [{"host": "a.example.com", "http": PATHS}]}),
    "NetworkPolicy": of("NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Ingress"]}),
    "PodDisruptionBudget": of("PodDisruptionBudget", spec={"maxUnavailable": 1, "selector": {}}),
    "PersistentVolumeClaim": of(
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    ),
    "EndpointSlice": of(
        "EndpointSlice", addressType="IPv4", endpoints=[{"addresses": ["203.0.113.7"]}]
    )
    | {"metadata": SLICE},
    "Namespace": of("Namespace"),
}

REFUSED = [
    (pod(hostNetwork=True), "host-namespace"),
    (pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), "sysctls"),
    (pod({"securityContext": {"privileged": True}}), "privileged"),
    (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), "volume-source"),
    (pod({"ports": [{"containerPort": 80, "hostPort": 80}]}), "host-port"),
    (workload("Deployment", hostPID=True), "host-namespace"),
    (workload("CronJob", hostIPC=True), "host-namespace"),
    (workload("Job", hostNetwork=True), "host-namespace"),
    (of("Ingress", spec={"rules": [{"http": PATHS}]}), "ingress-host"),
    (of("Secret", type="kubernetes.io/service-account-token"), "secret-type"),
    (of("PersistentVolumeClaim", spec={"storageClassName": ""}), "storage-class"),
    (
        of("EndpointSlice", addressType="IPv4", endpoints=[{"addresses": ["169.254.169.254"]}])
        | {"metadata": SLICE},
        "endpoint-address",
    ),
    (of("Pod"), "malformed"),
    (of("Pod", spec=[]), "malformed"),
    (of("Deployment", spec={"template": 7}), "malformed"),
    (of("Service", spec={"ports": 7}), "malformed"),
]


def rules_of(body: dict[str, Any], policy: str = "baseline") -> list[str]:
    """Return the rules that refuse an object."""
    decisions = decide_object(body, check.load_policy(policy))
    return [problem.rule for each in decisions for problem in each.refusals]


def test_each_synced_kind_is_decided():
    assert set(SOUND) == set(KINDS_BY_NAME)
    assert set(KINDS_BY_NAME) == SYNCED_KINDS


@pytest.mark.parametrize("kind", SOUND)
@pytest.mark.parametrize("policy", ["baseline", "trusted", "conformance"])
def test_plain_objects_are_allowed(kind, policy):
    [decision] = decide_object(SOUND[kind], check.load_policy(policy))
    assert decision.is_synced
    assert decision.refusals == ()
    assert decision.result in ("allowed", "adjusted")


@pytest.mark.parametrize(("body", "rule"), REFUSED)
def test_refusal_names_its_rule(body, rule):
    assert rule in rules_of(body)


@pytest.mark.parametrize(
    ("body", "policy", "rule"),
    [
        (pod({"ports": [{"containerPort": 80, "hostPort": 80}]}), "trusted", "host-port"),
        (pod({"securityContext": {"privileged": True}}), "conformance", "privileged"),
        (of("Ingress", spec={"rules": [{"http": PATHS}]}), "trusted", "ingress-host"),
    ],
)
def test_other_policy_allows_it(body, policy, rule):
    assert rule in rules_of(body)
    assert rule not in rules_of(body, policy)


def test_stricter_policy_refuses_more():
    assert rules_of(pod()) == []
    assert rules_of(pod(), "restricted") == ["pod-security"]


def test_claim_templates_are_decided_as_well():
    body = workload("StatefulSet")
    body["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "data"}, "spec": {"storageClassName": ""}}
    ]
    assert rules_of(body) == ["storage-class"]


def test_policy_without_daemon_sets_refuses_their_pods(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("kind: TenantPolicy\nmetadata: {name: own}\nspec: {daemonSets: Refuse}\n")
    assert rules_of(workload("DaemonSet"), str(path)) != []
    assert rules_of(workload("Deployment"), str(path)) == []


def test_named_classes_are_assumed():
    [decision] = decide_object(SOUND["PersistentVolumeClaim"], check.load_policy("baseline"))
    assert decision.assumptions == ("StorageClass fast",)


def test_a_rule_for_claims_of_devices_is_assumed():
    body = pod(
        {"resources": {"claims": [{"name": "device"}]}},
        resourceClaims=[{"name": "device", "resourceClaimName": "camera"}],
    )
    [decision] = decide_object(body, check.load_policy("baseline"))
    assert decision.refusals == ()
    assert decision.assumptions == ("SyncRule for ResourceClaim",)


def test_other_kinds_stay_in_the_tenant():
    [decision] = decide_object(of("Widget"), check.load_policy("baseline"))
    assert (decision.result, decision.is_synced) == ("not-synced", False)
