"""Configuration of a tenant's connection. Pure.

Owns which changes restart a connection. Must not know how a plan is built. Hazard: a field without
a part in the digest does not take effect until the syncer restarts.
"""

import hashlib
from dataclasses import dataclass

import msgspec

from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.specs import VirtualCluster
from tenancy.sync_rules.specs import SyncRule


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TenantPlan:
    """Configuration of a connection and its sessions. They end when the plan changes."""

    cluster: VirtualCluster
    kubeconfig: bytes
    service_range: str
    policy: TenantPolicySpec = BASELINE_POLICY
    rules: tuple[SyncRule, ...] = ()
    """SyncRules of the tenant whose caches in the super cluster are complete."""

    def compute_digest(self) -> str:
        """Return a digest for comparing two plans, without any secret in it."""
        spec = self.cluster.spec
        parts = (self.kubeconfig, self.service_range.encode(), spec.cluster_domain.encode())
        # A changed weight takes effect in the queue and needs no new connection.
        said = msgspec.structs.replace(self.policy, weight=BASELINE_POLICY.weight)
        policy = msgspec.json.encode(said, order="deterministic")
        provided = (spec.dns.encode(), spec.metrics.encode())
        split = (str(self.is_split).encode(), self.cluster.status.endpoint.encode())
        seated = split if self.is_split else ()
        network = msgspec.json.encode(spec.network) if spec.network is not None else b""
        ruled = tuple(
            rule.name.encode() + msgspec.json.encode(rule.spec, order="deterministic")
            for rule in self.rules
        )
        return hashlib.sha256(
            b"\0".join((*parts, *provided, policy, network, *seated, *ruled))
        ).hexdigest()

    @property
    def is_split(self) -> bool:
        """Whether pods may run in other clusters than the home cluster."""
        return bool(self.cluster.spec.targets or self.cluster.status.targets)
