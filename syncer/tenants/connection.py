"""Connection to one tenant: its client, its watches and caches, and the state of its etcd.

Owns the tenant's reflectors, the delete protection, and the health of the tenant. Cancelling `run`
removes every trace. Must not know what becomes of an object in a super cluster. The sessions do,
one per super cluster. Hazard: no key may be reconciled before `is_ready`. Until then the caches are
incomplete and the tenant's store is not judged, so objects would be deleted by mistake.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Protocol

import structlog

from kubeio import errors
from kubeio.backoff import Backoff
from kubeio.cache.cache_budget import CacheBudget
from kubeio.cache.crd_reflector import CrdReflector
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Entry, Store
from kubeio.config.endpoint import Endpoint
from kubeio.controller.bucket_rate_limiter import BucketRateLimiter
from kubeio.controller.fair_queue import FairQueue
from syncer.clusters.home_cluster import HomeCluster
from syncer.model.keys import HOME, TENANT_STATUS, Key
from syncer.placement.assignments import Assignments, HomeAssignments
from syncer.placement.service_clusters import ServiceClusters
from syncer.placement.target_grants import TargetGrants
from syncer.rules.custom.hostnames import build_indexes
from syncer.rules.custom.ruled_kinds import build_ruled_kinds
from syncer.rules.registry import get_reduction
from syncer.rules.tenant_resources import INDEXES, OPTIONAL_RESOURCES, WATCHED_RESOURCES
from syncer.safety.cache_limits import TenantLimits
from syncer.safety.circuit_breaker import REQUEST_DEADLINE_SECONDS, TenantClient
from syncer.safety.hot_loop_guard import HotLoopGuard, WriteScope
from syncer.safety.quota_accounting import QuotaAccountant
from syncer.safety.store_guard import EPOCH_DELAY_SECONDS, SYSTEM_NAMESPACE, StoreGuard
from syncer.tenants.cluster_scope import ClusterScope
from syncer.tenants.event_recorder import TenantEventRecorder
from syncer.tenants.session_work import SessionWork
from syncer.tenants.twins import Twins
from tenancy import names, ownership
from tenancy.resources import Resource
from tenancy.specs import VirtualCluster
from tenancy.sync_rules.specs import SyncRule

FIRST_ANSWER_SECONDS = 60.0
"""Time in seconds that a new tenant's API may stay silent before the condition reports it."""
MAX_CONCURRENT_FIRST_LISTS = 4
"""Number of tenants that open their watches at the same time. Each tenant needs some 20 TLS
handshakes, which compete for the processor. The lease must be renewed between them.
"""
FIRST_LISTS_TURN_SECONDS = 5.0
"""Time in seconds after which a slow tenant no longer keeps other tenants from opening watches."""
STORE_FULL = "database space exceeded"
"""Text of etcd's NOSPACE alarm in the answers of an API server."""
UNREACHABLE_SECONDS = 15.0
"""Time in seconds that a watch may be broken before the condition reports it."""
_HEALTH_CHECK_SECONDS = 5.0
_FAST_HEALTH_CHECK_SECONDS = 1.0
"""The same interval while watches are broken. They are retried this soon after the first works."""
_CANARY_KEYS = 2
"""Number of keys that probe whether a tenant that refused writes accepts them again."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class ConnectedSession(Protocol):
    """Interface of a session, as the connection uses it."""

    name: str
    """Name of the super cluster."""
    hot_loop_guard: HotLoopGuard
    scope: ClusterScope
    twins: Twins
    work: SessionWork

    def start(self) -> None:
        """Start to reconcile, beginning with every key."""

    def handle_kind_served(self, kind: str) -> None:
        """Queue the keys of an optional kind that the tenant now serves."""


class TenantConnection:
    """The connection to one tenant."""

    def __init__(
        self,
        cluster: VirtualCluster,
        endpoint: Endpoint,
        *,
        home: HomeCluster,
        queue: FairQueue[Key],
        loop_budget: asyncio.Semaphore,
        is_split: bool = False,
        limits: TenantLimits | None = None,
        quota: QuotaAccountant | None = None,
        write_tokens: BucketRateLimiter | None = None,
        rules: Sequence[SyncRule] = (),
    ) -> None:
        """`is_split`: pods may run in other clusters than the home cluster.

        `rules` are the SyncRules of the tenant. `loop_budget` is shared by all tenants and has
        FIRST_LISTS_AT_ONCE places. `limits` are those of every tenant. `quota` and `write_tokens`
        outlive the connection. None: nothing is limited.
        """
        self.quota = quota or QuotaAccountant()
        self.write_tokens = write_tokens
        self.cluster = cluster
        self.tenant = cluster.tenant
        self.home_cluster = home
        self.queue = queue
        self.client = TenantClient(
            endpoint, user_agent=home.client.user_agent, fence=home.client.fence
        )
        optional = (
            *OPTIONAL_RESOURCES,
            *(kind.resource for kind in home.kinds.values() if kind.needs_crd),
        )
        self.stores = {
            resource.kind: Store(INDEXES.get(resource.kind))
            for resource in (*(resource for resource, _, _ in WATCHED_RESOURCES), *optional)
        }
        self.ruled = build_ruled_kinds(rules, self.tenant)
        self.stores |= {rule.resource.kind: Store(build_indexes(rule)) for rule in rules}
        self.cache_budget = CacheBudget((limits or TenantLimits()).cache)
        self._sessions: list[ConnectedSession] = []
        self.grants = TargetGrants(lambda: {each.name for each in self._sessions})
        assignments = Assignments if is_split else HomeAssignments
        self.assignments = assignments(
            grants=self.grants, find_twin_cluster=self._find_twin_cluster
        )
        self.service_clusters = ServiceClusters()
        self._reflectors: tuple[Reflector | CrdReflector, ...] = (
            *(
                Reflector(
                    self.client,
                    resource,
                    self.stores[resource.kind],
                    ReflectorOptions(
                        label_selector=labels,
                        field_selector=fields,
                        reduce=get_reduction(resource.kind),
                        side="tenant",
                        account=self.cache_budget.open_account(
                            resource.kind, self.stores[resource.kind]
                        ),
                    ),
                    loop_budget=home.loop_budget,
                )
                for resource, labels, fields in WATCHED_RESOURCES
            ),
            *(self._create_crd_reflector(resource) for resource in optional),
        )
        # The start does not wait for them: vc-manager may not have written their CRDs and rights.
        self._ruled_reflectors = tuple(
            self._create_crd_reflector(rule.resource, is_built_in=rule.spec.definition == "BuiltIn")
            for rule in rules
        )
        self.event_recorder = TenantEventRecorder(self.client)
        self.store_guard = StoreGuard(
            tenant=self.tenant,
            tenant_client=self.client,
            super_client=home.client,
            revision=self._get_highest_revision,
            on_judged=self._handle_store_judged,
        )
        self._loop_budget = loop_budget
        self.is_ready = False
        self.problem = ""
        """Reason why the tenant cannot be reached. Empty while it can."""
        self.refused_writes_problem = ""
        """Writes that the tenant keeps refusing. Empty while it accepts them."""
        self._must_check_store = False
        self._parked_message = self.list_parked()
        self._store_key = Key(self.tenant.uid, HOME, TENANT_STATUS, "", "")
        self._must_restart = asyncio.Event()

    def _create_crd_reflector(
        self, resource: Resource, *, is_built_in: bool = False
    ) -> CrdReflector:
        return CrdReflector(
            self.client,
            resource,
            self.stores[resource.kind],
            side="tenant",
            cache_budget=self.cache_budget,
            loop_budget=self.home_cluster.loop_budget,
            on_served=partial(self._handle_kind_served, resource.kind),
            is_built_in=is_built_in,
        )

    @property
    def is_store_full(self) -> bool:
        """Whether the tenant's etcd refuses writes, because its database has reached its limit."""
        return STORE_FULL in self.refused_writes_problem

    @property
    def sessions(self) -> Sequence[ConnectedSession]:
        """The sessions of the tenant, that of the home cluster first."""
        return self._sessions

    def add_session(self, session: ConnectedSession) -> None:
        """Add a session. It must be subscribed to the caches of the tenant."""
        self._sessions.append(session)

    def remove_session(self, session: ConnectedSession) -> None:
        """Remove a session, unless that was done before."""
        if session in self._sessions:
            self._sessions.remove(session)

    @property
    def holds_deletes(self) -> bool:
        """Whether deletes in the super cluster wait for a platform administrator."""
        return self.store_guard.is_held

    def _find_twin_cluster(self, pod: Entry) -> str:
        """Return the name of the super cluster that has a pod's twin in its cache.

        Returns an empty string if none has it.
        """
        return next((each.name for each in self._sessions if each.twins.has_twin(pod)), "")

    def find_status_cluster(self, kind: str, tenant_x: Entry) -> str:
        """Return the super cluster whose copy of an object has its status.

        It is the home cluster if that has a copy, otherwise the first target by name. Empty: there
        is no copy.
        """
        ordered = sorted(self._sessions, key=lambda each: (each.name != HOME, each.name))
        return next((each.name for each in ordered if each.twins.has_copy(kind, tenant_x)), "")

    def is_status_cluster(self, name: str, kind: str, tenant_x: Entry) -> bool:
        """Return whether the status of an object comes from a super cluster."""
        if kind not in self.ruled.pod_followers:
            return True
        return self.find_status_cluster(kind, tenant_x) in ("", name)

    def list_parked(self) -> Mapping[WriteScope, str]:
        """Return the parked writes, each with the paths that differ."""
        return dict(
            chain.from_iterable(
                each.hot_loop_guard.list_parked().items() for each in self._sessions
            )
        )

    def is_defined(self, kind: str) -> bool:
        """Return whether the tenant has the CRD of an optional kind."""
        return any(
            isinstance(each, CrdReflector) and each.resource.kind == kind and each.is_defined
            for each in self._reflectors
        )

    # The tenant's store (etcd).

    def enqueue_status(self) -> None:
        """Queue the key that writes the conditions."""
        if self.is_ready:
            self.queue.add(self._store_key)

    def request_store_check(self) -> None:
        """Queue a check of the store, because an object vanished between two lists."""
        self._must_check_store = True
        self.enqueue_status()

    @property
    def must_check_store(self) -> bool:
        """Whether something happened that a different store would explain."""
        return self._must_check_store

    @contextlib.contextmanager
    def check_store(self) -> Iterator[None]:
        """Clear the request for a check of the store. It stays if the block raises."""
        self._must_check_store = False
        try:
            yield
        except BaseException:
            self._must_check_store = True
            raise

    def schedule_epoch(self) -> None:
        """Queue a delayed increase of the store's epoch.

        The reason is an object that was synced to the super cluster `SETTLE_SECONDS` before it.
        """
        if self.store_guard.is_count_due:
            self.queue.add_after(self._store_key, EPOCH_DELAY_SECONDS, low=True)

    def _handle_store_judged(self) -> None:
        """Restart or relist after a new verdict on the store.

        The caches may hold objects of a different store.
        """
        if not self.store_guard.is_held:
            self.restart()  # the old store is back
        elif self.is_ready:
            self._relist()
        self.enqueue_status()

    def _relist(self) -> None:
        """Relist all caches.

        The revisions at which watches continue may be those of a different store.
        """
        for reflector in (*self._reflectors, *self._ruled_reflectors):
            reflector.relist()

    def _get_system_twin_uid(self) -> str:
        """Return the UID of kube-system that its super namespace records, or an empty string."""
        name = names.build_super_namespace(self.tenant.root, self.tenant.uid, SYSTEM_NAMESPACE)
        entry = self.home_cluster.stores["Namespace"].get("", name)
        owner = ownership.read_owner({"annotations": entry.annotations}) if entry else None
        return owner.uid if owner is not None and owner.vc_uid == self.tenant.uid else ""

    def _iterate_stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""
        return chain.from_iterable(each.twins.iterate_stamps() for each in self._sessions)

    def _get_highest_revision(self) -> int:
        return max(reflector.revision for reflector in self._reflectors)

    # Start and end.

    def restart(self) -> None:
        """End this connection and its sessions, so that new ones start without memory."""
        self._must_restart.set()

    async def drain(self) -> None:
        """Stop all sessions from accepting work, and wait until no key is in work."""
        self.is_ready, ending = False, list(self._sessions)
        for session in ending:
            session.work.stop()
        for session in ending:
            await session.work.drain()

    async def run(self) -> None:
        """Sync the tenant until cancelled. Returns when a restart was requested."""
        async with self.client, asyncio.TaskGroup() as group:
            await self._wait_first_answer()
            tasks = await self._start_watches(group)
            await self.store_guard.initialize(
                twin_uid=self._get_system_twin_uid(), stamps=self._iterate_stamps()
            )
            self.is_ready = True
            for session in self._sessions:
                session.start()
            _log.info("tenant.connected", tenant=self.tenant.root, pods=len(self.stores["Pod"]))
            tasks.append(group.create_task(self._monitor_health(), name="health"))
            tasks.append(group.create_task(self._monitor_recovery(), name="returns"))
            await self._must_restart.wait()
            await self.drain()
            for task in tasks:
                task.cancel()

    async def _wait_first_answer(self) -> None:
        """Wait for the API of a control plane that is still starting.

        Raises the API error after `FIRST_ANSWER_SECONDS`.

        Otherwise eight watches would back off separately and become complete long after the API is
        ready.
        """
        backoff = Backoff(base=0.2, ceiling=1.5)
        gives_up = _now() + FIRST_ANSWER_SECONDS
        while True:
            try:
                # Also waits for the syncer's role in the tenant. Bypasses the circuit breaker on
                # purpose.
                path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
                await self.client.raw("GET", path, deadline=REQUEST_DEADLINE_SECONDS)
            except errors.KubeError:
                if _now() > gives_up:
                    raise
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _start_watches(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Open the watches once `loop_budget` has room. Return when all caches are complete."""
        async with self._loop_budget:
            tasks = [
                group.create_task(reflector.run(), name=f"{self.tenant.root}-{reflector.resource}")
                for reflector in (*self._reflectors, *self._ruled_reflectors)
            ]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_LISTS_TURN_SECONDS):
                    await self._wait_first_lists()
        await self._wait_first_lists()
        return tasks

    async def _wait_first_lists(self) -> None:
        """Wait until all caches are complete.

        Raises Unavailable with the problem of a watch, checked every `UNREACHABLE_SECONDS`.
        """
        for reflector in self._reflectors:
            while not reflector.synced:
                try:
                    async with asyncio.timeout(UNREACHABLE_SECONDS):
                        await reflector.wait_synced()
                except TimeoutError:
                    problem = self._find_watch_problem()
                    if problem:
                        raise errors.Unavailable(problem) from None

    def _handle_kind_served(self, kind: str) -> None:
        """Notify all sessions that the tenant has begun to serve an optional kind."""
        for session in self._sessions:
            session.handle_kind_served(kind)

    # Health.

    async def _monitor_health(self) -> None:
        """Detect that the tenant has become unreachable, or reachable again."""
        silent_since: float | None = None
        silent: set[str] = set()
        breaks = 0
        while True:
            await asyncio.sleep(_HEALTH_CHECK_SECONDS)
            breaks, before = sum(r.restarts for r in self._reflectors), breaks
            if breaks > before:
                self.request_store_check()  # the same address may have a different store now
                if self.holds_deletes:
                    self._relist()  # and then a different one again
            problem = self._find_watch_problem()
            if not problem:
                silent_since = None
            elif silent_since is None:
                silent_since = _now()
            is_long = silent_since is not None and _now() - silent_since >= UNREACHABLE_SECONDS
            if is_long != bool(self.problem):
                self.problem = problem if is_long else ""
                self.enqueue_status()
            silent = self._retry_failed_keys(silent, is_silent=bool(problem))
            self._monitor_refusals()

    async def _monitor_recovery(self) -> None:
        """Retry all broken watches when one of them works again, and all requests when all do.

        Otherwise each watch would wait for its own delay, which grows to 30 s. The same applies to
        the circuit breaker.
        """
        broken, returned = 0, 0.0
        while True:
            await asyncio.sleep(_FAST_HEALTH_CHECK_SECONDS if broken else _HEALTH_CHECK_SECONDS)
            before, broken = broken, sum(bool(each.problem) for each in self._reflectors)
            if broken > before:
                returned = 0.0
            elif broken < before:
                returned = returned or _now()
                for each in self._reflectors:
                    each.retry_now(returned)  # also an optional watch that is not counted
                if not broken:
                    self.client.breaker.record_answer()

    def _retry_failed_keys(self, silent: set[str], *, is_silent: bool) -> set[str]:
        """Retry the keys of sessions whose tenant or target answers again.

        Returns the sessions with a side that does not answer.

        Without this, delays that have grown to minutes would apply. `is_silent`: the tenant does
        not answer.
        """
        still = {
            session.name for session in self._sessions if is_silent or session.scope.is_unreachable
        }
        for session in self._sessions:
            if session.name in silent - still:
                self.queue.retry_group_now(session.work.group, forget=True)
        return still

    def _monitor_refusals(self) -> None:
        """Report the writes that the tenant keeps refusing, and retry a few keys.

        Retry all keys when the refusals end.
        """
        refusing = self.client.refused_writes.describe_refused()
        for session in self._sessions:
            if refusing:
                self.queue.retry_group_now(session.work.group, limit=_CANARY_KEYS)
            elif self.refused_writes_problem:
                self.queue.retry_group_now(session.work.group, forget=True)
        parked = self.list_parked()
        if (refusing, parked) != (self.refused_writes_problem, self._parked_message):
            self.refused_writes_problem, self._parked_message = refusing, parked
            self.enqueue_status()

    def _find_watch_problem(self) -> str:
        """Return the reason why the tenant cannot be synced. One broken watch is enough."""
        return next((r.problem for r in self._reflectors if r.problem), "")


def _now() -> float:
    """Return the monotonic time."""
    return asyncio.get_running_loop().time()
