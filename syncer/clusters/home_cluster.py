"""Client and caches of the home cluster, the super cluster that runs the tenants' control planes.

Owns the resources that no other super cluster has: tenants, their credentials and their policies.
Owns also the resources offered to tenants as a whole: addresses, classes, volumes, hosts. Must not
know sessions.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from kubeio.api.client import Client
from kubeio.cache.store import Entry, Store
from kubeio.loop_budget import LoopBudget
from syncer.clusters.home_ruled_caches import FOREIGN_SELECTOR, HomeRuledCaches
from syncer.clusters.ruled_caches import RuledCacheOptions
from syncer.clusters.super_cluster import (
    BY_TENANT_INDEX,
    SuperCluster,
    index_by_tenant,
    list_owned_resources,
)
from syncer.model.keys import HOME
from syncer.model.mirrored_kinds import MIRRORS
from syncer.model.tenant_view import DEFAULT_CLUSTER_DOMAIN
from syncer.rules.network import ingress_hosts
from syncer.rules.nodes.node_agents import (
    BY_NODE_INDEX,
    BY_POD_INDEX,
    BY_TARGET_INDEX,
    NodeAgents,
    index_by_node,
    index_by_pod,
    index_by_target,
)
from syncer.rules.quota.retained_volumes import RETAINED_INDEX, index_by_retained_root
from syncer.rules.registry import KINDS_BY_NAME, SyncedKind
from tenancy import names, wellknown
from tenancy.resources import (
    ENDPOINT_SLICES,
    EVENTS,
    INGRESSES,
    IP_ADDRESSES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SUPER_CLUSTERS,
    SYNC_RULES,
    TENANT_POLICIES,
    VIRTUAL_CLUSTERS,
)

_CREDENTIALS_SELECTOR = f"{wellknown.CREDENTIAL}={wellknown.CREDENTIAL_SYNCER}"
_CREDENTIAL_BACKOFF_SECONDS = 5.0
"""Longest retry delay in seconds for a tenant's kubeconfig. Until vc-manager has created the root
namespace, the server refuses the watch.
"""
_API_SLICES_SELECTOR = "kubernetes.io/service-name=kubernetes"
"""Slices of the Service by which pods reach the API server of the home cluster."""
_AGENTS_SELECTOR = f"app.kubernetes.io/name in ({wellknown.AGENT},{wellknown.TARGET_AGENT})"

BY_UID_INDEX = "uid"
"""Index of VirtualClusters by UID."""
BY_ROOT_INDEX = "root"
"""Index of VirtualClusters by root namespace."""


def index_by_uid(entry: Entry) -> Iterable[str]:
    """Return the index values of a VirtualCluster: its UID."""
    return (entry.uid,)


def index_by_root_namespace(entry: Entry) -> Iterable[str]:
    """Return the index values of a VirtualCluster: its root namespace. Decodes nothing."""
    try:
        return (names.build_root_namespace(entry.namespace, entry.name, entry.uid),)
    except names.InvalidNameError:
        return ()


class HomeCluster(SuperCluster):
    """The home cluster."""

    ruled: HomeRuledCaches

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        domain: str = DEFAULT_CLUSTER_DOMAIN,
        loop_budget: LoopBudget | None = None,
        kinds: Mapping[str, SyncedKind] = KINDS_BY_NAME,
    ) -> None:
        """`namespace` is that of the product's components. `domain` is the cluster's DNS domain."""
        self.sync_rules = Store()
        super().__init__(
            client,
            name=HOME,
            owned=list_owned_resources(kinds),
            domain=domain,
            loop_budget=loop_budget,
            kinds=kinds,
            rules=self.sync_rules,
        )
        self.namespace = namespace
        self.other_ingresses = Store({ingress_hosts.BY_HOST_INDEX: ingress_hosts.index_by_host})
        self.addresses = Store()
        self.api_slices = Store()
        self.cidr_tracker.add_api_slices(self.api_slices)
        self.agent_pods = Store({BY_NODE_INDEX: index_by_node, BY_TARGET_INDEX: index_by_target})
        self.agent_events = Store({BY_POD_INDEX: index_by_pod})
        self.agents = NodeAgents(self.agent_pods, self.agent_events)
        self.virtual_clusters = Store(
            {BY_UID_INDEX: index_by_uid, BY_ROOT_INDEX: index_by_root_namespace}
        )
        self.credentials = Store()
        self.policies = Store()
        self.super_clusters = Store()
        self.volumes = Store(
            {BY_TENANT_INDEX: index_by_tenant, RETAINED_INDEX: index_by_retained_root}
        )
        self.classes: Mapping[str, Store] = {mirror.resource.kind: Store() for mirror in MIRRORS}
        self.credential_watches = self._create_scoped_reflector(
            SECRETS,
            self.credentials,
            max_backoff_seconds=_CREDENTIAL_BACKOFF_SECONDS,
            label_selector=_CREDENTIALS_SELECTOR,
        )
        self.virtual_clusters.subscribe(self._watch_credential_of)
        follow = self._create_reflector
        self.reflectors = (
            *self.reflectors,
            follow(INGRESSES, self.other_ingresses, label_selector=FOREIGN_SELECTOR),
            follow(IP_ADDRESSES, self.addresses),
            follow(
                ENDPOINT_SLICES,
                self.api_slices,
                namespace="default",
                label_selector=_API_SLICES_SELECTOR,
            ),
            follow(PODS, self.agent_pods, namespace=namespace, label_selector=_AGENTS_SELECTOR),
            follow(
                EVENTS,
                self.agent_events,
                namespace=namespace,
                field_selector=f"source={wellknown.AGENT}",
                has_bookmarks=False,
            ),
            follow(VIRTUAL_CLUSTERS, self.virtual_clusters),
            self.credential_watches,
            follow(TENANT_POLICIES, self.policies),
            follow(SUPER_CLUSTERS, self.super_clusters),
            follow(SYNC_RULES, self.sync_rules),
            follow(PERSISTENT_VOLUMES, self.volumes),
            *(
                self._create_crd_reflector(mirror.resource, self.classes[mirror.resource.kind])
                if mirror.needs_crd
                else follow(mirror.resource, self.classes[mirror.resource.kind])
                for mirror in MIRRORS
            ),
        )

    def _create_ruled_caches(self, rules: Store, options: RuledCacheOptions) -> HomeRuledCaches:
        return HomeRuledCaches(self.client, rules, self.stores, options)

    def _watch_credential_of(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        """Watch the syncer's kubeconfig of a tenant while its VirtualCluster exists.

        A change of the VirtualCluster retries a refused watch, because vc-manager may have written
        its RoleBinding.
        """
        for entry, follow in (
            (old if new is None or (old is not None and old.uid != new.uid) else None, False),
            (new, True),
        ):
            if entry is None:
                continue
            try:
                root = names.build_root_namespace(entry.namespace, entry.name, entry.uid)
            except names.InvalidNameError:
                continue  # vc-manager reports it, and creates no root namespace
            call = self.credential_watches.start if follow else self.credential_watches.stop
            call(root, wellknown.SYNCER_KUBECONFIG)

    @property
    def builder_stores(self) -> Mapping[str, Store]:
        """Return the caches that builders may read."""
        read = (INGRESSES.kind, PERSISTENT_VOLUME_CLAIMS.kind)
        return {
            **super().builder_stores,
            **self.classes,
            **{kind: self.stores[kind] for kind in read},
            PERSISTENT_VOLUMES.kind: self.volumes,
            ingress_hosts.FOREIGN_INGRESS: self.other_ingresses,
        }

    def list_written_for(self, tenant: str) -> Iterable[Entry]:
        """Yield every cached super object of a tenant."""
        return chain(super().list_written_for(tenant), self.volumes.index(BY_TENANT_INDEX, tenant))
