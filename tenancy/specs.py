"""Frozen typed views of our own custom resources, parsed once at the edge.

Only our kinds are typed; objects that pass through stay dicts. Unknown fields are ignored here, as
the API server's schema has already pruned or refused them.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from tenancy import names
from tenancy.ownership import Tenant

_T = TypeVar("_T")
ServiceType = Literal["ClusterIP", "NodePort", "LoadBalancer"]
Dns = Literal["managed", "tenant", "none"]
Metrics = Literal["managed", "none"]
Pods = Literal["all", "elected"]
Phase = Literal["Pending", "Running", "Error"]
"""Values of `status.phase` that vc-manager writes; upstream's words."""


class SpecProblemError(ValueError):
    """An object of ours cannot be read; the message names the object, the field and the remedy."""


class PolicyRef(msgspec.Struct, frozen=True, kw_only=True):
    """Points at a TenantPolicy."""

    name: str


class TargetGrant(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A super cluster that a tenant's pods may run in."""

    name: str
    """Of a SuperCluster."""
    weight: int = 100
    """How much of what is equally good goes there."""
    namespace_selector: dict[str, Any] | None = None
    """Of the tenant's namespaces; None: all."""
    pods: Pods = "all"
    """Of those that ask for nothing else: all, or those that the tenant has elected."""


class VirtualClusterSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`VirtualCluster.spec`."""

    cluster_version_name: str
    cluster_domain: str = "cluster.local"
    service_cidr: str = ""
    """A slice of the super cluster's service range; empty: the manager picks one."""
    pki_expire_days: int = 90
    dns: Dns = "managed"
    metrics: Metrics = "none"
    """Whether a metrics-server runs beside the control plane; `none` leaves it to the tenant."""
    policy_ref: PolicyRef | None = None
    transparent_meta_prefixes: tuple[str, ...] = ()
    opaque_meta_prefixes: tuple[str, ...] = ()
    targets: tuple[TargetGrant, ...] = ()
    """Super clusters that the tenant's pods may run in; empty: the home cluster alone."""


class EtcdStorage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The volume of each etcd member."""

    size: str = "2Gi"
    class_name: str = ""
    """Empty: the super cluster's default StorageClass."""


class ExtraArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Flags without their dashes, each with its value, per component."""

    etcd: dict[str, str] = {}
    api_server: dict[str, str] = {}
    controller_manager: dict[str, str] = {}


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """One component in upstream's shape: whole objects, kept as they are."""

    metadata: dict[str, Any] = {}
    statefulset: dict[str, Any]
    service: dict[str, Any] | None = None


class ClusterVersionSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`ClusterVersion.spec`: the short form, or upstream's three bundles; never both."""

    kubernetes_version: str = ""
    """A minor (`1.36`) or a patch release (`1.36.4`)."""
    replicas: int = 1
    service_type: ServiceType = "NodePort"
    etcd_storage: EtcdStorage = EtcdStorage()
    extra_args: ExtraArgs = ExtraArgs()
    etcd: Bundle | None = None
    api_server: Bundle | None = None
    controller_manager: Bundle | None = None

    @property
    def is_bundled(self) -> bool:
        """Tell whether this is upstream's shape."""
        return self.etcd is not None or self.api_server is not None


TargetPhase = Literal["Granted", "Draining", "Away"]
"""Of a target in a tenant: pods may be placed there; it is granted no more, and what the tenant has
there goes; it does not answer, or is not reached yet."""


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of one super cluster that a tenant may have something in."""

    name: str
    phase: TargetPhase | Literal[""] = ""
    pods: int = 0
    """Of the tenant, that are seated there."""


class HeldStore(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant's etcd data for which the syncer holds deletes (condition DeletesHeld)."""

    uid: str = ""
    """UID of the Namespace kube-system in it; empty while there is none."""


class VirtualClusterStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What other components read of `VirtualCluster.status`."""

    phase: str = ""
    """A `Phase`, or what upstream's manager wrote before, such as Updating."""
    cluster_namespace: str = ""
    endpoint: str = ""
    """URL by which clients outside the super cluster reach the API, empty when there is none."""
    service_cidr: str = ""
    version: str = ""
    observed_generation: int = 0
    targets: tuple[TargetStatus, ...] = ()
    """Other super clusters in which there may be something of the tenant."""
    held_store: HeldStore | None = None
    """None while deletes are not held."""
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


def parse_virtual_cluster(body: Mapping[str, Any]) -> VirtualCluster:
    """Return the typed view of a VirtualCluster.

    The key is computed from namespace, name and UID and never read from the status, which a
    tenant's creator might have written. Raises SpecProblemError and names.NameProblemError.
    """
    metadata = body["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    tenant = Tenant(
        name=name, namespace=namespace, uid=uid, root=names.root_namespace(namespace, name, uid)
    )
    where = f"VirtualCluster {namespace}/{name}"
    return VirtualCluster(
        tenant=tenant,
        spec=_convert(body.get("spec") or {}, VirtualClusterSpec, f"{where}, spec"),
        status=_convert(body.get("status") or {}, VirtualClusterStatus, f"{where}, status"),
        generation=metadata.get("generation", 0),
        annotations=metadata.get("annotations") or {},
        labels=metadata.get("labels") or {},
        deleting="deletionTimestamp" in metadata,
    )


def parse_cluster_version(body: Mapping[str, Any]) -> ClusterVersionSpec:
    """Return the typed view of a ClusterVersion's spec. Raises SpecProblemError."""
    where = f"ClusterVersion {body['metadata']['name']}"
    spec = _convert(body.get("spec") or {}, ClusterVersionSpec, f"{where}, spec")
    if spec.is_bundled and spec.kubernetes_version:
        raise SpecProblemError(
            f"{where} has both kubernetesVersion and bundles; keep kubernetesVersion with its"
            " companions, or etcd, apiServer and controllerManager"
        )
    if spec.is_bundled and (spec.etcd is None or spec.api_server is None):
        missing = "etcd" if spec.etcd is None else "apiServer"
        raise SpecProblemError(f"{where} lacks the bundle {missing}; add it beside the others")
    if not spec.is_bundled and not spec.kubernetes_version:
        raise SpecProblemError(
            f"{where} names no kubernetesVersion; set it, for example to 1.36, or give bundles"
        )
    return spec


def _convert(value: Any, to: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as problem:
        raise SpecProblemError(f"{where}: {problem}") from problem
