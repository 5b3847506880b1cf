"""The syncer's stolen token: what the super cluster itself refuses, and the life that it allows.

Secrets are read where a RoleBinding of a tenant's namespace lets the account read them (ADR 32).
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import ApiError, Forbidden
from tenancy import names, wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SELF_SUBJECT_REVIEWS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from tests.chart.gate import (
    GATE,
    LEVELS,
    SAMPLES,
    AdmissionStage,
    binding,
    marked,
    record_levels,
    refused,
    space,
    token,
    write_rules,
)
from tests.support.eventually import eventually
from tests.support.helm import NAMESPACE
from tests.support.names import fresh_name
from vcmanager.phases import root_namespace
from vcmanager.reconcilers import syncer_access

pytestmark = pytest.mark.integration

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ENFORCE = "pod-security.kubernetes.io/enforce"
SYNCER = f"system:serviceaccount:{NAMESPACE}:vc-syncer"
READS = [
    "/api/v1/secrets",
    "/api/v1/secrets?watch=true&timeoutSeconds=1",
    "/api/v1/secrets?labelSelector=tenancy.x-k8s.io%2Fcontrolled%3Dtrue",
    "/api/v1/namespaces/{release}/secrets",
    "/api/v1/namespaces/{release}/secrets/vn-agent-client-ca",
    "/api/v1/namespaces/{release}/secrets?fieldSelector=metadata.name%3Dvn-agent-client-ca",
    "/api/v1/namespaces/kube-system/secrets",
    "/api/v1/namespaces/kube-system/secrets/any",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/{root}/secrets",
    "/api/v1/namespaces/{root}/secrets?watch=true&timeoutSeconds=1",
    "/api/v1/namespaces/{root}/secrets?fieldSelector=metadata.name%3Dadmin-kubeconfig",
    "/api/v1/namespaces/{root}/secrets/client-authority",
    "/api/v1/namespaces/{root}/secrets/etcd-authority",
    "/api/v1/namespaces/{root}/secrets/serviceaccount-rsa",
    "/api/v1/namespaces/{root}/secrets/manager-kubeconfig",
    "/api/v1/namespaces/{root}/secrets/admin-kubeconfig",
    f"{RBAC}/rolebindings",
    f"{RBAC}/clusterroles",
    f"{RBAC}/namespaces/{{release}}/roles",
    "/apis/apps/v1/namespaces/{release}/deployments",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/api/v1/namespaces/kube-system/pods/any/log",
    "/api/v1/nodes/any/proxy/pods",
]
"""Paths that the account may not read, with placeholders for namespaces."""


@pytest.mark.parametrize("path", READS)
async def test_what_is_not_a_tenants_is_not_read(stage, path):
    """SEC-70, SEC-72: a 403 of RBAC."""
    found = path.format(release=NAMESPACE, root=stage.own.root)
    with pytest.raises(Forbidden):
        await stage.thief.raw("GET", found)


def pod(namespace: str, metadata: Object, **spec: Any) -> Object:
    """Return a pod of a tenant with more fields in its spec."""
    body = copy.deepcopy(SAMPLES["Pod"])
    body["spec"] |= spec
    return {"metadata": {"name": fresh_name("p"), "namespace": namespace, **metadata}, **body}


def container(**context: Any) -> list[Object]:
    """Return the one container of a pod with a security context."""
    return [{"name": "main", "image": "registry.example/app:1", "securityContext": context}]


HOST_PODS: dict[str, Object] = {
    "hostNetwork": {"hostNetwork": True},
    "hostPID": {"hostPID": True},
    "hostIPC": {"hostIPC": True},
    "hostPath": {"volumes": [{"name": "node", "hostPath": {"path": "/"}}]},
    "privileged": {"containers": container(privileged=True)},
    "an init container": {"initContainers": container(privileged=True)},
    "a capability": {"containers": container(capabilities={"add": ["SYS_ADMIN"]})},
    "procMount": {"containers": container(procMount="Unmasked"), "hostUsers": False},
}


@pytest.mark.parametrize("case", HOST_PODS)
async def test_a_pod_with_access_to_its_node_is_not_made_whatever_the_label_is(stage, case):
    """SEC-71: host ports make the label privileged."""
    home, own = stage.namespace(stage.own), marked(stage.own)
    label = {"metadata": {"labels": {ENFORCE: "privileged"}}}
    await stage.admin.patch(NAMESPACES, home, label)  # as host ports need it
    body = pod(home, own, **HOST_PODS[case])
    if case == "an init container":
        body["spec"]["initContainers"][0]["name"] = "first"
    await refused(lambda: stage.thief.create(PODS, body, dry_run=True), LEVELS)
    await stage.thief.create(PODS, pod(home, own), dry_run=True)


async def test_a_tenant_whose_policy_is_privileged_has_such_pods(stage):
    of = await stage.declare("privileged privileged")
    body = space(of)
    body["metadata"]["labels"][ENFORCE] = "privileged"
    made = await stage.thief.create(NAMESPACES, body)
    below = made["metadata"]["name"]
    for spec in (HOST_PODS["hostPath"], HOST_PODS["privileged"]):
        await stage.thief.create(PODS, pod(below, marked(of), **spec), dry_run=True)


@pytest.mark.parametrize(
    ("levels", "label", "is_allowed"),
    [
        ("baseline baseline", "restricted", True),
        ("baseline baseline", "baseline", True),
        ("baseline baseline", "privileged", False),
        ("restricted restricted", "baseline", False),
        ("restricted restricted", "restricted", True),
        ("privileged baseline", "privileged", True),
    ],
)
async def test_the_level_of_a_namespace_is_at_most_that_of_its_policy(
    stage, levels, label, is_allowed
):
    """SEC-71: lower levels pass."""
    of = await stage.declare(levels)
    body = space(of)
    body["metadata"]["labels"][ENFORCE] = label
    if is_allowed:
        await stage.thief.create(NAMESPACES, body, dry_run=True)
    else:
        await refused(lambda: stage.thief.create(NAMESPACES, body, dry_run=True), LEVELS)


async def test_a_level_is_not_raised_later_and_no_older_version_of_it_is_chosen(stage):
    """SEC-71: by a patch."""
    home = stage.namespace(stage.own)
    for labels in ({ENFORCE: "privileged"}, {f"{ENFORCE}-version": "v1.25"}):
        patch = {"metadata": {"labels": labels}}
        await refused(lambda p=patch: stage.thief.patch(NAMESPACES, home, p, dry_run=True), LEVELS)
    kept = {"metadata": {"labels": {"tenancy.x-k8s.io/other": "a"}}}
    await stage.thief.patch(NAMESPACES, home, kept, dry_run=True)


async def test_a_tenant_that_vc_manager_does_not_know_gets_no_namespace(stage):
    body = space(stage.own.__class__(name="x", namespace="default", uid="u", root="default-0-x"))
    with pytest.raises(Forbidden):
        await stage.thief.create(NAMESPACES, body, dry_run=True)


def free_space() -> Object:
    """Return a namespace without a tenant."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fresh_name()}}


async def test_without_the_record_of_levels_no_tenant_gets_anything(stage):
    """SEC-71: the default is to refuse. Other users of the cluster notice nothing."""
    own = marked(stage.own)
    await write_rules(stage.admin, [])
    try:
        home, body = stage.namespace(stage.own), space(stage.own, "new")

        async def attempt(resource: Resource, body: Object) -> bool:
            try:
                await stage.thief.create(resource, body, dry_run=True)
            except Forbidden as problem:
                return LEVELS in problem.server_message
            return False

        await eventually(lambda: attempt(NAMESPACES, body))
        await eventually(lambda: attempt(PODS, pod(home, own)))
        # The rest of the cluster does not depend on the record.
        await stage.admin.create(NAMESPACES, free_space(), dry_run=True)
        await stage.admin.create(PODS, pod("default", {}), dry_run=True)
    finally:
        await record_levels(stage.admin, {stage.own.uid: "baseline baseline"})
    await stage.wait_known(stage.own)


BINDINGS: dict[str, Object] = {
    "another role": {"roleRef": {"name": "cluster-admin"}},
    "the role of root namespaces": {"roleRef": {"name": wellknown.SYNCER_CREDENTIAL_ROLE}},
    "another account": {"subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "y"}]},
    "a group": {"subjects": [{"kind": "Group", "name": "system:authenticated"}]},
    "a user": {"subjects": [{"kind": "User", "name": "me"}]},
    "no subjects": {"subjects": []},
    "another name": {"metadata": {"name": "mine"}},
}


def merged(body: Object, change: Object) -> Object:
    """Return a binding with some fields changed."""
    found = copy.deepcopy(body)
    for key, value in change.items():
        found[key] = {**found[key], **value} if isinstance(value, dict) else value
    for subject in found["subjects"]:
        if subject["kind"] != "ServiceAccount":
            subject["apiGroup"] = ROLE_BINDINGS.group
    return found


@pytest.mark.parametrize("case", BINDINGS)
async def test_the_account_binds_nothing_but_itself_to_its_one_role(stage, case):
    """SEC-72: each field of the binding."""
    home = stage.namespace(stage.own)
    good = binding(home, wellknown.SYNCER_NAMESPACE_ROLE, name="vc-syncer", **marked(stage.own))
    bad = merged(good, BINDINGS[case])
    with pytest.raises(Forbidden):
        await stage.thief.create(ROLE_BINDINGS, bad, dry_run=True)
    await stage.thief.create(ROLE_BINDINGS, good, dry_run=True)


async def test_the_account_binds_itself_in_namespaces_of_tenants_only(stage):
    for place in ("kube-system", "default", NAMESPACE, stage.own.root):
        body = binding(
            place, wellknown.SYNCER_NAMESPACE_ROLE, name="vc-syncer", **marked(stage.own)
        )
        await refused(lambda b=body: stage.thief.create(ROLE_BINDINGS, b, dry_run=True), GATE)


def writes(stage: AdmissionStage) -> list[tuple[str, str, Object]]:
    """Return writes outside of the account's purpose."""
    home, root = stage.namespace(stage.own), stage.own.root
    own = marked(stage.own)
    secret = {"metadata": {"name": "s", **own}}
    wide = {
        "metadata": {"name": "mine"},
        "roleRef": {
            "apiGroup": ROLE_BINDINGS.group,
            "kind": "ClusterRole",
            "name": wellknown.SYNCER_NAMESPACE_ROLE,
        },
        "subjects": [{"kind": "ServiceAccount", "name": "vc-syncer", "namespace": NAMESPACE}],
    }
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    return [
        *[
            ("POST", f"/api/v1/namespaces/{place}/secrets", secret)
            for place in ("kube-system", "default", NAMESPACE, root)
        ],
        ("PATCH", f"/api/v1/namespaces/{root}/secrets/syncer-kubeconfig", {"data": {}}),
        ("DELETE", f"/api/v1/namespaces/{root}/secrets/syncer-kubeconfig", {}),
        ("PATCH", f"{RBAC}/namespaces/{NAMESPACE}/roles/vc-syncer-levels", {"rules": rules}),
        ("DELETE", f"{RBAC}/namespaces/{NAMESPACE}/roles/vc-syncer-levels", {}),
        ("POST", f"{RBAC}/clusterrolebindings", wide),
        ("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "mine"}, "rules": rules}),
        ("POST", f"{RBAC}/namespaces/{home}/roles", {"metadata": {"name": "m"}, "rules": rules}),
        ("DELETE", f"{RBAC}/namespaces/{root}/rolebindings/granted", {}),
        ("PATCH", f"{RBAC}/namespaces/{NAMESPACE}/roles/vc-syncer-targets", {"rules": rules}),
        ("POST", f"{accounts}/vc-manager/token", {"spec": {}}),
        ("POST", f"{accounts}/vc-syncer/token", {"spec": {}}),
        ("POST", f"/api/v1/namespaces/{home}/pods/p/exec?command=id", {}),
        ("POST", "/api/v1/namespaces/kube-system/pods", pod("kube-system", own)),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod(NAMESPACE, own)),
        ("POST", f"/api/v1/namespaces/{root}/pods", pod(root, own)),
        (
            "POST",
            f"/apis/apps/v1/namespaces/{home}/deployments",
            {"metadata": {"name": "d", **own}},
        ),
        (
            "DELETE",
            f"{ADMISSION}/validatingadmissionpolicies/virtual-cluster-syncer",
            {},
        ),
        (
            "DELETE",
            f"{ADMISSION}/validatingadmissionpolicybindings/virtual-cluster-syncer-levels",
            {},
        ),
        ("PATCH", "/api/v1/nodes/any", {"metadata": {"labels": {"a": "b"}}}),
        ("DELETE", f"/api/v1/namespaces/{root}", {}),
        ("DELETE", "/api/v1/namespaces/kube-system", {}),
    ]


async def test_what_is_outside_of_its_purpose_is_not_written(stage):
    """SEC-72: writes with a 403."""
    attempts = writes(stage)
    assert len(attempts) + len(BINDINGS) + len(HOST_PODS) >= 30
    for verb, path, body in attempts:
        kind = {"PATCH": "application/merge-patch+json"}.get(verb, "application/json")
        dry = f"{path}{'&' if '?' in path else '?'}dryRun=All"
        with pytest.raises(ApiError) as told:
            await stage.thief.raw(verb, dry, body=body, content=kind)
        assert told.value.status == 403, (verb, path, str(told.value))


async def may(stage: AdmissionStage, user: str, verb: str, namespace: str, name: str = "") -> bool:
    """Return whether a user may do something with Secrets, by a SubjectAccessReview."""
    attributes = {"verb": verb, "resource": "secrets", "namespace": namespace, "name": name}
    spec = {"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes}
    answer = await stage.admin.raw(
        "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body={"spec": spec}
    )
    return bool(json.loads(answer)["status"]["allowed"])


async def test_the_keys_of_authorities_are_for_vc_manager_alone(stage):
    """SEC-70: by a review for each account."""
    root, home = stage.own.root, stage.namespace(stage.own)
    accounts = [f"system:serviceaccount:{NAMESPACE}:{each}" for each in ACCOUNTS]
    others = [f"system:serviceaccount:{home}:vc-workload", f"system:serviceaccount:{root}:default"]
    keys = [
        (NAMESPACE, "vn-agent-client-ca"),
        ("kube-system", "any"),
        *((root, name) for name in AUTHORITY_KEYS),
    ]
    for namespace, name in keys:
        for user in (*accounts, *others):
            assert not await may(stage, user, "get", namespace, name), (user, namespace, name)
        for user in (*accounts, *others):
            assert not await may(stage, user, "list", namespace), (user, namespace)
        manager = f"system:serviceaccount:{NAMESPACE}:vc-manager"
        if namespace != "kube-system":
            assert await may(stage, manager, "get", namespace, name)
    assert await may(stage, SYNCER, "get", root, wellknown.SYNCER_KUBECONFIG)
    for verb in ("get", "list", "watch", "create", "update", "delete"):
        assert await may(stage, SYNCER, verb, home)
        assert not await may(stage, SYNCER, verb, NAMESPACE)
        assert not await may(stage, f"system:serviceaccount:{NAMESPACE}:vn-agent", verb, home)


ACCOUNTS = ("vc-syncer", "vn-agent", "vn-agent-target")
AUTHORITY_KEYS = (
    "root-ca",
    "client-authority",
    "etcd-authority",
    "front-proxy-authority",
    "serviceaccount-rsa",
    "manager-kubeconfig",
    "admin-kubeconfig",
)


async def test_one_life_of_a_tenants_objects(stage):
    """SEC-72: everything that the syncer does for a tenant passes with the same token."""
    of, thief = await stage.declare(), stage.thief
    answer = await thief.create(SELF_SUBJECT_REVIEWS, {"metadata": {}})
    assert answer["status"]["userInfo"]["username"] == SYNCER
    body = space(of)
    below, own = body["metadata"]["name"], marked(of)
    made = await thief.create(NAMESPACES, body)
    with pytest.raises(Forbidden):
        await thief.list(SECRETS, namespace=below)
    bound = binding(below, wellknown.SYNCER_NAMESPACE_ROLE, name="vc-syncer", **own)
    await thief.create(ROLE_BINDINGS, bound)
    await eventually(lambda: thief.list(SECRETS, namespace=below))
    account = {"metadata": {"name": names.WORKLOAD_ACCOUNT, "namespace": below, **own}}
    await thief.create(SERVICE_ACCOUNTS, {**account, "automountServiceAccountToken": False})
    for resource, kind in ((SECRETS, "Secret"), (CONFIG_MAPS, "ConfigMap")):
        head = {"metadata": {"name": "app", "namespace": below, **own}}
        live = await thief.create(resource, head)
        await thief.replace(resource, {**live, "kind": kind})
        await thief.get(resource, "app", namespace=below)
    service = {"metadata": {"name": "web", "namespace": below, **own}, **SAMPLES["Service"]}
    await thief.create(SERVICES, service)
    workload = pod(below, own, serviceAccountName=names.WORKLOAD_ACCOUNT)
    name = workload["metadata"]["name"]
    await thief.create(PODS, workload)
    await thief.patch(PODS, name, {"metadata": {"labels": {"a": "b"}}}, namespace=below)
    for resource, each in ((PODS, name), (SERVICES, "web"), (SECRETS, "app"), (CONFIG_MAPS, "app")):
        await thief.delete(resource, each, namespace=below)
    await thief.delete(NAMESPACES, below, uid=made["metadata"]["uid"])


async def test_its_kubeconfig_of_a_tenant_is_read_and_watched_by_name(stage):
    """SEC-70: as the syncer watches it."""
    root, name = stage.own.root, wellknown.SYNCER_KUBECONFIG
    await stage.admin.create(SECRETS, {"metadata": {"name": name, "namespace": root}})
    await stage.thief.get(SECRETS, name, namespace=root)
    field = f"metadata.name={name}"
    listed = await stage.thief.list(SECRETS, namespace=root, field_selector=field)
    assert [each["metadata"]["name"] for each in listed["items"]] == [name]
    path = f"/api/v1/namespaces/{root}/secrets?watch=true&timeoutSeconds=1&fieldSelector={field}"
    await stage.thief.raw("GET", path)


async def test_secrets_of_targets_are_read_as_vc_manager_lists_them(stage):
    """SEC-70: one by one."""
    name = fresh_name("target")
    await stage.admin.create(SECRETS, {"metadata": {"name": name, "namespace": NAMESPACE}})
    with pytest.raises(Forbidden):
        await stage.thief.get(SECRETS, name, namespace=NAMESPACE)
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [name],
        "verbs": ["get", "list", "watch"],
    }
    role = wellknown.SYNCER_TARGETS_ROLE
    await stage.admin.patch(ROLES, role, {"rules": [rule]}, namespace=NAMESPACE)
    await eventually(lambda: stage.thief.get(SECRETS, name, namespace=NAMESPACE))
    with pytest.raises(Forbidden):
        await stage.thief.get(SECRETS, "vn-agent-client-ca", namespace=NAMESPACE)


async def test_vc_manager_grants_the_syncer_its_credentials_and_nothing_else(server, stage):
    """SEC-70: with the real token of vc-manager's account."""
    target = {"metadata": {"name": "c2", "uid": "u"}, "spec": {"secretRef": {"name": "target-c2"}}}
    role = syncer_access.build_targets_role([target], NAMESPACE)
    levels = syncer_access.build_levels_role({stage.own.uid: BASELINE}, NAMESPACE)
    bound = root_namespace.build_credential_access(stage.own, NAMESPACE)
    metadata = {**bound["metadata"], "name": "other"}
    other = {
        **bound,
        "metadata": metadata,
        "roleRef": {**bound["roleRef"], "name": "cluster-admin"},
    }
    cron_jobs = {"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["create"]}
    wider = {**role, "rules": [cron_jobs]}
    own = server.plane.endpoint_with_token(token=await token(stage.admin, "vc-manager"))
    async with Client(own) as manager:
        await manager.apply(ROLES, role, field_manager=wellknown.MANAGER)
        await manager.apply(ROLES, levels, field_manager=wellknown.MANAGER, dry_run=True)
        await manager.apply(ROLE_BINDINGS, bound, field_manager=wellknown.MANAGER)
        with pytest.raises(Forbidden):
            await manager.create(ROLE_BINDINGS, other)
        with pytest.raises(Forbidden):
            await manager.apply(ROLES, wider, field_manager=wellknown.MANAGER)
    found = await stage.admin.get(ROLES, role["metadata"]["name"], namespace=NAMESPACE)
    assert found["rules"] == role["rules"]


BASELINE = syncer_access.TenantLevels("baseline", "baseline")
