"""The TenantPolicy of a VirtualCluster, read live. Hazard: a policy that is named and missing, or
that cannot be read, must allow nothing.
"""

from kubeio import errors
from kubeio.api.client import Client
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec, get_policy_name, parse_tenant_policy
from tenancy.resources import TENANT_POLICIES
from tenancy.specs import InvalidSpecError, VirtualClusterSpec


async def fetch_policy(super_client: Client, spec: VirtualClusterSpec) -> TenantPolicySpec | None:
    """Return the policy. None if it is missing or invalid."""
    try:
        body = await super_client.get(TENANT_POLICIES, get_policy_name(spec))
    except errors.NotFound:
        return BASELINE_POLICY if spec.policy_ref is None else None
    try:
        return parse_tenant_policy(body)
    except InvalidSpecError:
        return None
