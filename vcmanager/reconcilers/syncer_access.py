"""Limits of the syncer's account that RBAC and its admission policy cannot know by themselves.

Owns a Role with the pod security level of each tenant, by which the admission policy of ADR 32
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
from tenancy.resources import ROLES, SUPER_CLUSTERS, TENANT_POLICIES, VIRTUAL_CLUSTERS
from tenancy.specs import InvalidSpecError, parse_virtual_cluster
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.runtime.object_metadata import is_subset

_ORDER: tuple[SecurityLevel, ...] = ("restricted", "baseline", "privileged")
"""The levels of the Pod Security Standards, the strictest one first."""


class TenantLevels(NamedTuple):
    """Levels of one tenant by the Pod Security Standards."""

    namespace: SecurityLevel
    """Highest level of the label on its super namespaces."""
    pods: SecurityLevel
    """Level of its pods. It is lower than the label if the policy allows host ports."""


async def reconcile_syncer_access(means: ReconcileContext, _key: ReconcileKey) -> Result:
    """Update the two Roles."""
    super_client = means.super_client
    # Policies first: a tenant with a policy created in between is refused until the next reconcile.
    policies = await super_client.list(TENANT_POLICIES)
    clusters = await super_client.list(VIRTUAL_CLUSTERS)
    targets = await super_client.list(SUPER_CLUSTERS)
    levels = compute_levels(policies.get("items") or (), clusters.get("items") or ())
    await _ensure(means, build_levels_role(levels, means.namespace))
    await _ensure(means, build_targets_role(targets.get("items") or (), means.namespace))
    return RequeueAfter(RESYNC_SECONDS)


async def _ensure(means: ReconcileContext, wanted: Object) -> None:
    metadata = wanted["metadata"]
    try:
        found = await means.super_client.get(
            ROLES, metadata["name"], namespace=metadata["namespace"]
        )
    except errors.NotFound:
        found = {}
    # The rules must be equal: a tenant that is deleted must leave the Role.
    if not is_subset(wanted, found) or (found.get("rules") or []) != wanted["rules"]:
        await means.super_client.apply(ROLES, wanted, field_manager=wellknown.MANAGER)


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


def build_levels_role(levels: dict[str, TenantLevels], namespace: str) -> Object:
    """Return the Role with one rule for all tenants of the same levels, by UID."""
    by_levels: dict[TenantLevels, list[str]] = {}
    for uid, pair in levels.items():
        by_levels.setdefault(pair, []).append(uid)
    rules = [
        {
            "apiGroups": [wellknown.DOMAIN],
            "resources": [wellknown.POD_SECURITY_LEVELS],
            "resourceNames": sorted(uids),
            "verbs": list_verbs(pair),
        }
        for pair, uids in sorted(by_levels.items())
    ]
    return _build_role(wellknown.SYNCER_LEVELS_ROLE, namespace, rules)


def list_verbs(levels: TenantLevels) -> list[str]:
    """Return the verbs of a tenant with these levels, as the admission policy checks them."""
    labels = _ORDER[: _ORDER.index(levels.namespace) + 1]
    is_privileged = levels.pods == "privileged"
    return ["run", *["run-privileged"] * is_privileged, *(f"label-{each}" for each in labels)]


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
    rules = [rule] if secrets else []
    return _build_role(wellknown.SYNCER_TARGETS_ROLE, namespace, rules)


def _build_role(name: str, namespace: str, rules: list[Object]) -> Object:
    return {
        "apiVersion": ROLES.api_version,
        "kind": ROLES.kind,
        "metadata": {"name": name, "namespace": namespace},
        "rules": rules,
    }
