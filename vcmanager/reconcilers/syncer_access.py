"""Limits of the syncer's account that RBAC and its admission policy cannot know by themselves.

Owns a ConfigMap with the pod security level of each tenant, by which the admission policy of ADR 32
judges, and a Role with the Secrets of targets. Both are in the manager's namespace. Hazard: the
default is to refuse. A tenant or a policy that cannot be read is left out, and the admission policy
refuses namespaces and pods of tenants that are left out.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kubeio import Object, errors
from kubeio.controller.worker import RequeueAfter, Result
from tenancy import super_clusters, wellknown
from tenancy.names import InvalidNameError
from tenancy.policies import (
    BASELINE_POLICY,
    DEFAULT_POLICY_NAME,
    SecurityLevel,
    TenantPolicySpec,
    get_namespace_level,
    get_policy_name,
    parse_tenant_policy,
)
from tenancy.resources import (
    CONFIG_MAPS,
    ROLES,
    SUPER_CLUSTERS,
    TENANT_POLICIES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tenancy.specs import InvalidSpecError, parse_virtual_cluster
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import SYNCER_ACCESS_LABELS, ReconcileKey
from vcmanager.runtime.object_metadata import is_subset


class TenantLevels(NamedTuple):
    """Levels of one tenant by the Pod Security Standards."""

    namespace: SecurityLevel
    """Highest level of the label on its super namespaces."""
    pods: SecurityLevel
    """Level of its pods. It is lower than the label if the policy allows host ports."""


async def reconcile_syncer_access(means: ReconcileContext, _key: ReconcileKey) -> Result:
    """Update the ConfigMap and the Role."""
    super_client = means.super_client
    # Policies first: a tenant with a policy created in between is refused until the next reconcile.
    policies = await super_client.list(TENANT_POLICIES)
    clusters = await super_client.list(VIRTUAL_CLUSTERS)
    targets = await super_client.list(SUPER_CLUSTERS)
    levels = compute_levels(policies.get("items") or (), clusters.get("items") or ())
    await _ensure(means, CONFIG_MAPS, build_levels(levels, means.namespace))
    await _ensure(means, ROLES, build_targets_role(targets.get("items") or (), means.namespace))
    return RequeueAfter(RESYNC_SECONDS)


async def _ensure(means: ReconcileContext, resource: Resource, wanted: Object) -> None:
    metadata = wanted["metadata"]
    try:
        found = await means.super_client.get(
            resource, metadata["name"], namespace=metadata["namespace"]
        )
    except errors.NotFound:
        found = {}
    # The maps must be equal: a tenant that is deleted must leave the ConfigMap.
    part = "data" if "data" in wanted else "rules"
    if not is_subset(wanted, found) or (found.get(part) or type(wanted[part])()) != wanted[part]:
        await means.super_client.apply(resource, wanted, field_manager=wellknown.MANAGER)


def compute_levels(
    policies: Iterable[Object], clusters: Iterable[Object]
) -> dict[str, TenantLevels]:
    """Return the levels of all tenants by UID, from all TenantPolicies and VirtualClusters."""
    known: dict[str, TenantPolicySpec | None] = {DEFAULT_POLICY_NAME: BASELINE_POLICY}
    for body in policies:
        try:
            known[body["metadata"]["name"]] = parse_tenant_policy(body)
        except InvalidSpecError:
            known[body["metadata"]["name"]] = None  # the syncer reports it in Synced
    found: dict[str, TenantLevels] = {}
    for body in clusters:
        try:
            # The status is not needed, and an invalid one must not exclude a tenant.
            cluster = parse_virtual_cluster({**body, "status": {}})
        except (InvalidSpecError, InvalidNameError):
            continue
        policy = known.get(get_policy_name(cluster.spec))
        if policy is not None:
            levels = TenantLevels(get_namespace_level(policy), policy.security.level)
            found[cluster.tenant.uid] = levels
    return found


def build_levels(levels: dict[str, TenantLevels], namespace: str) -> Object:
    """Return the ConfigMap: the two levels of each tenant, by its UID."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": wellknown.SYNCER_LEVELS,
            "namespace": namespace,
            "labels": dict(SYNCER_ACCESS_LABELS),
        },
        "data": {uid: " ".join(pair) for uid, pair in sorted(levels.items())},
    }


def build_targets_role(targets: Iterable[Object], namespace: str) -> Object:
    """Return the Role to read the Secrets that SuperClusters name."""
    secrets = set()
    for body in targets:
        try:
            reference = super_clusters.parse_spec(body).secret_ref
        except InvalidSpecError:
            continue
        if reference is not None:
            secrets.add(reference.name)
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": sorted(secrets),
        "verbs": ["get", "list", "watch"],
    }
    return {
        "apiVersion": ROLES.api_version,
        "kind": ROLES.kind,
        "metadata": {"name": wellknown.SYNCER_TARGETS_ROLE, "namespace": namespace},
        "rules": [rule] if secrets else [],
    }
