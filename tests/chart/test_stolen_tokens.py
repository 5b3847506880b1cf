"""Bounds of a stolen token of vc-manager: nothing outside its purpose.

The thief's account is bound to cluster-admin here, so the admission policy alone refuses. Reads
have no admission: the rights that the chart grants are tried for them.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubeio import Object
from tenancy import resources, wellknown
from tenancy.specs import KubeconfigReader, VirtualClusterSpec
from tests.chart.gate import AdmissionStage, refused, root, space, tenant
from tests.chart.stolen_tokens import BY_KIND, CONTAINER, MANAGER, POD, RBAC, StolenTokens, body
from tests.support.helm import NAMESPACE, named, render
from tests.support.names import fresh_name
from vcmanager.phases.root_namespace import build_role_bindings
from vcmanager.runtime.options import AgentPodSettings
from vcmanager.targets import agent_objects
from vcmanager.targets.agent_objects import AgentDeployment

pytestmark = pytest.mark.integration


def workload(kind: str, namespace: str, name: str = "etcd", **pod: Any) -> Object:
    """Return a StatefulSet, Deployment or Job with fields of its pods."""
    labels = {"a": "b"}
    if kind == "Job":
        pod_spec = {**copy.deepcopy(POD), "restartPolicy": "Never", **pod}
        return body(kind, name, namespace, "batch/v1", spec={"template": {"spec": pod_spec}})
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {**copy.deepcopy(POD), **pod}},
    }
    if kind == "StatefulSet":
        spec["serviceName"] = "etcd"
    return body(kind, name, namespace, "apps/v1", spec=spec)


def relabeled(namespace: Object, **labels: str | None) -> Object:
    """Return a namespace with other labels. None removes one."""
    made = copy.deepcopy(namespace)
    found = made["metadata"]["labels"]
    for key, value in labels.items():
        name = f"{wellknown.DOMAIN}/{key}" if key != "level" else LEVEL
        found[name] = value
    made["metadata"]["labels"] = {key: value for key, value in found.items() if value is not None}
    return made


LEVEL = "pod-security.kubernetes.io/enforce"
GONE: Object = {"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "gone"}
"""An owner that does not exist. The garbage collector deletes its objects."""


def agent_deployment(name: str = "far") -> Object:
    """Return the Deployment of a target's agent, of the chart's image."""
    image = named(render(), "DaemonSet", "vn-agent")["spec"]["template"]["spec"]["containers"][0]
    agent = AgentDeployment(name=name, uid="uid", namespace=NAMESPACE)
    pods = AgentPodSettings(image=image["image"])
    made = agent_objects.build_deployment(agent, pods, None, has_credential=False)
    made["metadata"].pop("ownerReferences")
    return made


TOKEN_TYPE = "kubernetes.io/service-account-token"
WRITES_OUTSIDE = [
    ("Secret", "kube-system", {}),
    ("Secret", "default", {}),
    ("Secret", "SPACE", {}),
    ("Secret", NAMESPACE, {}),
    ("ConfigMap", "kube-system", {}),
    ("ConfigMap", "SPACE", {}),
    ("ConfigMap", NAMESPACE, {}),
    ("PersistentVolumeClaim", "kube-system", {}),
    ("PodDisruptionBudget", "kube-system", {"spec": {"maxUnavailable": 0}}),
    ("PodDisruptionBudget", "SPACE", {"spec": {"maxUnavailable": 0}}),
    ("Pod", "kube-system", {"spec": POD}),
    ("Pod", "ROOT", {"spec": POD}),
    ("ServiceAccount", "ROOT", {}),
    ("ServiceAccount", "kube-system", {}),
    ("ClusterRole", "", {"rules": []}),
    ("CustomResourceDefinition", "", {}),
    ("PriorityClass", "", {"value": 5}),
    ("Node", "", {}),
    ("PersistentVolume", "", {}),
    ("Lease", NAMESPACE, {}),
    ("Lease", "kube-system", {}),
    (
        "Event",
        "default",
        {
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "p",
                "namespace": "default",
            }
        },
    ),
]
SPECS: dict[str, Object] = {
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "PersistentVolume": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/"},
        }
    },
}


async def test_the_managers_token_writes_nothing_outside_of_root_namespaces(stolen: StolenTokens):
    """SEC-203."""
    stage, thief = stolen.stage, stolen.manager
    own, home = stage.own.root, stage.namespace(stage.own)
    tried = 0
    for kind, place, fields in WRITES_OUTSIDE:
        resource = BY_KIND.get(kind)
        if resource is None or kind == "CustomResourceDefinition":
            continue
        namespace = {"SPACE": home, "ROOT": own}.get(place, place)
        made = body(kind, fresh_name("o"), namespace, resource.api_version, **fields)
        made |= SPECS.get(kind, {})
        await refused(lambda r=resource, b=made: thief.create(r, b, dry_run=True), MANAGER)
        tried += 1
    for kind, resource in (
        ("StatefulSet", resources.STATEFUL_SETS),
        ("Deployment", resources.DEPLOYMENTS),
        ("Job", resources.JOBS),
    ):
        for namespace in ("kube-system", "default", NAMESPACE, home):
            made = workload(kind, namespace)
            # Without a dry run, which the policy lets validate templates.
            await refused(lambda r=resource, b=made: thief.create(r, b), MANAGER)
            tried += 1
    for namespace in ("kube-system", "default", NAMESPACE, home):
        made = body("Service", fresh_name("s"), namespace, spec={"ports": [{"port": 80}]})
        await refused(lambda b=made: thief.create(resources.SERVICES, b), MANAGER)
        tried += 1
    assert tried >= 30


async def test_the_managers_token_marks_slots_and_changes_no_version(stolen: StolenTokens):
    name = fresh_name("version")
    spec = {"kubernetesVersion": "1.36"}
    version = body("ClusterVersion", name, api="tenancy.x-k8s.io/v1alpha1", spec=spec)
    await stolen.stage.admin.create(resources.CLUSTER_VERSIONS, version)
    slot = {"uid": "u", "since": "2026-01-01T00:00:00Z"}

    async def patch(subresource: str = "", **fields: Any) -> object:
        return await stolen.manager.patch(
            resources.CLUSTER_VERSIONS, name, fields, subresource=subresource, dry_run=True
        )

    await patch("status", status={"rollout": {"slots": [slot]}})
    await refused(lambda: patch(spec={"rollout": {"paused": False}}), MANAGER)
    await refused(lambda: patch(spec={"kubernetesVersion": "1.35"}), MANAGER)
    await refused(lambda: patch(metadata={"labels": {"a": "b"}}), MANAGER)


async def test_the_managers_token_holds_a_sync_rule_and_changes_none(stolen: StolenTokens):
    name = fresh_name("widgets")
    resource = {"group": "shop.example.io", "version": "v1", "kind": "Widget", "plural": "widgets"}
    spec = {"resource": resource, "direction": "Down", "fields": ["spec.size"]}
    rule = body("SyncRule", name, api="tenancy.x-k8s.io/v1alpha1", spec=spec)
    await stolen.stage.admin.create(resources.SYNC_RULES, rule)

    async def patch(**fields: Any) -> object:
        return await stolen.manager.patch(resources.SYNC_RULES, name, fields, dry_run=True)

    await patch(metadata={"finalizers": [wellknown.SYNC_RULE_FINALIZER]})
    for wrong in ({"ownerReferences": [GONE]}, {"labels": {"a": "b"}}, {"annotations": {"a": "b"}}):
        await refused(lambda w=wrong: patch(metadata=w), MANAGER)
    await refused(lambda: patch(spec={"fields": ["spec.**"]}), MANAGER)


async def test_the_managers_token_creates_snapshots_of_schedules_only(stolen: StolenTokens):
    name, api = fresh_name("tenant"), "tenancy.x-k8s.io/v1alpha1"
    kind, resource = "VirtualClusterSnapshot", resources.VIRTUAL_CLUSTER_SNAPSHOTS
    thief = stolen.manager

    def snapshot(**labels: str) -> Object:
        made = body(kind, fresh_name("s"), "default", api, spec={"virtualClusterName": name})
        made["metadata"]["labels"] = labels
        return made

    await thief.create(resource, snapshot(**{wellknown.SNAPSHOT_SCHEDULE: name}), dry_run=True)
    for labels in ({}, {wellknown.SNAPSHOT_SCHEDULE: "another"}):
        made = snapshot(**labels)
        await refused(lambda b=made: thief.create(resource, b, dry_run=True), MANAGER)
    imported = snapshot(**{wellknown.SNAPSHOT_SCHEDULE: name})
    imported["spec"]["imported"] = {"manifest": {"sha256": "ab" * 32}}
    await refused(lambda: thief.create(resource, imported, dry_run=True), MANAGER)
    own = await stolen.stage.admin.create(resource, snapshot())
    target = own["metadata"]["name"]

    async def patch(subresource: str = "", **fields: Any) -> object:
        return await thief.patch(
            resource, target, fields, namespace="default", subresource=subresource, dry_run=True
        )

    await patch("status", status={"phase": "Failed"})
    await patch(metadata={"finalizers": [wellknown.FINALIZER]})
    await refused(lambda: patch(spec={"retention": {"keepFor": "1h"}}), MANAGER)


async def test_the_managers_token_ends_a_restore_and_requests_none(stolen: StolenTokens):
    name = fresh_name("tenant")
    made = body("VirtualCluster", name, "default", "tenancy.x-k8s.io/v1alpha1")
    made["spec"] = {"clusterVersionName": "v1.36"}
    made["metadata"]["annotations"] = {wellknown.RESTORE_SNAPSHOT: "a@t", "team/note": "kept"}
    await stolen.stage.admin.create(resources.VIRTUAL_CLUSTERS, made)

    async def patch(**annotations: str | None) -> object:
        return await stolen.manager.patch(
            resources.VIRTUAL_CLUSTERS,
            name,
            {"metadata": {"annotations": annotations}},
            namespace="default",
            dry_run=True,
        )

    await patch(**{wellknown.RESTORE_SNAPSHOT: None})
    await refused(lambda: patch(**{wellknown.RESTORE_SNAPSHOT: "b@t"}), MANAGER)
    await refused(lambda: patch(**{"team/note": None}), MANAGER)


async def test_the_managers_token_deletes_no_tenant_before_its_expiry(stolen: StolenTokens):
    """SEC-210."""
    protected = {wellknown.DELETION_PROTECTION: "enabled"}
    expires, earlier = "2026-01-02T00:00:00Z", "2026-01-01T23:59:59Z"
    rows: tuple[tuple[dict[str, str], str, str, bool], ...] = (
        ({}, expires, expires, True),
        ({}, expires, "2026-01-03T00:00:00Z", True),
        ({}, expires, earlier, False),
        ({}, "", expires, False),
        (protected, expires, expires, False),
    )
    for labels, moment, after, is_allowed in rows:
        name = fresh_name("tenant")
        made = body("VirtualCluster", name, "default", "tenancy.x-k8s.io/v1alpha1")
        made["spec"] = {"clusterVersionName": "v1.36"} | ({"expiresAt": moment} if moment else {})
        made["metadata"]["labels"] = labels
        await stolen.stage.admin.create(resources.VIRTUAL_CLUSTERS, made)

        async def patch(name: str = name, **fields: Any) -> object:
            return await stolen.manager.patch(
                resources.VIRTUAL_CLUSTERS, name, fields, namespace="default", dry_run=True
            )

        asked = {"annotations": {wellknown.DELETE_AFTER: after}}
        if is_allowed:
            await patch(metadata=asked)
        else:
            await refused(lambda p=patch, m=asked: p(metadata=m), MANAGER)
        for wrong in (
            {"metadata": {"annotations": {wellknown.DELETE_AFTER: after, "team/note": "x"}}},
            {"metadata": {**asked, "labels": {"a": "b"}}},
            {"metadata": asked, "spec": {"expiresAt": earlier}},
            {"spec": {"expiresAt": earlier}},
        ):
            await refused(lambda p=patch, w=wrong: p(**w), MANAGER)


async def test_the_managers_token_makes_no_account_s_token(stolen: StolenTokens):
    """SEC-203."""
    stage, thief = stolen.stage, stolen.manager
    for namespace, name in ((stage.own.root, "x"), (NAMESPACE, "vn-agent-target-x")):
        made = body("Secret", name, namespace, type=TOKEN_TYPE)
        made["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "vc-syncer"}
        await refused(lambda b=made: thief.create(resources.SECRETS, b, dry_run=True), MANAGER)
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/vc-syncer/token"
    await refused(lambda: thief.raw("POST", path, body={"spec": {}}), MANAGER)
    wide = body("RoleBinding", "wide", stage.own.root, f"{RBAC}/v1", subjects=[])
    wide["roleRef"] = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    await refused(lambda: thief.create(resources.ROLE_BINDINGS, wide, dry_run=True), MANAGER)
    eviction = body("Eviction", "p", stage.own.root, "policy/v1")
    path = f"/api/v1/namespaces/{stage.own.root}/pods/p/eviction"
    pod = body("Pod", "p", stage.own.root, spec=POD)
    await stage.admin.create(resources.PODS, pod)
    await refused(lambda: thief.raw("POST", path, body=eviction), MANAGER)
    path = f"/api/v1/namespaces/{stage.own.root}/pods/p/exec?command=sh"
    await refused(lambda: thief.raw("POST", path), MANAGER)


async def test_the_managers_token_deletes_and_marks_no_other_namespace(stolen: StolenTokens):
    """SEC-203."""
    stage, thief = stolen.stage, stolen.manager
    other = fresh_name("team")
    await stage.admin.create(resources.NAMESPACES, body("Namespace", other))

    async def delete(name: str) -> object:
        return await thief.delete(resources.NAMESPACES, name, dry_run=True)

    async def create(wanted: Object) -> object:
        return await thief.create(resources.NAMESPACES, wanted, dry_run=True)

    for name in (other, NAMESPACE):
        await refused(lambda n=name: delete(n), MANAGER)
    await delete(stage.own.root)
    await delete(stage.namespace(stage.own))
    fresh = tenant()
    await create(root(fresh))
    for forged in (
        body("Namespace", fresh_name("n")),
        relabeled(root(fresh), level="privileged"),
        relabeled(root(fresh), level=None),
        relabeled(root(fresh), vcuid="another"),
        relabeled(root(fresh), controlled=None),
        space(fresh),
        {**root(fresh), "metadata": {**root(fresh)["metadata"], "name": "kube-x"}},
    ):
        await refused(lambda f=forged: create(f), MANAGER)
    taken = {key: root(fresh)["metadata"][key] for key in ("labels", "annotations")}
    protection = {"labels": {wellknown.DELETION_PROTECTION: "enabled"}}

    async def mark(metadata: Object) -> object:
        patch = {"metadata": metadata}
        return await thief.patch(resources.NAMESPACES, other, patch, dry_run=True)

    await mark(protection)
    for wrong in ({"ownerReferences": [GONE]}, {"finalizers": ["example.com/held"]}, taken):
        await refused(lambda w=wrong: mark({**protection, **w}), MANAGER)


@pytest.mark.parametrize(
    "pod",
    [
        {"hostNetwork": True},
        {"hostPID": True},
        {"hostIPC": True},
        {"automountServiceAccountToken": True},
        {"automountServiceAccountToken": None},
        {"serviceAccountName": "default"},
        {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]},
        {"volumes": [{"name": "n", "nfs": {"server": "192.0.2.1", "path": "/"}}]},
        {
            "volumes": [
                {
                    "name": "t",
                    "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
                }
            ]
        },
        {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]},
        {"initContainers": [{"name": "i", "image": "i", "securityContext": {"privileged": True}}]},
        {
            "containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 1}]}
            ]
        },
    ],
    ids=str,
)
async def test_pods_of_control_planes_have_one_shape(stolen: StolenTokens, pod: Object):
    """SEC-203."""
    namespace, thief = stolen.stage.own.root, stolen.manager
    for kind, resource in (
        ("StatefulSet", resources.STATEFUL_SETS),
        ("Deployment", resources.DEPLOYMENTS),
        ("Job", resources.JOBS),
    ):
        made = workload(kind, namespace, fresh_name("w"), **pod)
        await refused(lambda r=resource, b=made: thief.apply(r, b, field_manager="t"), MANAGER)


async def test_agents_of_targets_mount_their_own_credential_only(stolen: StolenTokens):
    thief, deployments = stolen.manager, resources.DEPLOYMENTS

    async def create(made: Object) -> object:
        return await thief.create(deployments, made, dry_run=True)

    await create(agent_deployment())

    def changed(**fields: Any) -> Object:
        made = agent_deployment()
        made["spec"]["template"]["spec"] |= fields
        return made

    usual = agent_deployment()["spec"]["template"]["spec"]
    container = usual["containers"][0]
    for wrong in (
        changed(serviceAccountName="vc-manager"),
        changed(containers=[{**container, "image": "evil.example/x"}]),
        changed(containers=[{**container, "command": ["sh"]}]),
        changed(containers=[container, {**container, "name": "other"}]),
        changed(initContainers=[{**CONTAINER, "name": "i"}]),
        changed(securityContext={}),
        changed(
            volumes=[
                *usual["volumes"],
                {"name": "keys", "secret": {"secretName": "vn-agent-client-ca"}},
            ]
        ),
        changed(
            containers=[{**container, "envFrom": [{"secretRef": {"name": "vn-agent-client-ca"}}]}]
        ),
    ):
        await refused(lambda w=wrong: create(w), MANAGER)


async def test_one_life_of_a_tenant_passes(stolen: StolenTokens):
    """As the chart grants it. Tests/integration/vcmanager runs whole lives under this policy."""
    stage, thief = stolen.stage, stolen.manager
    own = stage.own.root
    reader = KubeconfigReader(kind="User", name="ann")
    spec = VirtualClusterSpec(cluster_version_name="v", kubeconfig_readers=(reader,))
    (binding,) = build_role_bindings(spec)
    binding["metadata"] = {**binding["metadata"], "namespace": own}
    tokens = workload("StatefulSet", own)
    for resource, made in (
        (resources.SECRETS, body("Secret", "root-ca", own)),
        (resources.CONFIG_MAPS, body("ConfigMap", "trust", own)),
        (resources.SERVICES, body("Service", "etcd", own, spec={"ports": [{"port": 1}]})),
        (resources.STATEFUL_SETS, tokens),
        (resources.DEPLOYMENTS, workload("Deployment", own)),
        (resources.JOBS, workload("Job", own, "save")),
        (
            resources.PERSISTENT_VOLUME_CLAIMS,
            {**body("PersistentVolumeClaim", "c", own), **SPECS["PersistentVolumeClaim"]},
        ),
        (resources.ROLE_BINDINGS, binding),
        (resources.SECRETS, body("Secret", "vn-agent-client-ca", NAMESPACE)),
        (resources.SECRETS, body("Secret", "vn-agent-target-far", NAMESPACE)),
        (resources.CONFIG_MAPS, body("ConfigMap", "vn-agent-access", NAMESPACE)),
        (resources.LEASES, body("Lease", "vc-manager", NAMESPACE, "coordination.k8s.io/v1")),
    ):
        await thief.apply(resource, made, field_manager="vc-manager", dry_run=True)
    # Bundles are validated before their root namespace exists.
    await thief.create(resources.STATEFUL_SETS, workload("StatefulSet", "default"), dry_run=True)
    await stage.admin.create(resources.PODS, body("Pod", "etcd-0", own, spec=POD))
    await thief.delete(resources.PODS, "etcd-0", namespace=own, dry_run=True)


async def test_a_service_of_a_control_plane_catches_no_address(stolen: StolenTokens):
    spec = {"ports": [{"port": 80}], "externalIPs": ["198.51.100.7"]}
    made = body("Service", "apiserver-svc", stolen.stage.own.root, spec=spec)
    await refused(
        lambda: stolen.manager.apply(resources.SERVICES, made, field_manager="t"), MANAGER
    )


READS = {
    "vn-agent": [
        ("get", "secrets", "kube-system"),
        ("list", "secrets", ""),
        ("get", "secrets", NAMESPACE),
        ("list", "configmaps", ""),
        ("get", "nodes", ""),
        ("create", "nodes/proxy", ""),
        ("get", "nodes/proxy", ""),
        ("get", "nodes/stats", ""),
        ("list", "namespaces", ""),
        ("list", "services", ""),
        ("create", "serviceaccounts/token", NAMESPACE),
    ],
    "vn-agent-target": [
        ("list", "pods", ""),
        ("get", "pods/log", ""),
        ("create", "pods/exec", ""),
        ("get", "secrets", NAMESPACE),
        ("list", "nodes", ""),
    ],
    "vc-manager": [
        ("create", "pods/exec", ""),
        ("get", "pods/log", ""),
        ("create", "pods", ""),
        ("create", "serviceaccounts/token", NAMESPACE),
        ("list", "serviceaccounts", ""),
        ("get", "nodes/proxy", ""),
        ("update", "nodes", ""),
        ("impersonate", "users", ""),
    ],
}


@pytest.mark.parametrize("account", READS)
async def test_the_chart_grants_no_reads_outside_of_the_purpose(stage: AdmissionStage, account):
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    for verb, plural, namespace in READS[account]:
        resource, _, subresource = plural.partition("/")
        attributes = {
            "verb": verb,
            "resource": resource,
            "subresource": subresource,
            "namespace": namespace,
        }
        review = {"spec": {"user": user, "resourceAttributes": attributes}}
        answer = await stage.admin.raw(
            "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review
        )
        assert b'"allowed":true' not in answer, (verb, plural)
