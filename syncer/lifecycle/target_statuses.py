"""Targets of one tenant in the status of its VirtualCluster, with their phases and pod counts.

Owns the writes of `status.targets`, and the delay of those that only change a count. Must not
choose the targets that the status names. Hazard: a write returns as a change of the VirtualCluster.
A status that differs with each write would never end.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import structlog

from kubeio import errors
from kubeio.cache.store import Entry
from syncer.clusters.target_cluster import UNREACHABLE_SECONDS, TargetCluster
from syncer.tenants import conditions
from syncer.tenants.connection import TenantConnection
from tenancy.names import InvalidNameError
from tenancy.specs import InvalidSpecError, VirtualCluster, parse_virtual_cluster
from tenancy.super_clusters import HOME

STATUS_INTERVAL_SECONDS = 5.0
"""Minimum interval in seconds between two writes of the pod counts."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class TargetStatuses:
    """The status entries of one tenant's targets."""

    def __init__(
        self, connection: TenantConnection, get_ready: Callable[[str], TargetCluster | None]
    ) -> None:
        """`get_ready` returns a target whose caches are complete."""
        self._connection = connection
        self._get_ready = get_ready
        self._names: frozenset[str] = frozenset()
        self._written: list[dict[str, Any]] | None = None
        """The list that was written last. None: no list yet."""
        self._must_recount = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def parse_virtual_cluster(self) -> VirtualCluster | None:
        """Return the tenant's VirtualCluster. None if it is deleted, in deletion or malformed."""
        entry = self._get_entry()
        if entry is None or entry.uid != self._connection.tenant.uid or entry.deleting:
            return None
        try:
            return parse_virtual_cluster(entry.decode())
        except (InvalidSpecError, InvalidNameError):
            return None

    def _get_entry(self) -> Entry | None:
        tenant = self._connection.tenant
        return self._connection.home_cluster.virtual_clusters.get(tenant.namespace, tenant.name)

    async def write(self, names: Collection[str]) -> bool:
        """Write the targets and their pod counts to the status.

        Returns False if the write failed.
        """
        entry = self._get_entry()
        if entry is None:
            return False
        listed = [self.build(name) for name in sorted(names)]
        try:
            await conditions.write_target_statuses(
                self._connection.home_cluster.client, entry, listed
            )
        except errors.KubeError as problem:
            tenant = self._connection.tenant.root
            _log.warning("tenant.targets_not_told", tenant=tenant, problem=str(problem))
            self._written = None  # the write may have succeeded nevertheless
            return False
        self._written = listed
        return True

    def set_names(self, names: Collection[str]) -> None:
        """Replace the targets that `update` and `write_counts` write."""
        self._names = frozenset(names)

    async def update(self) -> bool:
        """Bring the status up to date. A write that only changes counts is delayed.

        Returns False if a write failed.
        """
        if not self._is_written(counts=False):
            return await self._write_if_changed()
        if not self._is_written():
            self._schedule_recount()  # the write comes back as a change, and would never end
        return True

    def handle_pod_count(self, name: str) -> None:
        """Schedule one write of the pod counts for all changes within `STATUS_INTERVAL_SECONDS`."""
        if name != HOME:
            self._schedule_recount()

    def _schedule_recount(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(STATUS_INTERVAL_SECONDS, self._trigger_recount)

    def _trigger_recount(self) -> None:
        self._timer = None
        self._must_recount.set()

    async def wait_recount(self) -> None:
        """Wait until the counts must be written."""
        await self._must_recount.wait()

    async def write_counts(self) -> None:
        """Write the counts, if that is due. A failed write is retried later."""
        if self._must_recount.is_set():
            self._must_recount.clear()
            if not await self._write_if_changed():
                self._schedule_recount()

    def close(self) -> None:
        """Cancel the delayed write."""
        if self._timer is not None:
            self._timer.cancel()

    async def _write_if_changed(self) -> bool:
        """Write the statuses, unless they are up to date or the tenant is being deleted."""
        return (
            self.parse_virtual_cluster() is None
            or self._is_written()
            or await self.write(self._names)
        )

    def _is_written(self, *, counts: bool = True) -> bool:
        """Return True if the status is up to date, apart from pod counts if `counts` is False.

        The cache may be older than the last write.
        """
        written = self._written
        cluster = self.parse_virtual_cluster() if written is None else None
        if cluster is not None:
            written = [_build(each.name, each.phase, each.pods) for each in cluster.status.targets]
        wanted = [self.build(name) for name in sorted(self._names)]
        if counts:
            return wanted == written
        return _strip_counts(wanted) == _strip_counts(written or [])

    def build(self, name: str) -> dict[str, Any]:
        """Return the status entry of one target."""
        target = self._get_ready(name)
        pods = self._connection.assignments.count_pods(name)
        if name not in self._connection.grants.granted:
            return _build(name, "Draining", pods)
        # The virtual node of the target reports an outage after the same time.
        is_away = target is None or target.get_unreachable_seconds() >= UNREACHABLE_SECONDS
        return _build(name, "Away" if is_away else "Granted", pods)


def _build(name: str, phase: str, pods: int) -> dict[str, Any]:
    return {"name": name, "phase": phase, "pods": pods}


def _strip_counts(listed: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(each["name"], each["phase"]) for each in listed]
