"""The gate on the syncer's account: with its token in hand, what a thief may write, and where.

Every row of the syncer's table that writes is tried, so that a new kind is covered by itself. One
that cannot be made from nothing needs a sample in `gate.SAMPLES`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

import pytest

from kubeio import Object
from kubeio.api.client import Client
from syncer.rbac import SUPER_RBAC_RULES
from syncer.rules.network import default_policies
from tenancy import names, resources, wellknown
from tenancy.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Resource,
)
from tests.chart.gate import SAMPLES, AdmissionStage, marked, refused, root, sample, tenant, token
from tests.support.eventually import eventually
from tests.support.helm import NAMESPACE
from tests.support.names import fresh_name
from tests.support.syncer.tenant_views import entry_of, network_view

pytestmark = pytest.mark.integration

KNOWN = {(r.group, r.plural): r for r in vars(resources).values() if isinstance(r, Resource)}
APART = {
    *("namespaces", "virtualclusters", "superclusters", "syncrules", "leases"),
    *("network-attachment-definitions", "multi-networkpolicies"),
}
"""Kinds with rules of their own, and those that the chart enables by a value only."""
WRITES = [
    (row.group, resource, verb)
    for row in SUPER_RBAC_RULES
    for resource in row.resources
    for verb in row.verbs
    if verb in ("create", "update", "patch", "delete") and resource.partition("/")[0] not in APART
]
SPEC_ONLY = {"pods/ephemeralcontainers", "pods/resize"}
"""Subresources by which the API changes no mark, whatever a request says."""


async def attempt(
    stage: AdmissionStage,
    write: tuple[str, str, str],
    namespace: str,
    *,
    was: Object,
    becomes: Object,
) -> Callable[[], Awaitable[object]]:
    """Return one write with the stolen token, of an object with such metadata before and after."""
    group, plural, verb = write
    plural, _, subresource = plural.partition("/")
    resource = KNOWN[group, plural]
    client, before = stage.thief, sample(resource, namespace, was)
    name = before["metadata"]["name"]
    if verb == "create":
        body = {**before, "metadata": {**before["metadata"], **becomes}}

        async def create() -> object:
            return await client.create(
                resource, body, namespace=namespace, subresource=subresource, dry_run=True
            )

        return create
    live = await stage.admin.create(resource, before)
    body = {"metadata": {"uid": live["metadata"]["uid"], **becomes}}

    async def change() -> object:
        if verb == "delete":
            return await client.delete(resource, name, namespace=namespace, dry_run=True)
        if verb == "update":
            whole = {**live, "metadata": {**live["metadata"], **becomes}}
            return await client.replace(resource, whole, subresource=subresource, dry_run=True)
        return await client.patch(
            resource, name, body, namespace=namespace, subresource=subresource, dry_run=True
        )

    return change


@pytest.mark.parametrize("write", WRITES, ids="-".join)
async def test_the_syncer_writes_in_the_namespaces_of_tenants_and_nowhere_else(stage, write):
    own = marked(stage.own)
    is_namespaced = KNOWN[write[0], write[1].partition("/")[0]].namespaced
    places = ["kube-system", "default", NAMESPACE, stage.own.root] if is_namespaced else []
    for namespace in places:
        told = await refused(await attempt(stage, write, namespace, was=own, becomes=own))
        assert f"{namespace} is not one" in told
    home = stage.namespace(stage.own)
    await (await attempt(stage, write, home, was=own, becomes=own))()


@pytest.mark.parametrize("write", WRITES, ids="-".join)
async def test_what_is_not_of_the_tenant_of_the_namespace_is_refused(stage, write):
    own, foreign = marked(stage.own), marked(stage.foreign)
    away, home = stage.namespace(stage.foreign), stage.namespace(stage.own)
    is_namespaced = KNOWN[write[0], write[1].partition("/")[0]].namespaced
    verb = write[2]
    is_metadata_written = verb not in ("create", "delete") and write[1] not in SPEC_ONLY
    for namespace, was, becomes in (
        (away, own, own),
        (home, foreign, foreign),
        (home, {}, {}),  # another owner's object in a tenant's namespace
        *([(home, {}, own)] if verb in ("update", "patch", "delete") else []),
        *([(away, foreign, own)] if is_metadata_written else []),
        *([(home, {}, {"labels": own["labels"]})] if verb != "delete" else []),
    ):
        if not is_namespaced and was == becomes and was:
            continue  # only its own marks name the tenant of a cluster-wide object
        await refused(await attempt(stage, write, namespace, was=was, becomes=becomes))


async def test_a_service_that_catches_addresses_of_others_is_not_made(stage):
    home, own = stage.namespace(stage.own), marked(stage.own)
    plain = sample(resources.SERVICES, home, own)
    catching = {**plain, "spec": {**plain["spec"], "externalIPs": ["198.51.100.7"]}}
    await refused(lambda: stage.thief.create(resources.SERVICES, catching, dry_run=True))
    made = await stage.thief.create(resources.SERVICES, plain)
    name, identity = plain["metadata"]["name"], {"uid": made["metadata"]["uid"]}

    async def patch(body: Object) -> object:
        return await stage.thief.patch(resources.SERVICES, name, body, namespace=home, dry_run=True)

    catches = {"metadata": identity, "spec": {"externalIPs": ["198.51.100.7"]}}
    await refused(lambda: patch(catches))
    # What an administrator of the super cluster set does not hold the syncer up.
    await stage.admin.patch(resources.SERVICES, name, {"spec": catches["spec"]}, namespace=home)
    await patch({"metadata": {**identity, "labels": {"a": "b"}}})
    await patch({"metadata": identity, "spec": {"externalIPs": None}})


async def test_a_wider_role_of_the_account_is_inside_the_gate_too(stage):
    kind = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{kind}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": fresh_name("wide")},
        "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "vc-syncer", "namespace": NAMESPACE}],
    }
    await stage.admin.create(resources.CLUSTER_ROLE_BINDINGS, binding)
    try:
        home = stage.namespace(stage.own)
        eviction = {"metadata": {"name": "p", "namespace": home}}
        for path, body in (
            ("/apis/apps/v1/namespaces/kube-system/deployments", sample_deployment("kube-system")),
            (f"/apis/apps/v1/namespaces/{home}/deployments", sample_deployment(home)),
            (f"/api/v1/namespaces/{home}/serviceaccounts/vc-workload/token", {"spec": {}}),
            (f"/apis/{kind}/v1/clusterrolebindings", {**binding, "metadata": {"name": "mine"}}),
            (f"/api/v1/namespaces/{home}/pods/p/eviction", eviction),
        ):
            if path.endswith("/token"):
                account = {"metadata": {"name": "vc-workload", "namespace": home}}
                await stage.admin.create(SERVICE_ACCOUNTS, account)
            if path.endswith("/eviction"):
                await stage.admin.create(
                    resources.PODS,
                    {"metadata": {"name": "p", "namespace": home}, **SAMPLES["Pod"]},
                )
            await refused(lambda path=path, body=body: stage.thief.raw("POST", path, body=body))
    finally:
        await stage.admin.delete(resources.CLUSTER_ROLE_BINDINGS, binding["metadata"]["name"])


async def test_a_copy_of_a_sync_rule_stays_in_the_namespaces_of_its_tenant(stage):
    """The role of a rule is cluster-wide. No row of the gate names the kind."""
    resource, kind = Resource("shop.example.io", "v1", "widgets", "Widget"), CLUSTER_ROLES.group
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "metadata": {"name": "widgets.shop.example.io"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version],
        },
    }
    name = fresh_name("sync-rule")
    verbs = ["get", "list", "watch", "create", "update", "delete"]
    rules = [{"apiGroups": [resource.group], "resources": ["widgets"], "verbs": verbs}]
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "vc-syncer", "namespace": NAMESPACE}],
    }
    await stage.admin.create(resources.CUSTOM_RESOURCE_DEFINITIONS, definition)
    await stage.admin.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
    await stage.admin.create(resources.CLUSTER_ROLE_BINDINGS, binding)
    try:
        await eventually(lambda: stage.thief.list(resource))
        own, home = marked(stage.own), stage.namespace(stage.own)
        for namespace, marks in (
            *((place, own) for place in ("kube-system", "default", NAMESPACE, stage.own.root)),
            (stage.namespace(stage.foreign), own),
            (home, marked(stage.foreign)),
            (home, {}),
        ):
            body = sample(resource, namespace, marks)
            await refused(lambda body=body: stage.thief.create(resource, body, dry_run=True))
        await stage.thief.create(resource, sample(resource, home, own), dry_run=True)
    finally:
        await stage.admin.delete(resources.CLUSTER_ROLE_BINDINGS, name)
        await stage.admin.delete(CLUSTER_ROLES, name)
        crd = definition["metadata"]["name"]
        await stage.admin.delete(resources.CUSTOM_RESOURCE_DEFINITIONS, crd)


def sample_deployment(namespace: str) -> Object:
    """Return a Deployment."""
    labels = {"app": "a"}
    return {
        "metadata": {"name": fresh_name("d"), "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, **SAMPLES["Pod"]},
        },
    }


# The account of a super namespace, which is put back the one that made it.


async def test_a_workload_account_that_others_made_is_taken_over(stage):
    home = stage.namespace(stage.own)
    bare = {"metadata": {"name": names.WORKLOAD_ACCOUNT, "namespace": home}}
    await stage.admin.create(SERVICE_ACCOUNTS, bare)
    patch = {"metadata": marked(stage.own), "automountServiceAccountToken": False}
    await stage.thief.patch(SERVICE_ACCOUNTS, names.WORKLOAD_ACCOUNT, patch, namespace=home)
    other = {"metadata": {"name": "other", "namespace": home}}
    await stage.admin.create(SERVICE_ACCOUNTS, other)
    await refused(
        lambda: stage.thief.patch(SERVICE_ACCOUNTS, "other", patch, namespace=home, dry_run=True)
    )


# What the syncer writes of its own.


async def test_its_own_lease_and_no_other(stage):
    lease = {"metadata": {"name": "vc-syncer", "namespace": NAMESPACE}, "spec": {}}
    await stage.thief.create(LEASES, lease, dry_run=True)
    other = {"metadata": {"name": "vc-manager", "namespace": NAMESPACE}, "spec": {}}
    await refused(lambda: stage.thief.create(LEASES, other, dry_run=True))


async def test_no_one_else_is_concerned(server, stage):
    body = sample(CONFIG_MAPS, "kube-system", {})
    await stage.admin.create(CONFIG_MAPS, body, dry_run=True)
    own = server.plane.endpoint_with_token(token=await token(stage.admin, "vc-manager"))
    async with Client(own) as manager:
        await manager.create(NAMESPACES, root(tenant()), dry_run=True)


ALLOWING_TOO_MUCH = (
    {"ingress": [{}]},
    {"egress": [{}]},
    {"ingress": [{"from": [{"namespaceSelector": {}}]}]},
    {"egress": [{"to": [{"namespaceSelector": {}, "podSelector": {}}]}]},
    {
        "ingress": [
            {"from": [{"namespaceSelector": {"matchLabels": {wellknown.VC_UID: "foreign"}}}]}
        ]
    },
)


@pytest.mark.parametrize("rules", ALLOWING_TOO_MUCH, ids=str)
async def test_a_network_policy_that_allows_other_tenants_is_refused(stage, rules):
    home = stage.namespace(stage.own)
    plain = sample(resources.NETWORK_POLICIES, home, marked(stage.own))
    body = {**plain, "spec": {"podSelector": {}, **rules}}
    await refused(lambda: stage.thief.create(resources.NETWORK_POLICIES, body, dry_run=True))


async def test_the_network_policies_that_the_syncer_writes_pass(stage):
    home = stage.namespace(stage.own)
    view = dataclasses.replace(network_view(), tenant=stage.own)
    space = entry_of({"metadata": {"name": "web", "uid": "web-uid"}})
    for policy in default_policies.build_default_policies(space, view):
        assert policy["metadata"]["namespace"] == home
        await stage.thief.create(resources.NETWORK_POLICIES, policy, dry_run=True)
