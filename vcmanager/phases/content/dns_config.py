"""DNS servers of `spec.dnsConfig`, checked against the policy and the super cluster's networks.

Owns the condition DNSConfigAccepted. Must not write a Corefile. Hazard: a refused server may not
stop the reconcile. Otherwise a narrower policy would end the renewal of a tenant's certificates.
"""

from collections.abc import Awaitable, Callable, Sequence

from kubeio import Object
from tenancy import addresses, wellknown
from vcmanager.phases.content import policies
from vcmanager.plan.control_plane import PlanInput
from vcmanager.plan.network import dns_forwarding, root_policies
from vcmanager.plan.network.dns_forwarding import NO_FORWARDING, AddressRules, DnsForwarding
from vcmanager.plan.service_cidrs import ServiceNetwork, ServiceRange
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.status import ReconcileStatus

ACCEPTED, REFUSED, NOT_MANAGED = "Accepted", "Refused", "NotManaged"
"""Reasons of the condition DNSConfigAccepted."""


async def plan_forwarding(
    means: ReconcileContext,
    wish: PlanInput,
    service_range: ServiceRange,
    super_range: ServiceNetwork,
    report: ReconcileStatus,
    *,
    list_nodes: Callable[[], Awaitable[Sequence[Object]]],
) -> DnsForwarding:
    """Return the servers that may be used, and set the condition."""
    config = wish.spec.dns_config
    if config is None:
        return NO_FORWARDING
    if wish.spec.dns != "managed":
        message = (
            f"spec.dnsConfig has no effect with spec.dns {wish.spec.dns}. Remove one of the two."
        )
        _set_condition(report, NOT_MANAGED, message)
        return NO_FORWARDING
    policy = await policies.fetch_policy(means.super_client, wish.spec)
    if policy is None:
        message = "spec.dnsConfig: the TenantPolicy is missing or invalid. Correct it."
        _set_condition(report, REFUSED, message)
        return NO_FORWARDING
    networks = root_policies.read_super_networks(
        await list_nodes(), [super_range], addresses.parse_networks(policy.network.super_ranges)
    )
    found = dns_forwarding.decide_forwarding(
        config,
        cluster_domain=wish.spec.cluster_domain,
        rules=AddressRules(
            allowed=addresses.parse_networks(policy.network.dns_servers),
            forbidden=(*networks.nodes, *networks.pods, *networks.services),
            own=(service_range.network,),
            dns_address=service_range.dns_address,
        ),
    )
    if found.problems:
        _set_condition(report, REFUSED, " ".join(found.problems))
    else:
        message = "The tenant's DNS uses every server of spec.dnsConfig."
        report.set_condition(wellknown.DNS_CONFIG_ACCEPTED, "True", ACCEPTED, message)
    return found


def _set_condition(report: ReconcileStatus, reason: str, message: str) -> None:
    report.set_condition(wellknown.DNS_CONFIG_ACCEPTED, "False", reason, message, is_failure=True)
