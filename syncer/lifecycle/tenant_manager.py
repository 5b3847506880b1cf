"""Lifecycle of tenants: a connection per VirtualCluster with its sessions, started and ended.

Owns one turn of the loop of a tenant. `syncer.lifecycle.supervisor` repeats the turns. Three
conditions must hold for a connection: the VirtualCluster exists, its TenantPolicy can be read, and
its root namespace has a kubeconfig for the syncer. A change of kubeconfig, service range or policy
restarts the connection. Must not know the
work of a session. Hazard: `Disengaged` may be reported only when no key of the tenant is in work.
vc-manager deletes the super namespaces after that.
"""

import asyncio
import base64
import binascii
import contextlib
import ipaddress

import structlog

from kubeio import errors
from kubeio.cache.store import Entry
from kubeio.config import loading
from kubeio.controller.bucket_rate_limiter import BucketRateLimiter
from kubeio.controller.fair_queue import FairQueue
from syncer.clusters.home_cluster import BY_ROOT_INDEX, BY_UID_INDEX, HomeCluster
from syncer.clusters.target_cluster import TargetCluster
from syncer.handlers.quota_events import QuotaEvents
from syncer.handlers.split_tenant_events import SplitTenantEvents
from syncer.handlers.target_events import TargetEvents
from syncer.handlers.tenant_events import TenantEvents
from syncer.lifecycle.inactive_tenants import find_inactivity, stop_pods
from syncer.lifecycle.memory_pressure import trim_heap
from syncer.lifecycle.overflow_backoff import OverflowBackoff, OverflowPause
from syncer.lifecycle.overflow_events import report_overflow
from syncer.lifecycle.supervisor import AT_ONCE, UNTIL_CHANGED, SupervisedLoop, Supervisor
from syncer.lifecycle.target_manager import TargetManager
from syncer.lifecycle.target_sessions import TargetSessions
from syncer.lifecycle.tenant_plan import TenantPlan
from syncer.model.keys import HOME, QUOTA_REPORT, Key, parse_group
from syncer.rules.quota.quota_objects import REPORT_SECONDS
from syncer.safety.cache_limits import TenantLimits
from syncer.safety.quota_accounting import QuotaAccountant
from syncer.tenants import conditions, policy_binding
from syncer.tenants.connection import MAX_CONCURRENT_FIRST_LISTS, TenantConnection
from syncer.tenants.memory.tenant_quotas import CLAIM, QuotaAccountants
from syncer.tenants.metrics import TenantCounts
from syncer.tenants.policy_binding import PolicyUnavailable
from syncer.tenants.session import Session, Sessions
from syncer.tenants.session_registry import SessionRegistry
from syncer.tenants.target_session import TargetSession
from tenancy import wellknown
from tenancy.names import InvalidNameError
from tenancy.policies import BASELINE_POLICY
from tenancy.policy.quotas import parse_hard
from tenancy.specs import InvalidSpecError, VirtualCluster, parse_virtual_cluster
from tenancy.sync_rules.selection import select_rules

KUBECONFIG_NAME = wellknown.SYNCER_KUBECONFIG
"""Name of the Secret, and of its key, with the syncer's credential for a tenant."""

_RESTORE_PHASES = frozenset({"Stopping", "Restoring"})
"""Phases of a restore in which the tenant must not be synced."""

MAX_RETRY_SECONDS = 10.0
"""Longest delay in seconds before the next connection of a tenant."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class TenantManager:
    """All tenants."""

    def __init__(
        self, home: HomeCluster, queue: FairQueue[Key], limits: TenantLimits | None = None
    ) -> None:
        """`limits` are those of every tenant."""
        self._limits = limits or TenantLimits()
        self._away = OverflowBackoff(self._limits)
        self._inactive: set[str] = set()
        self.targets = TargetManager(home, subscribe_events=self._subscribe_target)
        home.ruled.set_other_clusters(self.targets.may_have_copies)
        self.quotas = QuotaAccountants(wake=queue.add, schedule_report=self._schedule_report)
        self.connections: dict[str, TenantConnection] = {}
        """Connections by UID of the VirtualCluster."""
        self._registry = SessionRegistry()
        self._home = home
        self._queue = queue
        self._first_list_turns = asyncio.Semaphore(MAX_CONCURRENT_FIRST_LISTS)
        self._metric_counts = TenantCounts(
            self.connections,
            self._count_declared,
            count_suspended=lambda: len(self._inactive),
            count_too_large=lambda: len(self._away.tenants - self.connections.keys()),
        )
        self._target_sessions: dict[str, TargetSessions] = {}
        self._supervisor = Supervisor(
            "tenant", step=self._run_turn, max_retry_seconds=MAX_RETRY_SECONDS
        )
        self._weights: dict[str, int] = {}
        self._write_tokens: dict[str, BucketRateLimiter] = {}

    @property
    def sessions(self) -> Sessions:
        """Sessions by super cluster and tenant."""
        return self._registry.sessions

    def get_weight(self, group: str) -> int:
        """Return the weight of a group of keys.

        A tenant has the same weight in each super cluster.
        """
        return self._weights.get(parse_group(group), BASELINE_POLICY.weight)

    def _subscribe_target(self, target: TargetCluster) -> None:
        """Subscribe the sessions with a target to its events."""
        QuotaEvents(target.cluster, self.quotas).subscribe()
        TargetEvents(target, self._registry.of_cluster(target.name)).subscribe()

    def _schedule_report(self, uid: str) -> None:
        """Queue the report of a tenant's quota, at most once per interval."""
        link = self.connections.get(uid)
        if link is not None and link.is_ready:
            key = Key(uid, HOME, QUOTA_REPORT, "", "")
            self._queue.add_after(key, REPORT_SECONDS, low=True)

    async def run(self) -> None:
        """Keep tenants connected until cancelled. The super cluster's caches must be complete."""
        await self._supervisor.run(self._subscribe_home)

    def _subscribe_home(self, _: asyncio.TaskGroup) -> None:
        self._home.virtual_clusters.subscribe(self._handle_virtual_cluster, replay=True)
        self._home.credentials.subscribe(self._handle_credential)
        self._home.policies.subscribe(self._handle_policy)
        self._home.ruled.subscribe(self._handle_policy)
        self._home.super_clusters.subscribe(self._handle_super_cluster)

    def _handle_super_cluster(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        if new is None and old is not None:
            self.quotas.forget_cluster(old.name)

    def _handle_virtual_cluster(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        for entry in (old, new):
            if entry is not None:
                self._supervisor.wake(entry.uid)
        link = self.connections.get(new.uid) if new is not None else None
        if link is not None:
            link.enqueue_status()
        sessions = self._target_sessions.get(new.uid) if new is not None else None
        if sessions is not None:
            sessions.wake()

    def _handle_credential(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        namespace = (new.namespace if new is not None else "") or (old.namespace if old else "")
        for entry in self._home.virtual_clusters.index(BY_ROOT_INDEX, namespace):
            self._supervisor.wake(entry.uid)

    def _handle_policy(self, *_: object) -> None:
        for entry in self._home.virtual_clusters.list():
            self._supervisor.wake(entry.uid)  # an equal plan changes nothing

    def _count_declared(self) -> int:
        """Count the VirtualClusters that are neither being deleted nor suspended nor asleep."""
        entries = self._home.virtual_clusters.list()
        return sum(not entry.deleting and entry.uid not in self._inactive for entry in entries)

    def _get_entry(self, uid: str) -> Entry | None:
        return next(iter(self._home.virtual_clusters.index(BY_UID_INDEX, uid)), None)

    async def _run_turn(self, uid: str, loop: SupervisedLoop) -> float | None:
        """Write the condition and run one connection, or report why there cannot be one.

        Returns the seconds until the next turn, or None once the VirtualCluster does not exist.
        """
        entry = self._get_entry(uid)
        if entry is None:
            self._forget_tenant(uid)
            return None
        if entry.deleting and not await self._write_disengaged(entry):
            return loop.get_retry_seconds()
        is_inactive = self._update_inactive(entry)
        # First, because vc-manager waits for this reason also if the tenant is asleep.
        if (request := _get_restore(entry)) is not None:
            is_said = await self._write_restoring(entry, request)
            return UNTIL_CHANGED if is_said else loop.get_retry_seconds()
        if is_inactive:
            return await self._report_inactive(entry) or loop.get_retry_seconds()
        plan = self._build_plan(entry)
        if plan is None:
            is_said = await self._write_policy_missing(entry)
            return UNTIL_CHANGED if is_said else loop.get_retry_seconds()
        problem = await self._run_connection(uid, plan, loop)
        pause = self._away.begin_pause(uid, asyncio.get_running_loop().time())
        if pause is not None:
            await self._write_too_large(uid, pause)
        elif problem:
            _log.warning("tenant.not_connected", tenant=plan.cluster.tenant.root, problem=problem)
            await self._write_unreachable(uid, problem)
        # The condition is a change of the VirtualCluster, too. So only a different plan ends the
        # pause.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause.seconds if pause else loop.get_retry_seconds()):
                await self._wait_until_changed(uid, plan.compute_digest(), loop)
        return AT_ONCE

    def _update_inactive(self, entry: Entry) -> bool:
        """Record and return whether a tenant is suspended or asleep."""
        cluster = None if entry.deleting else _parse_entry(entry)
        is_inactive = cluster is not None and find_inactivity(cluster.spec) is not None
        (self._inactive.add if is_inactive else self._inactive.discard)(entry.uid)
        return is_inactive

    def _forget_tenant(self, uid: str) -> None:
        self._weights.pop(uid, None)
        self._write_tokens.pop(uid, None)
        self._inactive.discard(uid)
        self._away.forget(uid)
        self.quotas.forget(uid)
        for target in self.targets.targets.values():
            target.pod_loss_guard.forget_tenant(uid)

    def _build_plan(self, entry: Entry) -> TenantPlan | None:
        """Return the configuration of a tenant's connection, or None while it cannot have one."""
        cluster = _parse_entry(entry)
        if cluster is None or cluster.deleting or not cluster.status.service_cidr:
            return None
        if find_inactivity(cluster.spec) is not None or _get_restore(entry) is not None:
            return None
        policy = policy_binding.resolve_policy(cluster.spec, self._home.policies)
        if isinstance(policy, PolicyUnavailable):
            return None
        secret = self._home.credentials.get(cluster.tenant.root, KUBECONFIG_NAME)
        if secret is None or secret.labels.get(wellknown.VC_UID, cluster.tenant.uid) != entry.uid:
            return None
        data = secret.decode().get("data") or {}
        if KUBECONFIG_NAME not in data:
            return None
        return TenantPlan(
            cluster=cluster,
            kubeconfig=_decode_value(data[KUBECONFIG_NAME]),
            service_range=cluster.status.service_cidr,
            policy=policy,
            rules=select_rules(self._home.ruled.list_usable(), policy, entry.labels),
        )

    async def _run_connection(self, uid: str, plan: TenantPlan, loop: SupervisedLoop) -> str:
        """Run a connection until its plan changes.

        Returns the reason of a failure, or an empty string.
        """
        await (
            self._home.loop_budget.wait_for_budget()
        )  # at start all tenants do this, for milliseconds each
        try:
            endpoint = loading.load_tenant_kubeconfig(
                plan.kubeconfig, name=plan.cluster.tenant.root
            )
            link = TenantConnection(
                plan.cluster,
                endpoint,
                home=self._home,
                queue=self._queue,
                loop_budget=self._first_list_turns,
                is_split=plan.is_split,
                limits=self._limits,
                quota=await self._start_quota(plan),
                write_tokens=self._get_write_tokens(uid),
                rules=plan.rules,
            )
            session = Session(
                link,
                self._home,
                tenant_slice=ipaddress.ip_network(plan.service_range),
                policy=plan.policy,
            )
        except (errors.CredentialsError, ValueError) as problem:
            return str(problem)
        events = SplitTenantEvents if plan.is_split else TenantEvents
        events(session).subscribe()
        link.add_session(session)
        self.connections[uid] = link
        self._registry.add(session)
        try:
            failure = await loop.run_connection(
                link.run(),
                until=self._wait_until_ended(uid, plan.compute_digest(), loop, link),
                beside=self._run_target_sessions(uid, link, plan) if plan.is_split else None,
                drain=link.drain,
            )
            if link.cache_budget.overflow is not None:
                link.cache_budget.release()  # after the drain, so no key reads the caches
                await report_overflow(endpoint, link.cache_budget.overflow)
            return failure
        finally:
            self.connections.pop(uid, None)
            self._registry.remove(session)
            self._queue.drop_group(session.work.group)
            link.assignments.release_all()
            self._away.record_end(uid, link.cache_budget)
            _log.info("tenant.disconnected", tenant=plan.cluster.tenant.root)

    def _get_write_tokens(self, uid: str) -> BucketRateLimiter | None:
        """Return the tokens of a tenant, or None without a limit. A new connection renews none."""
        limits = self._limits
        if limits.write_bytes_per_second and uid not in self._write_tokens:
            self._write_tokens[uid] = BucketRateLimiter(
                limits.write_bytes_per_second, limits.write_burst_bytes
            )
        return self._write_tokens.get(uid)

    async def _start_quota(self, plan: TenantPlan) -> QuotaAccountant:
        """Return the accountant of a tenant, which counts the objects that exist already."""
        targets = (target.cluster for target in self.targets.targets.values())
        return await self.quotas.start(
            plan.cluster.tenant,
            parse_hard(plan.policy.quota),
            (self._home, *targets),
            volumes=self._home.volumes,
            claims=self._home.stores[CLAIM],
        )

    async def _run_target_sessions(
        self, uid: str, link: TenantConnection, plan: TenantPlan
    ) -> None:
        """Keep a tenant's sessions with targets."""
        sessions = TargetSessions(
            link,
            self.targets,
            self._registry,
            lambda target: TargetSession(
                link,
                target.cluster,
                tenant_slice=ipaddress.ip_network(plan.service_range),
                policy=plan.policy,
                target=target,
            ),
        )
        self._target_sessions[uid] = sessions
        try:
            await sessions.run()
        finally:
            self._target_sessions.pop(uid, None)

    async def _wait_until_ended(
        self, uid: str, digest: str, loop: SupervisedLoop, link: TenantConnection
    ) -> None:
        """Return when the tenant's plan differs, or the tenant is over its limits."""
        changed = asyncio.ensure_future(self._wait_until_changed(uid, digest, loop))
        exceeded = asyncio.ensure_future(link.cache_budget.exceeded.wait())
        try:
            await asyncio.wait((changed, exceeded), return_when=asyncio.FIRST_COMPLETED)
            if changed.done():
                changed.result()
        finally:
            changed.cancel()
            exceeded.cancel()

    async def _wait_until_changed(self, uid: str, digest: str, loop: SupervisedLoop) -> None:
        """Return when the tenant's plan differs or no longer exists.

        Changes that need no new connection are applied meanwhile.
        """
        while True:
            entry = self._get_entry(uid)
            plan = self._build_plan(entry) if entry is not None else None
            if plan is None or plan.compute_digest() != digest:
                return
            self._weights[uid] = plan.policy.weight
            await loop.wait_next_change()

    async def _write_disengaged(self, entry: Entry) -> bool:
        message = "The VirtualCluster is being deleted, so nothing is synced."
        return await self._write_synced(entry, reason=conditions.DISENGAGED, message=message)

    async def _report_inactive(self, entry: Entry) -> float | None:
        """Report why a tenant is not synced, and stop its pods if its sleep asks for it.

        Returns the seconds until the next turn, or None if a request failed.
        """
        cluster = _parse_entry(entry)
        found = find_inactivity(cluster.spec) if cluster is not None else None
        if found is None:
            return None
        if not await self._write_synced(entry, reason=found.reason, message=found.message):
            return None
        if not found.stops_pods:
            return UNTIL_CHANGED
        return await stop_pods(self._home, entry.uid)

    async def _write_restoring(self, entry: Entry, request: str) -> bool:
        message = (
            f"The tenant's etcd is being restored ({request}), so nothing is synced. Running pods"
            " stay."
        )
        return await self._write_synced(
            entry, reason=wellknown.RESTORING, message=message, restore=request
        )

    async def _write_too_large(self, uid: str, pause: OverflowPause) -> None:
        entry = self._get_entry(uid)
        if entry is None or entry.deleting:
            return
        trim_heap()
        _log.warning("tenant.too_large", uid=uid, problem=pause.overflow.describe())
        await self._write_synced(entry, reason=conditions.TOO_LARGE, message=pause.describe())

    async def _write_unreachable(self, uid: str, problem: str) -> None:
        entry = self._get_entry(uid)
        if entry is not None and not entry.deleting:
            await self._write_synced(entry, reason=conditions.UNREACHABLE, message=problem)

    async def _write_policy_missing(self, entry: Entry) -> bool:
        """Report a missing policy, or correct an older condition.

        Returns False if the write failed.
        """
        cluster = None if entry.deleting else _parse_entry(entry)
        if cluster is not None:
            policy = policy_binding.resolve_policy(cluster.spec, self._home.policies)
            if isinstance(policy, PolicyUnavailable):
                return await self._write_synced(entry, reason=policy.reason, message=policy.message)
        if entry.deleting or not conditions.has_synced(entry):
            return True
        message = (
            f"The tenant is not synced: its service range or a usable Secret {KUBECONFIG_NAME} in"
            " its root namespace is missing."
        )
        return await self._write_synced(entry, reason=conditions.UNREACHABLE, message=message)

    async def _write_synced(
        self, entry: Entry, *, reason: str, message: str, restore: str = ""
    ) -> bool:
        """Write the condition Synced. Returns False if the write failed."""
        wanted = [
            conditions.build_synced(reason=reason, message=message, generation=entry.generation),
            *conditions.get_other_conditions(entry),
        ]
        try:
            await conditions.write_conditions(
                self._home.client,
                entry,
                wanted,
                store=conditions.held_store_before(entry),
                restore=restore,
            )
        except errors.KubeError as problem:
            _log.warning("tenant.status_not_written", problem=str(problem))
            return False
        return True


def _decode_value(text: str) -> bytes:
    """Return a Secret's value. Invalid base64 is no kubeconfig either."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _get_restore(entry: Entry) -> str | None:
    """Return the request whose restore has stopped the tenant, or None.

    vc-manager replaces the etcd only after `status.disconnectedForRestore` is this request.
    """
    asked = entry.annotations.get(wellknown.RESTORE_SNAPSHOT)
    if not asked or entry.deleting:
        return None
    cluster = _parse_entry(entry)
    restore = cluster.status.restore if cluster is not None else None
    if restore is None or restore.phase not in _RESTORE_PHASES or restore.request != asked:
        return None
    return asked


def _parse_entry(entry: Entry) -> VirtualCluster | None:
    try:
        return parse_virtual_cluster(entry.decode())
    except (InvalidSpecError, InvalidNameError) as problem:
        _log.info("cluster.unreadable", problem=str(problem))
        return None
