"""Read-only view of one tenant's caches, for pure code.

Owns the lookups that builders and decisions share. Must not hold a client.

Hazard: a session must provide the view only when its caches are complete. Otherwise objects that
are not received yet count as absent.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

from kubeio import Object
from kubeio.cache.store import Entry, Store
from syncer.model import mirrored_kinds
from syncer.model.references import ObjectReference, ReferenceIndex
from syncer.model.super_cidrs import CidrAddress, SuperCidrs, return_no_cidrs
from syncer.model.unstructured import as_mapping
from tenancy import names, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.resources import Resource
from tenancy.specs import VirtualClusterSpec

ServiceCidr = IPv4Network | IPv6Network

API_SERVICE = ("default", "kubernetes")
"""The Service of the tenant's API."""
DNS_SERVICE = ("kube-system", "kube-dns")
METRICS_SERVICE = ("kube-system", "metrics-server")
DEFAULT_CLUSTER_DOMAIN = "cluster.local"
"""Cluster domain of a super cluster without a configured one."""
DNS_OFFSET = 10
"""Offset of the tenant's DNS service in its service range: the tenth address."""


def return_no_range() -> ServiceCidr | None:
    """Return None, because the super cluster's service range is not known."""
    return None


def return_no_stores() -> Mapping[str, Store]:
    """Return no stores, because no SyncRule has host names."""
    return {}


def return_no_entry(_: str, __: str, ___: str) -> Entry | None:
    """Return None, because no SyncRule shows an object."""
    return None


def return_false(_: CidrAddress) -> bool:
    """Return False, because no pod is known."""
    return False


class TargetNetwork(NamedTuple):
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
    service_range: ServiceCidr
    """The tenant's part of the super cluster's service range."""
    stores: Mapping[str, Store]
    """The tenant's caches by kind."""
    references: ReferenceIndex = field(default_factory=ReferenceIndex)
    policy: TenantPolicySpec = BASELINE_POLICY
    super_stores: Mapping[str, Store] = field(default_factory=dict)
    """Caches of the super cluster that builders read: classes, claims, nodes, pods and volumes."""
    copied_kinds: Mapping[str, Resource] = field(default_factory=dict)
    """Kinds of SyncRules with the direction Down, by name. A target has those that follow pods."""
    super_domain: str = DEFAULT_CLUSTER_DOMAIN
    """The super cluster's cluster domain."""
    get_super_cidrs: Callable[[], SuperCidrs] = return_no_cidrs
    """Return the current address ranges of the super cluster itself."""
    is_own_pod: Callable[[CidrAddress], bool] = return_false
    """Return whether a running super pod of the tenant has an address, which is not a node's."""
    list_node_ports: Callable[[], Collection[tuple[str, int]]] = tuple
    """Return protocol and number of each node port of the tenant's super Services, in order."""
    get_super_service_range: Callable[[], ServiceCidr | None] = return_no_range
    """Return the super cluster's service range, of which the tenant's is a part. None if
    unknown."""
    get_host_stores: Callable[[], Mapping[str, Store]] = return_no_stores
    """Return the caches of super objects with host names of SyncRules. The copies of tenants have
    the name of the kind as key."""
    get_shown_source: Callable[[str, str, str], Entry | None] = return_no_entry
    """Return the super object of a kind that a SyncRule shows, by kind, namespace and name."""
    get_target_network: Callable[[], TargetNetwork] | None = None
    """Return the settings of a target. None for the home cluster."""

    def get_super_namespace(self, tenant_namespace: str) -> str:
        """Return the super namespace of a tenant namespace."""
        return names.build_super_namespace(self.tenant.root, self.tenant.uid, tenant_namespace)

    def get_tenant_namespace(self, super_namespace: str) -> str | None:
        """Return the tenant namespace of a super namespace, or None if it is not the tenant's."""
        store = self.super_stores.get("Namespace")
        entry = store.get("", super_namespace) if store is not None else None
        if entry is None or entry.labels.get(wellknown.VC_UID) != self.tenant.uid:
            return None
        return entry.labels.get(wellknown.NAMESPACE) or None

    @property
    def exposes_all_nodes(self) -> bool:
        """Return whether the tenant sees every node, not only the nodes of its pods."""
        return self.policy.nodes.expose == "all"

    def is_provided_service(self, namespace: str, name: str) -> bool:
        """Return whether a Service of the root namespace backs this one, which is never synced."""
        provided = {
            API_SERVICE: True,
            DNS_SERVICE: self.spec.dns == "managed",
            METRICS_SERVICE: self.spec.metrics == "managed",
        }
        return provided.get((namespace, name), False)

    def is_referenced(self, kind: str, namespace: str, name: str) -> bool:
        """Return whether any pod or Ingress of the tenant needs an object."""
        return self.references.is_used(namespace, ObjectReference(kind, name))

    def has_class(self, kind: str, name: str) -> bool:
        """Return whether the super cluster has a class, shown or not."""
        return self._get_class(kind, name) is not None

    def shows_class(self, kind: str, name: str) -> bool:
        """Return whether the policy shows the tenant a class that the super cluster has."""
        entry = self._get_class(kind, name)
        return entry is not None and mirrored_kinds.is_selected(
            mirrored_kinds.MIRRORS_BY_KIND[kind], self.policy.sync, entry
        )

    def get_overhead(self, runtime_class: str) -> Object:
        """Return what a RuntimeClass of the super cluster adds to the requests of a pod."""
        entry = self._get_class("RuntimeClass", runtime_class)
        overhead = as_mapping(entry.decode().get("overhead")) if entry is not None else {}
        return dict(as_mapping(overhead.get("podFixed")))

    def _get_class(self, kind: str, name: str) -> Entry | None:
        store = self.super_stores.get(kind)
        return store.get("", name) if store is not None else None

    def list_namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of each tenant namespace."""
        return {entry.name: entry.labels for entry in self.stores["Namespace"].list()}

    def list_super_pods(self, namespace: str) -> list[Entry]:
        """Return the twins of the pods of a tenant namespace."""
        store = self.super_stores.get("Pod")
        return store.list(self.get_super_namespace(namespace)) if store is not None else []

    def list_shown_nodes(self) -> Collection[str]:
        """Return the super nodes that the tenant is shown.

        The tenant can create a node of any name itself, but that node does not record the super
        node's UID.
        """
        if "Node" not in self.super_stores:
            return ()
        return {entry.name for entry in self.stores["Node"].list() if self.has_node(entry.name)}

    def has_node(self, name: str) -> bool:
        """Return whether the tenant is shown this super node, not an earlier one of its name."""
        node, shown = self.super_stores["Node"].get("", name), self.stores["Node"].get("", name)
        return (
            node is not None
            and shown is not None
            and shown.annotations.get(wellknown.UID) == node.uid
        )
