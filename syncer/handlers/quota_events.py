"""Handlers for watch events of a super cluster that charge and release the quotas of tenants.

Owns the subscriptions. They are independent of sessions, because objects count while a tenant is
not connected. Must not queue keys: the accountants wake the keys that wait.

Hazard: a claim that leaves the cache must be followed by the charge of its volume at once.
Otherwise a tenant leaves its storage quota with the reclaim policy Retain.
"""

from functools import partial

from kubeio.cache.store import Entry, Store
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.super_cluster import SuperCluster
from syncer.model.unstructured import as_mapping
from syncer.rules.quota.usage import COUNTED_KINDS
from syncer.tenants.memory.tenant_quotas import CLAIM, QuotaAccountants


class QuotaEvents:
    """Routes events of a super cluster to the accountants."""

    def __init__(self, super_cluster: SuperCluster, accountants: QuotaAccountants) -> None:
        self._super_cluster = super_cluster
        self._accountants = accountants

    def subscribe(self) -> None:
        """Subscribe to every cache whose objects a quota may limit."""
        for kind, store in self._super_cluster.stores.items():
            self._subscribe_kind(kind, store)
        self._super_cluster.ruled.subscribe_added(self._subscribe_kind)
        if isinstance(self._super_cluster, HomeCluster):
            self._super_cluster.volumes.subscribe(self._handle_volume)

    def _subscribe_kind(self, kind: str, store: Store) -> None:
        """Subscribe to the cache of a counted kind. That of a SyncRule begins while it is empty."""
        if kind in COUNTED_KINDS:
            store.subscribe(partial(self._handle_object, kind))

    def _handle_object(self, kind: str, old: Entry | None, new: Entry | None, _: bool) -> None:
        if kind not in self._accountants.counted_kinds:
            return
        before, after = (
            self._super_cluster.get_key(kind, entry) if entry is not None else None
            for entry in (old, new)
        )
        if kind == CLAIM and isinstance(self._super_cluster, HomeCluster):
            self._observe_volume_of(old, self._super_cluster)
        if before is not None and before != after:
            self._accountants.observe(kind, before, None)
        if after is not None:
            self._accountants.observe(kind, after, new, old if before == after else None)
        if kind == CLAIM and isinstance(self._super_cluster, HomeCluster):
            self._observe_volume_of(new, self._super_cluster)

    def _observe_volume_of(self, claim: Entry | None, home: HomeCluster) -> None:
        """Compare the volume of a claim. The cache of claims shows the new state already."""
        spec = as_mapping(claim.decode().get("spec")) if claim is not None else {}
        name = str(spec.get("volumeName") or "")
        volume = home.volumes.get("", name) if name else None
        if volume is not None:
            self._accountants.observe_volume(volume, home.stores[CLAIM])

    def _handle_volume(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        home = self._super_cluster
        entry = new or old
        if entry is not None and isinstance(home, HomeCluster):
            self._accountants.observe_volume(entry, home.stores[CLAIM], is_deleted=new is None)
