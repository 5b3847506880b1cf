"""Client, caches and health of one target.

Owns the rule by which it counts as away, and its conditions on the SuperCluster. Must not know the
objects of tenants in it, nor when it is connected. Hazard: a different cluster may answer. So no
list may start before the identity is verified, and no conclusion may be drawn before the identity
and the pod loss guard agree. Otherwise tenants' pods would be reported lost by mistake.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kubeio import errors
from kubeio.config.endpoint import Endpoint, compute_digest
from kubeio.controller.worker import NotReadyYet
from syncer.clusters import target_conditions
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.super_cluster import SuperCluster
from syncer.safety.circuit_breaker import REQUEST_DEADLINE_SECONDS, GuardedClient
from syncer.safety.cluster_identity import ClusterIdentity
from syncer.safety.pod_loss_guard import PodLossGuard
from tenancy.resources import PODS, Resource
from tenancy.super_clusters import SuperClusterSpec

MAX_CONNECTIONS = 16
"""Number of connections for the requests of all tenants to one target."""
FIRST_LISTS_SECONDS = 30.0
"""Time in seconds that the first lists of a target may last before that is reported."""
SESSION_START_SECONDS = 30.0
"""Time in seconds in which the sessions of tenants begin. Until then the set of missing pods is
incomplete: keep an earlier `LossesHeld` condition and do not consume a `confirm-losses` annotation.
"""
HEALTH_CHECK_SECONDS = 10.0
"""Health check interval in seconds of a target."""
UNREACHABLE_SECONDS = 40.0
"""Time in seconds from the last good answer until the target's node and its pods report the outage.
Failed checks last `DEADLINE_SECONDS` each, so some fail before.
"""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TargetPlan:
    """Configuration of a target's client. The target is reconnected when its plan changes."""

    name: str
    registration: str
    """UID of the SuperCluster."""
    identity: str
    """UID of its kube-system, as vc-manager found it."""
    endpoint: Endpoint
    spec: SuperClusterSpec
    version: str
    refusal: str
    """Reason of vc-manager against new pods in the target, as half a sentence."""

    def compute_digest(self) -> str:
        """Return a digest for comparing two plans, without any secret in it."""
        return f"{self.registration}/{self.identity}/{compute_digest(self.endpoint)}"


class TargetCluster:
    """One target."""

    def __init__(
        self, plan: TargetPlan, home: HomeCluster, *, on_changed: Callable[[], None]
    ) -> None:
        """Send no request yet. `on_changed` is called when a public attribute changes."""
        self._on_changed = on_changed
        self._home = home
        self.spec = plan.spec
        self.version = plan.version
        self.refusal = plan.refusal
        self.name = plan.name
        self.registration = plan.registration
        self.client = GuardedClient(
            plan.endpoint,
            owner=f"the super cluster {plan.name}'s",
            connections=MAX_CONNECTIONS,
            user_agent=home.client.user_agent,
            fence=home.client.fence,
        )
        self.cluster = SuperCluster(
            self.client,
            name=plan.name,
            registration=plan.registration,
            loop_budget=home.loop_budget,
            kinds=home.kinds,
            rules=home.sync_rules,
        )
        self.cluster_identity = ClusterIdentity(self.client, name=plan.name, identity=plan.identity)
        twins = self.cluster.stores[PODS.kind]
        self.pod_loss_guard = PodLossGuard(
            name=plan.name,
            identity=plan.identity,
            count_present=lambda: len(twins),
            on_changed=self._handle_hold_changed,
        )
        self.is_ready = False
        """Whether its caches are complete."""
        self.problem = ""
        """Reason why it is away. Empty while it answers."""
        self.watch_problem = ""
        """Reason why a cache is out of date, although it is complete and the target answers. Empty
        if all are up to date.
        """
        self.answered_at = 0.0
        """Time of its last good answer, by the monotonic clock."""
        self._ready_at: float | None = None
        self._silent_since = 0.0
        self._watch_restarts = 0
        self._failing_watches: frozenset[Resource] = frozenset()
        """Resources whose watches failed at the last check."""
        self._wake = asyncio.Event()
        """Set when a condition must be written or a confirmation may have been added."""

    async def run(self) -> None:
        """Sync the target until cancelled. Raises KubeError or Wait if that cannot begin."""
        async with self.client, asyncio.TaskGroup() as group:
            await self.cluster_identity.verify_identity(0.0)
            group.create_task(self.cluster.run(), name=f"target-{self.name}")
            await self._wait_first_lists()
            self.is_ready = True
            self.answered_at = self._ready_at = time.monotonic()
            self._on_changed()
            _log.info("target.connected", target=self.name)
            looked_at = time.monotonic()
            while True:
                await self._write_conditions()
                left = looked_at + HEALTH_CHECK_SECONDS - time.monotonic()
                if left > 0:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await self._wake.wait()
                    self._wake.clear()
                    continue
                await self._check_health()
                looked_at = time.monotonic()

    async def _wait_first_lists(self) -> None:
        """Wait until all caches are complete. Report missing caches after `FIRST_LISTS_SECONDS`."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_LISTS_SECONDS):
                    await self.cluster.wait_synced()
                    return
            said = next((each.problem for each in self.cluster.reflectors if each.problem), "")
            await self._write_conditions(
                f"{self.cluster.describe_missing_caches()}{said and f'; {said}'}"
            )

    async def prove_missing(self, since: float, tenant: str) -> None:
        """Return when the absence of a tenant's pod, read later than `since`, is proved.

        `tenant` is the UID of its VirtualCluster. Raises Wait while many of its pods are missing at
        once or a different cluster answers. Raises KubeError if none answers.
        """
        self.pod_loss_guard.check_not_held(tenant)
        await self.cluster_identity.verify_identity(since)
        self.pod_loss_guard.check_not_held(tenant)

    def _handle_hold_changed(self) -> None:
        self._wake.set()
        self._on_changed()

    async def _write_conditions(self, problem: str = "") -> None:
        """Apply a confirmation, and write the conditions.

        `problem` is the reason why the target is not connected yet.
        """
        entry = self._home.super_clusters.get("", self.name)
        if entry is None or entry.uid != self.registration:
            return
        settled = (
            self._ready_at is not None and time.monotonic() - self._ready_at > SESSION_START_SECONDS
        )
        guard = self.pod_loss_guard if settled or self.pod_loss_guard.was_held else None
        problem = problem or self.watch_problem
        try:
            if guard is not None:
                await target_conditions.apply_confirmation(self._home.client, entry, guard)
            await target_conditions.write_target_conditions(
                self._home.client,
                entry,
                problem=problem,
                pod_loss_guard=guard,
                rules=self.cluster.ruled.describe_rules() if self.is_ready else None,
            )
        except errors.KubeError as refused:  # the next check retries it
            _log.warning("target.status_not_written", target=self.name, problem=str(refused))

    def get_unreachable_seconds(self) -> float:
        """Return the seconds since its last good answer. 0 while it answers."""
        return time.monotonic() - self._silent_since if self.problem else 0.0

    def update_plan(self, plan: TargetPlan) -> None:
        """Apply changes of the plan that need no new client."""
        self._wake.set()
        said = (plan.spec, plan.version, plan.refusal)
        if (self.spec, self.version, self.refusal) != said:
            self.spec, self.version, self.refusal = said
            self._on_changed()

    async def _check_health(self) -> None:
        """Check whether the target is away."""
        problem, asked_at = "", time.monotonic()
        try:
            await self.client.raw("GET", "/readyz", deadline=REQUEST_DEADLINE_SECONDS)
            self.client.breaker.record_answer()
            breaks = sum(reflector.restarts for reflector in self.cluster.reflectors)
            if self.problem or breaks != self._watch_restarts:
                await self.cluster_identity.verify_identity(time.monotonic())  # it may be replaced
            self._watch_restarts = breaks
            self.answered_at = asked_at
        except (errors.KubeError, NotReadyYet) as found:
            problem = str(found)
        self._check_watches(problem)
        is_news, self.problem = bool(problem) != bool(self.problem), problem
        if is_news:
            _log.warning("target.unreachable" if problem else "target.reachable", target=self.name)
            # The target may have failed up to one check interval before this check.
            self._silent_since = self.answered_at or asked_at
            self._on_changed()

    def _check_watches(self, problem: str) -> None:
        """Find the watches that failed at two checks in a row. A single failure is normal.

        With a `problem` the target is away, and so are all watches.
        """
        watches = self.cluster.reflectors if not problem else ()
        failing = [each for each in watches if each.problem]
        behind = next((each for each in failing if each.resource in self._failing_watches), None)
        self._failing_watches = frozenset(each.resource for each in failing)
        self.watch_problem = (
            f"{behind.resource.plural} are not watched: {behind.problem}" if behind else ""
        )
