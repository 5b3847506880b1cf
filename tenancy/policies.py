"""Typed view of a TenantPolicy, the limits that a super cluster's administrator sets for a tenant.

Pure. The defaults are the policy `baseline`. The chart also ships it as an object, and a test
compares the two. Must not know how the limits are enforced.

Hazard: the object must belong to the super cluster's administrator. A tenant's owner may choose
among policies only if RBAC allows it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from tenancy import wellknown
from tenancy.specs import SpecProblemError, VirtualClusterSpec

SecurityLevel = Literal["privileged", "baseline", "restricted"]
SyncMode = Literal["Referenced", "All"]
ServiceType = Literal["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]
NodeView = Literal["Minimal", "Standard", "Full"]
NodeExposure = Literal["onDemand", "all"]
Verdict = Literal["Allow", "Refuse"]
Weight = Annotated[int, msgspec.Meta(ge=1, le=16)]

EVERY = "*"
"""Stands for every name in a list of names."""


class Security(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Security level of pods by the Pod Security Standards."""

    level: SecurityLevel = "baseline"


class Classes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Objects of a cluster-wide kind that the tenant sees, by label or by list."""

    names: tuple[str, ...] = ()
    """Names, or `*` for all."""
    match_labels: dict[str, str] = {}
    """Labels that an object must all have. Empty selects nothing."""

    def shows(self, name: str, labels: dict[str, str]) -> bool:
        """Return whether the tenant sees an object."""
        if name in self.names or EVERY in self.names:
            return True
        wanted = self.match_labels
        return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


_ALL = Classes(names=(EVERY,))


class Sync(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Kinds that are synced to the super cluster or to the tenant, and how much of them."""

    config_maps: SyncMode = "Referenced"
    secrets: SyncMode = "Referenced"
    ingresses: Verdict = "Allow"
    network_policies: Verdict = "Allow"
    pod_disruption_budgets: Verdict = "Allow"
    blocking_disruption_budgets: Verdict = "Refuse"
    """Whether a budget may forbid every disruption, and so block a drain."""
    storage_classes: Classes = _ALL
    ingress_classes: Classes = _ALL
    volume_snapshot_classes: Classes = _ALL
    csi_drivers: Classes = _ALL
    priority_classes: Classes = Classes(match_labels={wellknown.SUPER_PUBLIC: "true"})
    runtime_classes: Classes = Classes()


class Nodes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tenant's view of the super nodes."""

    view: NodeView = "Standard"
    expose: NodeExposure = "onDemand"
    """`onDemand`: nodes that run a pod of the tenant. `all`: every node that may."""


class Network(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Features of the super cluster's network that a tenant may request."""

    service_types: tuple[ServiceType, ...] = (
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
    )
    load_balancer_classes: tuple[str, ...] = ()
    """Allowed values of `loadBalancerClass`."""
    ingress_hosts: tuple[str, ...] = ()
    """Domains of the hosts of Ingresses. Empty: any host that no other tenant has."""
    catch_all_ingresses: Verdict = "Refuse"
    """Whether an Ingress may receive the requests for no particular host."""
    host_ports: Verdict = "Refuse"
    node_dns: Verdict = "Refuse"
    """Whether a pod may use the resolver of its node (dnsPolicy Default)."""
    super_ranges: tuple[str, ...] = ()
    """CIDRs of the super cluster's nodes, pods and Services.

    Tenants cannot name them in network policies and endpoints. The Service range and node addresses
    are known without this list.
    """


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Prefixed labels and annotations that are synced in addition to the built-in list."""

    label_domains: tuple[str, ...] = ()
    annotations: dict[str, tuple[str, ...]] = {}
    """Exact annotation keys by kind. The kind `*` means every kind."""
    opaque_prefixes: tuple[str, ...] = ()
    """Prefixes of label and annotation keys that are never synced to the super cluster."""


class TenantVolumes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Allowed sources of PersistentVolumes in a tenant, each with all volumes that it serves."""

    nfs_servers: tuple[str, ...] = ()
    csi_drivers: tuple[str, ...] = ()


class Storage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Features of the super cluster's storage that a tenant may request."""

    tenant_volumes: TenantVolumes = TenantVolumes()
    volume_attributes_classes: tuple[str, ...] = ()
    """Names of the VolumeAttributesClasses that a claim may request. `*` for all."""
    inline_csi_drivers: tuple[str, ...] = ()
    """Drivers whose volumes a pod may name inline."""
    image_volumes: Verdict = "Refuse"


class Access(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Kubelet calls of the tenant that are answered, and permission for `kubectl debug`."""

    logs: bool = True
    exec: bool = True
    attach: bool = True
    port_forward: bool = True
    ephemeral_containers: bool = True


class TenantPolicySpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`TenantPolicy.spec`. Without fields it is the policy `baseline`."""

    security: Security = Security()
    sync: Sync = Sync()
    nodes: Nodes = Nodes()
    network: Network = Network()
    metadata: Metadata = Metadata()
    daemon_sets: Verdict = "Allow"
    storage: Storage = Storage()
    access: Access = Access()
    weight: Weight = 1
    """Number of its objects that the syncer reconciles in a row while other tenants wait."""


BASELINE = TenantPolicySpec()

DEFAULT = "baseline"
"""Name of the policy of a VirtualCluster that names none."""


def policy_name(spec: VirtualClusterSpec) -> str:
    """Return the name of the policy of a VirtualCluster."""
    return spec.policy_ref.name if spec.policy_ref is not None else DEFAULT


def parse_tenant_policy(body: Mapping[str, Any]) -> TenantPolicySpec:
    """Return the typed view of a TenantPolicy's spec. Raises SpecProblemError."""
    where = f"TenantPolicy {body['metadata']['name']}"
    try:
        spec = msgspec.convert(body.get("spec") or {}, TenantPolicySpec)
    except msgspec.ValidationError as problem:
        raise SpecProblemError(f"{where}, spec: {problem}") from problem
    if spec.security.level == "restricted" and spec.network.host_ports == "Allow":
        raise SpecProblemError(
            f"{where} allows host ports at the restricted level, which excludes them; set"
            " network.hostPorts to Refuse or security.level to baseline"
        )
    return spec
