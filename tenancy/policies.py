"""Typed view of a TenantPolicy, the limits that a platform administrator sets for a tenant.

Pure. The defaults are the policy `baseline`. The chart also ships it as an object, and a test
compares the two. Must not know how the limits are enforced.

Hazard: the object must belong to the platform administrator. A tenant's owner may choose
among policies only if RBAC allows it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from tenancy import wellknown
from tenancy.policy import ingress_annotations
from tenancy.policy.ingress_annotations import IngressController
from tenancy.policy.network_attachments import (
    InvalidAttachmentsError,
    NetworkAttachments,
    check_attachments,
)
from tenancy.policy.quotas import DEFAULT_QUOTA, InvalidQuotaError, QuotaSpec, parse_hard
from tenancy.specs import InvalidSpecError, VirtualClusterSpec

SecurityLevel = Literal["privileged", "baseline", "restricted"]
SyncMode = Literal["Referenced", "All"]
PolicyServiceType = Literal["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]
ReclaimPolicy = Literal["Retain", "Delete"]
NodeView = Literal["Minimal", "Standard", "Full"]
NodeExposure = Literal["onDemand", "all"]
AdmissionMode = Literal["Allow", "Refuse"]
ImagePullMode = Literal["Tenant", "Always"]
HostUsers = Literal["Allow", "Forbid"]
TolerationOperator = Literal["Equal", "Exists"]
TaintEffect = Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"]
NetworkIsolation = Literal["Enforced", "Off"]
EndpointMode = Literal["OwnPods", "Allow", "Refuse"]
EvictionMode = Literal["Controlled", "All", "Tenant"]
SharedKind = Literal["ConfigMap", "Secret"]
TenantWeight = Annotated[int, msgspec.Meta(ge=1, le=16)]

WILDCARD_NAME = "*"
"""Stands for every name in a list of names."""


class SecuritySpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Security level of pods by the Pod Security Standards, and their sandbox."""

    level: SecurityLevel = "baseline"
    runtime_class_name: str = ""
    """RuntimeClass of the super cluster that every pod gets. Empty: pods may choose."""
    host_users: HostUsers = "Allow"
    """`Forbid`: every pod gets a user namespace of its own (hostUsers: false)."""


class ClassFilter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Objects of a cluster-wide kind that the tenant sees, by label or by list."""

    names: tuple[str, ...] = ()
    """Names, or `*` for all."""
    match_labels: dict[str, str] = {}
    """Labels that an object must all have. Empty selects nothing."""

    def matches(self, name: str, labels: dict[str, str]) -> bool:
        """Return whether the tenant sees an object."""
        if name in self.names or WILDCARD_NAME in self.names:
            return True
        wanted = self.match_labels
        return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


_ALL_CLASSES = ClassFilter(names=(WILDCARD_NAME,))


class SyncSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Kinds that are synced to the super cluster or to the tenant, and how much of them."""

    config_maps: SyncMode = "Referenced"
    secrets: SyncMode = "Referenced"
    ingresses: AdmissionMode = "Allow"
    network_policies: AdmissionMode = "Allow"
    pod_disruption_budgets: AdmissionMode = "Allow"
    blocking_disruption_budgets: AdmissionMode = "Refuse"
    """Whether a budget may forbid every disruption, and so block a drain."""
    storage_classes: ClassFilter = _ALL_CLASSES
    ingress_classes: ClassFilter = _ALL_CLASSES
    volume_snapshot_classes: ClassFilter = _ALL_CLASSES
    csi_drivers: ClassFilter = _ALL_CLASSES
    priority_classes: ClassFilter = ClassFilter(match_labels={wellknown.SUPER_PUBLIC: "true"})
    runtime_classes: ClassFilter = ClassFilter()


class PoolToleration(msgspec.Struct, frozen=True, kw_only=True):
    """A toleration, as in a pod."""

    key: str = ""
    """Taint key. Empty: every key, with the operator Exists."""
    operator: TolerationOperator = "Equal"
    value: str = ""
    effect: TaintEffect = ""
    """Empty: every effect."""


class NodesSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tenant's nodes in the super cluster, and its view of them."""

    view: NodeView = "Standard"
    expose: NodeExposure = "onDemand"
    """`onDemand`: nodes that run a pod of the tenant. `all`: every node that may."""
    selector: dict[str, str] = {}
    """Labels of the nodes that may run the tenant's pods (node pool). Empty: every node."""
    tolerations: tuple[PoolToleration, ...] = ()
    """Tolerations that every pod of the tenant gets, for the taints of the node pool."""


class NetworkSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Features of the super cluster's network that a tenant may request."""

    service_types: tuple[PolicyServiceType, ...] = (
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
    )
    load_balancer_classes: tuple[str, ...] = ()
    """Allowed values of `loadBalancerClass`."""
    ingress_hosts: tuple[str, ...] = ()
    """Domains of the hosts of Ingresses. Empty: any host that no other tenant has."""
    catch_all_ingresses: AdmissionMode = "Refuse"
    """Whether an Ingress may receive the requests for no particular host."""
    host_ports: AdmissionMode = "Refuse"
    dns_servers: tuple[str, ...] = ()
    """CIDRs of DNS servers that a tenant may name, in addition to public addresses."""
    node_dns: AdmissionMode = "Refuse"
    """Whether a pod may use the resolver of its node (dnsPolicy Default)."""
    super_ranges: tuple[str, ...] = ()
    """CIDRs of the super cluster's nodes, pods and Services.

    Tenants cannot name them in network policies and endpoints. The Service range and node addresses
    are known without this list.
    """
    implementation_specific_paths: AdmissionMode = "Refuse"
    """Whether a path of an Ingress may have the type that each controller interprets itself."""
    external_name_backends: AdmissionMode = "Refuse"
    """Whether an Ingress may name a Service of type ExternalName, which the controller resolves."""
    ingress_annotations: tuple[IngressController, ...] = ()
    """Curated sets of annotations of Ingresses that are synced."""
    isolation: NetworkIsolation = "Enforced"
    """Whether super namespaces have the default network policies. They separate tenants."""
    endpoints: EndpointMode = "OwnPods"
    """Addresses of pods that an EndpointSlice without a selector may name."""
    attachments: NetworkAttachments = NetworkAttachments()
    """Additional networks of pods."""


class ImagesSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Images that a tenant's pods may use."""

    registries: tuple[str, ...] = ()
    """Registries, or repositories of one, such as `ghcr.io` and `ghcr.io/team`. Empty: any."""
    pull_policy: ImagePullMode = "Tenant"
    """`Always`: a kubelet asks the registry at each start, with the credentials of the pod.
    `Tenant`: the `imagePullPolicy` of the container takes effect."""


class MetadataSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Prefixed labels and annotations that are synced in addition to the built-in list."""

    label_domains: tuple[str, ...] = ()
    annotations: dict[str, tuple[str, ...]] = {}
    """Exact annotation keys by kind. The kind `*` means every kind."""
    opaque_prefixes: tuple[str, ...] = ()
    """Prefixes of label and annotation keys that are never synced to the super cluster.

    Super pods have such a label under a translated key.
    """
    transparent_prefixes: tuple[str, ...] = ()
    """Prefixes of label and annotation keys of super objects that are synced back to the tenant."""
    transparent_annotations: dict[str, tuple[str, ...]] = {}
    """Exact annotation keys by kind that are synced back, in addition to the built-in list.

    The kind `*` means every kind.
    """


class TenantVolumes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Allowed sources of PersistentVolumes in a tenant, each with all volumes that it serves."""

    nfs_servers: tuple[str, ...] = ()
    csi_drivers: tuple[str, ...] = ()


class StorageSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Features of the super cluster's storage that a tenant may request."""

    tenant_volumes: TenantVolumes = TenantVolumes()
    volume_attributes_classes: tuple[str, ...] = ()
    """Names of the VolumeAttributesClasses that a claim may request. `*` for all."""
    inline_csi_drivers: tuple[str, ...] = ()
    """Drivers whose volumes a pod may name inline."""
    reclaim_policies: tuple[ReclaimPolicy, ...] = ("Retain", "Delete")
    """Reclaim policies that the tenant may set on the volumes of its own claims."""
    image_volumes: AdmissionMode = "Refuse"


class SharedObjects(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """ConfigMaps or Secrets of one namespace of the super cluster that the tenant gets."""

    kind: SharedKind
    namespace: str
    """Source. Its label `tenancy.x-k8s.io/shared-source: enabled` allows it."""
    match_labels: dict[str, str] = {}
    """Labels that an object must all have. Empty selects nothing."""
    tenant_namespaces: tuple[str, ...] = ()
    """Names of namespaces of the tenant that get the objects. Names that do not exist are left
    out."""
    tenant_namespace_labels: dict[str, str] = {}
    """Labels of further namespaces of the tenant. Without names and labels: `kube-public`."""


class AccessSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Kubelet calls of the tenant that are answered, and permission for `kubectl debug`."""

    logs: bool = True
    exec: bool = True
    attach: bool = True
    port_forward: bool = True
    ephemeral_containers: bool = True


class HostsFileSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Rewriting of `/etc/hosts`, in which a kubelet writes the super namespace of a pod."""

    image: str = ""
    """Image with `/bin/sh` and `sed` of the init container that rewrites the file. Empty: the file
    stays as the kubelet writes it."""


class AutoscalingSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Annotations of super pods by which an autoscaler removes a node, or keeps it."""

    safe_to_evict: EvictionMode = "Controlled"
    """Pods that are marked as safe to evict: those with a controller, or all. `Tenant`: only those
    that the tenant has marked."""
    blocking_annotations: AdmissionMode = "Refuse"
    """Whether a tenant's annotation may keep a node that an autoscaler wants to remove."""


class PodsSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Additions to the pods of a tenant, and names that are reserved in them."""

    hosts_file: HostsFileSpec = HostsFileSpec()
    autoscaling: AutoscalingSpec = AutoscalingSpec()
    reserved_container_names: tuple[str, ...] = (
        "istio-proxy",
        "istio-init",
        "istio-validation",
        "linkerd-proxy",
        "linkerd-init",
        "linkerd-network-validator",
        "vault-agent",
        "vault-agent-init",
        "consul-dataplane",
        "daprd",
        "kuma-sidecar",
        "kuma-init",
        "datadog-agent-injected",
        "azwi-proxy",
    )
    """Names that no container of a tenant may have, because the super cluster injects these.

    An injector merges its container into one of the same name, and the tenant could then run
    commands in it.
    """


class TenantPolicySpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`TenantPolicy.spec`. Without fields it is the policy `baseline`."""

    security: SecuritySpec = SecuritySpec()
    sync: SyncSpec = SyncSpec()
    nodes: NodesSpec = NodesSpec()
    network: NetworkSpec = NetworkSpec()
    metadata: MetadataSpec = MetadataSpec()
    pods: PodsSpec = PodsSpec()
    daemon_sets: AdmissionMode = "Allow"
    storage: StorageSpec = StorageSpec()
    shared_objects: tuple[SharedObjects, ...] = ()
    """Objects of the super cluster that the tenant gets, read-only."""
    access: AccessSpec = AccessSpec()
    images: ImagesSpec = ImagesSpec()
    quota: QuotaSpec = msgspec.field(default_factory=lambda: dict(DEFAULT_QUOTA))
    """Limits of the tenant over all of its namespaces. Empty: no limit."""
    sync_rules: ClassFilter = ClassFilter()
    """SyncRules that apply to the tenant. None by default."""
    weight: TenantWeight = 1
    """Number of its objects that the syncer reconciles in a row while other tenants wait."""


BASELINE_POLICY = TenantPolicySpec()

DEFAULT_POLICY_NAME = wellknown.DEFAULT_POLICY_NAME
"""Name of the policy of a VirtualCluster that names none."""


def get_policy_name(spec: VirtualClusterSpec) -> str:
    """Return the name of the policy of a VirtualCluster."""
    return spec.policy_ref.name if spec.policy_ref is not None else DEFAULT_POLICY_NAME


def get_namespace_level(policy: TenantPolicySpec) -> SecurityLevel:
    """Return the pod security level that the super cluster's own admission enforces.

    A level other than privileged has no exception for host ports. If the policy allows host ports,
    the syncer's table of pod fields and its admission policy are the only checks.
    """
    return "privileged" if policy.network.host_ports == "Allow" else policy.security.level


def parse_tenant_policy(body: Mapping[str, Any]) -> TenantPolicySpec:
    """Return the typed view of a TenantPolicy's spec. Raises SpecProblemError.

    The annotations of Ingresses contain the keys of the sets in `network.ingressAnnotations`.
    """
    where = f"TenantPolicy {body['metadata']['name']}"
    try:
        spec = msgspec.convert(body.get("spec") or {}, TenantPolicySpec)
    except msgspec.ValidationError as problem:
        raise InvalidSpecError(f"{where}, spec: {problem}") from problem
    try:
        parse_hard(spec.quota)
    except InvalidQuotaError as problem:
        raise InvalidSpecError(f"{where}, spec.{problem}") from problem
    try:
        check_attachments(spec.network.attachments)
    except InvalidAttachmentsError as problem:
        raise InvalidSpecError(f"{where}, spec.network.attachments: {problem}") from problem
    if spec.security.level == "restricted" and spec.network.host_ports == "Allow":
        raise InvalidSpecError(
            f"{where} allows host ports at the restricted level, which excludes them. Set"
            " network.hostPorts to Refuse or security.level to baseline"
        )
    return _expand_ingress_annotations(spec)


def _expand_ingress_annotations(spec: TenantPolicySpec) -> TenantPolicySpec:
    keys = ingress_annotations.list_keys(spec.network.ingress_annotations)
    if not keys:
        return spec
    listed = spec.metadata.annotations
    annotations = {**listed, "Ingress": (*listed.get("Ingress", ()), *keys)}
    metadata = msgspec.structs.replace(spec.metadata, annotations=annotations)
    return msgspec.structs.replace(spec, metadata=metadata)
