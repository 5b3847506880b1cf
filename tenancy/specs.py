"""Typed views of this project's custom resources, frozen and parsed once at the edge.

Other objects stay dicts. Unknown fields are ignored here, because the API server's schema has
already pruned or refused them.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from tenancy import names
from tenancy.access.specs import AuthSpec, EndpointSpec, KubeconfigFormat
from tenancy.control_plane_specs import (
    AuditSpec,
    ClusterVersionStatus,
    ControlPlaneResources,
    EncryptionSpec,
    PullSecret,
    RolloutSpec,
)
from tenancy.ownership import Tenant
from tenancy.snapshots.specs import RestoreStatus, SnapshotSchedule

_T = TypeVar("_T")
ApiServiceType = Literal["ClusterIP", "NodePort", "LoadBalancer"]
DnsMode = Literal["managed", "tenant", "none"]
MetricsMode = Literal["managed", "none"]
PodsMode = Literal["all", "elected"]
VirtualClusterPhase = Literal["Pending", "Running", "Asleep", "Error"]
"""Values of `status.phase` that vc-manager writes. All but Asleep are upstream's."""
SleepingWorkloads = Literal["Keep", "ScaleToZero"]
"""Pods of a sleeping tenant: they run on, or they are stopped."""


class InvalidSpecError(ValueError):
    """A custom resource cannot be read. The message names the object, the field and the remedy."""


class PolicyRef(msgspec.Struct, frozen=True, kw_only=True):
    """Reference to a TenantPolicy."""

    name: str


class TargetGrant(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A super cluster that a tenant's pods may run in."""

    name: str
    """Name of a SuperCluster."""
    weight: int = 100
    """Relative share of pods among equally good targets."""
    namespace_selector: dict[str, Any] | None = None
    """Selector of the tenant's namespaces. None: all."""
    pods: PodsMode = "all"
    """Pods without another request that may run there: all, or only elected pods."""


class KubeconfigReader(msgspec.Struct, frozen=True, kw_only=True):
    """A user or group of the super cluster that may fetch a tenant's admin kubeconfig."""

    kind: Literal["User", "Group"]
    name: str


class StubDomain(msgspec.Struct, frozen=True, kw_only=True):
    """A domain whose names the tenant's DNS asks of certain servers."""

    domain: str
    servers: tuple[str, ...]
    """Addresses, each with or without a port, such as `192.0.2.53` and `[2001:db8::1]:5353`."""


class DnsConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`VirtualCluster.spec.dnsConfig`: servers of names outside of the tenant's cluster domain."""

    stub_domains: tuple[StubDomain, ...] = ()
    forwarders: tuple[str, ...] = ()
    """Servers of all other names. Empty: the resolver of the node."""


class AddonRef(msgspec.Struct, frozen=True, kw_only=True):
    """A ConfigMap with manifests, in the namespace of the VirtualCluster."""

    name: str


class AddonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Manifests that were applied in the tenant."""

    name: str
    """Name of the ConfigMap."""
    digest: str
    """Digest of its data. Another content is applied again. Empty until all objects are applied."""
    objects: tuple[str, ...] = ()
    """Digests of the objects that are applied already, while others are refused."""


class SleepSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`VirtualCluster.spec.sleep`. A tenant with it is asleep: its control plane is stopped."""

    workloads: SleepingWorkloads = "Keep"


class PrimaryNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """`VirtualCluster.spec.network`: the default network of the tenant's pods."""

    driver: str
    """Name of a driver of `syncer.rules.network.attachments.primary_networks`."""
    cidr: str
    """Addresses of the pods. Other tenants may have the same."""
    gateway: str = ""
    """Router of the network, outside of the product. Empty: pods have no default route."""
    dns: tuple[str, ...] = ()
    """Name servers that pods can reach. Empty: pods have none."""


class VirtualClusterSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`VirtualCluster.spec`."""

    cluster_version_name: str
    cluster_domain: str = "cluster.local"
    service_cidr: str = ""
    """Part of the super cluster's service range. Empty: the manager selects one."""
    pki_expire_days: int = 90
    dns: DnsMode = "managed"
    dns_config: DnsConfig | None = None
    """None: the tenant's DNS asks the resolver of the node for names outside of the tenant."""
    metrics: MetricsMode = "none"
    """Whether a metrics-server runs beside the control plane. `none` leaves it to the tenant."""
    addons: tuple[AddonRef, ...] = ()
    """ConfigMaps with manifests that are applied in the tenant, in this order."""
    policy_ref: PolicyRef | None = None
    transparent_meta_prefixes: tuple[str, ...] = ()
    opaque_meta_prefixes: tuple[str, ...] = ()
    targets: tuple[TargetGrant, ...] = ()
    """Super clusters that the tenant's pods may run in. Empty: only the home cluster."""
    kubeconfig_readers: tuple[KubeconfigReader, ...] = ()
    auth: AuthSpec | None = None
    """None: certificates and ServiceAccounts are the only logins."""
    endpoint: EndpointSpec = EndpointSpec()
    kubeconfig_secrets: tuple[KubeconfigFormat, ...] = ()
    """Forms of the admin kubeconfig that are written beside the VirtualCluster. Empty: none."""
    deletion_grace_period: str = "0s"
    """Duration for which a deleted tenant is kept and can be undeleted, for example 24h."""
    suspend: bool = False
    """True: the syncer does not sync the tenant. Its control plane and its pods keep running."""
    snapshot_schedule: SnapshotSchedule | None = None
    """None: snapshots are created by hand only."""
    sleep: SleepSpec | None = None
    """None: the tenant is awake."""
    paused_until: str = ""
    """RFC 3339 time until which vc-manager does not change the control plane. Empty: not paused."""
    expires_at: str = ""
    """RFC 3339 time at which the VirtualCluster is deleted. Empty: never."""
    network: PrimaryNetwork | None = None
    """None: pods are on the network of the super cluster."""


class EtcdStorage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The volume of each etcd member."""

    size: str = "2Gi"
    class_name: str = ""
    """Name of a StorageClass. Empty: the super cluster's default."""


class ExtraArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Flags without their dashes, each with its value, per component."""

    etcd: dict[str, str] = {}
    api_server: dict[str, str] = {}
    controller_manager: dict[str, str] = {}


class ComponentBundle(msgspec.Struct, frozen=True, kw_only=True):
    """One component in upstream's shape: whole objects, kept unchanged."""

    metadata: dict[str, Any] = {}
    statefulset: dict[str, Any]
    service: dict[str, Any] | None = None


class ClusterVersionSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`ClusterVersion.spec`: the short form, or upstream's three bundles, but never both."""

    kubernetes_version: str = ""
    """A minor (`1.36`) or a patch release (`1.36.4`)."""
    replicas: int = 1
    service_type: ApiServiceType = "NodePort"
    etcd_storage: EtcdStorage = EtcdStorage()
    extra_args: ExtraArgs = ExtraArgs()
    resources: ControlPlaneResources = ControlPlaneResources()
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    priority_class_name: str = ""
    """PriorityClass of the pods. Empty: the default of the installation."""
    image_pull_secrets: tuple[PullSecret, ...] = ()
    service_annotations: dict[str, str] = {}
    """Annotations of the API server's Service, for example for a load balancer."""
    encryption: EncryptionSpec | None = None
    """None: Secrets are stored as they are."""
    audit: AuditSpec | None = None
    """None: no audit log."""
    rollout: RolloutSpec = RolloutSpec()
    """How changes reach the tenants that use the ClusterVersion, in either shape."""
    etcd: ComponentBundle | None = None
    api_server: ComponentBundle | None = None
    controller_manager: ComponentBundle | None = None

    @property
    def is_bundled(self) -> bool:
        """Return whether this is upstream's shape."""
        return self.etcd is not None or self.api_server is not None


TargetPhase = Literal["Granted", "Draining", "Away"]
"""State of a target in a tenant.

- Granted: pods may be placed in it.
- Draining: it is no longer granted, and the tenant's objects in it are being removed.
- Away: it does not answer, or is not reached yet.
"""


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of one super cluster that may contain objects of a tenant."""

    name: str
    phase: TargetPhase | Literal[""] = ""
    pods: int = 0
    """Number of the tenant's pods that are assigned to this cluster."""


class HeldStore(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant's etcd data for which the syncer holds deletes (condition DeletesHeld)."""

    uid: str = ""
    """UID of the Namespace kube-system in it. Empty while there is none."""


class VirtualClusterStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields of `VirtualCluster.status` that other components read."""

    phase: str = ""
    """A `VirtualClusterPhase`, or a value from upstream's manager, such as Updating."""
    cluster_namespace: str = ""
    endpoint: str = ""
    """URL by which clients outside the super cluster reach the API. Empty without one."""
    api_server_address: str = ""
    """IP address and port of the API server's Service. Only with the API proxy."""
    service_cidr: str = ""
    version: str = ""
    ended_pause: str = ""
    """Value of `spec.pausedUntil` whose pause lasted too long. Empty without one."""
    observed_generation: int = 0
    targets: tuple[TargetStatus, ...] = ()
    """Other super clusters that may contain objects of the tenant."""
    addons: tuple[AddonStatus, ...] = ()
    """Manifests of `spec.addons` that were applied in full."""
    held_store: HeldStore | None = None
    """None while deletes are not held."""
    disconnected_for_restore: str = ""
    """Request of the restore that the syncer has disconnected for. Empty without one."""
    restore: RestoreStatus | None = None
    """None: no snapshot was ever restored."""
    conditions: tuple[dict[str, Any], ...] = ()


class VirtualCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A VirtualCluster with its identity."""

    tenant: Tenant
    spec: VirtualClusterSpec
    status: VirtualClusterStatus
    generation: int
    annotations: dict[str, str]
    labels: dict[str, str]
    deleting: bool
    created: str = ""
    """`metadata.creationTimestamp`, RFC 3339."""


def parse_virtual_cluster(body: Mapping[str, Any]) -> VirtualCluster:
    """Return the typed view of a VirtualCluster.

    The key is computed from namespace, name and UID. It is never read from the status, which a
    tenant's creator might have written. Raises SpecProblemError and names.NameProblemError.
    """
    metadata = body["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    tenant = Tenant(
        name=name,
        namespace=namespace,
        uid=uid,
        root=names.build_root_namespace(namespace, name, uid),
    )
    where = f"VirtualCluster {namespace}/{name}"
    return VirtualCluster(
        tenant=tenant,
        spec=_convert_spec(body.get("spec") or {}, VirtualClusterSpec, f"{where}, spec"),
        status=_convert_spec(body.get("status") or {}, VirtualClusterStatus, f"{where}, status"),
        generation=metadata.get("generation", 0),
        annotations=metadata.get("annotations") or {},
        labels=metadata.get("labels") or {},
        deleting="deletionTimestamp" in metadata,
        created=metadata.get("creationTimestamp") or "",
    )


def parse_cluster_version(body: Mapping[str, Any]) -> ClusterVersionSpec:
    """Return the typed view of a ClusterVersion's spec. Raises SpecProblemError."""
    where = f"ClusterVersion {body['metadata']['name']}"
    spec = _convert_spec(body.get("spec") or {}, ClusterVersionSpec, f"{where}, spec")
    if spec.is_bundled and spec.kubernetes_version:
        raise InvalidSpecError(
            f"{where} has both kubernetesVersion and bundles. Keep kubernetesVersion and the"
            " fields of the short form, or etcd, apiServer and controllerManager"
        )
    if spec.is_bundled and (spec.etcd is None or spec.api_server is None):
        missing = "etcd" if spec.etcd is None else "apiServer"
        raise InvalidSpecError(f"{where} lacks the bundle {missing}. Add it")
    if not spec.is_bundled and not spec.kubernetes_version:
        raise InvalidSpecError(
            f"{where} has no kubernetesVersion. Set it, for example to 1.36, or use bundles"
        )
    return spec


def parse_cluster_version_status(body: Mapping[str, Any]) -> ClusterVersionStatus:
    """Return the typed view of a ClusterVersion's status. Raises InvalidSpecError."""
    where = f"ClusterVersion {body['metadata']['name']}, status"
    return _convert_spec(body.get("status") or {}, ClusterVersionStatus, where)


def _convert_spec(value: Any, to: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as problem:
        raise InvalidSpecError(f"{where}: {problem}") from problem
