"""Scope of a session with the home cluster, which has every object of a tenant.

Must not know targets. Hazard: pods of other clusters are not this cluster's own, although their
tenant objects are in the same caches.
"""

from collections.abc import Callable, Iterable, Mapping

from kubeio.cache.store import Entry, Store
from syncer.model.keys import ASSIGNMENT, Key
from syncer.placement.assignments import Assignments


class HomeScope:
    """The home cluster of one tenant."""

    is_unreachable = False
    is_grant_withdrawn = False

    def __init__(
        self,
        assignments: Assignments,
        stores: Mapping[str, Store],
        name: str,
        build_key: Callable[[str, str, str], Key],
    ) -> None:
        """`stores` are the tenant's caches, and `name` is that of the super cluster.

        `build_key` returns a key of the session by kind, namespace and name.
        """
        self._assignments = assignments
        self._stores = stores
        self._name = name
        self._build_key = build_key

    def get_shown_node(self, node: str) -> str:
        """Return the tenant's name for the node of a super pod."""
        return node

    def get_status_node(self, node: str) -> str:
        """Return the node of a super pod as its status in the tenant may name it."""
        return node

    def list_shown_nodes(self) -> Store:
        """Return the tenant's cache of the nodes that are shown one by one."""
        return self._stores["Node"]

    def is_concerned(self, kind: str, entry: Entry) -> bool:  # noqa: ARG002
        """Return True, because the home cluster has every object."""
        return True

    def is_assigned_here(self, pod: Entry) -> bool:
        """Return True if the home cluster is the assigned cluster of a pod."""
        return self._assignments.get_cluster(pod) == self._name

    def iterate_unassigned(self) -> Iterable[Key]:
        """Yield the keys of the pods without an assigned cluster."""
        for entry in self._assignments.list_unassigned(self._stores["Pod"]):
            yield self._build_key(ASSIGNMENT, *entry.key)

    def request_namespace(self, space: Key) -> None:
        """Do nothing, because the home cluster has every namespace."""

    def prepare_start(self) -> None:
        """Do nothing, because an absent pod of the home cluster is no loss of a cluster."""

    def check_losses_not_held(self) -> None:
        """Return, because losses are held in targets only."""

    async def prove_missing(self, since: float) -> None:
        """Return, because in the home cluster the read itself is the proof."""
