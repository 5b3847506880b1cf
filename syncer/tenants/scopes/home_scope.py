"""Scope of a session with the home cluster, which has every object of a tenant that stays there.

Must not know targets. Hazard: pods of other clusters are not this cluster's own, although their
tenant objects are in the same caches.
"""

from collections.abc import Callable, Iterable

from kubeio.cache.store import Entry, Store
from syncer.model.keys import ASSIGNMENT, HOME, Key
from syncer.model.pod_index import PodIndex
from syncer.model.tenant_view import TenantView
from syncer.tenants.connection import TenantConnection
from syncer.tenants.scopes.namespace_pods import has_pods_here
from syncer.tenants.twins import Twins


class HomeScope:
    """The home cluster of one tenant."""

    is_unreachable = False
    is_grant_withdrawn = False

    def __init__(
        self,
        connection: TenantConnection,
        build_key: Callable[[str, str, str], Key],
        *,
        view: TenantView,
        pods: PodIndex,
        twins: Twins,
    ) -> None:
        """`build_key` returns a key of the session by kind, namespace and name.

        `pods` are the tenant's pods that are assigned to the home cluster.
        """
        self._connection = connection
        self._build_key = build_key
        self._view = view
        self._pods = pods
        self._twins = twins

    def get_shown_node(self, node: str) -> str:
        """Return the tenant's name for the node of a super pod."""
        return node

    def get_status_node(self, node: str) -> str:
        """Return the node of a super pod as its status in the tenant may name it."""
        return node

    def list_shown_nodes(self) -> Store:
        """Return the tenant's cache of the nodes that are shown one by one."""
        return self._view.stores["Node"]

    def is_concerned(self, kind: str, entry: Entry) -> bool:
        """Return True if the home cluster needs an object of the tenant.

        Only copies that follow pods may not be needed here.
        """
        is_fixed = not self._connection.assignments.is_split
        if is_fixed or kind not in self._connection.ruled.pod_followers:
            return True
        return has_pods_here(entry.namespace, self._view, self._pods, self._twins.get_store("Pod"))

    def is_assigned_here(self, pod: Entry) -> bool:
        """Return True if the home cluster is the assigned cluster of a pod."""
        return self._connection.assignments.get_cluster(pod) == HOME

    def iterate_unassigned(self) -> Iterable[Key]:
        """Yield the keys of the pods without an assigned cluster."""
        for entry in self._connection.assignments.list_unassigned(self._view.stores["Pod"]):
            yield self._build_key(ASSIGNMENT, *entry.key)

    def request_namespace(self, space: Key) -> None:
        """Do nothing, because the home cluster has every namespace."""

    def prepare_start(self) -> None:
        """Do nothing, because an absent pod of the home cluster is no loss of a cluster."""

    def check_losses_not_held(self) -> None:
        """Return, because losses are held in targets only."""

    async def prove_missing(self, since: float) -> None:
        """Return, because in the home cluster the read itself is the proof."""
