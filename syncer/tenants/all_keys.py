"""Keys of one tenant that may have work, from the caches of both sides.

Neither side alone has all keys. Must not queue or decide. Hazard: every key with work must be
listed here. A missing key is not reconciled after a restart or by the resync, and its remains in
the super cluster stay for good.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from kubeio.cache.store import Entry
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.super_cluster import BY_TENANT_INDEX, SuperCluster
from syncer.model.keys import ADDRESS, NETWORK_CRD, NODE, QUOTA_REPORT, TENANT_STATUS, VOLUME, Key
from syncer.model.mirrored_kinds import MIRRORS
from syncer.model.pod_index import PodIndex
from syncer.model.tenant_view import TenantView
from syncer.rules.custom.ruled_kinds import RuledMirror
from syncer.rules.network.cluster_ips import iterate_addresses_in_range
from syncer.rules.placement import target_node
from syncer.rules.registry import SyncedKind
from syncer.rules.storage import claims, volumes
from syncer.tenants.cluster_scope import ClusterScope
from syncer.tenants.memory.lost_twins import LostTwins
from tenancy import wellknown


class AllKeys:
    """Lists the keys of a tenant on both sides."""

    def __init__(
        self,
        view: TenantView,
        pods: PodIndex,
        super_cluster: SuperCluster,
        home: HomeCluster,
        *,
        kinds: Mapping[str, SyncedKind],
        mirrors: Mapping[str, RuledMirror],
        scope: ClusterScope,
        lost_twins: LostTwins,
    ) -> None:
        """`kinds` and `mirrors` are those of the session, with those of SyncRules."""
        self._kinds = kinds
        self._mirrors = mirrors
        self._scope = scope
        self._lost_twins = lost_twins
        self._view = view
        self._pods = pods
        self._super_cluster = super_cluster
        self._home = home

    def list_keys(self) -> Collection[Key]:
        """Return every key that may have work, each once. Most are known on both sides."""
        keys = chain(
            self.iterate_keys(),
            self._lost_twins.list_vanished_keys(),
            self._scope.iterate_unassigned(),
        )
        return dict.fromkeys(keys)

    def iterate_keys(self) -> Iterator[Key]:
        """Yield every key that may have work. Many keys occur twice."""
        view, below = self._view, self._super_cluster
        is_home = below is self._home
        for kind in list(below.stores):
            for entry in view.stores[kind].list() if kind in self._kinds else ():
                if is_home or self._is_concerned(kind, entry):
                    yield self._build_key(kind, entry.namespace, entry.name)
        for kind, entry in below.iterate_owned(view.tenant.uid):
            key = below.get_key(kind, entry)
            if key is not None:
                yield key
        if is_home:
            yield from self._iterate_home_keys()
        else:
            yield self._build_key(NODE, "", target_node.build_node_name(below.name))

    def _is_concerned(self, kind: str, entry: Entry) -> bool:
        """Return whether a target needs an object of the tenant."""
        if kind == "Pod":
            return self._pods.has(*entry.key) or self._scope.is_assigned_here(entry)
        return self._scope.is_concerned(kind, entry)

    def _iterate_home_keys(self) -> Iterator[Key]:
        """Yield the keys that exist in the home cluster only."""
        view, below = self._view, self._home
        exposed = (entry.name for entry in below.nodes.list() if view.exposes_all_nodes)
        shown = (
            entry.name
            for entry in view.stores[NODE].list()
            if wellknown.SUPER_CLUSTER not in entry.annotations
        )
        for name in {*self._pods.list_nodes(), *shown, *exposed}:
            yield self._build_key(NODE, "", name)
        for store in (view.stores["IPAddress"], below.addresses):
            for entry in iterate_addresses_in_range(store, view.service_range):
                yield self._build_key(ADDRESS, "", entry.name)
        for mirror in MIRRORS:
            yield from self.list_mirror_keys(mirror.resource.kind)
        for kind in self._mirrors:
            yield from self._list_ruled_mirror_keys(kind)
        for name in self._list_volume_names():
            yield self._build_key(VOLUME, "", name)
        for kind in (each for each, row in below.kinds.items() if row.needs_crd):
            yield self._build_key(NETWORK_CRD, "", kind)
        yield self._build_key(TENANT_STATUS, "", "")
        yield self._build_key(QUOTA_REPORT, "", "")

    def list_mirror_keys(self, kind: str) -> Iterable[Key]:
        """Yield the keys of a mirrored kind."""
        if self._super_cluster is not self._home:
            return
        for store in (self._view.stores[kind], self._home.classes[kind]):
            for entry in store.list():
                yield self._build_key(kind, "", entry.name)

    def list_served_keys(self, kind: str) -> Iterable[Key]:
        """Yield the keys of a kind of a CRD that one of the servers has begun to serve."""
        below = self._super_cluster
        if kind in self._mirrors:
            yield from self._list_ruled_mirror_keys(kind)
        elif kind not in self._kinds:
            yield from self.list_mirror_keys(kind)
        elif kind in below.stores:
            for entry in self._view.stores[kind].list():
                yield self._build_key(kind, entry.namespace, entry.name)
            for entry in below.list_owned(kind, self._view.tenant.uid):
                key = below.get_key(kind, entry)
                if key is not None:
                    yield key

    def _list_ruled_mirror_keys(self, kind: str) -> Iterable[Key]:
        """Yield the keys of a kind that a SyncRule shows. The namespace is the tenant's."""
        for entry in self._view.stores[kind].list():
            yield self._build_key(kind, entry.namespace, entry.name)
        for entry in self._list_sources(self._mirrors[kind]):
            namespace = self._mirrors[kind].get_shown_namespace(entry.namespace)
            if namespace is not None:
                yield self._build_key(kind, namespace, entry.name)

    def _list_sources(self, mirror: RuledMirror) -> Iterator[Entry]:
        """Yield the super objects that a rule may show the tenant, and few others."""
        kind, caches = mirror.rule.resource.kind, self._home.ruled
        if mirror.rule.spec.mirror_owner is None:
            yield from caches.list_sources(kind)
            return
        for space in self._view.stores["Namespace"].list():
            below = self._view.get_super_namespace(space.name)
            yield from caches.list_owned_sources(kind, below)

    def _list_volume_names(self) -> set[str]:
        """Return the tenant's names of all volumes that concern the tenant."""
        uid = self._view.tenant.uid
        found = {entry.name for entry in self._view.stores[VOLUME].list()}
        own = self._home.volumes.index(BY_TENANT_INDEX, uid)
        found |= {entry.annotations.get(wellknown.VOLUME, "") for entry in own}
        claims_below = self._home.stores[claims.CLAIM].index(BY_TENANT_INDEX, uid)
        found |= {volumes.get_recorded_volume_name(entry) for entry in claims_below}
        return found - {""}

    def _build_key(self, kind: str, namespace: str, name: str) -> Key:
        return Key(self._view.tenant.uid, self._super_cluster.name, kind, namespace, name)
