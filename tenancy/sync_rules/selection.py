"""Tenants that a SyncRule applies to. Pure."""

from collections.abc import Iterable, Mapping

from tenancy.policies import TenantPolicySpec
from tenancy.sync_rules.specs import SyncRule


def select_rules(
    rules: Iterable[SyncRule], policy: TenantPolicySpec, cluster_labels: Mapping[str, str]
) -> tuple[SyncRule, ...]:
    """Return the rules of one tenant, in the order of their names.

    The policy must select the rule, and the rule must select the VirtualCluster.
    """
    return tuple(
        sorted(
            (
                rule
                for rule in rules
                if policy.sync_rules.matches(rule.name, dict(rule.labels))
                and rule.spec.virtual_cluster_selector.matches(cluster_labels)
            ),
            key=lambda rule: rule.name,
        )
    )
