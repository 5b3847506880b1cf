"""All objects of one tenant's control plane, from either shape of a ClusterVersion.

Owns the plan: the desired objects, and what the rest of the manager needs to know of them. Pure.
Must not know which objects exist. Hazard: a change here rolls out to every tenant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clusterversions import catalog
from tenancy import quantities, wellknown
from tenancy.control_plane_specs import ClusterVersionStatus
from tenancy.ownership import Tenant
from tenancy.specs import (
    ClusterVersionSpec,
    ComponentBundle,
    InvalidSpecError,
    VirtualClusterSpec,
)
from vcmanager.pki.inventory import CertificateFacts
from vcmanager.plan import (
    bundle_validation,
    coredns,
    service_cidrs,
    templates,
    upstream_bundles,
    versions,
)
from vcmanager.plan.network.dns_forwarding import NO_FORWARDING, DnsForwarding
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime.options import OperatorSettings
from vcmanager.short_form import audit, encryption, pod_settings

Manifest = dict[str, Any]

ETCD, API_SERVER, CONTROLLER_MANAGER, DNS, METRICS = (
    upstream_bundles.ETCD,
    upstream_bundles.API_SERVER,
    upstream_bundles.CONTROLLER_MANAGER,
    "coredns",
    "metrics-server",
)
DEPLOYMENTS = frozenset({DNS, METRICS})
"""Components without state. All other components are StatefulSets."""

_GO_RUNTIME_SETTINGS = {
    "etcd": {"cores": "1", "gogc": "100"},
    "apiserver": {"cores": "2", "gogc": "50"},
    "controller_manager": {"cores": "1", "gogc": "50"},
    "coredns": {"cores": "1", "gogc": "50"},
    "metrics_server": {"cores": "1", "gogc": "50"},
}
"""Go runtime settings per component, for many small programs on one node.

Idle threads and unused heap are most of the cost of an idle tenant. Upstream-shaped bundles have
their own settings.
"""
MAX_REPLICAS = 3
"""Members of etcd that its certificate is for, whatever the number is now.

Otherwise a change of the number would renew the certificate and restart all members.
"""
ETCD_QUOTA_PERCENT = 60
"""Share of its volume that the database of etcd may have."""
_TEMPLATE_SHAPES: Mapping[str, templates.TemplateShape] = {
    "services": templates.build_shape(
        ("Service", "etcd"), ("Service", "etcd-client"), ("Service", "apiserver-svc")
    ),
    ETCD: templates.build_shape(("StatefulSet", "etcd")),
    API_SERVER: templates.build_shape(
        ("ConfigMap", "apiserver-config"), ("StatefulSet", "apiserver")
    ),
    CONTROLLER_MANAGER: templates.build_shape(("StatefulSet", "controller-manager")),
    DNS: templates.build_shape(("ConfigMap", "coredns"), ("Deployment", "coredns")),
    METRICS: templates.build_shape(("Deployment", "metrics-server")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The plan."""

    services: tuple[Manifest, ...]
    workloads: tuple[Manifest, ...]
    """StatefulSets, Deployments and the ConfigMaps that they mount."""
    claims: tuple[Manifest, ...]
    """Services with fixed addresses in the service range."""
    metrics: tuple[Manifest, ...]
    """Service and Deployment of the metrics-server. Empty unless it is requested.

    A tenant is complete without them.
    """
    certificate_facts: CertificateFacts
    service_type: str
    api_service: str
    has_controller_manager: bool
    is_bundled: bool
    is_ephemeral: bool
    etcd_replicas: int = 1
    """Desired members of etcd. The StatefulSet has another number while it changes."""
    has_member_config: bool = False
    """Whether etcd pods read their members from a ConfigMap, so that the number can change."""
    store_identity: str | None = None
    """Identity of the etcd data, if `has_member_config`. None: unknown for now."""

    @property
    def selectors(self) -> dict[str, Mapping[str, Any]]:
        """Return the selector of the pods of each component."""
        return {
            each["metadata"]["name"]: each["spec"]["selector"]
            for each in (*self.workloads, *self.metrics)
            if each["kind"] in ("StatefulSet", "Deployment")
        }

    @property
    def api_port(self) -> int | str:
        """Return the port of the API server in its pods, or its name."""
        port: int | str = self.claims[0]["spec"]["ports"][0]["targetPort"]
        return port

    @property
    def components(self) -> tuple[str, ...]:
        """Return the names of the required workloads."""
        wanted = [ETCD, API_SERVER]
        if self.has_controller_manager:
            wanted.append(CONTROLLER_MANAGER)
        if self.certificate_facts.has_dns:
            wanted.append(DNS)
        if self.certificate_facts.has_metrics:
            wanted.append(METRICS)
        return tuple(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInput:
    """All inputs of a plan."""

    tenant: Tenant
    spec: VirtualClusterSpec
    version_name: str
    version: ClusterVersionSpec
    external_domains: tuple[str, ...]
    """Further DNS names of the API. Empty ones are ignored."""
    settings: OperatorSettings
    is_new: bool
    """Whether the tenant is unused, because its API has not answered so far."""
    has_encryption_keys: bool = False
    """Whether Secrets of the tenant may be encrypted already."""
    dns_forwarding: DnsForwarding = NO_FORWARDING
    """Checked servers of `spec.dnsConfig`."""
    version_status: ClusterVersionStatus = field(default_factory=ClusterVersionStatus)
    """Status of the ClusterVersion when the reconcile began."""


def build_plan(wish: PlanInput, slice_: ServiceRange) -> ControlPlane:
    """Return the plan. Raises SpecProblemError and templates.TemplateProblemError."""
    coredns.check_domain(wish.spec.cluster_domain)
    return (
        _plan_bundles(wish, slice_) if wish.version.is_bundled else _plan_short_form(wish, slice_)
    )


def _plan_short_form(wish: PlanInput, slice_: ServiceRange) -> ControlPlane:
    release = versions.resolve_release(wish.version_name, wish.version)
    values = _build_values(wish, slice_, release)
    parts = [ETCD, API_SERVER, CONTROLLER_MANAGER, *([DNS] if _needs_dns(wish) else [])]
    rendered = {part: _render_template(part, values) for part in ("services", *parts)}
    return ControlPlane(
        services=tuple(rendered["services"]),
        workloads=tuple(each for part in parts for each in rendered[part]),
        claims=_build_claims(
            wish,
            slice_,
            selector={wellknown.COMPONENT: API_SERVER},
            port=wellknown.API_SERVER_PORT,
            is_reached_early=_publishes_unready(wish),
        ),
        metrics=_build_metrics(wish, slice_, values),
        certificate_facts=_build_certificate_facts(
            wish, slice_, MAX_REPLICAS, "etcd", "apiserver-svc"
        ),
        service_type=wish.version.service_type,
        api_service="apiserver-svc",
        has_controller_manager=True,
        is_bundled=False,
        is_ephemeral=False,
        etcd_replicas=wish.version.replicas,
        has_member_config=True,
    )


def _plan_bundles(wish: PlanInput, slice_: ServiceRange) -> ControlPlane:
    if wish.has_encryption_keys:
        raise InvalidSpecError(
            f"ClusterVersion {wish.version_name} has bundles, but Secrets of this tenant are"
            " encrypted by spec.encryption of another ClusterVersion. Use a ClusterVersion of the"
            " short form"
        )
    bundles = get_bundles(wish.version)
    for component, bundle in bundles.items():
        bundle_validation.check_bundle(wish.version_name, component, bundle)
    bundle_validation.check_bundles_together(wish.version_name, bundles)
    additions = upstream_bundles.BundleAdditions(
        service_cidr=str(slice_),
        node_ports=wish.settings.node_ports,
        kubelet_addresses=upstream_bundles.KUBELET_ADDRESSES,
    )
    made = [
        each
        for component, bundle in bundles.items()
        for each in upstream_bundles.complete_bundle(component, bundle, additions)
    ]
    beside = _build_values(wish, slice_, versions.get_default_release())
    if _needs_dns(wish):
        made += _render_template(DNS, beside)
    etcd, api = bundles[ETCD], bundles[API_SERVER]
    etcd_service, api_service = etcd.service or {}, api.service or {}
    service_spec = api_service["spec"]
    port = service_spec["ports"][0]
    return ControlPlane(
        services=tuple(each for each in made if each["kind"] == "Service"),
        workloads=tuple(each for each in made if each["kind"] != "Service"),
        claims=_build_claims(
            wish,
            slice_,
            selector=service_spec["selector"],
            port=port.get("targetPort", port["port"]),
            is_reached_early=False,  # the bundle's own Service leads to the API later
        ),
        metrics=_build_metrics(wish, slice_, beside),
        certificate_facts=_build_certificate_facts(
            wish,
            slice_,
            etcd.statefulset["spec"].get("replicas", 1),
            etcd_service["metadata"]["name"],
            api_service["metadata"]["name"],
        ),
        service_type=service_spec.get("type", "ClusterIP"),
        api_service=api_service["metadata"]["name"],
        has_controller_manager=CONTROLLER_MANAGER in bundles,
        is_bundled=True,
        is_ephemeral=upstream_bundles.is_ephemeral(etcd.statefulset),
    )


def get_bundles(version: ClusterVersionSpec) -> dict[str, ComponentBundle]:
    """Return the bundles that a ClusterVersion of upstream's shape has, by component."""
    found = {
        ETCD: version.etcd,
        API_SERVER: version.api_server,
        CONTROLLER_MANAGER: version.controller_manager,
    }
    return {component: bundle for component, bundle in found.items() if bundle is not None}


def _render_template(part: str, values: Mapping[str, Any]) -> list[Manifest]:
    return templates.render_template(
        catalog.read_template(part), values, name=part, shape=_TEMPLATE_SHAPES[part]
    )


def _build_values(
    wish: PlanInput, slice_: ServiceRange, release: versions.ControlPlaneRelease
) -> dict[str, Any]:
    replicas = wish.version.replicas
    return {
        "root": wish.tenant.root,
        "vc_uid": wish.tenant.uid,
        "domain": wish.spec.cluster_domain,
        "corefile": coredns.build_corefile(
            root=wish.tenant.root,
            domain=wish.spec.cluster_domain,
            forwarding=wish.dns_forwarding,
        ),
        "service_cidr": str(slice_),
        "node_ports": wish.settings.node_ports,
        "kubelet_addresses": upstream_bundles.KUBELET_ADDRESSES,
        "agent_address": wellknown.AGENT_ADDRESS,
        "metrics_port": service_cidrs.METRICS_PORT,
        "service_type": wish.version.service_type,
        "replicas": replicas,
        "is_reached_early": _publishes_unready(wish),
        "controller_manager_replicas": 2 if replicas > 1 else 1,
        # One pod of a StatefulSet is never two: it needs no lease that is renewed day and night.
        "leader_elect": "true" if replicas > 1 else "false",
        "dns_replicas": 2 if replicas > 1 else 1,
        "storage_size": wish.version.etcd_storage.size,
        "etcd_quota_bytes": compute_etcd_quota(wish.version.etcd_storage.size),
        "storage_class": wish.version.etcd_storage.class_name,
        "images": versions.build_images(wish.settings.registry, release.versions),
        "controllers": catalog.build_controllers_flag(release.minor),
        "extra_args": release.extra_args,
        "runtime": _GO_RUNTIME_SETTINGS,
        "audit": audit.build_audit(wish.version.audit),
        "encryption_secret": encryption.SECRET
        if wish.has_encryption_keys or wish.version.encryption is not None
        else "",
        "audit_webhook_secret": audit.WEBHOOK_SECRET,
        **pod_settings.build_pod_values(
            wish.version_name, wish.version, wish.settings.priority_class
        ),
    }


def compute_etcd_quota(volume_size: str) -> int:
    """Return the limit in bytes of an etcd database: 60 % of its volume. 0 for no quantity.

    The rest is for the write-ahead log, for snapshots, and for a defragmentation.
    """
    size = quantities.parse_quantity(volume_size)
    return int(size * ETCD_QUOTA_PERCENT / 100) if size is not None and size > 0 else 0


def _build_certificate_facts(
    wish: PlanInput, slice_: ServiceRange, etcd_replicas: int, etcd_service: str, api_service: str
) -> CertificateFacts:
    return CertificateFacts(
        root=wish.tenant.root,
        uid=wish.tenant.uid,
        name=wish.tenant.name,
        domain=wish.spec.cluster_domain,
        api_address=slice_.api_address,
        external_domains=wish.external_domains,
        etcd_replicas=etcd_replicas,
        has_dns=_needs_dns(wish),
        has_metrics=_needs_metrics(wish),
        has_scrapers=bool(wish.settings.scrapers),
        api_service=api_service,
        etcd_service=etcd_service,
    )


def _build_claims(
    wish: PlanInput,
    slice_: ServiceRange,
    *,
    selector: Mapping[str, str],
    port: int | str,
    is_reached_early: bool,
) -> tuple[Manifest, ...]:
    claims = [
        service_cidrs.build_api_claim(
            wish.tenant.root,
            slice_,
            selector=selector,
            port=port,
            is_reached_early=is_reached_early,
        )
    ]
    if _needs_dns(wish):
        claims.append(service_cidrs.build_dns_claim(wish.tenant.root, slice_))
    return tuple(claims)


def _build_metrics(
    wish: PlanInput, slice_: ServiceRange, values: Mapping[str, Any]
) -> tuple[Manifest, ...]:
    if not _needs_metrics(wish):
        return ()
    return (
        service_cidrs.build_metrics_service(wish.tenant.root, slice_),
        *_render_template(METRICS, values),
    )


def _publishes_unready(wish: PlanInput) -> bool:
    """Return whether Services lead to an etcd and an API server before they are ready.

    At the very first start of single replicas, clients find them as soon as they listen. Later an
    API server that starts would deny its clients' permissions, instead of refusing the connection.
    Clients would also not leave one on a lost node.
    """
    return wish.is_new and wish.version.replicas == 1


def _needs_dns(wish: PlanInput) -> bool:
    return wish.spec.dns == "managed"


def _needs_metrics(wish: PlanInput) -> bool:
    return wish.spec.metrics == "managed"
