"""Client and caches of the home cluster, the super cluster that runs the tenants' control planes.

Owns the resources that no other super cluster has: tenants, their credentials and their policies.
Owns also the resources offered to tenants as a whole: addresses, classes, volumes, hosts. Must not
know sessions.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from kubeio.api.client import Client
from kubeio.cache.crd_reflector import OptionalReflector
from kubeio.cache.store import Entry, Store
from kubeio.loop_budget import Turns
from syncer.clusters.super_cluster import BY_TENANT, OWNED, SuperCluster, tenant_of
from syncer.model.keys import HOME
from syncer.model.mirrored_kinds import MIRRORS, Mirror
from syncer.model.tenant_view import DOMAIN
from syncer.rules.network import ingress_hosts
from syncer.rules.nodes.node_agents import (
    BY_NODE,
    BY_POD,
    BY_TARGET,
    Agents,
    node_of,
    pod_of,
    registration_of,
)
from tenancy import wellknown
from tenancy.resources import (
    EVENTS,
    INGRESSES,
    IP_ADDRESSES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SUPER_CLUSTERS,
    TENANT_POLICIES,
    VIRTUAL_CLUSTERS,
)

_OTHERS = f"!{wellknown.CONTROLLED}"
_CREDENTIALS = f"{wellknown.CREDENTIAL}={wellknown.CREDENTIAL_SYNCER}"
_AGENTS = f"app.kubernetes.io/name in ({wellknown.AGENT},{wellknown.TARGET_AGENT})"


class Home(SuperCluster):
    """The home cluster."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        domain: str = DOMAIN,
        turns: Turns | None = None,
    ) -> None:
        """`namespace` is that of the product's components. `domain` is the cluster's DNS domain."""
        super().__init__(client, name=HOME, owned=OWNED, domain=domain, turns=turns)
        self.namespace = namespace
        self.other_ingresses = Store({ingress_hosts.BY_HOST: ingress_hosts.hosts_named})
        self.addresses = Store()
        self.agent_pods = Store({BY_NODE: node_of, BY_TARGET: registration_of})
        self.agent_events = Store({BY_POD: pod_of})
        self.agents = Agents(self.agent_pods, self.agent_events)
        self.virtual_clusters = Store()
        self.credentials = Store()
        self.policies = Store()
        self.super_clusters = Store()
        self.volumes = Store({BY_TENANT: tenant_of})
        self.classes: Mapping[str, Store] = {mirror.resource.kind: Store() for mirror in MIRRORS}
        follow = self._follow
        self.reflectors = (
            *self.reflectors,
            follow(INGRESSES, self.other_ingresses, label_selector=_OTHERS),
            follow(IP_ADDRESSES, self.addresses),
            follow(PODS, self.agent_pods, namespace=namespace, label_selector=_AGENTS),
            follow(
                EVENTS,
                self.agent_events,
                namespace=namespace,
                field_selector=f"source={wellknown.AGENT}",
                has_bookmarks=False,
            ),
            follow(VIRTUAL_CLUSTERS, self.virtual_clusters),
            follow(SECRETS, self.credentials, label_selector=_CREDENTIALS),
            follow(TENANT_POLICIES, self.policies),
            follow(SUPER_CLUSTERS, self.super_clusters),
            follow(PERSISTENT_VOLUMES, self.volumes),
            *(
                self._follow_optional(mirror)
                if mirror.optional
                else follow(mirror.resource, self.classes[mirror.resource.kind])
                for mirror in MIRRORS
            ),
        )

    def _follow_optional(self, mirror: Mirror) -> OptionalReflector:
        return OptionalReflector(
            self.client,
            mirror.resource,
            self.classes[mirror.resource.kind],
            side="super",
            turns=self.turns,
            is_turn_over=self._is_over,
        )

    @property
    def read_by_builders(self) -> Mapping[str, Store]:
        """Return the caches that builders may read."""
        read = (INGRESSES.kind, PERSISTENT_VOLUME_CLAIMS.kind)
        return {
            **super().read_by_builders,
            **self.classes,
            **{kind: self.stores[kind] for kind in read},
            PERSISTENT_VOLUMES.kind: self.volumes,
            ingress_hosts.OTHERS: self.other_ingresses,
        }

    def written_for(self, tenant: str) -> Iterable[Entry]:
        """Yield every cached super object of a tenant."""
        return chain(super().written_for(tenant), self.volumes.index(BY_TENANT, tenant))
