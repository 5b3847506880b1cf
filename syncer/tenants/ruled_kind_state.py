"""Kinds of SyncRules of one session: which are served on both sides, and whose copies must go.

Must not decide about single objects. Hazard: a kind counts as served only while both caches are
complete. Otherwise an object that is not listed yet counts as deleted.
"""

from collections.abc import Callable, Collection, Mapping

from kubeio.cache.store import Store


class RuledKindState:
    """The state of the kinds that SyncRules declare. Targets have those that follow pods."""

    def __init__(
        self,
        down: Collection[str],
        *,
        stores: Mapping[str, Store],
        super_stores: Mapping[str, Store],
        deletes_copies: Callable[[str], bool],
    ) -> None:
        """`down` are the kinds that are synced to the super cluster, and `stores` the tenant's.

        `deletes_copies` returns whether the SyncRule of a kind no longer applies.
        """
        self._down = down
        self._stores = stores
        self._super_stores = super_stores
        self._deletes_copies = deletes_copies

    def is_served(self, kind: str) -> bool:
        """Return whether both caches of a kind are complete. Only a SyncRule's may not be."""
        if kind not in self._down:
            return True
        store = self._super_stores.get(kind)
        return self._stores[kind].synced and store is not None and store.synced

    def is_removed(self, kind: str) -> bool:
        """Return whether copies of a kind must go, because its SyncRule no longer applies."""
        return self._deletes_copies(kind)
