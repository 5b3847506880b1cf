"""Process of the manager: builds the parts, runs them while the Lease is held, stops them.

Owns the life and the order of the parts. Must not know what a reconcile does. Hazard: after a stop
no new work may begin while running work ends. The watches stop first, then the workers, then the
Lease.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
import tenacity

from kubeio import errors
from kubeio.api.client import Client
from kubeio.api.event_recorder import EventRecorder
from kubeio.api.leader_election import LeaderElector, LeaseLostError, build_identity
from kubeio.config.endpoint import Endpoint
from kubeio.controller.fair_queue import FairQueue, QueueOptions
from kubeio.controller.worker import Result, Worker
from kubeio.http.rest import ClientOptions
from telemetry.probes import HealthProbes
from tenancy import wellknown
from tenancy.access.hosts import HostClaim
from tenancy.resources import (
    SUPER_CLUSTERS,
    SYNC_RULES,
    TENANT_POLICIES,
    VIRTUAL_CLUSTER_CONTROL_PLANES,
    VIRTUAL_CLUSTER_SNAPSHOTS,
    VIRTUAL_CLUSTERS,
)
from vcmanager.agents import authorities, csr_signer, permissions
from vcmanager.phases.policy_enforcement import PolicyEnforcementProbe
from vcmanager.reconcilers import (
    etcd_store,
    finalizers,
    node_address,
    orphan_sweep,
    rollout,
    sync_events,
    sync_rules,
    syncer_access,
    tenant_content,
)
from vcmanager.reconcilers.integrations.cluster_profile import reconcile_cluster_profile
from vcmanager.reconcilers.integrations.control_plane import reconcile_control_plane
from vcmanager.reconcilers.snapshots.schedule import reconcile_schedule
from vcmanager.reconcilers.snapshots.snapshot import reconcile_snapshot
from vcmanager.reconcilers.virtual_cluster import reconcile_virtual_cluster
from vcmanager.runtime.content_sources import ContentSources
from vcmanager.runtime.context import ReconcileContext, TenantClients
from vcmanager.runtime.host_watch import HostWatch
from vcmanager.runtime.keys import (
    AGENT_ACCESS_KEY,
    AGENT_TRUST_KEY,
    SYNC_RULES_KEY,
    SYNCER_ACCESS_KEY,
    ReconcileKey,
    ReconcileKind,
    build_virtual_cluster_key,
)
from vcmanager.runtime.options import AgentPodSettings, OperatorSettings
from vcmanager.targets import super_cluster as target
from vcmanager.targets.clients import TargetClientCache
from vcmanager.watches import kopf_watches

USER_AGENT = "vc-manager"
_DRAIN_SECONDS = 8.0
_WORKER_COUNT = 16
_MAX_DELAY_SECONDS = 60.0
"""Longest delay between two tries of a key, in seconds."""
_RETRY_SECONDS = 5.0

_RECONCILE_FUNCTIONS: Mapping[
    ReconcileKind, Callable[[ReconcileContext, ReconcileKey], Awaitable[Result]]
] = {
    "VirtualCluster": reconcile_virtual_cluster,
    "ClusterVersion": finalizers.reconcile_cluster_version,
    "Rollout": rollout.reconcile_rollout,
    "CertificateSigningRequest": csr_signer.reconcile_csr,
    "AgentTrust": authorities.reconcile_agent_trust,
    "AgentAccess": permissions.reconcile_agent_access,
    "SyncerAccess": syncer_access.reconcile_syncer_access,
    "NodeAddress": node_address.reconcile_node_address,
    "SuperCluster": target.reconcile_super_cluster,
    "Departure": orphan_sweep.reconcile_orphans,
    "Store": etcd_store.reconcile_store,
    "Snapshot": reconcile_snapshot,
    "SnapshotSchedule": reconcile_schedule,
    "SyncEvents": sync_events.reconcile_sync_events,
    "TenantContent": tenant_content.reconcile_content,
    "ClusterProfile": reconcile_cluster_profile,
    "ControlPlane": reconcile_control_plane,
    "SyncRules": sync_rules.reconcile_sync_rules,
}

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """Options of the command line."""

    namespace: str
    settings: OperatorSettings
    port: int
    identity: str
    """Name of the pod, or of the machine."""
    pod_uid: str = ""
    """Empty outside of a pod."""
    agent_pods: AgentPodSettings | None = None
    version: str


async def run_with_leader_election(options: ManagerOptions, endpoint: Endpoint) -> int:
    """Compete for the Lease and work while it is held. Return 0 after an orderly end."""
    stop = asyncio.Event()
    _stop_on_signals(stop)
    agent = f"{USER_AGENT}/{options.identity}"
    # Renewals neither queue behind a burst of writes nor are they fenced.
    async with contextlib.AsyncExitStack() as stack:
        lease = LeaderElector(
            await stack.enter_async_context(
                Client(endpoint, ClientOptions(user_agent=agent, connections=1))
            ),
            namespace=options.namespace,
            name=wellknown.MANAGER,
            identity=build_identity(options.identity, options.pod_uid),
        )
        super_client = await stack.enter_async_context(
            Client(endpoint, ClientOptions(user_agent=agent, fence=lease.check_fence))
        )
        manager = _Manager(options, endpoint, super_client, stop)
        async with HealthProbes().serve_in_block(options.port):
            run = asyncio.ensure_future(lease.run(manager.run))
            stopped = asyncio.ensure_future(stop.wait())
            await asyncio.wait([run, stopped], return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not run.done() and not lease.is_held:
                run.cancel()  # it only waits for its turn
            try:
                await run
            except asyncio.CancelledError:
                return 0
            except LeaseLostError as problem:
                _log.error("lease.lost", problem=str(problem))
                return 1
    return 0


class _Manager:
    """Everything that runs while the Lease is held."""

    def __init__(
        self,
        options: ManagerOptions,
        endpoint: Endpoint,
        super_client: Client,
        stop: asyncio.Event,
    ) -> None:
        self._options = options
        self._endpoint = endpoint
        self._client = super_client
        self._stop = stop
        self._queue: FairQueue[ReconcileKey] = FairQueue(
            QueueOptions(name="vc-manager", max_delay=_MAX_DELAY_SECONDS),
            group=lambda key: key.group,
        )

    async def run(self) -> None:
        """Work until a stop is requested, then finish running work."""
        if not await self._wait_for_crds():
            return
        options = self._options
        recorder = EventRecorder(
            self._client, component=wellknown.MANAGER, instance=options.identity
        )
        async with contextlib.AsyncExitStack() as stack:
            means = ReconcileContext(
                super_client=self._client,
                settings=options.settings,
                namespace=options.namespace,
                recorder=recorder,
                now=lambda: datetime.now(UTC),
                enqueue=self._queue.add,
                enqueue_after=self._queue.add_after,
                tenant_clients=await stack.enter_async_context(
                    TenantClients(user_agent=self._client.user_agent, fence=self._client.fence)
                ),
                target_clients=await stack.enter_async_context(
                    TargetClientCache(user_agent=self._client.user_agent, fence=self._client.fence)
                ),
                agent_pods=options.agent_pods,
                enforcement=PolicyEnforcementProbe(),
                content_sources=ContentSources(self._queue.add),
                hosts=self._build_host_watch(),
            )
            await self._run_workers(means, recorder)

    async def _run_workers(self, means: ReconcileContext, recorder: EventRecorder) -> None:
        async def process_key(key: ReconcileKey) -> Result:
            return await _RECONCILE_FUNCTIONS[key.kind](means, key)

        worker = Worker(
            self._queue,
            process_key,
            name="vc-manager",
            count=_WORKER_COUNT,
            fields=ReconcileKey.build_log_fields,
        )
        async with asyncio.TaskGroup() as group:
            posting = group.create_task(recorder.run())
            following = await self._follow_hosts(means.hosts, group)
            working = group.create_task(worker.run())
            watching = group.create_task(_run_content_sources(means))
            self._queue.add(AGENT_TRUST_KEY)
            self._queue.add(AGENT_ACCESS_KEY)
            self._queue.add(SYNCER_ACCESS_KEY)
            self._queue.add(SYNC_RULES_KEY)
            async with kopf_watches.run_watches(
                self._endpoint, self._queue.add, options=self._options.settings
            ) as failed:
                _log.info("manager.started", version=self._options.version)
                stopped = group.create_task(self._stop.wait())
                either: list[asyncio.Future[Any]] = [stopped, failed]
                await _wait_first(either, or_cancel=working)
                if failed.done():
                    failed.result()
            self._queue.close()
            await asyncio.wait([working], timeout=_DRAIN_SECONDS)
            working.cancel()
            posting.cancel()
            watching.cancel()
            if following is not None:
                following.cancel()
        _log.info("manager.stopped")

    def _build_host_watch(self) -> HostWatch | None:
        proxy = self._options.settings.api_proxy
        if proxy is None:
            return None

        def enqueue(claim: HostClaim) -> None:
            self._queue.add(build_virtual_cluster_key(claim.namespace, claim.name))

        return HostWatch(self._client, proxy.base_domain, enqueue)

    async def _follow_hosts(
        self, watch: HostWatch | None, group: asyncio.TaskGroup
    ) -> asyncio.Task[None] | None:
        """Follow the host names of all tenants. Return once they are known, or at a stop."""
        if watch is None:
            return None
        following = group.create_task(watch.run())
        known = asyncio.ensure_future(watch.wait_synced())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((known, stopped), return_when=asyncio.FIRST_COMPLETED)
        known.cancel()
        stopped.cancel()
        return following

    async def _wait_for_crds(self) -> bool:
        """Wait until the manager's kinds are served. Return whether to continue."""
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type((errors.NotFound, errors.Unavailable)),
            wait=tenacity.wait_fixed(_RETRY_SECONDS),
            stop=lambda _: self._stop.is_set(),
            sleep=self._sleep_until_stop,
            before_sleep=_log_missing_crds,
            retry_error_callback=lambda _: False,
        )
        return await retrying(self._check_crds)

    async def _check_crds(self) -> bool:
        """Return True if the manager's kinds are served, False after a stop request."""
        if self._stop.is_set():
            return False
        is_provider = self._options.settings.cluster_api
        for kind in (
            VIRTUAL_CLUSTERS,
            TENANT_POLICIES,
            SUPER_CLUSTERS,
            SYNC_RULES,
            VIRTUAL_CLUSTER_SNAPSHOTS,
            *((VIRTUAL_CLUSTER_CONTROL_PLANES,) if is_provider else ()),
        ):
            await self._client.list(kind, limit=1)
        return True

    async def _sleep_until_stop(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)


async def _run_content_sources(means: ReconcileContext) -> None:
    if means.content_sources is not None:
        await means.content_sources.run(means.super_client)


def _log_missing_crds(state: tenacity.RetryCallState) -> None:
    problem = state.outcome.exception() if state.outcome else None
    message = str(problem)
    if isinstance(problem, errors.NotFound):
        message = (
            "The super cluster does not have all CustomResourceDefinitions. Install the CRDs of the"
            " chart."
        )
    _log.warning("manager.waiting", problem=message)


async def _wait_first(futures: list[asyncio.Future[Any]], *, or_cancel: asyncio.Task[None]) -> None:
    """Wait for one of them. On cancellation the Lease is lost, and writes stop at once.

    The end of the watches takes seconds, and another manager may begin before that.
    """
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        or_cancel.cancel()
        await asyncio.wait([or_cancel])
        raise


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
