"""Lifecycle of a tenant's sessions with targets.

Owns, for one connection, the targets with a session. These are the granted targets and those in the
tenant's status, as long as they are connected. Must not know the work of a session. Hazard: the
status must name a target before any object is created in it, and until no object is left. Otherwise
the objects would never be found again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import structlog

from syncer.clusters.target_cluster import TargetCluster
from syncer.handlers import split_tenant_events
from syncer.handlers.split_tenant_events import TargetTenantEvents
from syncer.lifecycle.supervisor import UNTIL_CHANGED, SupervisedLoop
from syncer.lifecycle.target_manager import TargetManager
from syncer.lifecycle.target_outages import TargetOutages
from syncer.lifecycle.target_statuses import TargetStatuses
from syncer.model.keys import NODE
from syncer.placement.assignments import UNASSIGNED
from syncer.rules.placement import target_node
from syncer.tenants.connection import TenantConnection
from syncer.tenants.session_registry import SessionRegistry
from syncer.tenants.target_session import TargetSession
from tenancy import wellknown
from tenancy.super_clusters import HOME

RETRY_SECONDS = 10.0
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class TargetSessions:
    """The target sessions of one tenant."""

    def __init__(
        self,
        connection: TenantConnection,
        targets: TargetManager,
        registry: SessionRegistry,
        create_session: Callable[[TargetCluster], TargetSession],
    ) -> None:
        """`registry` has the sessions of all tenants. `create_session` is for this tenant."""
        self._connection = connection
        self._targets = targets
        self._registry = registry
        self._create_session = create_session
        self._own_sessions: dict[str, TargetSession] = {}
        self._events: dict[str, TargetTenantEvents] = {}
        self._offered_targets: frozenset[str] = frozenset()
        """Granted and declared targets, without the home cluster."""
        self._judged_targets: object = None
        self._loop = SupervisedLoop(
            f"targets of {connection.tenant.root}", max_retry_seconds=RETRY_SECONDS
        )
        self._outages = TargetOutages(self.wake)
        self._statuses = TargetStatuses(connection, targets.get_ready)

    async def run(self) -> None:
        """Keep the sessions until cancelled, then end them."""
        unsubscribe = self._targets.subscribe(self.wake)
        unsubscribe_counts = self._connection.assignments.subscribe_counts(
            self._statuses.handle_pod_count
        )
        try:
            await self._loop.run(self._run_turn, pause=self._write_counts_until_changed)
        finally:
            unsubscribe()
            unsubscribe_counts()
            self._outages.close()
            self._statuses.close()
            for name in list(self._own_sessions):
                self._forget_session(name)

    def wake(self) -> None:
        """Compare the sessions with the grants again, after a change of either."""
        self._loop.wake()

    async def _run_turn(self) -> float:
        """Start and stop sessions. Returns the seconds until the next turn."""
        return UNTIL_CHANGED if await self._reconcile_sessions() else RETRY_SECONDS

    async def _write_counts_until_changed(self, seconds: float) -> None:
        """Wait for a change or a timeout, and write changed pod counts meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == UNTIL_CHANGED else seconds):
                while not self._loop.is_changed:
                    await _wait_any(self._loop.wait_changed(), self._statuses.wait_recount())
                    await self._statuses.write_counts()

    async def _reconcile_sessions(self) -> bool:
        """Start and stop target sessions to match the grants.

        Returns False if a step failed and must be retried.
        """
        cluster = self._statuses.parse_virtual_cluster()
        if cluster is None:
            return True
        grants = self._connection.grants
        granted = {grant.name: grant for grant in cluster.spec.targets}
        grants.update_granted(granted)  # before any check, so that they apply to new pods
        named = {target.name for target in cluster.status.targets}
        declared = {entry.name for entry in self._connection.home_cluster.super_clusters.list()}
        offered = frozenset(set(granted) & declared) - {HOME}
        for name in offered - self._offered_targets:
            self._mark_connecting(name)
        self._offered_targets = offered
        kept = {name for name in named if not self._may_drop_target(name, granted, declared)}
        wanted = (kept | offered) - {HOME}
        grants.update_known(named, wanted)
        self._enqueue_all_assignments()
        is_said = True
        if wanted != named:
            is_said = await self._statuses.write(wanted)
            if not is_said:
                wanted &= named  # create nothing in a target that the status lacks
            late = {
                name
                for name in named - wanted
                if not self._may_drop_target(name, granted, declared)
            }
            if late:  # an object appeared in the target meanwhile
                wanted |= late
                is_said = is_said and await self._statuses.write(wanted)
        self._connection.enqueue_status()  # this writes the condition about undeclared targets
        for name, session in list(self._own_sessions.items()):
            if name not in wanted or self._targets.get_ready(name) is not session.target:
                await self._stop_session(name)
        for name in sorted(wanted - set(self._own_sessions)):
            target = self._targets.get_ready(name)
            if target is not None:
                self._start_session(target)
        self._enqueue_all_assignments()
        for session in self._own_sessions.values():
            self._outages.handle_change(session)
        self._statuses.set_names(wanted)
        is_said = is_said and await self._statuses.update()
        is_left = wanted - set(granted)  # no event reports the end of the last object
        return is_said and not is_left and wanted >= offered

    def _mark_connecting(self, name: str) -> None:
        """Let pods wait a moment for a target whose session will begin soon."""
        self._connection.grants.mark_connecting(name, asyncio.get_running_loop().time())

    def _enqueue_all_assignments(self) -> None:
        """Check all assignments when the grants or the visible targets have changed."""
        grants = self._connection.grants
        judged = (grants.granted, grants.find_unchecked(), frozenset(self._own_sessions))
        if judged != self._judged_targets:
            self._judged_targets = judged
            split_tenant_events.enqueue_assignments(self._connection)

    def _may_drop_target(
        self, name: str, granted: Collection[str], declared: Collection[str]
    ) -> bool:
        """Return True if the status need not name a target any longer."""
        if name in declared:
            return name not in granted and self._is_target_empty(name)
        # The target cannot be reached. Pods that stay assigned to it are created nowhere else.
        assignments = self._connection.assignments
        return self._connection.is_ready and not (
            assignments.has_pods_in(name)
            or any(
                assignments.get_cluster(pod) == UNASSIGNED and assignments.is_recorded(pod, name)
                for pod in self._connection.stores["Pod"].list()
            )
        )

    def _is_target_empty(self, name: str) -> bool:
        """Return True if no object of the tenant is left in a target.

        A target that is away may have all.
        """
        if self._connection.grants.is_unused(name):
            return not self._connection.assignments.has_pods_in(name)
        session = self._own_sessions.get(name)
        if session is None or session.scope.is_unreachable:
            return False
        if session.target.pod_loss_guard.is_tenant_held(session.tenant.uid):
            return False  # missing pods may come back
        shown = session.stores[NODE].get("", target_node.build_node_name(name))
        if shown is not None and wellknown.SUPER_CLUSTER in shown.annotations:
            return False  # its key deletes the node, and the key ends with the session
        is_left = any(
            True for _ in session.super_cluster.iterate_owned(self._connection.tenant.uid)
        )
        return not is_left and not self._connection.assignments.has_pods_in(name)

    def _start_session(self, target: TargetCluster) -> None:
        session = self._create_session(target)
        self._connection.grants.mark_used(target.name)
        self._own_sessions[target.name] = session
        events = self._events[target.name] = TargetTenantEvents(session)
        events.subscribe()
        self._registry.add(session)
        self._connection.add_session(session)
        events.index_assigned_pods()
        if self._connection.is_ready:
            self._connection.store_guard.record_stamps(session.twins.iterate_stamps())
            session.start()
        _log.info("tenant.target_connected", tenant=session.tenant.root, target=target.name)

    async def _stop_session(self, name: str) -> None:
        session = self._own_sessions[name]
        self._mark_connecting(name)  # its client is usually a new one
        self._forget_session(name)
        await session.work.drain()
        _log.info("tenant.target_disconnected", tenant=session.tenant.root, target=name)

    def _forget_session(self, name: str) -> None:
        session = self._own_sessions.pop(name)
        session.work.stop()
        self._events.pop(name).unsubscribe()
        self._connection.remove_session(session)
        self._registry.remove(session)
        self._connection.queue.drop_group(session.work.group)


async def _wait_any(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of several waits returns."""
    waiting = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
