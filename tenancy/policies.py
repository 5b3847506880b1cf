"""What a super cluster's administrator lets a tenant do: the typed view of a TenantPolicy.

Pure. The defaults are the policy `baseline`; the chart ships it as an object too, and a test holds
the two against each other. Must not know how any of it is enforced. Hazard: a tenant's owner may
choose among policies only where RBAC lets him; the object itself is the super administrator's.
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
    """How far a pod may go on a node: the levels of the Pod Security Standards."""

    level: SecurityLevel = "baseline"


class Classes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which objects of a cluster-wide kind are shown to the tenant, by label or by list."""

    names: tuple[str, ...] = ()
    """Names, or `*` for all."""
    match_labels: dict[str, str] = {}
    """Labels that an object must all have; empty selects nothing."""

    def shows(self, name: str, labels: dict[str, str]) -> bool:
        """Tell whether an object is shown."""
        if name in self.names or EVERY in self.names:
            return True
        wanted = self.match_labels
        return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


_ALL = Classes(names=(EVERY,))


class Sync(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which kinds go down or up, and how much of them."""

    config_maps: SyncMode = "Referenced"
    secrets: SyncMode = "Referenced"
    ingresses: Verdict = "Allow"
    network_policies: Verdict = "Allow"
    pod_disruption_budgets: Verdict = "Allow"
    blocking_disruption_budgets: Verdict = "Refuse"
    """Whether a budget may forbid every disruption, and with that hold up a drain."""
    storage_classes: Classes = _ALL
    ingress_classes: Classes = _ALL
    volume_snapshot_classes: Classes = _ALL
    csi_drivers: Classes = _ALL
    priority_classes: Classes = Classes(match_labels={wellknown.SUPER_PUBLIC: "true"})
    runtime_classes: Classes = Classes()


class Nodes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What of the super nodes a tenant sees."""

    view: NodeView = "Standard"
    expose: NodeExposure = "onDemand"
    """`onDemand`: nodes that a pod of the tenant runs on; `all`: every node that may."""


class Network(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a tenant may ask of the super cluster's network."""

    service_types: tuple[ServiceType, ...] = (
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
    )
    load_balancer_classes: tuple[str, ...] = ()
    """Values of `loadBalancerClass` that may be asked for."""
    ingress_hosts: tuple[str, ...] = ()
    """Domains that the hosts of Ingresses must be in; none: any host that nobody else has."""
    catch_all_ingresses: Verdict = "Refuse"
    """Whether an Ingress may take what comes for no host in particular."""
    host_ports: Verdict = "Refuse"
    node_dns: Verdict = "Refuse"
    """Whether a pod may use the resolver of its node (dnsPolicy Default)."""
    super_ranges: tuple[str, ...] = ()
    """CIDRs of the super cluster's nodes, pods and Services, taken out of what tenants may name in
    network policies and endpoints; the Service range and node addresses are known without."""


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which prefixed labels and annotations go down beyond the built-in list."""

    label_domains: tuple[str, ...] = ()
    annotations: dict[str, tuple[str, ...]] = {}
    """Exact annotation keys by kind; `*` as kind means every kind."""
    opaque_prefixes: tuple[str, ...] = ()
    """Prefixes of label and annotation keys that stay above, whatever else lets them pass."""


class TenantVolumes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Sources of PersistentVolumes that a tenant may write itself: all that each one serves."""

    nfs_servers: tuple[str, ...] = ()
    csi_drivers: tuple[str, ...] = ()


class Storage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a tenant may ask of the super cluster's storage."""

    tenant_volumes: TenantVolumes = TenantVolumes()
    volume_attributes_classes: tuple[str, ...] = ()
    """Names of the VolumeAttributesClasses that a claim may ask for; `*` for all."""
    inline_csi_drivers: tuple[str, ...] = ()
    """Drivers whose volumes a pod may name inline."""
    image_volumes: Verdict = "Refuse"


class Access(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which kubelet calls of the tenant are answered, and whether `kubectl debug` may add."""

    logs: bool = True
    exec: bool = True
    attach: bool = True
    port_forward: bool = True
    ephemeral_containers: bool = True


class TenantPolicySpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`TenantPolicy.spec`; without a word it is the policy `baseline`."""

    security: Security = Security()
    sync: Sync = Sync()
    nodes: Nodes = Nodes()
    network: Network = Network()
    metadata: Metadata = Metadata()
    daemon_sets: Verdict = "Allow"
    storage: Storage = Storage()
    access: Access = Access()
    weight: Weight = 1
    """How many of its objects the syncer looks at in a row while other tenants wait."""


BASELINE = TenantPolicySpec()

DEFAULT = "baseline"
"""Name of the policy of a VirtualCluster that names none."""


def policy_name(spec: VirtualClusterSpec) -> str:
    """Return the name of the policy that a VirtualCluster is bound to."""
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
