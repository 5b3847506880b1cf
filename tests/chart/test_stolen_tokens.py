"""What a thief can do with the token of vc-manager or of an agent: nothing outside its purpose.

The thief's account is bound to cluster-admin here, so the admission policy alone refuses. Reads
have no admission: the rights that the chart grants are tried for them.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tenancy.specs import KubeconfigReader, VirtualClusterSpec
from tests.chart.conftest import ChartApiServer
from tests.chart.gate import AdmissionStage, refused, root, space, tenant, token
from tests.support.grants import build_account
from tests.support.helm import NAMESPACE, named, render
from tests.support.names import fresh_name
from vcmanager.phases.root_namespace import build_role_bindings
from vcmanager.runtime.options import AgentPodSettings
from vcmanager.targets import agent_objects
from vcmanager.targets.agent_objects import AgentDeployment

pytestmark = pytest.mark.integration

MANAGER, AGENT = "virtual-cluster-manager", "virtual-cluster-agent"
RBAC = "rbac.authorization.k8s.io"
CONTAINER = {"name": "etcd", "image": "registry.example/etcd:1"}
POD: Object = {
    "automountServiceAccountToken": False,
    "containers": [CONTAINER],
    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "ca", "secret": {"secretName": "x"}}],
}


@dataclass(frozen=True, kw_only=True)
class StolenTokens:
    """Two tenants, and a client with each stolen token."""

    stage: AdmissionStage
    manager: Client
    agent: Client
    node: str
    """Node that the agent's token is bound to."""


async def bound_token(admin: Client, node: str) -> str:
    """Return a token of the agent's account that is bound to a pod on a node."""
    name = fresh_name("vn-agent")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "serviceAccountName": "vn-agent",
            "nodeName": node,
            "containers": [{"name": "vn-agent", "image": "x"}],
        },
    }
    made = await admin.create(resources.PODS, pod)
    reference = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": made["metadata"]["uid"]}
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "boundObjectRef": reference},
    }
    answer = await admin.create(
        resources.SERVICE_ACCOUNTS,
        request,
        namespace=NAMESPACE,
        name="vn-agent",
        subresource="token",
    )
    return str(answer["status"]["token"])


@pytest.fixture
async def stolen(server: ChartApiServer, stage: AdmissionStage) -> AsyncIterator[StolenTokens]:
    admin, node = stage.admin, fresh_name("node")
    await admin.create(resources.NODES, {"metadata": {"name": node}})
    names = [fresh_name("wide") for _ in range(2)]
    for name, account in zip(names, ("vc-manager", "vn-agent"), strict=True):
        await admin.create(
            resources.CLUSTER_ROLE_BINDINGS,
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [build_account(account, NAMESPACE)],
            },
        )
    plane = server.plane
    manager = plane.endpoint_with_token(token=await token(admin, "vc-manager"))
    agent = plane.endpoint_with_token(token=await bound_token(admin, node))
    try:
        async with Client(manager) as first, Client(agent) as second:
            yield StolenTokens(stage=stage, manager=first, agent=second, node=node)
    finally:
        for name in names:
            await admin.delete(resources.CLUSTER_ROLE_BINDINGS, name)


def body(kind: str, name: str, namespace: str = "", api: str = "v1", **fields: Any) -> Object:
    """Return an object."""
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **place}, **fields}


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
BY_KIND = {
    each.kind: each for each in vars(resources).values() if isinstance(each, resources.Resource)
}
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
    marks = root(fresh)["metadata"]
    taken = {"metadata": {"labels": marks["labels"], "annotations": marks["annotations"]}}
    await refused(lambda: thief.patch(resources.NAMESPACES, other, taken, dry_run=True), MANAGER)


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
    """As the chart grants it; tests/integration/vcmanager runs whole lives under this policy."""
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


def stream(namespace: str, pod: str, subresource: str) -> str:
    """Return the path of a stream."""
    query = {"exec": "?command=sh", "attach": "?stdout=true"}.get(subresource, "")
    return f"/api/v1/namespaces/{namespace}/pods/{pod}/{subresource}{query}"


async def passes(attempt: Any, policy: str) -> None:
    """Try, and accept each answer but the policy's: there are no kubelets here."""
    told = ""
    try:
        await attempt()
    except errors.ApiError as problem:
        told = problem.server_message
    assert policy not in told, told


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
async def test_the_agents_token_opens_streams_in_namespaces_of_tenants_only(
    stolen: StolenTokens, subresource: str
):
    """SEC-204."""
    stage, home = stolen.stage, stolen.stage.namespace(stolen.stage.own)
    for namespace in ("kube-system", "default", NAMESPACE, stage.own.root, home):
        name = fresh_name("p")
        await stage.admin.create(resources.PODS, body("Pod", name, namespace, spec=POD))
        path = stream(namespace, name, subresource)
        if namespace == home:
            await passes(lambda p=path: stolen.agent.raw("POST", p), AGENT)
        else:
            told = await refused(lambda p=path: stolen.agent.raw("POST", p), AGENT)
            assert f"{namespace} is not one" in told


async def test_the_agents_token_calls_its_own_node_only(stolen: StolenTokens):
    """SEC-204."""
    other = fresh_name("other")
    await stolen.stage.admin.create(resources.NODES, body("Node", other))
    for name in (other, "missing"):
        told = await refused(
            lambda n=name: stolen.agent.raw("GET", f"/api/v1/nodes/{n}/proxy/pods"), AGENT
        )
        assert f"its token names '{stolen.node}'" in told
    own = f"/api/v1/nodes/{stolen.node}/proxy/pods"
    await passes(lambda: stolen.agent.raw("GET", own), AGENT)


AGENT_WRITES = [
    ("Secret", "kube-system", {}),
    ("Secret", NAMESPACE, {}),
    ("Secret", "SPACE", {}),
    ("ConfigMap", NAMESPACE, {}),
    ("ConfigMap", "SPACE", {}),
    ("Pod", "SPACE", {"spec": POD}),
    ("Pod", "kube-system", {"spec": POD}),
    ("Service", "SPACE", {"spec": {"ports": [{"port": 80}]}}),
    ("ServiceAccount", NAMESPACE, {}),
    ("Namespace", "", {}),
    ("Node", "", {}),
    ("ClusterRole", "", {"rules": []}),
    ("Lease", NAMESPACE, {}),
    (
        "Event",
        "default",
        {"involvedObject": {"kind": "Pod", "name": "vn-agent-x", "namespace": "default"}},
    ),
    (
        "Event",
        NAMESPACE,
        {"involvedObject": {"kind": "Secret", "name": "vn-agent-x", "namespace": NAMESPACE}},
    ),
]


async def test_the_agents_token_writes_nothing(stolen: StolenTokens):
    """SEC-204."""
    home = stolen.stage.namespace(stolen.stage.own)
    for kind, place, fields in AGENT_WRITES:
        resource, namespace = BY_KIND[kind], home if place == "SPACE" else place
        made = body(kind, fresh_name("o"), namespace, resource.api_version, **fields)
        await refused(lambda r=resource, b=made: stolen.agent.create(r, b, dry_run=True), AGENT)
    for resource, name, namespace in (
        (resources.NAMESPACES, home, ""),
        (resources.NODES, stolen.node, ""),
        (resources.PODS, "victim", home),
    ):
        if resource is resources.PODS:
            await stolen.stage.admin.create(resource, body("Pod", name, namespace, spec=POD))
        await refused(
            lambda r=resource, n=name, ns=namespace: stolen.agent.delete(
                r, n, namespace=ns, dry_run=True
            ),
            AGENT,
        )
    event = body("Event", fresh_name("e"), NAMESPACE)
    event["involvedObject"] = {"kind": "Pod", "name": "vn-agent-x", "namespace": NAMESPACE}
    await stolen.agent.create(BY_KIND["Event"], event, dry_run=True)


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
