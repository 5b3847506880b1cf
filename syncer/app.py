"""The syncer process: construction of its parts, work while the Lease is held, and orderly stop.

Owns the life of the process. Must not know the meaning of a key. Hazard: the stop must close the
queue first, then end the workers, then the watches, then the Lease. Otherwise new work would begin
while the keys in work end.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from kubeio.api.client import Client
from kubeio.api.leader_election import LeaderElector, LeaseLostError, build_identity
from kubeio.config.endpoint import Endpoint
from kubeio.controller.fair_queue import FairQueue, QueueOptions
from kubeio.controller.worker import Worker
from kubeio.http.rest import ClientOptions
from kubeio.loop_budget import LoopBudget
from syncer.clusters.home_cluster import HomeCluster
from syncer.handlers.dispatcher import Dispatcher, build_log_fields
from syncer.handlers.home_events import HomeEvents
from syncer.handlers.quota_events import QuotaEvents
from syncer.handlers.resync import RESYNC_SECONDS, Resync
from syncer.lifecycle.memory_pressure import MemoryPressure
from syncer.lifecycle.tenant_manager import TenantManager
from syncer.model.keys import HOME, Key, build_group
from syncer.model.tenant_view import DEFAULT_CLUSTER_DOMAIN
from syncer.rules.registry import select_kinds
from syncer.safety.cache_limits import TenantLimits
from telemetry import gc_tuning
from telemetry.probes import HealthProbes
from tenancy import wellknown

USER_AGENT = "virtual-cluster-syncer"
DRAIN_SECONDS = 8.0
WORKER_COUNT = 32
MAX_IN_FLIGHT_PER_TENANT = 8
"""Maximum number of keys of one tenant in work, so that a slow or greedy tenant leaves workers to
other tenants.
"""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerOptions:
    """Settings from the command line."""

    namespace: str
    port: int
    identity: str
    """Name of the pod, or of the machine."""
    pod_uid: str = ""
    """Empty outside of a pod."""
    version: str
    resync_seconds: float = RESYNC_SECONDS
    cluster_domain: str = DEFAULT_CLUSTER_DOMAIN
    """DNS domain of the super cluster."""
    has_networks: bool = False
    """Additional networks are enabled, so their kinds are synced."""
    memory_limit: int | None = None
    """Memory limit of the process in bytes. None: no limit."""
    limits: TenantLimits = field(default_factory=TenantLimits)
    """Limits of every tenant."""


class Syncer:
    """All parts that run while the Lease is held."""

    def __init__(
        self,
        super_client: Client,
        options: SyncerOptions,
        *,
        on_started: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_started` is called once the caches are complete."""
        self._options = options
        self._on_started = on_started
        turns = LoopBudget()
        self.queue: FairQueue[Key] = FairQueue(
            QueueOptions(
                name=wellknown.SYNCER,
                weight=lambda group: self.tenants.get_weight(group),  # noqa: PLW0108 - not there yet
                max_in_flight=MAX_IN_FLIGHT_PER_TENANT,
            ),
            group=build_group,
            loop_budget=turns,
        )
        self.home = HomeCluster(
            super_client,
            namespace=options.namespace,
            domain=options.cluster_domain,
            loop_budget=turns,
            kinds=select_kinds(networks=options.has_networks),
        )
        self.tenants = TenantManager(self.home, self.queue, options.limits)
        self.memory_pressure = MemoryPressure(self.tenants.connections, limit=options.memory_limit)
        self.targets = self.tenants.targets

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish the keys in work."""
        engine = Dispatcher(self.tenants.sessions)
        worker = Worker(
            self.queue,
            engine.reconcile,
            name=wellknown.SYNCER,
            count=WORKER_COUNT,
            fields=build_log_fields,
        )
        everywhere = self.tenants.sessions
        QuotaEvents(self.home, self.tenants.quotas).subscribe()
        HomeEvents(self.home, everywhere[HOME], everywhere).subscribe()
        resync = Resync(self.tenants.sessions, period_seconds=self._options.resync_seconds)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self.home.run(), name="home")
            stopped = group.create_task(stop.wait(), name="stop")
            synced = group.create_task(self.home.wait_synced(), name="synced")
            await asyncio.wait((stopped, synced), return_when=asyncio.FIRST_COMPLETED)
            synced.cancel()
            if not stop.is_set():
                self._on_started()
                _log.info("syncer.started", version=self._options.version)
                working = group.create_task(worker.run(), name="workers")
                keeping = group.create_task(self.tenants.run(), name="tenants")
                rounds = group.create_task(resync.run(), name="resync")
                following = group.create_task(self.targets.run(), name="targets")
                measuring = group.create_task(self.memory_pressure.run(), name="memory")
                await stopped
                self.queue.close()
                await asyncio.wait((working,), timeout=DRAIN_SECONDS)
                for task in (working, keeping, rounds, following, measuring):
                    task.cancel()
            watching.cancel()
        _log.info("syncer.stopped")

    def describe_unready(self) -> str:
        """Return what keeps the syncer from being ready, or an empty string."""
        return self.home.describe_missing_caches()


async def run_with_leader_election(options: SyncerOptions, endpoint: Endpoint) -> int:
    """Compete for the Lease and work while it is held. Returns 0 after an orderly end."""
    gc_tuning.raise_thresholds()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    agent = f"{USER_AGENT}/{options.identity}"
    # Renewals neither wait behind a burst of writes nor are fenced.
    async with contextlib.AsyncExitStack() as stack:
        lease = LeaderElector(
            await stack.enter_async_context(
                Client(endpoint, ClientOptions(user_agent=agent, connections=1))
            ),
            namespace=options.namespace,
            name=wellknown.SYNCER,
            identity=build_identity(options.identity, options.pod_uid),
        )
        super_client = Client(endpoint, ClientOptions(user_agent=agent, fence=lease.check_fence))
        syncer = Syncer(
            await stack.enter_async_context(super_client),
            options,
            on_started=gc_tuning.freeze_objects,
        )
        probes = HealthProbes()
        # A standby is ready, because it could start at once. Only the holder's caches can be
        # missing.
        probes.add_readiness_check(
            "caches", lambda: syncer.describe_unready() if lease.is_held else ""
        )
        async with probes.serve_in_block(options.port):
            return await _run_while_leading(syncer, lease, stop)


async def _run_while_leading(syncer: Syncer, lease: LeaderElector, stop: asyncio.Event) -> int:
    run = asyncio.ensure_future(lease.run(lambda: syncer.run(stop)))
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait((run, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not run.done() and not lease.is_held:
        run.cancel()  # it only waits for the Lease
    try:
        await run
    except asyncio.CancelledError:
        return 0
    except LeaseLostError as problem:
        _log.error("lease.lost", problem=str(problem))
        return 1
    return 0
