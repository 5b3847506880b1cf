"""Refused fields of a pod by rule, and similar fields that are accepted."""

from __future__ import annotations

from typing import Any

import pytest

from tenancy import names, wellknown
from tests.support.syncer.pods import build, pod, rules


def container(**fields: Any) -> dict[str, Any]:
    """Return a pod whose container has these fields."""
    return pod(containers=[{"name": "main", "image": "i", **fields}])


def security(**fields: Any) -> dict[str, Any]:
    """Return a pod whose container has this security context."""
    return container(securityContext=fields)


REFUSED = [
    (pod(hostNetwork=True), "host-namespace"),
    (pod(hostPID=True), "host-namespace"),
    (pod(hostIPC=True), "host-namespace"),
    (pod(runtimeClassName="kata"), "runtime-class"),
    (pod(priorityClassName="system-cluster-critical"), "priority-class"),
    (pod(nodeName="control-plane"), "node-name"),
    (pod(nodeSelector={wellknown.VIRTUAL_NODE: "true"}), "node-label"),
    (pod(os={"name": "windows"}), "os"),
    (pod(resourceClaims=[{"name": "gpu"}]), "resource-claims"),
    (pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), "sysctls"),
    (pod(securityContext={"seccompProfile": {"type": "Unconfined"}}), "profile"),
    (pod(securityContext={"windowsOptions": {"hostProcess": True}}), "windows"),
    (pod(readinessGates=[{"conditionType": "Ready"}]), "readiness-gates"),
    (pod(readinessGates=[{"conditionType": f"{wellknown.DOMAIN}/x"}]), "readiness-gates"),
    (pod(surprise={"a": 1}), "unknown-field"),
    (pod(dnsConfig={"surprise": ["x"]}), "unknown-field"),
    (pod(containers="none"), "malformed"),
    (security(privileged=True), "privileged"),
    (security(procMount="Unmasked"), "proc-mount"),
    (security(capabilities={"add": ["SYS_ADMIN"]}), "capabilities"),
    (security(capabilities={"add": ["ALL"]}), "capabilities"),
    (security(seccompProfile={"type": "Localhost", "localhostProfile": "p"}), "profile"),
    (security(appArmorProfile={"type": "Unconfined"}), "profile"),
    (security(seLinuxOptions={"type": "spc_t"}), "selinux"),
    (security(seLinuxOptions={"user": "root"}), "selinux"),
    (container(ports=[{"containerPort": 80, "hostPort": 80}]), "host-port"),
    (container(ports=[{"containerPort": 80, "hostIP": "0.0.0.0"}]), "host-port"),  # noqa: S104
    (container(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 80}}), "handler-host"),
    (container(lifecycle={"preStop": {"tcpSocket": {"host": "h", "port": 1}}}), "handler-host"),
    (
        container(
            volumeMounts=[{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]
        ),
        "mount-propagation",
    ),
    *(
        (
            pod(
                volumes=[{"name": "v", "emptyDir": {}}],
                containers=[
                    {
                        "name": "main",
                        "image": "i",
                        "volumeMounts": [
                            {"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec", option]}
                        ],
                    }
                ],
            ),
            "mount-options",
        )
        for option in ("exec", "dev", "suid", "rshared")
    ),
    (
        container(livenessProbe={"httpGet": {"host": "h", "port": 1, "protocol": "HTTP2"}}),
        "handler-host",
    ),
    (container(volumeDevices=[{"name": "v", "devicePath": "/d"}]), "volume-mount"),
    (container(volumeMounts=[{"name": "injected", "mountPath": "/v"}]), "volume-mount"),
    (
        container(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "injected"}}}]),
        "volume-mount",
    ),
    (container(resources={"claims": [{"name": "gpu"}]}), "resource-claims"),
    (container(surprise=True), "unknown-field"),
    (pod(volumes=[{"name": "v", "secret": {"secretName": "vc-token-abc"}}]), "reserved-name"),
    (pod(volumes=[{"name": "v", "configMap": {"name": names.SUPER_ROOT_CA}}]), "reserved-name"),
    (container(envFrom=[{"secretRef": {"name": "vc-token-abc"}}]), "reserved-name"),
    (container(envFrom=[{"secretRef": {"name": "../other/x"}}]), "reference-name"),
    (pod(volumes=[{"name": "v", "secret": {"secretName": ".."}}]), "reference-name"),
    (pod(volumes=[{"name": "v", "configMap": {"name": "a/b"}}]), "reference-name"),
]
VOLUMES = [
    "hostPath",
    "csi",
    "nfs",
    "iscsi",
    "gitRepo",
    "flexVolume",
    "image",
    "rbd",
]
SOURCES = ["podCertificate", "clusterTrustBundle"]


@pytest.mark.parametrize(("tenant_pod", "rule"), REFUSED)
def test_what_is_not_offered_is_refused_by_its_rule(tenant_pod, rule):
    assert rules(tenant_pod) == {rule}


@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_every_kind_of_container_is_held_to_the_same(kind):
    bad = {"name": "x", "image": "i", "securityContext": {"privileged": True}}
    assert rules(pod(**{kind: [bad]})) == {"privileged"}


@pytest.mark.parametrize("source", VOLUMES)
def test_volume_sources_that_are_not_offered(source):
    """SEC-21: no path of the node, the folders of logs and of the kubelet among them."""
    assert rules(pod(volumes=[{"name": "v", source: {"path": "/"}}])) == {"volume-source"}
    assert rules(pod(volumes=[{"name": "v", source: {}}])) == {"volume-source"}


@pytest.mark.parametrize("value", [5, ["kata"], {"a": 1}])
def test_classes_of_an_odd_shape_reach_nothing(value):
    assert rules(pod(runtimeClassName=value)) == {"runtime-class"}
    assert "priorityClassName" not in build(pod(priorityClassName=value))["spec"]


@pytest.mark.parametrize("source", SOURCES)
def test_projected_sources_that_are_not_offered(source):
    volume = {"name": "v", "projected": {"sources": [{source: {"path": "x"}}]}}
    assert rules(pod(volumes=[volume])) == {"projected-source"}


@pytest.mark.parametrize(
    "tenant_pod",
    [
        pod(hostNetwork=False, hostPID=False),
        pod(priorityClassName="own"),
        pod(nodeSelector={"disk": "ssd", "kubernetes.io/os": "linux"}),
        pod(os={"name": "linux"}),
        pod(
            volumes=[{"name": "v", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]
        ),
        pod(readinessGates=[{"conditionType": "example.com/ready"}]),
        pod(hostUsers=False, shareProcessNamespace=True, activeDeadlineSeconds=5),
        pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["h"]}], hostname="h", subdomain="s"),
        security(capabilities={"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}, runAsUser=0),
        security(seccompProfile={"type": "RuntimeDefault"}, privileged=False),
        container(livenessProbe={"httpGet": {"port": "http", "path": "/"}}),
        container(ports=[{"containerPort": 80, "hostPort": 0}]),
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[
                {
                    "name": "main",
                    "image": "i",
                    "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}],
                }
            ],
        ),
    ],
)
def test_the_positive_neighbours_pass(tenant_pod):
    made = build(tenant_pod)
    for field in (
        "volumes",
        "hostname",
        "subdomain",
        "hostAliases",
        "readinessGates",
        "nodeSelector",
    ):
        assert made["spec"].get(field) == tenant_pod["spec"].get(field)


USER_VOLUMES: list[dict[str, Any]] = [
    {"name": "e", "emptyDir": {"mode": 0o1700}},
    {
        "name": "c",
        "configMap": {
            "name": "c",
            "defaultUser": 1000,
            "items": [{"key": "a", "path": "a", "mode": 0o400, "user": 0}],
        },
    },
    {
        "name": "s",
        "secret": {
            "secretName": "s",
            "defaultUser": 0,
            "items": [{"key": "a", "path": "a", "user": 1001}],
        },
    },
    {
        "name": "d",
        "downwardAPI": {
            "defaultUser": 1000,
            "items": [
                {
                    "path": "cpu",
                    "user": 5,
                    "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"},
                }
            ],
        },
    },
    {
        "name": "p",
        "projected": {
            "defaultUser": 1000,
            "sources": [
                {"configMap": {"name": "c", "items": [{"key": "a", "path": "a", "user": 7}]}},
                {"secret": {"name": "s", "items": [{"key": "a", "path": "b", "user": 8}]}},
            ],
        },
    },
]
"""Leaves of Kubernetes 1.37: the mode of a folder and the owner of each file."""


def test_owners_and_modes_of_files_pass():
    assert build(pod(volumes=USER_VOLUMES))["spec"]["volumes"] == USER_VOLUMES


def test_the_owner_of_a_token_stays_with_the_file_that_the_token_is_in():
    source = {"path": "t", "user": 0}
    volume = {"name": "t", "projected": {"sources": [{"serviceAccountToken": source}]}}
    made = build(pod(volumes=[volume]))
    (found,) = made["spec"]["volumes"][0]["projected"]["sources"]
    assert found["secret"]["items"] == [{"key": "token", "path": "t", "user": 0}]


def test_options_that_restrict_a_mount_and_the_ways_of_a_probe_pass():
    mount = {"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec", "nodev", "nosuid"]}
    probes = {
        "livenessProbe": {"httpGet": {"port": 1, "protocol": "HTTP2"}},
        "readinessProbe": {"grpc": {"port": 1, "mode": "TLS"}},
        "startupProbe": {"grpc": {"port": 1, "mode": "Plaintext"}},
        "lifecycle": {"postStart": {"httpGet": {"port": 1, "protocol": "HTTP1"}}},
    }
    main = {"name": "main", "image": "i", "volumeMounts": [mount], **probes}
    made = build(pod(volumes=[{"name": "v", "emptyDir": {}}], containers=[main]))
    (found,) = made["spec"]["containers"]
    assert found["volumeMounts"] == [mount]
    assert {field: found[field] for field in probes} == probes


def test_all_problems_are_reported_at_once():
    tenant_pod = pod(hostPID=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    assert rules(tenant_pod) == {"host-namespace", "volume-source"}
