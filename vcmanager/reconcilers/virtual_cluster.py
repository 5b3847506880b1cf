"""Reconcile of one VirtualCluster: observe, decide, act, write the status.

Owns the order of the phases and the only write of the status. Must not know kopf. Hazard: a phase
must not wait, because it would block a worker. A phase reports why it cannot continue and returns,
and a watch event of what is missing wakes the key.
"""

import contextlib
from dataclasses import replace
from datetime import datetime

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.controller.worker import Done, RequeueAfter, Result
from tenancy import wellknown
from tenancy.names import InvalidNameError
from tenancy.ownership import Tenant
from tenancy.resources import CLUSTER_VERSIONS, NODES, VIRTUAL_CLUSTERS
from tenancy.specs import InvalidSpecError, parse_virtual_cluster
from vcmanager.phases import (
    certificates,
    etcd_members,
    rollout,
    root_namespace,
    service_cidr,
    startup_order,
    validation,
)
from vcmanager.phases import metrics_server as metrics_phase
from vcmanager.phases import tenant_bootstrap as tenant_phase
from vcmanager.phases.component_conditions import set_component_conditions
from vcmanager.phases.owned_objects import OwnedObjects
from vcmanager.pki import inventory
from vcmanager.plan import external_endpoint
from vcmanager.plan.control_plane import ControlPlane, PlanInput
from vcmanager.plan.pki_secrets import ApiAddress
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.reconcilers import finalizers, orphan_sweep, virtual_cluster_deletion
from vcmanager.runtime import status as statuses
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.runtime.observed import ObservedObjects, observe_objects
from vcmanager.runtime.status import ReconcileStatus

_UNREADY_RETRY_SECONDS = 10.0
"""Retry interval in seconds of a tenant that is not ready.

Events with the cause of a failed pod start wake no key.
"""
_FIRST_USE_RETRY_SECONDS = 1.0
"""Delay in seconds until settings for the time before a tenant's first use are reverted."""
_FORBIDDEN_RETRY_SECONDS = 30.0
_UNEXPECTED_SHAPE_ERRORS = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""Exceptions that a template of an unexpected shape causes."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_virtual_cluster(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Reconcile one VirtualCluster."""
    try:
        body = await means.super_client.get(VIRTUAL_CLUSTERS, key.name, namespace=key.namespace)
    except errors.NotFound:
        return Done()
    body = {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": VIRTUAL_CLUSTERS.kind, **body}
    report = ReconcileStatus(
        generation=body["metadata"].get("generation", 0),
        now=means.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    act = _reconcile_deleted if "deletionTimestamp" in body["metadata"] else _reconcile_existing
    try:
        return await act(means, body, report)
    except errors.Conflict:
        raise  # another writer was faster: the next try reads its change
    except errors.KubeError as problem:
        unreachable = isinstance(problem, errors.Unavailable) and not isinstance(
            problem, errors.ApiError
        )
        reason = "SuperClusterUnavailable" if unreachable else "SuperClusterRefuses"
        await _report_failure(means, body, report, reason, str(problem))
        raise
    except _UNEXPECTED_SHAPE_ERRORS as problem:
        message = (
            "the template cannot be used: the VirtualCluster or its ClusterVersion has a shape"
            f" that the manager does not know ({type(problem).__name__}); its log says where"
        )
        await _report_failure(means, body, report, "InternalError", message)
        raise


async def _report_failure(
    means: ReconcileContext, body: Object, report: ReconcileStatus, reason: str, message: str
) -> None:
    """Write a failure to the status, for users without access to the log."""
    old = body.get("status") or {}
    report.carry_over(old)
    report.failing_conditions.add(wellknown.READY)
    is_deleting = "deletionTimestamp" in body["metadata"]
    report.summarize(blocked=(reason, message), is_stalled=False, is_deleting=is_deleting)
    with contextlib.suppress(errors.KubeError):
        await _write_status(means, body, report)


async def _reconcile_existing(
    means: ReconcileContext, body: Object, report: ReconcileStatus
) -> Result:
    walk = _PhaseRun(means, body, report)
    held: PhaseBlocked | None = None
    verdict: Result = Done()
    try:
        verdict = RequeueAfter(await walk.run_phases())
    except PhaseBlocked as problem:
        held = problem
        verdict = RequeueAfter(problem.retry_after or _UNREADY_RETRY_SECONDS)
        if problem.condition != wellknown.READY:
            report.set_condition(
                problem.condition,
                "False",
                problem.reason,
                problem.message,
                is_failure=problem.needs_admin,
            )
    except errors.Forbidden as problem:
        # A quota or a policy of the super cluster: its words help, and it may be lifted any time.
        held = PhaseBlocked("Forbidden", str(problem))
        verdict = RequeueAfter(_FORBIDDEN_RETRY_SECONDS)
        report.failing_conditions.add(wellknown.READY)
    await walk.set_component_conditions()
    report.summarize(
        blocked=(held.reason, held.message) if held is not None else None,
        is_stalled=held is not None and held.needs_admin,
        is_deleting=False,
        old=body.get("status") or {},
    )
    await _write_status(means, body, report)
    if held is None and not report.is_settled:
        return RequeueAfter(_UNREADY_RETRY_SECONDS)
    if held is None and not report.is_complete and isinstance(verdict, RequeueAfter):
        return RequeueAfter(min(verdict.after, metrics_phase.RETRY_SECONDS))
    return verdict


async def _reconcile_deleted(
    means: ReconcileContext, body: Object, report: ReconcileStatus
) -> Result:
    tenant = _parse_tenant(body)
    try:
        await virtual_cluster_deletion.delete_tenant(means, body, tenant)
    except PhaseBlocked as held:
        report.summarize(blocked=(held.reason, held.message), is_stalled=False, is_deleting=True)
        await _write_status(means, body, report)
        return RequeueAfter(held.retry_after or _UNREADY_RETRY_SECONDS)
    if tenant is not None:
        means.expiries.remove_owner(tenant.uid)
        orphan_sweep.schedule_sweep(means, body, tenant)
    version = (body.get("spec") or {}).get("clusterVersionName")
    if version:
        means.enqueue(ReconcileKey("ClusterVersion", "", version))
    _log.info("tenant.deleted")
    return Done()


def _parse_tenant(body: Object) -> Tenant | None:
    """Return the tenant of a VirtualCluster, even if its spec or status is invalid."""
    named = {**body, "spec": {"clusterVersionName": "-"}, "status": {}}
    try:
        return parse_virtual_cluster(named).tenant
    except (InvalidNameError, InvalidSpecError):
        return None


async def _write_status(means: ReconcileContext, body: Object, report: ReconcileStatus) -> None:
    old = body.get("status") or {}
    document = report.build_status(old)
    if statuses.is_status_current(document, old):
        return
    metadata = body["metadata"]
    try:
        await means.super_client.apply(
            VIRTUAL_CLUSTERS,
            {
                "apiVersion": body["apiVersion"],
                "kind": body["kind"],
                "metadata": {
                    "name": metadata["name"],
                    "namespace": metadata["namespace"],
                    "uid": metadata["uid"],
                },
                "status": document,
            },
            subresource="status",
            field_manager=wellknown.MANAGER,
        )
    except errors.NotFound:
        return
    for kind, reason, message in statuses.iterate_events(document, old, report.failing_conditions):
        means.recorder.record(body, reason, message, kind=kind)


class _PhaseRun:
    """The phases of one reconcile, and their results so far."""

    def __init__(self, means: ReconcileContext, body: Object, report: ReconcileStatus) -> None:
        self._means = means
        self._body = body
        self._report = report
        self._snapshot: ObservedObjects | None = None
        self._plan: ControlPlane | None = None

    async def run_phases(self) -> float:
        """Run all phases. Return the seconds until the next reconcile. Raises Held."""
        means, report = self._means, self._report
        cluster = validation.parse_cluster(self._body)
        report.cluster_namespace = cluster.tenant.root
        self._snapshot = snapshot = await observe_objects(means.super_client, cluster.tenant)
        wish = await validation.fetch_plan_input(
            means, cluster, is_new=tenant_phase.is_new(self._body)
        )
        whole = await validation.fetch_super_range(means)
        validation.check_plan(wish, whole)
        if snapshot.namespace is None:
            await validation.dry_run_bundles(means, wish)
        await self._protect_cluster_version(wish)
        namespace = await root_namespace.ensure_root_namespace(
            means, cluster.tenant, snapshot.namespace, is_bundled=wish.version.is_bundled
        )
        slice_ = await service_cidr.ensure_service_range(means, wish, snapshot, whole)
        report.service_cidr = str(slice_)
        self._plan = plan = validation.build_plan(wish, slice_)
        if plan.is_ephemeral:
            report.set_condition(
                wellknown.STORE_EPHEMERAL,
                "True",
                "NoVolume",
                "the etcd template has no volume: a lost pod is a lost tenant",
            )
        renewal = await self._write_objects(wish, plan, namespace, slice_)
        if wish.is_new:
            return _FIRST_USE_RETRY_SECONDS
        return min(RESYNC_SECONDS, max(1.0, (renewal - means.now()).total_seconds()))

    async def set_component_conditions(self) -> None:
        """Add the condition of each component, if the root namespace or a plan exists."""
        if self._snapshot is not None and (self._plan is not None or self._snapshot.namespace):
            await set_component_conditions(self._means, self._report, self._snapshot, self._plan)

    async def _protect_cluster_version(self, wish: PlanInput) -> None:
        means = self._means
        await finalizers.add_finalizer(means, VIRTUAL_CLUSTERS, self._body)
        version = await means.super_client.get(
            CLUSTER_VERSIONS, wish.version_name, metadata_only=True
        )
        await finalizers.add_finalizer(means, CLUSTER_VERSIONS, version)

    async def _write_objects(
        self, wish: PlanInput, plan: ControlPlane, namespace: Object, slice_: ServiceRange
    ) -> datetime:
        """Write all objects and connect. Return the next renewal time. Raises Held."""
        means, report = self._means, self._report
        snapshot = self._snapshot or ObservedObjects(namespace=namespace)
        etcd_members.check_replicas(plan, snapshot, wish.version_name)
        build = OwnedObjects(means, wish, snapshot)
        service = await build.write_services(plan)
        external = await self._find_external_address(plan, service)
        facts = replace(
            plan.certificate_facts,
            service_address=build.get_service_address(service),
            dialed_host=external_endpoint.find_dialed_host(external, wish.spec.targets),
        )
        plan = replace(plan, certificate_facts=facts)
        roots = await certificates.create_authorities(means, wish, plan, namespace, snapshot)
        material = certificates.build_secrets(means, wish, plan, roots, external)
        await build.write_mounted(plan, material, roots)
        means.expiries.set_validities(wish.tenant.uid, material.validities)
        until = material.next_renewal.strftime("%Y-%m-%d")
        report.set_condition(
            wellknown.CERTIFICATES_READY,
            "True",
            "Issued",
            f"all certificates are valid; the next is renewed on {until}",
        )
        await build.write_workloads(plan)
        await build.delete_unwanted(metrics_phase.list_kept_objects(plan, snapshot))
        # Before any phase that may raise Held, because its condition may need these new pods.
        await rollout.replace_outdated_pods(means, snapshot)
        if build.written_count or material.renewed_secrets:
            _log.info(
                "tenant.written",
                objects=build.written_count,
                certificates=[f"{name}: {fault}" for name, fault in material.renewed_secrets],
            )
        client = await self._bootstrap_tenant(wish, plan, slice_, material.secrets)
        if client is not None and not wish.is_new:
            await metrics_phase.reconcile_metrics_api(
                client,
                means,
                plan,
                build=build,
                snapshot=snapshot,
                authority=material.serving,
                report=report,
            )
        if external is None:
            raise PhaseBlocked(
                "EndpointPending",
                f"waiting for an address at which the Service {plan.api_service}"
                f" ({plan.service_type}) can be reached from outside",
                retry_after=5.0,
            )
        report.endpoint = external.server
        return material.next_renewal

    async def _find_external_address(
        self, plan: ControlPlane, service: Object
    ) -> ApiAddress | None:
        nodes: list[Object] = []
        if service["spec"].get("type") == "NodePort":
            nodes = (await self._means.super_client.list(NODES)).get("items") or []
        return external_endpoint.find_external_address(
            service,
            internal=certificates.build_internal_address(plan),
            server_name=f"{plan.api_service}.{plan.certificate_facts.root}",
            nodes=nodes,
            known=(self._body.get("status") or {}).get("endpoint", ""),
        )

    async def _bootstrap_tenant(
        self,
        wish: PlanInput,
        plan: ControlPlane,
        slice_: ServiceRange,
        secrets: tuple[Object, ...],
    ) -> Client | None:
        """Connect to the tenant as soon as its API server is ready. Raises Held."""
        if self._snapshot is None or not startup_order.is_api_ready(self._snapshot):
            return None
        name = f"{inventory.MANAGER}-kubeconfig"
        secret = next(each for each in secrets if each["metadata"]["name"] == name)
        client = await tenant_phase.connect_tenant(self._means, wish, plan, secret=secret)
        self._report.version = await tenant_phase.bootstrap_tenant(
            client,
            plan,
            dns_address=slice_.dns_address if plan.certificate_facts.has_dns else "",
            retry_after=tenant_phase.compute_retry_delay(self._body, self._means.now()),
        )
        return client
