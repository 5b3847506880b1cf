"""The gate on the syncer's account: whose namespaces it makes, changes and deletes."""

from __future__ import annotations

import copy

import pytest

from kubeio import Object
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import NAMESPACES, SECRETS
from tests.chart.gate import (
    GATE,
    bind,
    marked,
    record_levels,
    refused,
    root,
    sample,
    space,
    tenant,
)
from tests.support.helm import NAMESPACE
from tests.support.names import fresh_name

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("tenant_namespace", ["web", "x" * 37, "y-" * 20 + "y", "z" * 63])
async def test_a_tenants_namespace_is_made_repaired_and_deleted(stage, tenant_namespace):
    body = space(await stage.declare(), tenant_namespace)
    name = body["metadata"]["name"]
    made = await stage.thief.create(NAMESPACES, body)
    bare = {"metadata": {"labels": dict.fromkeys(body["metadata"]["labels"])}}
    await stage.admin.patch(NAMESPACES, name, bare)
    fixed = {"metadata": {"labels": body["metadata"]["labels"]}}
    await stage.thief.patch(NAMESPACES, name, fixed)
    await stage.thief.delete(NAMESPACES, name, uid=made["metadata"]["uid"])


def changed(body: Object, field: str, **keys: str | None) -> Object:
    """Return a namespace with some marks changed."""
    found = copy.deepcopy(body)
    for key, value in keys.items():
        found["metadata"][field].pop(f"{wellknown.DOMAIN}/{key}", None)
        if value is not None:
            found["metadata"][field][f"{wellknown.DOMAIN}/{key}"] = value
    return found


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("labels", {"controlled": None}),
        ("labels", {"vcuid": "other"}),
        ("labels", {"namespace": "other"}),
        ("labels", {"cluster": "other"}),
        ("annotations", {"vcuid": "other"}),
        ("annotations", {"vcuid": None}),
        ("annotations", {"uid": None}),
        ("annotations", {"namespace": "other"}),
        ("annotations", {"vcrootns": "true"}),
        ("annotations", {"vcname": "other"}),
    ],
)
async def test_a_namespace_whose_marks_do_not_agree_is_not_made(stage, field, keys):
    await record_levels(stage.admin, {"other": "baseline baseline"})
    body = changed(space(stage.own, "new"), field, **keys)
    await refused(lambda: stage.thief.create(NAMESPACES, body, dry_run=True))


async def test_a_namespace_without_a_level_of_pod_security_is_not_made(stage):
    body = space(stage.own, "new")
    del body["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    await refused(lambda: stage.thief.create(NAMESPACES, body, dry_run=True))


def renamed(of: Tenant, name: str) -> Object:
    """Return the namespace of a tenant under a name that is not its own."""
    body = space(of, "new")
    body["metadata"]["name"] = name
    return body


@pytest.mark.parametrize("name", ["kube-other", "production", "default-abcdef-a-web"])
async def test_a_namespace_of_another_name_is_not_made(stage, name):
    body = renamed(stage.own, name)
    await refused(lambda: stage.thief.create(NAMESPACES, body, dry_run=True))


async def test_a_root_namespace_is_not_made(stage):
    body = root(tenant())
    await refused(lambda: stage.thief.create(NAMESPACES, body, dry_run=True))


@pytest.mark.parametrize("name", ["kube-system", "kube-public", "default", NAMESPACE, "plain"])
async def test_namespaces_of_others_are_neither_changed_nor_deleted(stage, name):
    if name == "plain":
        name = fresh_name("plain")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await stage.admin.create(NAMESPACES, body)
    for taken in (
        marked(stage.own),
        {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
    ):
        patch = {"metadata": taken}
        await refused(lambda p=patch: stage.thief.patch(NAMESPACES, name, p, dry_run=True))
    kept = "may not be deleted" if name in ("kube-system", "kube-public", "default") else GATE
    await refused(lambda: stage.thief.delete(NAMESPACES, name, dry_run=True), kept)


async def test_a_namespace_never_changes_hands(stage):
    away = stage.namespace(stage.foreign)
    patch = {"metadata": marked(stage.own)}
    await refused(lambda: stage.thief.patch(NAMESPACES, away, patch, dry_run=True))


async def test_a_root_namespace_takes_the_record_of_the_store_and_nothing_else(stage):
    record = {wellknown.STORE_UID: "u", wellknown.STORE_REVISION: "5", wellknown.STORE_EPOCH: "1"}
    patch = {"metadata": {"annotations": record}}
    own = stage.own.root
    await stage.thief.patch(NAMESPACES, own, patch)
    for wrong in (
        {"annotations": {wellknown.PKI_INITIALISED: "true"}},
        {"annotations": {wellknown.ROOT_NAMESPACE: None}},
        {"annotations": {wellknown.VC_UID: "other"}},
        {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
        {"labels": {wellknown.NAMESPACE: "web"}},
        {"labels": {wellknown.CLUSTER: "other", wellknown.NAMESPACE: "web"}},
        {"finalizers": ["example.com/held"]},
    ):
        body = {"metadata": wrong}
        await refused(lambda b=body: stage.thief.patch(NAMESPACES, own, b, dry_run=True))
    await refused(lambda: stage.thief.delete(NAMESPACES, own, dry_run=True))


async def test_secrets_of_root_namespaces_stay_out_of_reach_even_with_a_right(stage):
    await bind(stage.admin, stage.own.root, wellknown.SYNCER_NAMESPACE_ROLE, name="wide")
    own = {"annotations": ownership.build_owner_annotations(stage.own, "", "x")}
    secret = sample(SECRETS, stage.own.root, {**marked(stage.own, ""), **own})
    await stage.admin.create(SECRETS, secret)
    name = secret["metadata"]["name"]
    await refused(lambda: stage.thief.delete(SECRETS, name, namespace=stage.own.root, dry_run=True))
