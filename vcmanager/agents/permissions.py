"""Permitted API calls of each tenant by its policy, as a ConfigMap for the node agents.

Owns one ConfigMap in the manager's namespace. Must not know how agents answer. Hazard: the default
is to refuse. A tenant or a policy that cannot be read is left out, and agents refuse what is left
out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubeio import Object, errors
from kubeio.controller.worker import RequeueAfter, Result
from tenancy import agent_permissions, wellknown
from tenancy.agent_permissions import AgentPermissions, KubeletCall
from tenancy.names import InvalidNameError
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec, get_policy_name, parse_tenant_policy
from tenancy.resources import CONFIG_MAPS, TENANT_POLICIES, VIRTUAL_CLUSTERS
from tenancy.specs import InvalidSpecError, parse_virtual_cluster
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import AGENT_TRUST_LABELS, ReconcileKey
from vcmanager.runtime.object_metadata import is_subset


async def reconcile_agent_access(means: ReconcileContext, _key: ReconcileKey) -> Result:
    """Update the ConfigMap from the TenantPolicies and VirtualClusters."""
    super_client = means.super_client
    # Policies first: a tenant with a policy created in between is refused until the next reconcile.
    policies = await super_client.list(TENANT_POLICIES)
    clusters = await super_client.list(VIRTUAL_CLUSTERS)
    found = compute_permissions(policies.get("items") or (), clusters.get("items") or ())
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": wellknown.AGENT_ACCESS,
            "namespace": means.namespace,
            "labels": dict(AGENT_TRUST_LABELS),
        },
        "data": {agent_permissions.DOCUMENT_KEY: agent_permissions.encode_permissions(found)},
    }
    try:
        name = wellknown.AGENT_ACCESS
        published = await super_client.get(CONFIG_MAPS, name, namespace=means.namespace)
    except errors.NotFound:
        published = None
    if not is_subset(manifest, published):
        await super_client.apply(CONFIG_MAPS, manifest, field_manager=wellknown.MANAGER)
    return RequeueAfter(RESYNC_SECONDS)


def compute_permissions(policies: Iterable[Object], clusters: Iterable[Object]) -> AgentPermissions:
    """Return the switches of all tenants, from all TenantPolicies and VirtualClusters."""
    readable: dict[str, frozenset[KubeletCall]] = {
        agent_permissions.BUILT_IN_POLICY: list_allowed_calls(BASELINE_POLICY)
    }
    unreadable: set[str] = set()
    for body in policies:
        name = body["metadata"]["name"]
        try:
            readable[name] = list_allowed_calls(parse_tenant_policy(body))
        except InvalidSpecError:
            unreadable.add(name)  # the syncer reports it in the condition Synced of its tenants
    tenants: dict[str, str] = {}
    for body in clusters:
        try:
            # The status is not needed, and an invalid one must not exclude a tenant.
            cluster = parse_virtual_cluster({**body, "status": {}})
        except (InvalidSpecError, InvalidNameError):
            continue
        name, is_there = get_policy_name(cluster.spec), {*readable, *unreadable}
        is_default = cluster.spec.policy_ref is None and name not in is_there
        tenants[cluster.tenant.uid] = agent_permissions.BUILT_IN_POLICY if is_default else name
    return AgentPermissions(readable, tenants)


def list_allowed_calls(policy: TenantPolicySpec) -> frozenset[KubeletCall]:
    """Return the calls that a policy allows."""
    access: Mapping[str, Any] = msgspec.to_builtins(policy.access)
    return frozenset(call for call in KubeletCall if access[call.value])
