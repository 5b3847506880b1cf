"""CRDs and rights of SyncRules in one tenant.

Owns the CRDs with the product's label in the tenant, and the syncer's ClusterRole for ruled kinds.
Hazard: a CRD of the tenant itself must not be overwritten. Its objects would lose fields.
"""

from collections.abc import Iterable

import msgspec

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    SYNC_RULES,
    Resource,
)
from tenancy.specs import InvalidSpecError, VirtualClusterSpec
from tenancy.sync_rules.selection import select_rules
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from vcmanager.phases.content import policies
from vcmanager.plan.custom_kinds import sync_rules

_RESOURCES = {each.kind: each for each in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)}


def parse_rules(bodies: Iterable[Object]) -> list[SyncRule]:
    """Return the rules that can be read."""
    found: list[SyncRule] = []
    for body in bodies:
        try:
            found.append(parse_sync_rule(body))
        except InvalidSpecError:
            continue  # its own reconcile reports it
    return found


async def fetch_definition(super_client: Client, rule: SyncRule) -> Object | None:
    """Return the CRD of a rule in the super cluster, or None.

    For a built-in kind it is the kind's APIResource, as discovery shows it.
    """
    if rule.spec.definition == "BuiltIn":
        return await _fetch_api_resource(super_client, rule.resource)
    try:
        return await super_client.get(
            CUSTOM_RESOURCE_DEFINITIONS, sync_rules.build_definition_name(rule)
        )
    except errors.NotFound:
        return None


async def _fetch_api_resource(super_client: Client, resource: Resource) -> Object | None:
    try:
        answer = await super_client.raw("GET", resource.version_path)
    except errors.NotFound:
        return None
    served: list[Object] = msgspec.json.decode(answer).get("resources") or []
    return next((each for each in served if each.get("name") == resource.plural), None)


async def apply_sync_rules(
    super_client: Client, tenant_client: Client, spec: VirtualClusterSpec, body: Object
) -> list[str]:
    """Write CRDs and rights for the rules of a tenant. Return a message for each differing CRD."""
    rules = parse_rules((await super_client.list(SYNC_RULES)).get("items") or ())
    ready = [rule for rule in rules if rule.is_ready]
    selected: tuple[SyncRule, ...] = ()
    if ready:
        policy = await policies.fetch_policy(super_client, spec)
        labels = body["metadata"].get("labels") or {}
        selected = select_rules(ready, policy, labels) if policy is not None else ()
    served, problems = list[SyncRule](), list[str]()
    for rule in selected:
        problem = await _ensure_definition(super_client, tenant_client, rule)
        if problem:
            problems.append(problem)
        else:
            served.append(rule)
    if served or rules:  # without any rule, an earlier role is emptied by the last one
        for each in sync_rules.build_tenant_grant(served):
            await tenant_client.apply(
                _RESOURCES[each["kind"]], each, field_manager=wellknown.MANAGER
            )
    return problems


async def _ensure_definition(super_client: Client, tenant_client: Client, rule: SyncRule) -> str:
    """Write or check the CRD of a rule. Return why the tenant cannot use the rule, or nothing."""
    if rule.spec.definition == "BuiltIn":
        return ""
    definition = await fetch_definition(super_client, rule)
    if definition is None:
        return f"SyncRule {rule.name}: the super cluster has no CRD of {rule.resource.kind}."
    name = sync_rules.build_definition_name(rule)
    try:
        own = await tenant_client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except errors.NotFound:
        own = None
    if rule.spec.definition == "Copy" and (own is None or sync_rules.is_own_definition(own)):
        wanted = sync_rules.build_tenant_definition(definition, rule)
        await tenant_client.apply(
            CUSTOM_RESOURCE_DEFINITIONS, wanted, field_manager=wellknown.MANAGER
        )
        return ""
    if own is not None and sync_rules.has_equal_schema(own, definition, rule):
        return ""
    remedy = (
        "Create one with the schema of the super cluster"
        if own is None
        else "Give it the schema of the super cluster, or delete it"
    )
    return (
        f"SyncRule {rule.name}: the CRD {name} in the tenant is missing or has another schema."
        f" {remedy}. Until then objects of {rule.resource.kind} are not synced."
    )
