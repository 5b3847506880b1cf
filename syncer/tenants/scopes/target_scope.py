"""Scope of a session with a target, which has only the objects that pods in it need.

One virtual node stands for all nodes of the target, and it may be unreachable. Must not choose
where pods run. Hazard: a pod that is missing in a target is no proof of its end. The pod loss guard
and the identity of the target must be checked before a conclusion. The caches must be complete.
Otherwise an object that pods need counts as not needed.
"""

from collections.abc import Callable, Iterable

from kubeio.cache.store import Entry, Store
from syncer.clusters.super_cluster import SuperCluster
from syncer.clusters.target_cluster import TargetCluster
from syncer.model import label_selectors
from syncer.model.keys import Key
from syncer.model.pod_index import PodIndex
from syncer.model.tenant_view import TargetNetwork, TenantView
from syncer.rules import disruption_budgets
from syncer.rules.disruption_budgets import BUDGET
from syncer.rules.placement import target_node
from syncer.safety import pod_loss_guard
from syncer.tenants.connection import TenantConnection
from syncer.tenants.scopes.namespace_pods import has_pods_here
from syncer.tenants.twins import Twins


class TargetScope:
    """One target of one tenant."""

    def __init__(
        self,
        target: TargetCluster,
        connection: TenantConnection,
        super_cluster: SuperCluster,
        *,
        view: TenantView,
        pods: PodIndex,
        twins: Twins,
    ) -> None:
        """`super_cluster` has the caches of the target, and `pods` are those assigned to it."""
        self._target = target
        self._connection = connection
        self._super_cluster = super_cluster
        self._view = view
        self._pods = pods
        self._twins = twins

    @property
    def is_unreachable(self) -> bool:
        """Whether the target does not answer."""
        return bool(self._target.problem)

    @property
    def is_grant_withdrawn(self) -> bool:
        """Whether the objects of the tenant must leave the target."""
        return not self._connection.grants.is_offered(self._super_cluster.name)

    def get_shown_node(self, node: str) -> str:  # noqa: ARG002
        """Return the name of the virtual node that stands for the target."""
        return target_node.build_node_name(self._super_cluster.name)

    def get_status_node(self, node: str) -> str:  # noqa: ARG002
        """Return an empty string, because the tenant knows no node of a target."""
        return ""

    def list_shown_nodes(self) -> Store:
        """Return an empty cache, because the nodes of a target are not shown."""
        return Store()

    def is_concerned(self, kind: str, entry: Entry) -> bool:
        """Return True if the target needs an object of the tenant."""
        return is_needed_in_target(
            kind, entry, self._view, self._pods, self._twins.get_store("Pod")
        )

    def is_assigned_here(self, pod: Entry) -> bool:
        """Return True if the target is the assigned cluster of a pod."""
        return self._connection.assignments.get_cluster(pod) == self._super_cluster.name

    def iterate_unassigned(self) -> Iterable[Key]:
        """Yield nothing, because the session with the home cluster assigns pods."""
        return ()

    def request_namespace(self, space: Key) -> None:
        """Queue a namespace that a key waits for, because a target has needed ones only."""
        self._connection.queue.add(space, first=True)

    def prepare_start(self) -> None:
        """Release the quota of objects that were deleted meanwhile, and report missing pods.

        Missing pods should run in the target and do not. The caches must be complete. Pods that an
        earlier process saw are not remembered.
        """
        below, uid = self._super_cluster, self._view.tenant.uid
        keys = (below.get_key(kind, entry) for kind, entry in below.iterate_owned(uid))
        self._connection.quota.retain(below.name, {key for key in keys if key is not None})
        missing = pod_loss_guard.missing_uids(
            self._view.stores["Pod"].list(),
            shown_node=self.get_shown_node(""),
            has_twin=self._twins.has_twin,
        )
        self._target.pod_loss_guard.replace_missing(uid, missing)

    def check_losses_not_held(self) -> None:
        """Raise NotReadyYet while many pods of the target are missing at once."""
        self._target.pod_loss_guard.check_not_held(self._view.tenant.uid)

    async def prove_missing(self, since: float) -> None:
        """Return when the absence of a pod, read later than `since`, is proved.

        Raises NotReadyYet or KubeError, as `TargetCluster.prove_missing` does.
        """
        await self._target.prove_missing(since, self._view.tenant.uid)


def bind_network(
    target: TargetCluster, connection: TenantConnection
) -> Callable[[], TargetNetwork]:
    """Return the source of the addresses that replace the tenant's own for pods in a target."""

    def build() -> TargetNetwork:
        endpoint = connection.cluster.status.endpoint
        return TargetNetwork(endpoint=endpoint, resolvers=target.spec.network.resolvers)

    return build


def is_needed_in_target(
    kind: str, entry: Entry, view: TenantView, pods: PodIndex, super_pods: Store
) -> bool:
    """Return True if a target needs an object of the tenant.

    `pods` are the tenant's pods that are assigned to the target, and `super_pods` all of its pods.
    """
    if kind == "Namespace":
        return has_pods_here(entry.name, view, pods, super_pods) or pods.references.has_namespace(
            entry.name
        )
    if kind in view.copied_kinds:
        return has_pods_here(entry.namespace, view, pods, super_pods)
    if kind in ("ConfigMap", "Secret"):
        return view.is_referenced(kind, entry.namespace, entry.name)
    if kind == BUDGET:
        selector = disruption_budgets.get_selector(entry.decode())
        if selector is None:
            return False
        selector = label_selectors.translate_selector(selector, view.policy.metadata)
        return any(
            label_selectors.matches(selector, pod.labels)
            for pod in view.list_super_pods(entry.namespace)
        )
    return pods.has_namespace(entry.namespace)
