"""What pure code may know of one tenant: a read-only look into its caches.

Owns the lookups that builders and decisions share. Must not hold a client. Hazard: a look before
the caches are complete would call things absent that are merely not there yet, so sessions hand a
view out only once they are ready.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Any, NamedTuple

from kubeio.cache.store import Entry, Store
from syncer.model import mirrored_kinds, super_cidrs
from syncer.model.references import Ref, References
from syncer.model.super_cidrs import Ranges
from syncer.rules.configuration import cache_transforms
from syncer.rules.pods import environment
from syncer.rules.pods.dns import Resolver
from syncer.rules.pods.environment import MASTER, Variables
from tenancy import names, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE, TenantPolicySpec
from tenancy.specs import VirtualClusterSpec

Slice = IPv4Network | IPv6Network

DNS_SERVICE = ("kube-system", "kube-dns")
METRICS_SERVICE = ("kube-system", "metrics-server")
DOMAIN = "cluster.local"
"""Cluster domain of a super cluster of which nothing else is said."""
DNS_OFFSET = 10
"""The tenant's DNS service has the tenth address of its slice."""


class Away(NamedTuple):
    """What pods have in a target, where the tenant's own addresses lead nowhere."""

    endpoint: str
    """URL of the tenant's API, as the world reaches it."""
    resolvers: tuple[str, ...]
    """Addresses of what resolves names there; none: the nodes' own, where the policy lets them."""


class Linked:
    """The variables of the namespace whose pods were made last, as a burst makes them in a row."""

    def __init__(self) -> None:
        """Know none."""
        self._asked: tuple[str, bool] = ("", False)
        self._services: list[Entry] = []
        self._variables: Variables = {}

    def of(self, namespace: str, services: list[Entry], *, links: bool) -> Variables:
        """Return what these Services put into the pods of a namespace."""
        # Entries are never changed: the same ones say the same.
        if (namespace, links) != self._asked or services != self._services:
            decoded = [entry.decode() for entry in services]
            self._variables = environment.service_variables(decoded, namespace, links=links)
            self._asked, self._services = (namespace, links), services
        return self._variables


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantView:
    """One tenant as builders see it."""

    tenant: Tenant
    spec: VirtualClusterSpec
    slice: Slice
    """The tenant's part of the super cluster's service range."""
    stores: Mapping[str, Store]
    """The tenant's caches by kind."""
    references: References = field(default_factory=References)
    linked: Linked = field(default_factory=Linked)
    policy: TenantPolicySpec = BASELINE
    below: Mapping[str, Store] = field(default_factory=dict)
    """Caches of the super cluster that builders read: classes, claims, nodes, pods and volumes."""
    super_domain: str = DOMAIN
    """The super cluster's cluster domain."""
    ranges: Callable[[], Ranges] = ranges.unknown
    """The addresses of the super cluster itself, as they are now."""
    away: Callable[[], Away] | None = None
    """What is different in a target; None at home."""

    def super_namespace(self, tenant_namespace: str) -> str:
        """Return where a tenant namespace is mapped to."""
        return names.super_namespace(self.tenant.root, self.tenant.uid, tenant_namespace)

    def is_provided(self, namespace: str, name: str) -> bool:
        """Tell whether a Service is backed by one of the root namespace and never goes down."""
        provided = {
            MASTER: True,
            DNS_SERVICE: self.spec.dns == "managed",
            METRICS_SERVICE: self.spec.metrics == "managed",
        }
        return provided.get((namespace, name), False)

    def is_referenced(self, kind: str, namespace: str, name: str) -> bool:
        """Tell whether any pod or Ingress of the tenant needs an object."""
        return self.references.is_used(namespace, Ref(kind, name))

    def has(self, kind: str, name: str) -> bool:
        """Tell whether the super cluster has a class, shown or not."""
        return self._class(kind, name) is not None

    def shows(self, kind: str, name: str) -> bool:
        """Tell whether the policy shows the tenant a class that the super cluster has."""
        entry = self._class(kind, name)
        return entry is not None and mirrored_kinds.is_selected(
            mirrored_kinds.BY_KIND[kind], self.policy.sync, entry
        )

    def _class(self, kind: str, name: str) -> Entry | None:
        store = self.below.get(kind)
        return store.get("", name) if store is not None else None

    def resolver(self) -> Resolver:
        """Return what the tenant's pods resolve names with."""
        if self.away is not None:
            servers = self.away().resolvers
            return Resolver(
                server=servers[0] if servers else "",
                others=servers[1:],
                domain=self.spec.cluster_domain,
                allows_node_dns=self.policy.network.node_dns == "Allow",
            )
        service = self.stores["Service"].get(*DNS_SERVICE)
        server = str(self.slice[DNS_OFFSET]) if self.spec.dns == "managed" else ""
        if service is not None:
            server = (service.decode().get("spec") or {}).get("clusterIP") or server
        return Resolver(
            server="" if server == "None" else server,
            domain=self.spec.cluster_domain,
            allows_node_dns=self.spec.dns != "managed" or self.policy.network.node_dns == "Allow",
        )

    def service_variables(self, namespace: str, *, links: bool) -> Variables:
        """Return what the Services of a namespace put into its pods; not to be changed.

        With `links` false that is the tenant's API alone.
        """
        store = self.stores["Service"]
        master = store.get(*MASTER)
        own = [] if master is None else [master]
        if self.away is not None:
            reached = self.away().endpoint
            services = [each for it in own for each in environment.reached_at(it.decode(), reached)]
            return environment.service_variables(services, namespace, links=False)
        if links:
            own += store.list(namespace)
        return self.linked.of(namespace, own, links=links)

    def namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of each tenant namespace."""
        return {entry.name: entry.labels for entry in self.stores["Namespace"].list()}

    def super_pods(self, namespace: str) -> list[Entry]:
        """Return the twins of the pods of a tenant namespace."""
        store = self.below.get("Pod")
        return store.list(self.super_namespace(namespace)) if store is not None else []

    def nodes(self) -> Collection[str]:
        """Return the super nodes that the tenant is shown.

        It can make a node of any name itself, but not one that records the super node's UID.
        """
        if "Node" not in self.below:
            return ()
        return {entry.name for entry in self.stores["Node"].list() if self.has_node(entry.name)}

    def has_node(self, name: str) -> bool:
        """Tell whether the tenant is shown a super node, and not an earlier one of its name."""
        node, shown = self.below["Node"].get("", name), self.stores["Node"].get("", name)
        return (
            node is not None
            and shown is not None
            and shown.annotations.get(wellknown.UID) == node.uid
        )

    def provided_variables(
        self, namespace: str, container: Mapping[str, Any], take: Callable[[int], None]
    ) -> Collection[str]:
        """Return the variables that the envFrom sources of a container bring now.

        `take` is asked before so many are looked at.
        """
        found: set[str] = set()
        for source in container.get("envFrom") or ():
            for field_name, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                ref = source.get(field_name) or {}
                entry = self._named(kind, namespace, ref.get("name", ""))
                if entry is not None:
                    keys = list(cache_transforms.variables(entry.decode()))
                    take(len(keys))
                    found |= {f"{source.get('prefix') or ''}{key}" for key in keys}
        return found

    def _named(self, kind: str, namespace: str, name: str) -> Entry | None:
        # A builder has put the root CA's super name into its copy already.
        return self.stores[kind].get(
            namespace, names.TENANT_ROOT_CA if name == names.SUPER_ROOT_CA else name
        )
