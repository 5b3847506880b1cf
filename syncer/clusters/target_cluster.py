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
from kubeio.config.endpoint import Endpoint, digest_of
from kubeio.controller.worker import Wait
from syncer.clusters import target_conditions
from syncer.clusters.home_cluster import Home
from syncer.clusters.super_cluster import SuperCluster
from syncer.safety.circuit_breaker import DEADLINE_SECONDS, GuardedClient
from syncer.safety.cluster_identity import Anchor
from syncer.safety.pod_loss_guard import Muster
from tenancy.resources import PODS, Resource
from tenancy.super_clusters import SuperClusterSpec

CONNECTIONS = 16
"""Number of connections for the requests of all tenants to one target."""
FIRST_LISTS_SECONDS = 30.0
"""Time in seconds that the first lists of a target may last before that is reported."""
SETTLE_SECONDS = 30.0
"""Time in seconds in which the sessions of tenants begin. Until then the set of missing pods is
incomplete: keep an earlier `LossesHeld` condition and do not consume a `confirm-losses` annotation.
"""
LOOK_SECONDS = 10.0
"""Health check interval in seconds of a target."""
AWAY_SECONDS = 40.0
"""Time in seconds from the last good answer until the target's node and its pods report the outage.
Failed checks last `DEADLINE_SECONDS` each, so some fail before.
"""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan:
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

    def digest(self) -> str:
        """Return a digest for comparing two plans, without any secret in it."""
        return f"{self.registration}/{self.identity}/{digest_of(self.endpoint)}"


class Target:
    """One target."""

    def __init__(self, plan: Plan, home: Home, *, changed: Callable[[], None]) -> None:
        """Send no request yet. `changed` is called when a public attribute changes."""
        self._changed = changed
        self._home = home
        self.spec = plan.spec
        self.version = plan.version
        self.refusal = plan.refusal
        self.name = plan.name
        self.registration = plan.registration
        self.client = GuardedClient(
            plan.endpoint,
            whose=f"the super cluster {plan.name}'s",
            connections=CONNECTIONS,
            user_agent=home.client.user_agent,
            fence=home.client.fence,
        )
        self.cluster = SuperCluster(
            self.client, name=plan.name, registration=plan.registration, turns=home.turns
        )
        self.anchor = Anchor(self.client, name=plan.name, identity=plan.identity)
        twins = self.cluster.stores[PODS.kind]
        self.muster = Muster(
            name=plan.name,
            identity=plan.identity,
            there=lambda: len(twins),
            changed=self._held,
        )
        self.is_ready = False
        """Whether its caches are complete."""
        self.problem = ""
        """Reason why it is away. Empty while it answers."""
        self.behind = ""
        """Reason why a cache is out of date, although it is complete and the target answers. Empty
        if all are up to date.
        """
        self.answered_at = 0.0
        """Time of its last good answer, by the monotonic clock."""
        self._ready_at: float | None = None
        self._silent_since = 0.0
        self._breaks = 0
        self._failed: frozenset[Resource] = frozenset()
        """Resources whose watches failed at the last check."""
        self._news = asyncio.Event()
        """Set when a condition must be written or a confirmation may have been added."""

    async def run(self) -> None:
        """Sync the target until cancelled. Raises KubeError or Wait if that cannot begin."""
        async with self.client, asyncio.TaskGroup() as group:
            await self.anchor.verify(0.0)
            group.create_task(self.cluster.run(), name=f"target-{self.name}")
            await self._listed()
            self.is_ready = True
            self.answered_at = self._ready_at = time.monotonic()
            self._changed()
            _log.info("target.followed", target=self.name)
            looked_at = time.monotonic()
            while True:
                await self._say()
                left = looked_at + LOOK_SECONDS - time.monotonic()
                if left > 0:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await self._news.wait()
                    self._news.clear()
                    continue
                await self._look()
                looked_at = time.monotonic()

    async def _listed(self) -> None:
        """Wait until all caches are complete. Report missing caches after `FIRST_LISTS_SECONDS`."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_LISTS_SECONDS):
                    await self.cluster.wait_synced()
                    return
            said = next((each.problem for each in self.cluster.reflectors if each.problem), "")
            await self._say(f"{self.cluster.missing()}{said and f'; {said}'}")

    async def prove(self, since: float, tenant: str) -> None:
        """Return when the absence of a tenant's pod, read later than `since`, is proved.

        `tenant` is the UID of its VirtualCluster. Raises Wait while many of its pods are missing at
        once or a different cluster answers. Raises KubeError if none answers.
        """
        self.muster.check(tenant)
        await self.anchor.verify(since)
        self.muster.check(tenant)

    def _held(self) -> None:
        self._news.set()
        self._changed()

    async def _say(self, problem: str = "") -> None:
        """Apply a confirmation, and write the conditions.

        `problem` is the reason why the target is not connected yet.
        """
        entry = self._home.super_clusters.get("", self.name)
        if entry is None or entry.uid != self.registration:
            return
        settled = self._ready_at is not None and time.monotonic() - self._ready_at > SETTLE_SECONDS
        muster = self.muster if settled or self.muster.was_held else None
        problem = problem or self.behind
        try:
            if muster is not None:
                await target_conditions.take(self._home.client, entry, muster)
            await target_conditions.say(self._home.client, entry, problem=problem, muster=muster)
        except errors.KubeError as refused:  # the next check retries it
            _log.warning("target.not_told", target=self.name, problem=str(refused))

    def away_seconds(self) -> float:
        """Return the seconds since its last good answer. 0 while it answers."""
        return time.monotonic() - self._silent_since if self.problem else 0.0

    def says(self, plan: Plan) -> None:
        """Apply changes of the plan that need no new client."""
        self._news.set()
        said = (plan.spec, plan.version, plan.refusal)
        if (self.spec, self.version, self.refusal) != said:
            self.spec, self.version, self.refusal = said
            self._changed()

    async def _look(self) -> None:
        """Check whether the target is away."""
        problem, asked_at = "", time.monotonic()
        try:
            await self.client.raw("GET", "/readyz", deadline=DEADLINE_SECONDS)
            self.client.breaker.answered()
            breaks = sum(reflector.restarts for reflector in self.cluster.reflectors)
            if self.problem or breaks != self._breaks:
                await self.anchor.verify(time.monotonic())  # it may be replaced
            self._breaks = breaks
            self.answered_at = asked_at
        except (errors.KubeError, Wait) as found:
            problem = str(found)
        self._look_at_watches(problem)
        is_news, self.problem = bool(problem) != bool(self.problem), problem
        if is_news:
            _log.warning("target.away" if problem else "target.back", target=self.name)
            # The target may have failed up to one check interval before this check.
            self._silent_since = self.answered_at or asked_at
            self._changed()

    def _look_at_watches(self, problem: str) -> None:
        """Find the watches that failed at two checks in a row. A single failure is normal.

        With a `problem` the target is away, and so are all watches.
        """
        watches = self.cluster.reflectors if not problem else ()
        failing = [each for each in watches if each.problem]
        behind = next((each for each in failing if each.resource in self._failed), None)
        self._failed = frozenset(each.resource for each in failing)
        self.behind = (
            f"{behind.resource.plural} are not followed: {behind.problem}" if behind else ""
        )
