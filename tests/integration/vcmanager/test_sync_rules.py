"""Conditions of SyncRules, by the discovery of a real API server under vc-manager's own rights."""

from __future__ import annotations

import pytest

from kubeio import Object
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tenancy.resources import CLUSTER_ROLES, CUSTOM_RESOURCE_DEFINITIONS
from tenancy.sync_rules import rights
from tenancy.sync_rules.specs import parse_sync_rule
from tests.integration.vcmanager.conftest import ManagerStage
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from vcmanager.reconcilers.sync_rules import reconcile_sync_rules
from vcmanager.runtime import keys

pytestmark = pytest.mark.integration

CLAIMS = {
    "group": "resource.k8s.io",
    "version": "v1",
    "kind": "ResourceClaim",
    "plural": "resourceclaims",
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "RightsMissing"),  # the kind is served, and only a ClusterRole is missing
        ({"version": "v9"}, "VersionNotServed"),
        ({"plural": "claims"}, "VersionNotServed"),
        ({"kind": "Claim"}, "InvalidSpec"),
        ({"kind": "DeviceClass", "plural": "deviceclasses"}, "ScopeNotSupported"),
    ],
)
async def test_a_built_in_kind_must_be_served(stage: ManagerStage, changes: Object, reason: str):
    rule = {
        "apiVersion": resources.SYNC_RULES.api_version,
        "kind": resources.SYNC_RULES.kind,
        "metadata": {"name": "built-in"},
        "spec": {
            "resource": CLAIMS | changes,
            "direction": "Down",
            "definition": "BuiltIn",
            "fields": ["spec.devices"],
        },
    }
    await stage.admin.create(resources.SYNC_RULES, rule)
    try:
        await reconcile_sync_rules(stage.means, keys.SYNC_RULES_KEY)
        found = await stage.admin.get(resources.SYNC_RULES, "built-in")
    finally:
        await stage.admin.delete(resources.SYNC_RULES, "built-in")
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Ready",
        "False",
        reason,
    ), condition


GROUP = "shop.example.io"
DEFINITION = f"widgets.{GROUP}"
ROLE = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole"}


def build_definition(**spec_fields: Object) -> Object:
    """Return a CRD whose objects have these fields."""
    spec = {"type": "object", "properties": spec_fields}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version],
        },
    }


async def read_tenant_rights(tenant: Client) -> list[str]:
    """Return the resources that the syncer may use in the tenant by SyncRules."""
    role = await tenant.get(CLUSTER_ROLES, wellknown.SYNCER_RULES_ROLE)
    return [name for rule in role.get("rules") or () for name in rule["resources"]]


@pytest.mark.thorough
async def test_a_definition_of_the_tenant_itself_must_be_equal(stage: ManagerStage):
    """Another schema becomes an Event of the VirtualCluster, and the kind is not synced."""
    admin, tenant, name = stage.admin, stage.tenants.client, fresh_name("equal")
    rule: Object = {
        "apiVersion": resources.SYNC_RULES.api_version,
        "kind": "SyncRule",
        "metadata": {"name": name},
        "spec": {
            "resource": {"group": GROUP, "version": "v1", "kind": "Widget", "plural": "widgets"},
            "direction": "Down",
            "definition": "Equal",
            "fields": ["spec.size"],
        },
    }
    granted = rights.build_super_rules([parse_sync_rule(rule)])
    role = {**ROLE, "metadata": {"name": wellknown.SYNCER_RULES_ROLE}, "rules": granted}
    policy = {
        "apiVersion": resources.TENANT_POLICIES.api_version,
        "kind": "TenantPolicy",
        "metadata": {"name": name},
        "spec": {"syncRules": {"names": [name]}},
    }
    equal, other = build_definition(size={"type": "string"}), build_definition()
    await admin.create(CUSTOM_RESOURCE_DEFINITIONS, equal)
    await admin.apply(CLUSTER_ROLES, role, field_manager="tests")
    await admin.create(resources.SYNC_RULES, rule)
    await admin.create(resources.TENANT_POLICIES, policy)
    cluster = await stage.declare(policyRef={"name": name})

    async def read_events() -> list[str]:
        page = await admin.list(resources.EVENTS, namespace="default")
        return [
            str(each.get("note") or each.get("message"))
            for each in page["items"]
            if each["reason"] == "SyncRuleNotServed"
            and (each.get("regarding") or each["involvedObject"])["name"]
            == cluster["metadata"]["name"]
        ]

    async def read_condition() -> Object:
        await reconcile_sync_rules(stage.means, keys.SYNC_RULES_KEY)
        found = await admin.get(resources.SYNC_RULES, name)
        (condition,) = found["status"]["conditions"]
        return condition

    try:
        await eventually(read_condition, until=lambda found: found["status"] == "True")
        await tenant.create(CUSTOM_RESOURCE_DEFINITIONS, equal)
        await stage.bring_up(cluster)
        await stage.work(cluster)
        assert "widgets" in await read_tenant_rights(tenant)
        assert await read_events() == []

        live = await tenant.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        await tenant.replace(CUSTOM_RESOURCE_DEFINITIONS, {**live, "spec": other["spec"]})
        await stage.work(cluster)
        (message,) = await eventually(read_events)
        assert f"SyncRule {name}: the CRD {DEFINITION} in the tenant" in message
        assert "Give it the schema of the super cluster, or delete it" in message
        assert "widgets" not in await read_tenant_rights(tenant)
        live = await tenant.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        schema = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        assert "size" not in schema.get("properties", {}), "the tenant's own CRD stays"
    finally:
        await stage.tear_down(cluster)
        await admin.delete(resources.SYNC_RULES, name)
        await admin.delete(resources.TENANT_POLICIES, name)
        await admin.delete(CLUSTER_ROLES, wellknown.SYNCER_RULES_ROLE)
        await admin.delete(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        await tenant.delete(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
