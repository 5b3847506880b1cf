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
from kubeio.controller.worker import Again, Done, Verdict
from tenancy import wellknown
from tenancy.names import NameProblemError
from tenancy.ownership import Tenant
from tenancy.resources import CLUSTER_VERSIONS, NODES, VIRTUAL_CLUSTERS
from tenancy.specs import SpecProblemError, parse_virtual_cluster
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
from vcmanager.phases.component_conditions import judge
from vcmanager.phases.owned_objects import Build
from vcmanager.pki import inventory
from vcmanager.plan import external_endpoint
from vcmanager.plan.control_plane import ControlPlane, Wish
from vcmanager.plan.pki_secrets import Address
from vcmanager.plan.service_cidrs import Slice
from vcmanager.reconcilers import finalizers, orphan_sweep, virtual_cluster_deletion
from vcmanager.runtime import status as statuses
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.context import RESYNC_SECONDS, Means
from vcmanager.runtime.keys import Key
from vcmanager.runtime.observed import Snapshot, take
from vcmanager.runtime.status import Report

_UNREADY = 10.0
"""Retry interval in seconds of a tenant that is not ready.

Events with the cause of a failed pod start wake no key.
"""
_SETTLING = 1.0
"""Delay in seconds until settings for the time before a tenant's first use are reverted."""
_FORBIDDEN = 30.0
_SURPRISES = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""Exceptions that a template of an unexpected shape causes."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(means: Means, key: Key) -> Verdict:
    """Reconcile one VirtualCluster."""
    try:
        body = await means.super_client.get(VIRTUAL_CLUSTERS, key.name, namespace=key.namespace)
    except errors.NotFound:
        return Done()
    body = {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": VIRTUAL_CLUSTERS.kind, **body}
    report = Report(
        generation=body["metadata"].get("generation", 0),
        now=means.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    act = _delete if "deletionTimestamp" in body["metadata"] else _keep
    try:
        return await act(means, body, report)
    except errors.Conflict:
        raise  # another writer was faster: the next try reads its change
    except errors.KubeError as problem:
        unreachable = isinstance(problem, errors.Unavailable) and not isinstance(
            problem, errors.ApiError
        )
        reason = "SuperClusterUnavailable" if unreachable else "SuperClusterRefuses"
        await _say_why(means, body, report, reason, str(problem))
        raise
    except _SURPRISES as problem:
        message = (
            "the template cannot be used: the VirtualCluster or its ClusterVersion has a shape"
            f" that the manager does not know ({type(problem).__name__}); its log says where"
        )
        await _say_why(means, body, report, "InternalError", message)
        raise


async def _say_why(means: Means, body: Object, report: Report, reason: str, message: str) -> None:
    """Write a failure to the status, for users without access to the log."""
    old = body.get("status") or {}
    report.repeat(old)
    report.failing.add(wellknown.READY)
    is_deleting = "deletionTimestamp" in body["metadata"]
    report.conclude(held=(reason, message), is_stalled=False, is_deleting=is_deleting)
    with contextlib.suppress(errors.KubeError):
        await _write_status(means, body, report)


async def _keep(means: Means, body: Object, report: Report) -> Verdict:
    walk = _Walk(means, body, report)
    held: Held | None = None
    verdict: Verdict = Done()
    try:
        verdict = Again(await walk.run())
    except Held as problem:
        held = problem
        verdict = Again(problem.again_after or _UNREADY)
        if problem.condition != wellknown.READY:
            report.say(
                problem.condition,
                "False",
                problem.reason,
                problem.message,
                is_failure=problem.needs_person,
            )
    except errors.Forbidden as problem:
        # A quota or a policy of the super cluster: its words help, and it may be lifted any time.
        held = Held("Forbidden", str(problem))
        verdict = Again(_FORBIDDEN)
        report.failing.add(wellknown.READY)
    await walk.judge()
    report.conclude(
        held=(held.reason, held.message) if held is not None else None,
        is_stalled=held is not None and held.needs_person,
        is_deleting=False,
        old=body.get("status") or {},
    )
    await _write_status(means, body, report)
    if held is None and not report.is_settled:
        return Again(_UNREADY)
    if held is None and not report.is_whole and isinstance(verdict, Again):
        return Again(min(verdict.after, metrics_phase.RETRY_SECONDS))
    return verdict


async def _delete(means: Means, body: Object, report: Report) -> Verdict:
    tenant = _tenant_of(body)
    try:
        await virtual_cluster_deletion.act(means, body, tenant)
    except Held as held:
        report.conclude(held=(held.reason, held.message), is_stalled=False, is_deleting=True)
        await _write_status(means, body, report)
        return Again(held.again_after or _UNREADY)
    if tenant is not None:
        means.expiries.drop(tenant.uid)
        orphan_sweep.note(means, body, tenant)
    version = (body.get("spec") or {}).get("clusterVersionName")
    if version:
        means.wake(Key("ClusterVersion", "", version))
    _log.info("tenant.deleted")
    return Done()


def _tenant_of(body: Object) -> Tenant | None:
    """Return the tenant of a VirtualCluster, even if its spec or status is invalid."""
    named = {**body, "spec": {"clusterVersionName": "-"}, "status": {}}
    try:
        return parse_virtual_cluster(named).tenant
    except (NameProblemError, SpecProblemError):
        return None


async def _write_status(means: Means, body: Object, report: Report) -> None:
    old = body.get("status") or {}
    document = report.document(old)
    if statuses.is_written(document, old):
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
    for kind, reason, message in statuses.news(document, old, report.failing):
        means.recorder.record(body, reason, message, kind=kind)


class _Walk:
    """The phases of one reconcile, and their results so far."""

    def __init__(self, means: Means, body: Object, report: Report) -> None:
        self._means = means
        self._body = body
        self._report = report
        self._snapshot: Snapshot | None = None
        self._plan: ControlPlane | None = None

    async def run(self) -> float:
        """Run all phases. Return the seconds until the next reconcile. Raises Held."""
        means, report = self._means, self._report
        cluster = validation.parse(self._body)
        report.cluster_namespace = cluster.tenant.root
        self._snapshot = snapshot = await take(means.super_client, cluster.tenant)
        wish = await validation.fetch_wish(means, cluster, is_new=tenant_phase.is_new(self._body))
        whole = await validation.fetch_super_range(means)
        validation.trial(wish, whole)
        if snapshot.namespace is None:
            await validation.dry_run(means, wish)
        await self._guard(wish)
        namespace = await root_namespace.act(
            means, cluster.tenant, snapshot.namespace, is_bundled=wish.version.is_bundled
        )
        slice_ = await service_cidr.act(means, wish, snapshot, whole)
        report.service_cidr = str(slice_)
        self._plan = plan = validation.plan(wish, slice_)
        if plan.is_ephemeral:
            report.say(
                wellknown.STORE_EPHEMERAL,
                "True",
                "NoVolume",
                "the etcd template has no volume: a lost pod is a lost tenant",
            )
        renewal = await self._make(wish, plan, namespace, slice_)
        if wish.is_new:
            return _SETTLING
        return min(RESYNC_SECONDS, max(1.0, (renewal - means.now()).total_seconds()))

    async def judge(self) -> None:
        """Add the condition of each component, if the root namespace or a plan exists."""
        if self._snapshot is not None and (self._plan is not None or self._snapshot.namespace):
            await judge(self._means, self._report, self._snapshot, self._plan)

    async def _guard(self, wish: Wish) -> None:
        means = self._means
        await finalizers.guard(means, VIRTUAL_CLUSTERS, self._body)
        version = await means.super_client.get(
            CLUSTER_VERSIONS, wish.version_name, metadata_only=True
        )
        await finalizers.guard(means, CLUSTER_VERSIONS, version)

    async def _make(
        self, wish: Wish, plan: ControlPlane, namespace: Object, slice_: Slice
    ) -> datetime:
        """Write all objects and connect. Return the next renewal time. Raises Held."""
        means, report = self._means, self._report
        snapshot = self._snapshot or Snapshot(namespace=namespace)
        etcd_members.check(plan, snapshot, wish.version_name)
        build = Build(means, wish, snapshot)
        service = await build.services(plan)
        external = await self._external(plan, service)
        facts = replace(
            plan.facts,
            service_address=build.address_of(service),
            outside=external_endpoint.outside(external, wish.spec.targets),
        )
        plan = replace(plan, facts=facts)
        roots = await certificates.create_roots(means, wish, plan, namespace, snapshot)
        material = certificates.material(means, wish, plan, roots, external)
        await build.mounted(plan, material, roots)
        means.expiries.note(wish.tenant.uid, material.spans)
        until = material.next_renewal.strftime("%Y-%m-%d")
        report.say(
            wellknown.CERTIFICATES_READY,
            "True",
            "Issued",
            f"all certificates are valid; the next is renewed on {until}",
        )
        await build.workloads(plan)
        await build.prune(metrics_phase.kept(plan, snapshot))
        # Before any phase that may raise Held, because its condition may need these new pods.
        await rollout.act(means, snapshot)
        if build.written or material.renewed:
            _log.info(
                "tenant.written",
                objects=build.written,
                certificates=[f"{name}: {fault}" for name, fault in material.renewed],
            )
        client = await self._enter(wish, plan, slice_, material.secrets)
        if client is not None and not wish.is_new:
            await metrics_phase.act(
                client,
                means,
                plan,
                build=build,
                snapshot=snapshot,
                authority=material.serving,
                report=report,
            )
        if external is None:
            raise Held(
                "EndpointPending",
                f"waiting for an address at which the Service {plan.api_service}"
                f" ({plan.service_type}) can be reached from outside",
                again_after=5.0,
            )
        report.endpoint = external.server
        return material.next_renewal

    async def _external(self, plan: ControlPlane, service: Object) -> Address | None:
        nodes: list[Object] = []
        if service["spec"].get("type") == "NodePort":
            nodes = (await self._means.super_client.list(NODES)).get("items") or []
        return external_endpoint.external(
            service,
            internal=certificates.internal_of(plan),
            server_name=f"{plan.api_service}.{plan.facts.root}",
            nodes=nodes,
            known=(self._body.get("status") or {}).get("endpoint", ""),
        )

    async def _enter(
        self,
        wish: Wish,
        plan: ControlPlane,
        slice_: Slice,
        secrets: tuple[Object, ...],
    ) -> Client | None:
        """Connect to the tenant as soon as its API server is ready. Raises Held."""
        if self._snapshot is None or not startup_order.answers(self._snapshot):
            return None
        name = f"{inventory.MANAGER}-kubeconfig"
        secret = next(each for each in secrets if each["metadata"]["name"] == name)
        client = await tenant_phase.connect(self._means, wish, plan, secret=secret)
        self._report.version = await tenant_phase.act(
            client,
            plan,
            dns_address=slice_.dns if plan.facts.has_dns else "",
            again_after=tenant_phase.pause(self._body, self._means.now()),
        )
        return client
