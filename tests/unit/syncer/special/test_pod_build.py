"""The super pod of a tenant pod, aspect by aspect."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from syncer.rejections import RejectedError
from syncer.special import pod_build
from syncer.special.pod_build import PodFacts
from syncer.special.pod_dns import Resolver
from syncer.special.pod_scheduling import Placement
from tenancy import marks, names
from tenancy.ownership import Tenant

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
MASTER = {"KUBERNETES_SERVICE_HOST": "10.96.8.1", "KUBERNETES_SERVICE_PORT": "443"}
ACCOUNT = "account-uid"


def below(namespace: str) -> str:
    """Return a super namespace."""
    return f"{TENANT.root}-{namespace}"


FACTS = PodFacts(
    tenant=TENANT,
    super_namespace=below("web"),
    super_namespace_uid="space-uid",
    resolver=Resolver(server="10.96.8.10", domain="cluster.local", allows_node_dns=False),
    placement=Placement(
        vc_uid=TENANT.uid,
        namespace="web",
        super_namespace=below,
        namespaces={"web": {"team": "a"}, "db": {"team": "a"}, "other": {"team": "b"}},
        nodes={"node-1"},
    ),
    variables=MASTER,
    account_uid=ACCOUNT,
    provided=lambda _: (),
)


def pod(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a tenant pod as its API server hands it out."""
    return {
        "metadata": {"name": "p", "namespace": "web", "uid": "pod-uid", **(metadata or {})},
        "spec": {"containers": [{"name": "main", "image": "i"}], **spec},
        "status": {"phase": "Pending"},
    }


def build(tenant_pod: dict[str, Any]) -> dict[str, Any]:
    """Return the super pod, and see that the tenant's object is as it was."""
    before = copy.deepcopy(tenant_pod)
    built = pod_build.build(tenant_pod, FACTS)
    assert tenant_pod == before
    return built.pod


def rules(tenant_pod: dict[str, Any]) -> set[str]:
    """Return the rules that reject a pod."""
    with pytest.raises(RejectedError) as raised:
        pod_build.build(tenant_pod, FACTS)
    assert TENANT.root not in str(raised.value)
    return {problem.rule for problem in raised.value.problems}


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
    assert spec["containers"][0]["env"] == [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "10.96.8.1"},
        {"name": "KUBERNETES_SERVICE_PORT", "value": "443"},
    ]
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
    assert made["annotations"][marks.CONTAINERS] == "setup,main"


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
    assert made["metadata"]["labels"][marks.CONTROLLER] == "rs"
    constraints = made["spec"]["topologySpreadConstraints"]
    assert {item["whenUnsatisfiable"] for item in constraints} == {"ScheduleAnyway"}
    assert all(
        item["labelSelector"]["matchLabels"] == {marks.CONTROLLER: "rs"} for item in constraints
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


def access_volume() -> dict[str, Any]:
    """Return the volume that the API server adds to every pod."""
    return {
        "name": "kube-api-access-x",
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            }
                        ]
                    }
                },
            ],
        },
    }


def test_the_api_access_of_a_pod_is_the_tenants():
    made = build(pod(volumes=[access_volume()], serviceAccountName="robot"))
    token, authority, namespace = made["spec"]["volumes"][0]["projected"]["sources"]
    secret = names.token_secret(ACCOUNT, "", 7200)
    assert token == {"secret": {"name": secret, "items": [{"key": "token", "path": "token"}]}}
    assert authority["configMap"]["name"] == names.SUPER_ROOT_CA
    field = namespace["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"]
    assert field == f"metadata.annotations['{marks.NAMESPACE}']"
    assert "serviceAccountToken" not in str(made)


def test_a_token_for_another_audience_is_bound_to_the_pod():
    source = {"audience": "vault", "expirationSeconds": 900, "path": "t"}
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": source}]}}
    made = build(pod(volumes=[volume]))
    name = made["spec"]["volumes"][0]["projected"]["sources"][0]["secret"]["name"]
    assert name == names.token_secret(ACCOUNT, "vault", 900, "pod-uid")


def test_the_root_ca_is_renamed_wherever_it_is_named():
    container = {
        "name": "main",
        "image": "i",
        "env": [
            {
                "name": "A",
                "valueFrom": {"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "k"}},
            }
        ],
        "envFrom": [{"configMapRef": {"name": "kube-root-ca.crt"}}],
    }
    volume = {"name": "v", "configMap": {"name": "kube-root-ca.crt"}}
    made = build(pod(containers=[container], volumes=[volume]))
    assert "'kube-root-ca.crt'" not in str(made)
    assert str(made).count(names.SUPER_ROOT_CA) == 3


def test_field_references_read_the_tenants_values():
    def env(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}

    paths = {
        "NAMESPACE": "metadata.namespace",
        "UID": "metadata.uid",
        "NAME": "metadata.name",
        "ACCOUNT": "spec.serviceAccountName",
        "NODE": "spec.nodeName",
        "PASSED": "metadata.labels['app']",
        "DROPPED": "metadata.labels['x.k8s.io/y']",
        "NOTE": "metadata.annotations['example.com/note']",
    }
    container = {"name": "main", "image": "i", "env": [env(k, v) for k, v in paths.items()]}
    made = build(
        pod(
            {
                "labels": {"app": "web", "x.k8s.io/y": "z"},
                "annotations": {"example.com/note": "hello"},
            },
            containers=[container],
            serviceAccountName="robot",
        )
    )
    found = {item["name"]: item for item in made["spec"]["containers"][0]["env"]}
    annotations = made["metadata"]["annotations"]

    def path(name: str) -> str:
        return found[name]["valueFrom"]["fieldRef"]["fieldPath"]

    def mirrored(name: str) -> str:
        return annotations[path(name).removeprefix("metadata.annotations['").removesuffix("']")]

    assert mirrored("NAMESPACE") == "web"
    assert mirrored("UID") == "pod-uid"
    assert mirrored("DROPPED") == "z"
    assert mirrored("NOTE") == "hello"
    assert path("NAME") == "metadata.name"
    assert path("NODE") == "spec.nodeName"
    assert path("PASSED") == "metadata.labels['app']"
    assert found["ACCOUNT"] == {"name": "ACCOUNT", "value": "robot"}


def test_files_of_labels_and_annotations_show_the_tenants():
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}},
    ]
    tenant_pod = pod(
        {"labels": {"b": "2", "a": "1"}, "annotations": {"k": 'say "hi"\n'}},
        volumes=[{"name": "v", "downwardAPI": {"items": items}}],
    )
    made = build(tenant_pod)
    annotations = made["metadata"]["annotations"]
    assert annotations["mirror.tenancy.x-k8s.io/labels"] == 'a="1"\nb="2"'
    assert annotations["mirror.tenancy.x-k8s.io/annotations"] == 'k="say \\"hi\\"\\n"'
    # What is kept up to date later is what was built.
    again = pod_build.build_metadata(tenant_pod, TENANT, below("web"))
    assert again["annotations"] == annotations


def test_what_an_env_source_brings_is_left_to_it():
    facts = copy.copy(FACTS)
    object.__setattr__(facts, "provided", lambda _: {"KUBERNETES_SERVICE_HOST"})
    container = {
        "name": "main",
        "image": "i",
        "env": [{"name": "KUBERNETES_SERVICE_PORT", "value": "own"}],
        "envFrom": [{"configMapRef": {"name": "c"}}],
    }
    made = pod_build.build(pod(containers=[container]), facts).pod
    assert made["spec"]["containers"][0]["env"] == [
        {"name": "KUBERNETES_SERVICE_PORT", "value": "own"}
    ]


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
        assert each["labelSelector"]["matchLabels"][marks.VC_UID] == TENANT.uid
    assert "namespaces" not in found[0]
    assert found[1]["namespaces"] == [below("db")]
    assert found[2]["namespaces"] == sorted(map(below, ("db", "other", "web")))
    assert found[3]["namespaces"] == ["no-such-namespace"]
    assert "matchLabelKeys" not in found[4]
    assert "labelSelector" not in found[5]  # selects no pod, and goes on doing so
    assert not any("namespaceSelector" in each for each in found)


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


def test_what_is_left_out_or_changed_is_told():
    tolerations = [
        {"operator": "Exists"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    ]
    built = pod_build.build(
        pod(tolerations=tolerations, terminationGracePeriodSeconds=86400), FACTS
    )
    assert built.pod["spec"]["tolerations"] == tolerations[1:]
    assert built.pod["spec"]["terminationGracePeriodSeconds"] == 600
    assert {notice.rule for notice in built.notices} == {"toleration", "grace"}


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
    (pod(nodeSelector={"node-role.kubernetes.io/control-plane": ""}), "node-label"),
    (pod(os={"name": "windows"}), "os"),
    (pod(resourceClaims=[{"name": "gpu"}]), "resource-claims"),
    (pod(schedulingGroup={"podGroupName": "g"}), "scheduling-group"),
    (pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), "sysctls"),
    (pod(securityContext={"seccompProfile": {"type": "Unconfined"}}), "profile"),
    (pod(securityContext={"windowsOptions": {"hostProcess": True}}), "windows"),
    (pod(readinessGates=[{"conditionType": "Ready"}]), "readiness-gates"),
    (pod(readinessGates=[{"conditionType": f"{marks.DOMAIN}/x"}]), "readiness-gates"),
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
    (container(volumeDevices=[{"name": "v", "devicePath": "/d"}]), "volume-devices"),
    (container(resources={"claims": [{"name": "gpu"}]}), "resource-claims"),
    (container(surprise=True), "unknown-field"),
    (pod(volumes=[{"name": "v", "secret": {"secretName": "vc-token-abc"}}]), "reserved-name"),
    (pod(volumes=[{"name": "v", "configMap": {"name": names.SUPER_ROOT_CA}}]), "reserved-name"),
    (container(envFrom=[{"secretRef": {"name": "vc-token-abc"}}]), "reserved-name"),
]
VOLUMES = [
    "hostPath",
    "persistentVolumeClaim",
    "ephemeral",
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
    assert rules(pod(volumes=[{"name": "v", source: {"path": "/"}}])) == {"volume-source"}
    assert rules(pod(volumes=[{"name": "v", source: {}}])) == {"volume-source"}


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
        container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "a"}]),
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


def test_all_problems_are_told_at_once():
    tenant_pod = pod(hostPID=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    assert rules(tenant_pod) == {"host-namespace", "volume-source"}
