"""Messages about a refused or changed pod: the field and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model import builtin_policy, object_meta
from syncer.model.rejections import RejectedError
from syncer.rules import autoscaler_annotations
from syncer.rules.pods import pod_build, size_limits
from syncer.rules.pods.pod_build import PodBuildContext
from tenancy import names, ownership, wellknown
from tenancy.policies import BASELINE_POLICY, parse_tenant_policy
from tests.support.syncer.pods import FACTS, TENANT, below, build, pod


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "i", **fields}]}


def projected(audience: str) -> dict[str, Any]:
    token = {"serviceAccountToken": {"path": "t", "audience": audience}}
    return {"volumes": [{"name": "v"}, {"name": "w", "projected": {"sources": [{}, token]}}]}


def refused(
    spec: dict[str, Any], facts: PodBuildContext = FACTS, **metadata: Any
) -> list[tuple[str, str, str]]:
    with pytest.raises(RejectedError) as raised:
        pod_build.build_super_pod(pod(metadata, **spec), facts)
    return [(problem.rule, problem.path, problem.text) for problem in raised.value.problems]


MINIMAL = parse_tenant_policy({"metadata": {"name": "m"}, "spec": {"nodes": {"view": "Minimal"}}})
NO_DAEMONS = parse_tenant_policy({"metadata": {"name": "d"}, "spec": {"daemonSets": "Refuse"}})
HOST = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
HOSTS = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}}
DAEMON = {"kind": "DaemonSet", "name": "o", "uid": "u", "controller": True}
LONG = "x" * 80
NO_CLASS = (
    f"names {'x' * 60}, which is not offered. Leave it out, or use one that `kubectl get"
    " runtimeclass` lists"
)
NO_RESPONDERS = (
    "names responders, which take effect for evictions in your cluster only. They are left out of"
    " the running pod, and a drain of its node does not wait for them"
)
NO_GROUP = (
    "names a group, and groups are not offered. The name is left out, and the pod is scheduled"
    " alone"
)
NO_ADDRESS = "would show the node's address, which is hidden here. Leave it out"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            container(envFrom=[{"secretRef": {"name": "vc-token-abc"}}]),
            (
                "reserved-name",
                "spec, a reference to Secret vc-token-abc,",
                "uses a name that is reserved. Choose another",
            ),
        ),
        (
            container(envFrom=[{"secretRef": {"name": f"../{LONG}"}}]),
            (
                "reference-name",
                f"spec, a reference to Secret '../{'x' * 57}',",
                "is not a valid object name. Correct it",
            ),
        ),
        (
            container(volumeMounts=[{"name": "sneaky", "mountPath": "/v"}]),
            (
                "volume-mount",
                "spec.containers[main], the mount of sneaky,",
                "does not name a volume of the pod. Add the volume",
            ),
        ),
        (
            container(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "sneaky"}}}]),
            (
                "volume-mount",
                "spec.containers[main], the variable from a file of sneaky,",
                "does not name a volume of the pod. Add the volume",
            ),
        ),
        (
            {"initContainers": [{"name": "s", "volumeDevices": [{"devicePath": "/d"}]}]},
            (
                "volume-mount",
                "spec.initContainers[s], the mount of ,",
                "does not name a volume of the pod. Add the volume",
            ),
        ),
        (
            {"readinessGates": [{"conditionType": f"example.com/{n}"} for n in range(17)]},
            (
                "readiness-gates",
                "spec.readinessGates",
                "has 17 gates, and the limit is 16. Use fewer",
            ),
        ),
        *(
            (
                {"readinessGates": [{"conditionType": "example.com/x"}, gate]},
                (
                    "readiness-gates",
                    "spec.readinessGates[1]",
                    f"names {kind!r}. Use a condition with your own domain",
                ),
            )
            for gate, kind in (
                ({"conditionType": "Ready"}, "Ready"),
                ({"conditionType": f"{wellknown.DOMAIN}/x"}, f"{wellknown.DOMAIN}/x"),
                ({}, ""),
            )
        ),
        (
            {"priorityClassName": "system-node-critical"},
            (
                "priority-class",
                "spec.priorityClassName",
                "is a system class. Use a class of your own, or none",
            ),
        ),
        (
            {"runtimeClassName": LONG},
            (
                "runtime-class",
                "spec.runtimeClassName",
                NO_CLASS,
            ),
        ),
        (
            {"dnsConfig": {"surprise": "x"}},
            (
                "unknown-field",
                "spec.dnsConfig.surprise",
                "is malformed, or not known to this version. Leave it out",
            ),
        ),
        (
            {"setHostnameAsFQDN": True, "subdomain": "s" * 50},
            (
                "host-name",
                "spec.setHostnameAsFQDN",
                "makes a host name of 74 characters. Shorten it to 64",
            ),
        ),
        (
            projected("a" * (builtin_policy.MAX_AUDIENCE + 1)),
            (
                "token-audience",
                "spec.volumes[1].projected.sources[1].serviceAccountToken.audience",
                (
                    f"has {builtin_policy.MAX_AUDIENCE + 1} bytes. Use one of at most"
                    f" {builtin_policy.MAX_AUDIENCE}"
                ),
            ),
        ),
    ],
)
def test_a_refusal_reports_where_and_what_would_do(spec, told):
    assert refused(spec) == [told]


def test_what_is_just_within_is_not_refused():
    gates = [{"conditionType": f"example.com/{n}"} for n in range(16)]
    assert build(pod(readinessGates=gates, **projected("a" * builtin_policy.MAX_AUDIENCE)))
    spec = {"setHostnameAsFQDN": True, "subdomain": "s" * 40}
    made = build(pod(**spec))["spec"]
    assert made["hostnameOverride"] == f"p.{'s' * 40}.web.svc.cluster.local"
    assert len(made["hostnameOverride"]) == 64
    assert refused({**spec, "subdomain": "s" * 41})[0][0] == "host-name"


@pytest.mark.parametrize("variable", [HOST, HOSTS])
@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_a_nodes_address_is_named_by_its_container(kind, variable):
    facts = FACTS._replace(policy=MINIMAL)
    spec = {kind: [{"name": "c", "image": "i", "env": [{"name": "B", "value": "x"}, variable]}]}
    assert refused(spec, facts) == [("node-view", f"spec.{kind}[c].env", NO_ADDRESS)]
    assert pod_build.build_super_pod(pod(**spec), FACTS)
    other = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    assert pod_build.build_super_pod(
        pod(**{kind: [{"name": "c", "image": "i", "env": [other]}]}), facts
    )


def test_a_daemon_sets_pod_is_informed_what_to_use():
    facts = FACTS._replace(policy=NO_DAEMONS)
    assert refused({}, facts, ownerReferences=[DAEMON]) == [
        (
            "daemon-set",
            "metadata.ownerReferences",
            "belongs to a DaemonSet, and DaemonSets are not offered. Use a Deployment",
        )
    ]
    assert pod_build.build_super_pod(
        pod({"ownerReferences": [{**DAEMON, "controller": False}]}), facts
    )


def notices(spec: dict[str, Any], **metadata: Any) -> list[tuple[str, str, str]]:
    found = pod_build.build_super_pod(pod(metadata, **spec), FACTS).adjustments
    return [(notice.rule, notice.path, notice.text) for notice in found]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"terminationGracePeriodSeconds": 601},
            (
                "grace",
                "spec.terminationGracePeriodSeconds",
                "is shortened to 600 seconds, the longest that is offered",
            ),
        ),
        (
            {"tolerations": [{"key": "node.kubernetes.io/not-ready"}, {"key": "own"}]},
            (
                "toleration",
                "spec.tolerations[1]",
                "tolerates own, which is not offered. The toleration is left out",
            ),
        ),
        (
            {"tolerations": [{"operator": "Exists"}]},
            (
                "toleration",
                "spec.tolerations[0]",
                "tolerates every taint, which is not offered. The toleration is left out",
            ),
        ),
        (
            {"workloadRef": {"name": "g"}},
            (
                "scheduling-group",
                "spec.workloadRef",
                NO_GROUP,
            ),
        ),
        (
            {"evictionResponders": [{"name": "example.com/x", "priority": 1}]},
            (
                "eviction-responders",
                "spec.evictionResponders",
                NO_RESPONDERS,
            ),
        ),
    ],
)
def test_what_is_changed_is_reported_and_the_pod_is_made(spec, told):
    assert notices(spec) == [told]


def test_reserved_keys_are_reported_in_order():
    forged = {f"{wellknown.DOMAIN}/b": "x", f"{wellknown.DOMAIN}/a": "x", "fine": "x"}
    text = "is reserved and left out. Remove it"
    assert notices({}, labels=forged, annotations=forged) == [
        ("reserved-key", f"metadata.annotations[{wellknown.DOMAIN}/{key}]", text) for key in "ab"
    ]


@pytest.mark.parametrize("seconds", [0, 600])
def test_a_grace_that_is_offered_stays(seconds):
    found = pod_build.build_super_pod(pod(terminationGracePeriodSeconds=seconds), FACTS)
    assert found.pod["spec"]["terminationGracePeriodSeconds"] == seconds
    assert found.adjustments == ()
    assert "terminationGracePeriodSeconds" not in build(pod())["spec"]


# --- sizes ----------------------------------------------------------------------------------------


def test_how_much_is_too_much_is_reported():
    assert size_limits.check_reference_count(size_limits.MAX_REFERENCES) == []
    assert size_limits.check_affinity_size(size_limits.MAX_COMPARED_TERMS, 1) == []
    found = [
        *size_limits.check_reference_count(2001),
        *size_limits.check_affinity_size(50_001, 2),
        *size_limits.check_written_size({"a": [{"b": [0] * 20_000}]}),
    ]
    assert [(each.rule, each.path, each.text) for each in found] == [
        ("too-large", "spec", "names 2001 objects, and the limit is 2000. Use fewer"),
        (
            "too-large",
            "spec",
            "has 50001 terms of affinity to compare with 2 namespaces. Use fewer",
        ),
        ("too-large", "spec", "has 20001 parts, and the limit is 20000. Use several pods"),
    ]
    assert size_limits.check_written_size({"a": [0] * 20_000, "b": "text", "c": {"d": {}}}) == []


# --- the whole ------------------------------------------------------------------------------------


def test_a_pod_of_many_parts_to_the_last_byte():
    """Everything that the builder itself writes, in one pod."""
    owner = {"kind": "ReplicaSet", "uid": "rs", "name": "rs", "controller": True}
    tenant_pod = pod(
        {
            "labels": {"app": "x"},
            "annotations": {"note": "n", "far.example/a": "b"},
            "ownerReferences": [owner],
        },
        serviceAccountName="robot",
        initContainers=[{"name": "setup", "image": "i"}],
        containers=[
            {
                "name": "main",
                "image": "i",
                "env": [
                    {"name": "NS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                    {
                        "name": "SA",
                        "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}},
                    },
                    {
                        "name": "CA",
                        "valueFrom": {"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "k"}},
                    },
                    {"name": "KUBERNETES_SERVICE_HOST", "value": "mine"},
                ],
                "envFrom": [
                    {"configMapRef": {"name": "kube-root-ca.crt"}},
                    {"configMapRef": {"name": "own"}},
                ],
                "volumeMounts": [{"name": "all", "mountPath": "/v"}],
            }
        ],
        volumes=[
            {"name": "ca", "configMap": {"name": "kube-root-ca.crt"}},
            {
                "name": "down",
                "downwardAPI": {
                    "items": [
                        {
                            "path": "l",
                            "fieldRef": {"fieldPath": "metadata.annotations['far.example/a']"},
                        }
                    ]
                },
            },
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                        {"configMap": {"name": "kube-root-ca.crt"}},
                        {
                            "downwardAPI": {
                                "items": [{"path": "u", "fieldRef": {"fieldPath": "metadata.uid"}}]
                            }
                        },
                    ]
                },
            },
        ],
    )
    made = pod_build.build_super_pod(tenant_pod, FACTS).pod
    mirror = object_meta.build_mirror_key("annotations", "far.example/a")
    secret = names.build_token_secret_name(FACTS.account_uid, "", builtin_policy.TOKEN_SECONDS)
    assert (made["apiVersion"], made["kind"]) == ("v1", "Pod")
    assert made["metadata"]["labels"] == {
        "app": "x",
        wellknown.CONTROLLER: "rs",
        **ownership.build_owner_labels(TENANT, "web"),
    }
    assert made["metadata"]["annotations"] == {
        "note": "n",
        mirror: "b",
        wellknown.CONTAINERS: "setup,main",
        wellknown.OWNER: '{"kind": "ReplicaSet", "uid": "rs"}',
        autoscaler_annotations.SAFE_TO_EVICT: "true",
        wellknown.SYNCED_KEYS: (f'[["app"],["{autoscaler_annotations.SAFE_TO_EVICT}","note"]]'),
        **ownership.build_owner_annotations(TENANT, "web", "pod-uid"),
    }
    spec = made["spec"]
    assert spec["containers"][0]["env"] == [
        {
            "name": "NS",
            "valueFrom": {
                "fieldRef": {"fieldPath": f"metadata.annotations['{wellknown.NAMESPACE}']"}
            },
        },
        {"name": "SA", "value": "robot"},
        {
            "name": "CA",
            "valueFrom": {"configMapKeyRef": {"name": names.SUPER_ROOT_CA, "key": "k"}},
        },
        {"name": "KUBERNETES_SERVICE_HOST", "value": "mine"},
    ]
    services = {"configMapRef": {"name": names.SERVICE_VARIABLES}}
    assert spec["containers"][0]["envFrom"] == [
        services,
        {"configMapRef": {"name": names.SUPER_ROOT_CA}},
        {"configMapRef": {"name": "own"}},
    ]
    assert spec["initContainers"][0]["env"] == []
    assert spec["initContainers"][0]["envFrom"] == [services]
    assert spec["volumes"] == [
        {"name": "ca", "configMap": {"name": names.SUPER_ROOT_CA}},
        {
            "name": "down",
            "downwardAPI": {
                "items": [
                    {"path": "l", "fieldRef": {"fieldPath": f"metadata.annotations['{mirror}']"}}
                ]
            },
        },
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"secret": {"name": secret, "items": [{"key": "token", "path": "token"}]}},
                    {"configMap": {"name": names.SUPER_ROOT_CA}},
                    {
                        "downwardAPI": {
                            "items": [
                                {
                                    "path": "u",
                                    "fieldRef": {
                                        "fieldPath": f"metadata.annotations['{wellknown.UID}']"
                                    },
                                }
                            ]
                        }
                    },
                ]
            },
        },
    ]


def test_a_pod_that_names_no_account_reads_the_name_of_the_default_one():
    reads = {"name": "SA", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}}
    made = build(pod(**container(env=[reads])))["spec"]["containers"][0]["env"]
    assert {"name": "SA", "value": "default"} in made


def test_a_running_pods_metadata_is_what_a_new_one_would_have():
    reads = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['istio.io/a']"}}}
    items = [{"path": "u", "fieldRef": {"fieldPath": "metadata.labels['istio.io/b']"}}]
    tenant_pod = pod(
        {"labels": {"istio.io/a": "1", "istio.io/b": "2", "istio.io/c": "3", "istio.io/d": "4"}},
        initContainers=[{"name": "s", "image": "i", "env": [reads]}],
        volumes=[
            {"name": "v", "downwardAPI": {"items": items}},
            {
                "name": "w",
                "projected": {
                    "sources": [
                        {
                            "downwardAPI": {
                                "items": [
                                    {
                                        "path": "u",
                                        "fieldRef": {"fieldPath": "metadata.labels['istio.io/c']"},
                                    }
                                ]
                            }
                        }
                    ]
                },
            },
        ],
    )
    made = build(tenant_pod)["metadata"]
    again = pod_build.build_metadata(tenant_pod, TENANT, below("web"))
    assert again == made
    needed = {
        object_meta.build_mirror_key("labels", f"istio.io/{key}"): value
        for key, value in (("a", "1"), ("b", "2"), ("c", "3"))
    }
    assert needed.items() <= again["annotations"].items()
    assert object_meta.build_mirror_key("labels", "istio.io/d") not in again["annotations"]
    debugged = {**tenant_pod, "spec": {**tenant_pod["spec"]}}
    late = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['istio.io/d']"}}}
    debugged["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "i", "env": [late]}]
    served = pod_build.build_metadata(
        debugged, TENANT, below("web"), containers=["s", "main", "debug"]
    )
    assert served["annotations"][wellknown.CONTAINERS] == "s,main,debug"
    assert served["annotations"][object_meta.build_mirror_key("labels", "istio.io/d")] == "4"
    debugged["spec"]["ephemeralContainers"] = ["nonsense"]
    assert (
        pod_build.build_field_mirrors(debugged, BASELINE_POLICY.metadata).needed_annotations
        == needed
    )
