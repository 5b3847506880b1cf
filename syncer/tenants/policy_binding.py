"""TenantPolicy of a tenant, or the reason why it has none. Pure functions.

Owns the rule for a missing policy. Must not know sessions. Hazard: a named policy that is missing
or cannot be read must allow nothing. Its author may have meant it to be narrower than any default.
"""

import contextlib
from dataclasses import dataclass

from msgspec.structs import replace

from kubeio.cache.store import Store
from syncer.tenants import conditions
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec, get_policy_name, parse_tenant_policy
from tenancy.policy.network_attachments import resolve_conflict
from tenancy.specs import InvalidSpecError, VirtualClusterSpec


@dataclass(frozen=True, slots=True)
class PolicyUnavailable:
    """Reason why a tenant has no policy now, as the condition Synced reports it."""

    reason: str
    message: str


def resolve_policy(
    spec: VirtualClusterSpec, policies: Store
) -> TenantPolicySpec | PolicyUnavailable:
    """Return the policy of a tenant.

    The opaque and transparent metadata prefixes of the VirtualCluster are added to it.
    """
    found = _get_named_policy(spec, policies)
    if isinstance(found, PolicyUnavailable):
        return found
    if not spec.opaque_meta_prefixes and not spec.transparent_meta_prefixes:
        return found
    passing = found.metadata
    merged = replace(
        passing,
        opaque_prefixes=(*passing.opaque_prefixes, *spec.opaque_meta_prefixes),
        transparent_prefixes=(
            *passing.transparent_prefixes,
            *filter(None, spec.transparent_meta_prefixes),  # an empty one would match each key
        ),
    )
    return replace(found, metadata=merged)


def _get_named_policy(
    spec: VirtualClusterSpec, policies: Store
) -> TenantPolicySpec | PolicyUnavailable:
    name = get_policy_name(spec)
    entry = policies.get("", name)
    if entry is None:
        if spec.policy_ref is None:
            return BASELINE_POLICY
        return PolicyUnavailable(
            conditions.POLICY_MISSING,
            f"The TenantPolicy {name} in spec.policyRef does not exist, so nothing of the tenant"
            " is synced. Create it, or use another one.",
        )
    try:
        return _compare_attachments(parse_tenant_policy(entry.decode()), name, policies)
    except InvalidSpecError as problem:
        return PolicyUnavailable(
            conditions.POLICY_UNREADABLE,
            f"{problem}. Nothing of the tenant is synced. Correct the TenantPolicy.",
        )


def _compare_attachments(found: TenantPolicySpec, name: str, policies: Store) -> TenantPolicySpec:
    """Return a policy whose networks cannot be used if another policy divides them differently."""
    own = found.network.attachments
    if not own.devices:
        return found
    others = {}
    for entry in policies.list():
        if entry.name != name and b'"attachments"' in entry.body:
            with contextlib.suppress(InvalidSpecError):  # it allows nothing, so it divides nothing
                others[entry.name] = parse_tenant_policy(entry.decode()).network.attachments
    checked = resolve_conflict(own, others)
    if checked is own:
        return found
    return replace(found, network=replace(found.network, attachments=checked))
