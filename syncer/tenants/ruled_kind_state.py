"""Kinds of SyncRules of one session: which are served on both sides, and whose copies must go.

Must not decide about single objects. Hazard: a kind counts as served only while both caches are
complete. Otherwise an object that is not listed yet counts as deleted.
"""

from syncer.clusters.super_cluster import SuperCluster
from syncer.tenants.connection import TenantConnection


class RuledKindState:
    """The state of the kinds that SyncRules declare. Targets have none."""

    def __init__(
        self, connection: TenantConnection, super_cluster: SuperCluster, *, is_home: bool
    ) -> None:
        """`is_home` is whether the super cluster is the home cluster."""
        self._connection = connection
        self._super_cluster = super_cluster
        self._is_home = is_home

    def is_served(self, kind: str) -> bool:
        """Return whether both caches of a kind are complete. Only a SyncRule's may not be."""
        if kind not in self._connection.ruled.down or not self._is_home:
            return True
        store = self._super_cluster.stores.get(kind)
        return self._connection.stores[kind].synced and store is not None and store.synced

    def is_removed(self, kind: str) -> bool:
        """Return whether copies of a kind must go, because its SyncRule no longer applies."""
        return self._is_home and self._connection.home_cluster.ruled.deletes_copies(kind)
