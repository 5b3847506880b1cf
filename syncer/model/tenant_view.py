"""Read-only view of one tenant's caches, for pure code.

Owns the lookups that builders and decisions share. Must not hold a client.

Hazard: a session must provide the view only when its caches are complete. Otherwise objects that
are not received yet count as absent.
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
"""Cluster domain of a super cluster without a configured one."""
DNS_OFFSET = 10
"""Offset of the tenant's DNS service in its service range: the tenth address."""


class Away(NamedTuple):
    """Settings of pods in a target, in which the tenant's own addresses are not routed."""

    endpoint: str
    """URL of the tenant's API, as it is reachable from outside."""
    resolvers: tuple[str, ...]
    """Addresses of the DNS resolvers in the target. If empty, pods use the resolvers of the nodes,
    provided the policy allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantView:
    """One tenant, as builders see it."""

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
    """Return the current address ranges of the super cluster itself."""
    away: Callable[[], Away] | None = None
    """Return the settings of a target. None for the home cluster."""

    def super_namespace(self, tenant_namespace: str) -> str:
        """Return the super namespace of a tenant namespace."""
        return names.super_namespace(self.tenant.root, self.tenant.uid, tenant_namespace)

    def is_provided(self, namespace: str, name: str) -> bool:
        """Return whether a Service of the root namespace backs this one, which is never synced."""
        provided = {
            MASTER: True,
            DNS_SERVICE: self.spec.dns == "managed",
            METRICS_SERVICE: self.spec.metrics == "managed",
        }
        return provided.get((namespace, name), False)

    def is_referenced(self, kind: str, namespace: str, name: str) -> bool:
        """Return whether any pod or Ingress of the tenant needs an object."""
        return self.references.is_used(namespace, Ref(kind, name))

    def has(self, kind: str, name: str) -> bool:
        """Return whether the super cluster has a class, shown or not."""
        return self._class(kind, name) is not None

    def shows(self, kind: str, name: str) -> bool:
        """Return whether the policy shows the tenant a class that the super cluster has."""
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

        The tenant can create a node of any name itself, but that node does not record the super
        node's UID.
        """
        if "Node" not in self.below:
            return ()
        return {entry.name for entry in self.stores["Node"].list() if self.has_node(entry.name)}

    def has_node(self, name: str) -> bool:
        """Return whether the tenant is shown this super node, not an earlier one of its name."""
        node, shown = self.below["Node"].get("", name), self.stores["Node"].get("", name)
        return (
            node is not None
            and shown is not None
            and shown.annotations.get(wellknown.UID) == node.uid
        )
