"""Session of one tenant with one target.

Its scope has the differences from a session with the home cluster (`scopes.target_scope`).
"""

from collections.abc import Callable, Mapping

from syncer.clusters.super_cluster import SuperCluster
from syncer.clusters.target_cluster import TargetCluster
from syncer.model.tenant_view import ServiceCidr, TargetNetwork
from syncer.rules.registry import SyncedKind
from syncer.tenants.cluster_scope import ClusterScope
from syncer.tenants.connection import TenantConnection
from syncer.tenants.scopes import target_scope
from syncer.tenants.scopes.target_scope import TargetScope
from syncer.tenants.session import Session
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec


class TargetSession(Session):
    """One tenant in one target."""

    is_home = False

    def __init__(
        self,
        connection: TenantConnection,
        super_cluster: SuperCluster,
        *,
        tenant_slice: ServiceCidr,
        policy: TenantPolicySpec = BASELINE_POLICY,
        target: TargetCluster,
    ) -> None:
        """`super_cluster` has the caches of the target."""
        self.target = target
        for rule in connection.ruled.rules:
            if rule.follows_pods:
                super_cluster.ruled.prepare(rule)  # before the session subscribes
        super().__init__(connection, super_cluster, tenant_slice=tenant_slice, policy=policy)

    def _get_ruled_kinds(self, connection: TenantConnection) -> Mapping[str, SyncedKind]:
        """Return the kinds whose copies follow pods."""
        return connection.ruled.pod_followers

    def _build_scope(self) -> ClusterScope:
        return TargetScope(
            self.target,
            self.connection,
            self.super_cluster,
            view=self.view,
            pods=self.pods,
            twins=self.twins,
        )

    def _get_network_source(self) -> Callable[[], TargetNetwork]:
        return target_scope.bind_network(self.target, self.connection)
