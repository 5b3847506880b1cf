"""Session of one tenant with one target.

Owns the differences from a session with the home cluster. A target has only the objects that pods
in it need, one virtual node stands for all of its nodes, and it may be unreachable. Must not choose
where pods run. Hazard: a pod that is missing in a target is no proof of its end. The pod loss guard
and the identity of the target must be checked before a conclusion.
"""

from collections.abc import Callable, Iterable, Mapping

from kubeio.cache.store import Entry, Store
from syncer.clusters.super_cluster import SuperCluster
from syncer.clusters.target_cluster import TargetCluster
from syncer.model.keys import Key
from syncer.model.tenant_view import ServiceCidr, TargetNetwork
from syncer.rules.placement import target_node
from syncer.rules.registry import SyncedKind
from syncer.safety import pod_loss_guard
from syncer.tenants import target_scope
from syncer.tenants.connection import TenantConnection
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

    @property
    def is_target_unreachable(self) -> bool:
        """Whether the target does not answer."""
        return bool(self.target.problem)

    @property
    def is_grant_withdrawn(self) -> bool:
        """Whether the objects of the tenant must leave the target."""
        return not self.connection.grants.is_offered(self.name)

    def _get_ruled_kinds(self, connection: TenantConnection) -> Mapping[str, SyncedKind]:
        """Return the kinds whose copies follow pods."""
        return connection.ruled.pod_followers

    def get_shown_node(self, node: str) -> str:  # noqa: ARG002
        """Return the name of the virtual node that stands for the target."""
        return target_node.build_node_name(self.name)

    def get_status_node(self, node: str) -> str:  # noqa: ARG002
        """Return an empty string, because the tenant knows no node of a target."""
        return ""

    def is_concerned(self, kind: str, entry: Entry) -> bool:
        """Return True if the target needs an object of the tenant."""
        return target_scope.is_needed_in_target(
            kind, entry, self.view, self.pods, self.get_super_store("Pod")
        )

    def start(self) -> None:
        """Start to reconcile, after releasing the quota of objects that were deleted meanwhile."""
        owned = self.super_cluster.iterate_owned(self.tenant.uid)
        keys = (self.super_cluster.get_key(kind, entry) for kind, entry in owned)
        self.connection.quota.retain(self.name, {key for key in keys if key is not None})
        super().start()

    def iterate_unassigned(self) -> Iterable[Key]:
        """Yield nothing, because the session with the home cluster assigns pods."""
        return ()

    def report_missing_pods(self) -> None:
        """Report the pods that should run in the target and do not. The caches must be complete.

        Pods that an earlier process saw are not remembered.
        """
        missing = pod_loss_guard.missing_uids(
            self.stores["Pod"].list(),
            shown_node=self.get_shown_node(""),
            has_twin=self.has_twin,
        )
        self.target.pod_loss_guard.replace_missing(self.tenant.uid, missing)

    def check_losses_not_held(self) -> None:
        """Raise NotReadyYet while many pods of the target are missing at once."""
        self.target.pod_loss_guard.check_not_held(self.tenant.uid)

    async def prove_missing(self, since: float) -> None:
        """Return when the absence of a pod, read later than `since`, is proved.

        Raises NotReadyYet or KubeError, as `TargetCluster.prove_missing` does.
        """
        await self.target.prove_missing(since, self.tenant.uid)

    def _list_shown_nodes(self) -> Store:
        return Store()  # the nodes of a target are not shown

    def _request_namespace(self, space: Key) -> None:
        self.queue.add(space, first=True)  # a target has needed namespaces only

    def _get_network_source(self) -> Callable[[], TargetNetwork]:
        return self._build_target_network

    def _build_target_network(self) -> TargetNetwork:
        """Return the addresses that replace the tenant's own for pods in the target."""
        network = self.target.spec.network
        endpoint = self.connection.cluster.status.endpoint
        return TargetNetwork(endpoint=endpoint, resolvers=network.resolvers)
