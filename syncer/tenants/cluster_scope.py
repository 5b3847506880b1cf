"""Interface of a session's scope: what a super cluster has of a tenant, and what may be concluded.

Each kind of super cluster has one implementation. Must not hold state of a tenant.
"""

from collections.abc import Iterable
from typing import Protocol

from kubeio.cache.store import Entry, Store
from syncer.model.keys import Key


class ClusterScope(Protocol):
    """Differences between the home cluster and a target."""

    @property
    def is_unreachable(self) -> bool:
        """Whether the super cluster is a target that does not answer."""

    @property
    def is_grant_withdrawn(self) -> bool:
        """Whether the objects of the tenant must leave the super cluster."""

    def get_shown_node(self, node: str) -> str:
        """Return the tenant's name for the node of a super pod."""

    def get_status_node(self, node: str) -> str:
        """Return the node of a super pod as its status in the tenant may name it."""

    def list_shown_nodes(self) -> Store:
        """Return the tenant's cache of the nodes that are shown one by one."""

    def is_concerned(self, kind: str, entry: Entry) -> bool:
        """Return True if this super cluster needs an object of the tenant, which is no pod."""

    def is_assigned_here(self, pod: Entry) -> bool:
        """Return True if this super cluster is the assigned cluster of a pod."""

    def iterate_unassigned(self) -> Iterable[Key]:
        """Yield the keys of the pods without an assigned cluster."""

    def request_namespace(self, space: Key) -> None:
        """Queue a namespace that a key waits for, if nothing else queues it."""

    def prepare_start(self) -> None:
        """Record what the complete caches show, before any conclusion."""

    def check_losses_not_held(self) -> None:
        """Raise NotReadyYet while too many pods are missing at once, which only a target checks."""

    async def prove_missing(self, since: float) -> None:
        """Return when the absence of a pod, read later than `since`, is proved."""
