"""Phases of the reconcile of one VirtualCluster, as one table in their order.

Owns `PHASES`, the loop over them, and the results that a phase passes to later phases. Must not
write the status of the VirtualCluster. Hazard: a phase must not wait, because it would block a
worker. A phase returns why it cannot continue, and a watch event of what is missing queues the key.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import CLUSTER_VERSIONS, NODES, VIRTUAL_CLUSTERS
from tenancy.specs import VirtualCluster
from vcmanager.phases import (
    api_server_secrets,
    authority_rotation,
    certificate_requests,
    certificates,
    component_conditions,
    metrics_server,
    rollout,
    root_namespace,
    service_cidr,
    startup_order,
    tenant_bootstrap,
    validation,
)
from vcmanager.phases.authority_rotation import Rotations
from vcmanager.phases.certificates import IssuedCertificates
from vcmanager.phases.etcd import etcd_members
from vcmanager.phases.owned_objects import OwnedObjects
from vcmanager.pki import inventory
from vcmanager.plan import (
    certificate_table,
    external_endpoint,
    permanent_failures,
)
from vcmanager.plan.control_plane import ControlPlane, PlanInput
from vcmanager.plan.network import root_policies
from vcmanager.plan.pki_secrets import ApiAddress, DesiredSecrets
from vcmanager.plan.service_cidrs import ServiceNetwork, ServiceRange
from vcmanager.reconcilers import finalizers, scheduled_deletion
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.observed import ObservedObjects, observe_objects
from vcmanager.runtime.status import ReconcileStatus
from vcmanager.short_form import encryption

UNREADY_RETRY_SECONDS = 10.0
"""Retry interval in seconds of a tenant that is not ready.

Events with the cause of a failed pod start queue no key.
"""
_FORBIDDEN_RETRY_SECONDS = 30.0
_ENDPOINT_RETRY_SECONDS = 5.0
_FIRST_USE_RETRY_SECONDS = 1.0
"""Delay in seconds until settings for the time before a tenant's first use are reverted."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PhaseDone:
    """The phase is complete, so the next phase may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWaiting:
    """The phase waits for a change that needs no administrator. No later phase may run."""

    condition: str
    """Type of the condition that is False meanwhile."""
    reason: str
    message: str
    retry_after: float
    """Seconds until the next attempt, if no watch event queues the key earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStalled:
    """The phase waits for a change by an administrator. No later phase may run."""

    condition: str
    """Type of the condition that is False meanwhile."""
    reason: str
    message: str
    retry_after: float
    """Seconds until the next attempt, if no watch event queues the key earlier."""


PhaseResult = PhaseDone | PhaseWaiting | PhaseStalled
PhaseFunction = Callable[["PhaseRun"], Awaitable[PhaseResult]]
"""A phase: it observes, decides and acts, and can be repeated.

A helper of a phase raises PhaseBlocked instead of returning a result.
"""

_DONE = PhaseDone()


@dataclass(slots=True)
class PhaseRun:
    """One run of the phases for one VirtualCluster. A phase may read what earlier phases set."""

    context: ReconcileContext
    body: Object
    """The VirtualCluster."""
    status: ReconcileStatus
    observed: ObservedObjects = field(default_factory=lambda: ObservedObjects(namespace=None))
    """Objects of the root namespace when the run began."""
    is_planned: bool = False
    """Whether `plan` is set."""
    external: ApiAddress | None = None
    """Address of the API for clients outside, None while there is none."""
    rotations: Rotations = field(default_factory=Rotations)
    tenant_client: Client | None = None
    """None until the tenant's API server is ready."""
    cluster: VirtualCluster = field(init=False)
    plan_input: PlanInput = field(init=False)
    super_range: ServiceNetwork = field(init=False)
    namespace: Object = field(init=False)
    """The root namespace."""
    service_range: ServiceRange = field(init=False)
    plan: ControlPlane = field(init=False)
    nodes: list[Object] = field(init=False)
    """Nodes of the super cluster."""
    objects: OwnedObjects = field(init=False)
    certificates: IssuedCertificates = field(init=False)
    secrets: DesiredSecrets = field(init=False)

    def get_requeue_delay(self) -> float:
        """Return the seconds until the next reconcile. Valid after every phase is done."""
        if self.plan_input.is_new:
            return _FIRST_USE_RETRY_SECONDS
        due = self.rotations.compute_next(self.secrets.next_renewal, self.context.now())
        left = (due - self.context.now()).total_seconds()
        return min(RESYNC_SECONDS, max(1.0, left))

    async def set_component_conditions(self) -> None:
        """Add the condition of each component, if the root namespace or a plan exists."""
        if self.is_planned or self.observed.namespace:
            await component_conditions.set_component_conditions(
                self.context, self.status, self.observed, self.plan if self.is_planned else None
            )


@dataclass(frozen=True, slots=True)
class Phase:
    """One row of the table of phases."""

    name: str
    condition: str
    """Type of the condition that is False while the phase cannot continue.

    The result of a phase may name another one.
    """
    run: PhaseFunction


async def run_phases(run: PhaseRun, phases: Iterable[Phase]) -> PhaseResult:
    """Run phases in order, until one cannot continue. Return the result of the last that ran."""
    for phase in phases:
        result = await _run_phase(phase, run)
        if not isinstance(result, PhaseDone):
            _log.debug("tenant.phase_not_done", phase=phase.name, reason=result.reason)
            return result
    return _DONE


async def _run_phase(phase: Phase, run: PhaseRun) -> PhaseResult:
    try:
        return await phase.run(run)
    except PhaseBlocked as problem:
        result = PhaseStalled if problem.needs_admin else PhaseWaiting
        return result(
            condition=problem.condition or phase.condition,
            reason=problem.reason,
            message=problem.message,
            retry_after=problem.retry_after or UNREADY_RETRY_SECONDS,
        )
    except errors.Forbidden as problem:
        # A quota or a policy of the super cluster. Its message helps, and it may end at any time.
        run.status.failing_conditions.add(wellknown.READY)
        failure = permanent_failures.find_failure("Forbidden", str(problem))
        return PhaseWaiting(
            condition=wellknown.READY,
            reason=failure.reason if failure is not None else "Forbidden",
            message=f"{problem}; {failure.remedy}" if failure is not None else str(problem),
            retry_after=_FORBIDDEN_RETRY_SECONDS,
        )


async def _parse_cluster(run: PhaseRun) -> PhaseResult:
    run.cluster = validation.parse_cluster(run.body)
    run.status.cluster_namespace = run.cluster.tenant.root
    return _DONE


async def _observe_objects(run: PhaseRun) -> PhaseResult:
    run.observed = await observe_objects(run.context.super_client, run.cluster.tenant)
    return _DONE


async def _hold_scheduled_deletion(run: PhaseRun) -> PhaseResult:
    await scheduled_deletion.hold_scheduled_deletion(
        run.context, run.cluster, run.body, run.observed
    )
    return _DONE


async def _fetch_plan_input(run: PhaseRun) -> PhaseResult:
    is_new = tenant_bootstrap.is_new(run.body)
    found = await validation.fetch_plan_input(run.context, run.cluster, is_new=is_new)
    has_keys = run.observed.get("Secret", encryption.SECRET) is not None
    run.plan_input = replace(found, has_encryption_keys=has_keys)
    return _DONE


async def _check_plan(run: PhaseRun) -> PhaseResult:
    """Check that a plan is possible, before anything is created."""
    run.super_range = await validation.fetch_super_range(run.context)
    validation.check_plan(run.plan_input, run.super_range)
    return _DONE


async def _check_version_skew(run: PhaseRun) -> PhaseResult:
    running = str((run.body.get("status") or {}).get("version") or "")
    validation.check_version_skew(run.plan_input, running)
    return _DONE


async def _dry_run_bundles(run: PhaseRun) -> PhaseResult:
    if run.observed.namespace is None:
        await validation.dry_run_bundles(run.context, run.plan_input)
    return _DONE


async def _add_finalizers(run: PhaseRun) -> PhaseResult:
    """Add the finalizers of the VirtualCluster and of its ClusterVersion."""
    context = run.context
    await finalizers.add_finalizer(context, VIRTUAL_CLUSTERS, run.body)
    version = await context.super_client.get(
        CLUSTER_VERSIONS, run.plan_input.version_name, metadata_only=True
    )
    await finalizers.add_finalizer(context, CLUSTER_VERSIONS, version)
    return _DONE


async def _ensure_root_namespace(run: PhaseRun) -> PhaseResult:
    run.namespace = await root_namespace.ensure_root_namespace(
        run.context,
        run.cluster.tenant,
        run.observed.namespace,
        is_bundled=run.plan_input.version.is_bundled,
    )
    await root_namespace.ensure_credential_access(run.context, run.cluster.tenant)
    return _DONE


async def _ensure_service_range(run: PhaseRun) -> PhaseResult:
    run.service_range = await service_cidr.ensure_service_range(
        run.context, run.plan_input, run.observed, run.super_range
    )
    run.status.service_cidr = str(run.service_range)
    return _DONE


async def _build_plan(run: PhaseRun) -> PhaseResult:
    run.plan = validation.build_plan(run.plan_input, run.service_range)
    run.is_planned = True
    if run.plan.is_ephemeral:
        run.status.set_condition(
            wellknown.STORE_EPHEMERAL,
            "True",
            "NoVolume",
            "The etcd template has no volume, so the loss of its pod deletes the tenant's data.",
        )
    return _DONE


async def _check_etcd_members(run: PhaseRun) -> PhaseResult:
    etcd_members.check_replicas(run.plan, run.observed, run.plan_input.version_name)
    return _DONE


async def _write_network_policies(run: PhaseRun) -> PhaseResult:
    """Write the NetworkPolicies, before there are pods."""
    run.nodes = (await run.context.super_client.list(NODES)).get("items") or []
    run.objects = OwnedObjects(run.context, run.plan_input, run.observed)
    if run.context.settings.network_policies:
        policies = root_policies.build_network_policies(
            root_policies.PolicyInput(
                tenant=run.plan_input.tenant,
                selectors=run.plan.selectors,
                api_port=run.plan.api_port,
                has_known_ports=not run.plan.is_bundled,
                components_namespace=run.context.namespace,
                networks=root_policies.read_super_networks(run.nodes, [run.super_range]),
                egress=run.context.settings.egress,
            )
        )
        await run.objects.write_additional(policies)
    return _DONE


async def _write_services(run: PhaseRun) -> PhaseResult:
    """Write the Services, and complete the plan with the addresses that they got."""
    service = await run.objects.write_services(run.plan)
    run.external = await _find_external_address(run, service)
    facts = replace(
        run.plan.certificate_facts,
        service_address=run.objects.get_service_address(service),
        dialed_host=external_endpoint.find_dialed_host(run.external, run.plan_input.spec.targets),
    )
    run.plan = replace(run.plan, certificate_facts=facts)
    return _DONE


async def _find_external_address(run: PhaseRun, service: Object) -> ApiAddress | None:
    nodes = run.nodes if service["spec"].get("type") == "NodePort" else []
    return external_endpoint.find_external_address(
        service,
        internal=certificates.build_internal_address(run.plan),
        server_name=f"{run.plan.api_service}.{run.plan.certificate_facts.root}",
        nodes=nodes,
        known=(run.body.get("status") or {}).get("endpoint", ""),
    )


async def _issue_certificates(run: PhaseRun) -> PhaseResult:
    run.certificates = await certificates.create_authorities(
        run.context, run.plan_input, run.plan, run.namespace, run.observed
    )
    run.certificates, run.rotations = await authority_rotation.advance_rotations(
        run.context, run.plan_input, run.certificates, run.body
    )
    run.secrets = certificates.build_secrets(
        run.context,
        run.plan_input,
        run.plan,
        run.certificates,
        external=run.external,
        requested=certificate_table.parse_request(run.body, run.context.now()),
    )
    return _DONE


async def _write_mounted(run: PhaseRun) -> PhaseResult:
    """Write the Secrets and ConfigMaps that pods mount."""
    others = await api_server_secrets.fetch_secrets(
        run.context, run.plan_input, run.namespace, run.observed
    )
    rows = run.rotations.list_rows()
    await run.objects.write_mounted(run.plan, run.secrets, run.certificates, others, rotations=rows)
    run.context.expiries.set_validities(run.plan_input.tenant.uid, run.secrets.validities)
    until = run.secrets.next_renewal.strftime("%Y-%m-%d")
    run.status.set_condition(
        wellknown.CERTIFICATES_READY,
        "True",
        "Issued",
        f"All certificates are valid. The next renewal is on {until}.{run.rotations.describe()}",
    )
    return _DONE


async def _write_role_bindings(run: PhaseRun) -> PhaseResult:
    await run.objects.write_role_bindings()
    return _DONE


async def _write_workloads(run: PhaseRun) -> PhaseResult:
    await run.objects.write_workloads(run.plan)
    await run.objects.delete_unwanted(metrics_server.list_kept_objects(run.plan, run.observed))
    return _DONE


async def _replace_outdated_pods(run: PhaseRun) -> PhaseResult:
    await rollout.replace_outdated_pods(run.context, run.observed)
    if run.objects.written_count or run.secrets.renewed_secrets:
        _log.info(
            "tenant.written",
            objects=run.objects.written_count,
            certificates=[f"{name}: {fault}" for name, fault in run.secrets.renewed_secrets],
        )
    return _DONE


async def _bootstrap_tenant(run: PhaseRun) -> PhaseResult:
    """Connect to the tenant and write the manager's objects, as soon as its API is ready."""
    if not startup_order.is_api_ready(run.observed):
        return _DONE
    name = f"{inventory.MANAGER}-kubeconfig"
    secret = next(each for each in run.secrets.secrets if each["metadata"]["name"] == name)
    client = await tenant_bootstrap.connect_tenant(
        run.context, run.plan_input, run.plan, secret=secret
    )
    run.status.version = await tenant_bootstrap.bootstrap_tenant(
        client,
        run.plan,
        dns_address=run.service_range.dns_address if run.plan.certificate_facts.has_dns else "",
        retry_after=tenant_bootstrap.compute_retry_delay(run.body, run.context.now()),
    )
    run.tenant_client = client
    await certificate_requests.exchange(
        run.context,
        client,
        run.body,
        run.plan_input.tenant,
        run.secrets.validities,
        rotations=run.rotations.list_rows(),
        replaced_ends=run.secrets.replaced_ends,
        lifetime=timedelta(days=run.plan_input.spec.pki_expire_days),
    )
    return _DONE


async def _reconcile_metrics_api(run: PhaseRun) -> PhaseResult:
    """Create or remove the metrics-server. A new tenant becomes ready without it."""
    if run.tenant_client is not None and not run.plan_input.is_new:
        await metrics_server.reconcile_metrics_api(
            run.tenant_client,
            run.context,
            run.plan,
            build=run.objects,
            snapshot=run.observed,
            authority=run.secrets.serving,
            report=run.status,
        )
    return _DONE


async def _probe_enforcement(run: PhaseRun) -> PhaseResult:
    """Report whether the super cluster enforces NetworkPolicies."""
    probe = run.context.enforcement
    has_policies = run.context.settings.network_policies
    if probe is None or not has_policies or run.plan.is_bundled:
        return _DONE
    result = await probe.probe(run.observed)
    if result is not None:
        run.status.set_condition(wellknown.NETWORK_POLICIES_ENFORCED, *result)
    return _DONE


async def _publish_endpoint(run: PhaseRun) -> PhaseResult:
    if run.external is None:
        return PhaseWaiting(
            condition=wellknown.READY,
            reason="EndpointPending",
            message=f"Waiting for an external address of the Service {run.plan.api_service}"
            f" ({run.plan.service_type}).",
            retry_after=_ENDPOINT_RETRY_SECONDS,
        )
    run.status.endpoint = run.external.server
    return _DONE


async def _settle_rotations(run: PhaseRun) -> PhaseResult:
    run.rotations = await authority_rotation.settle_rotations(
        run.context, run.rotations, run.certificates, run.objects, run.observed
    )
    return _DONE


PHASES = (
    Phase("ParseCluster", wellknown.READY, _parse_cluster),
    Phase("ObserveObjects", wellknown.READY, _observe_objects),
    Phase("HoldScheduledDeletion", wellknown.READY, _hold_scheduled_deletion),
    Phase("FetchClusterVersion", wellknown.READY, _fetch_plan_input),
    Phase("CheckPlan", wellknown.READY, _check_plan),
    Phase("CheckVersionSkew", wellknown.READY, _check_version_skew),
    Phase("DryRunBundles", wellknown.READY, _dry_run_bundles),
    Phase("AddFinalizers", wellknown.READY, _add_finalizers),
    Phase("EnsureRootNamespace", wellknown.READY, _ensure_root_namespace),
    Phase("EnsureServiceRange", wellknown.READY, _ensure_service_range),
    Phase("BuildPlan", wellknown.READY, _build_plan),
    Phase("CheckEtcdMembers", wellknown.READY, _check_etcd_members),
    Phase("WriteNetworkPolicies", wellknown.READY, _write_network_policies),
    Phase("WriteServices", wellknown.READY, _write_services),
    Phase("IssueCertificates", wellknown.CERTIFICATES_READY, _issue_certificates),
    Phase("WriteMounted", wellknown.READY, _write_mounted),
    Phase("WriteRoleBindings", wellknown.READY, _write_role_bindings),
    Phase("WriteWorkloads", wellknown.READY, _write_workloads),
    # Before the phases that often cannot continue, because these may need the new pods.
    Phase("ReplaceOutdatedPods", wellknown.READY, _replace_outdated_pods),
    Phase("BootstrapTenant", wellknown.API_SERVER_READY, _bootstrap_tenant),
    Phase("ReconcileMetricsApi", wellknown.METRICS_READY, _reconcile_metrics_api),
    Phase("ProbeEnforcement", wellknown.READY, _probe_enforcement),
    Phase("PublishEndpoint", wellknown.READY, _publish_endpoint),
    # The last one, because it needs all others to be done.
    Phase("SettleRotations", wellknown.READY, _settle_rotations),
)
"""All phases, in order. A phase runs only after every earlier phase is done."""
