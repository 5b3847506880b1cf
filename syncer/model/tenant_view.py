"""What pure code may know of one tenant: a read-only look into its caches.

Owns the lookups that builders and decisions share. Must not hold a client. Hazard: a look before
the caches are complete would call things absent that are merely not there yet, so sessions hand a
view out only once they are ready.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

from kubeio.cache.store import Entry, Store
from syncer.model import mirrored_kinds
from syncer.model.references import Ref, References
from syncer.model.super_cidrs import Ranges, unknown
from tenancy import names, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE, TenantPolicySpec
from tenancy.specs import VirtualClusterSpec

Slice = IPv4Network | IPv6Network

MASTER = ("default", "kubernetes")
"""The Service of the tenant's API."""
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
    policy: TenantPolicySpec = BASELINE
    below: Mapping[str, Store] = field(default_factory=dict)
    """Caches of the super cluster that builders read: classes, claims, nodes, pods and volumes."""
    super_domain: str = DOMAIN
    """The super cluster's cluster domain."""
    ranges: Callable[[], Ranges] = unknown
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
