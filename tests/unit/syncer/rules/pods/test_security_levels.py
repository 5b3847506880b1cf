"""Refusals that each field of a TenantPolicy lifts, and refusals that stay."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.field_rules import AllowValues, RefuseField, iterate_leaf_paths
from syncer.model.references import ObjectReference, list_references
from syncer.model.rejections import RejectedError, UnschedulableError
from syncer.rules.pods import pod_build, security_levels
from syncer.rules.pods.dns import DnsResolver
from syncer.rules.pods.pod_fields import POD_SPEC
from tenancy import wellknown
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec, parse_tenant_policy
from tests.support.syncer.pods import FACTS, pod


@pytest.fixture(autouse=True)
def made_anew():
    """Tables are kept by policy. Each test makes its own."""
    security_levels._build_table.cache_clear()


PRIVILEGED = {"security": {"level": "privileged"}}
HOST_PORTS = {"network": {"hostPorts": "Allow"}}
IMAGES = {"storage": {"imageVolumes": "Allow"}}
DRIVERS = {"storage": {"inlineCsiDrivers": ["inline.example", "other.example"]}}


def policy(spec: dict[str, Any]) -> TenantPolicySpec:
    return parse_tenant_policy({"metadata": {"name": "own"}, "spec": spec})


def built(spec: dict[str, Any], given: TenantPolicySpec, **metadata: Any) -> dict[str, Any]:
    """Return the spec of the super pod of a tenant pod under a policy."""
    resolver = DnsResolver(
        server="10.96.8.10",
        domain="cluster.local",
        allows_node_dns=given.network.node_dns == "Allow",
    )
    placement = FACTS.scheduling._replace(node_view=given.nodes.view)
    facts = FACTS._replace(policy=given, resolver=resolver, scheduling=placement)
    found: dict[str, Any] = pod_build.build_super_pod(pod(metadata, **spec), facts).pod["spec"]
    return found


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "i", **fields}]}


def secured(**fields: Any) -> dict[str, Any]:
    return container(securityContext=fields)


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


LIFTED = [
    ("host-namespace", {"hostNetwork": True}, PRIVILEGED),
    ("host-namespace", {"hostPID": True}, PRIVILEGED),
    ("host-namespace", {"hostIPC": True}, PRIVILEGED),
    ("privileged", secured(privileged=True), PRIVILEGED),
    ("capabilities", secured(capabilities={"add": ["SYS_ADMIN"]}), PRIVILEGED),
    ("proc-mount", secured(procMount="Unmasked"), PRIVILEGED),
    ("profile", secured(seccompProfile={"type": "Unconfined"}), PRIVILEGED),
    ("profile", {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, PRIVILEGED),
    ("selinux", secured(seLinuxOptions={"user": "u"}), PRIVILEGED),
    (
        "sysctls",
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        PRIVILEGED,
    ),
    ("handler-host", container(livenessProbe={"tcpSocket": {"host": "h", "port": 1}}), PRIVILEGED),
    ("host-port", container(ports=[{"containerPort": 1, "hostPort": 1}]), PRIVILEGED),
    ("host-port", container(ports=[{"containerPort": 1, "hostPort": 1}]), HOST_PORTS),
    ("volume-source", volume(hostPath={"path": "/p", "type": "Directory"}), PRIVILEGED),
    ("volume-source", volume(image={"reference": "r", "pullPolicy": "Always"}), IMAGES),
    (
        "volume-source",
        volume(
            csi={
                "driver": "inline.example",
                "fsType": "ext4",
                "nodePublishSecretRef": {"name": "s"},
                "readOnly": True,
                "volumeAttributes": {"a": "b"},
            }
        ),
        DRIVERS,
    ),
]


@pytest.mark.parametrize(("rule", "spec", "allowing"), LIFTED)
def test_what_baseline_refuses_a_policy_allows(rule, spec, allowing):
    with pytest.raises(RejectedError) as raised:
        built(spec, BASELINE_POLICY)
    assert {problem.rule for problem in raised.value.problems} == {rule}
    found = built(spec, policy(allowing))
    for field, value in spec.items():
        if field != "containers":
            assert found[field] == value
            continue
        for name, inside in value[0].items():
            assert found[field][0][name] == inside


@pytest.mark.parametrize(
    ("rule", "spec", "given"),
    [
        ("host-namespace", {"hostNetwork": True}, HOST_PORTS),
        ("volume-source", volume(hostPath={"path": "/p"}), IMAGES),
        ("volume-source", volume(csi={"driver": "strange.example"}), DRIVERS),
        ("volume-source", volume(csi={"driver": "inline.example"}), PRIVILEGED),
        ("volume-source", volume(image={"reference": "r"}), PRIVILEGED),
        ("volume-source", volume(nfs={"server": "s", "path": "/"}), PRIVILEGED),
        ("unknown-field", volume(hostPath={"path": "/p", "strange": 1}), PRIVILEGED),
        ("privileged", secured(privileged=True), {"security": {"level": "restricted"}}),
    ],
)
def test_what_a_policy_does_not_name_stays_refused(rule, spec, given):
    with pytest.raises(RejectedError) as raised:
        built(spec, policy(given))
    assert {problem.rule for problem in raised.value.problems} == {rule}


GENEROUS = {"storage": {"imageVolumes": "Allow", "inlineCsiDrivers": ["inline.example"]}}
"""Each further kind of volume that a policy can give at any level."""


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize(
    "path",
    [
        *("/var/log", "/var/log/", "/var/log/pods", "/var/log/containers", "/var/lib/kubelet"),
        *("/var", "/", "//var//log", "/var/./log/pods", "/srv/../var/log", "var/log", ""),
        *("/var/lib/kubelet/pods/own", "/mnt/shared"),
    ],
)
def test_no_path_of_a_node_is_harmless(level: str, path: str):
    """SEC-21: a link that a pod plants where a kubelet reads logs would be read as a log."""
    network = {"hostPorts": "Allow" if level == "baseline" else "Refuse"}
    given = policy({**GENEROUS, "security": {"level": level}, "network": network})
    for source in ({"path": path}, {"path": path, "type": "DirectoryOrCreate"}):
        with pytest.raises(RejectedError) as raised:
            built(volume(hostPath=source), given)
        assert {problem.rule for problem in raised.value.problems} == {"volume-source"}


def rules(table: Any) -> set[str]:
    return {
        verdict.rule
        for _, verdict in iterate_leaf_paths(table, "spec")
        if isinstance(verdict, RefuseField | AllowValues)
    }


def test_every_rule_that_is_lifted_is_one_of_the_table():
    assert rules(POD_SPEC) >= security_levels.PRIVILEGED_RULES
    assert (
        not rules(security_levels.get_table(policy(PRIVILEGED))) & security_levels.PRIVILEGED_RULES
    )
    assert rules(POD_SPEC) - rules(security_levels.get_table(policy(HOST_PORTS))) == {"host-port"}


def test_restricted_is_the_table_of_baseline_and_left_to_the_super_clusters_admission():
    assert security_levels.get_table(policy({"security": {"level": "restricted"}})) == POD_SPEC
    assert security_levels.get_table(BASELINE_POLICY) == POD_SPEC


def test_the_secret_of_an_inline_driver_is_one_that_the_pod_needs():
    csi = {"driver": "inline.example", "nodePublishSecretRef": {"name": "s"}}
    assert list_references(volume(csi=csi)) == {ObjectReference("Secret", "s")}
    token = {**csi, "nodePublishSecretRef": {"name": "vc-token-abc"}}
    with pytest.raises(RejectedError, match="reserved"):
        built(volume(csi=token), policy(DRIVERS))


@pytest.mark.parametrize("given", [{}, {"network": {"nodeDns": "Allow"}}])
def test_a_pod_on_the_nodes_network_resolves_as_its_node_where_the_policy_allows_that(given):
    spec = {"hostNetwork": True, "setHostnameAsFQDN": True, "subdomain": "s"}
    found = built(spec, policy({**PRIVILEGED, **given}))
    if given:
        assert found["dnsPolicy"] == "Default"
    else:
        assert found["dnsConfig"] == {"nameservers": ["10.96.8.10"]}
    assert "hostnameOverride" not in found
    inside = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    searches = built(inside, policy({**PRIVILEGED, **given}))["dnsConfig"]["searches"]
    assert searches[0] == "web.svc.cluster.local"


@pytest.mark.parametrize("kind", ["DaemonSet", "ReplicaSet"])
def test_pods_of_daemon_sets_are_refused_where_the_policy_specifies_so(kind):
    owner = {"kind": kind, "name": "o", "uid": "u", "controller": True}
    refusing = policy({"daemonSets": "Refuse"})
    assert built({}, BASELINE_POLICY, ownerReferences=[owner])
    if kind == "ReplicaSet":
        assert built({}, refusing, ownerReferences=[owner])
        return
    with pytest.raises(RejectedError, match="Use a Deployment"):
        built({}, refusing, ownerReferences=[owner])


def test_a_node_that_shows_no_address_shows_none_in_an_environment():
    reads = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
    assert built(container(env=[reads]), BASELINE_POLICY)
    with pytest.raises(RejectedError) as raised:
        built(container(env=[reads]), policy({"nodes": {"view": "Minimal"}}))
    assert [problem.rule for problem in raised.value.problems] == ["node-view"]


@pytest.mark.parametrize(
    ("key", "seen"),
    [
        ("kubernetes.io/hostname", {"Minimal", "Standard", "Full"}),
        ("disk", {"Standard", "Full"}),
        ("topology.kubernetes.io/zone", {"Standard", "Full"}),
        ("node-role.kubernetes.io/worker", {"Full"}),
        ("tenancy.x-k8s.io/virtualnode", set()),
    ],
)
@pytest.mark.parametrize("view", ["Minimal", "Standard", "Full"])
def test_a_pod_selects_nodes_by_the_labels_that_are_shown(key, seen, view):
    spread = {"topologySpreadConstraints": [{"topologyKey": key, "maxSkew": 1}]}
    spec = {"nodeSelector": {key: "1"}}
    given = policy({"nodes": {"view": view}})
    if view in seen:
        assert built({**spec, **spread}, given)["nodeSelector"] == {key: "1"}
        return
    with pytest.raises(RejectedError) as raised:
        built(spread, given)
    assert [problem.rule for problem in raised.value.problems] == ["node-label"]
    if wellknown.is_reserved_key(key):
        with pytest.raises(RejectedError):
            built(spec, given)
    else:
        with pytest.raises(UnschedulableError, match=f"{key}=1"):
            built(spec, given)


def test_a_driver_that_is_not_offered_is_refused_with_those_that_are():
    with pytest.raises(RejectedError) as raised:
        built(volume(csi={"driver": "strange.example"}), policy(DRIVERS))
    (problem,) = raised.value.problems
    assert problem.path == "spec.volumes[0].csi.driver"
    assert problem.text == (
        "must not be 'strange.example'. Use a driver of inline.example, other.example"
    )
