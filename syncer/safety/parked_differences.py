"""Parked writes of one session: differences that a write does not remove, and their Event.

Owns when a repeated write becomes parked, and the report of it. The hot loop guard counts. Must not
send a write of a reconciler, and must not know kinds.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import diff
from syncer.model.keys import Key
from syncer.safety.hot_loop_guard import HotLoopGuard, WriteOutcome, WriteScope
from telemetry import metrics
from tenancy.resources import Resource

SYNC_PARKED = "SyncParked"
"""Reason of the Event about a parked write. The condition Synced repeats the paths."""
SUPER_SIDE, TENANT_SIDE = "super", "tenant"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class ParkedWriteReporter(Protocol):
    """The part of the tenant's event recorder that reports a parked write."""

    async def record(self, resource: Resource, entry: Entry, *, reason: str, message: str) -> None:
        """Post an Event about a tenant object, unless the tenant has it already."""


class ParkedDifferences:
    """Differences of one session that writing does not remove."""

    def __init__(
        self,
        hot_loop_guard: HotLoopGuard,
        event_recorder: ParkedWriteReporter,
        on_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_changed` is called when a write becomes parked, and when it no longer is."""
        self._hot_loop_guard = hot_loop_guard
        self._event_recorder = event_recorder
        self._on_changed = on_changed

    def has(self, scope: WriteScope, body: Object, before: Mapping[str, Any]) -> bool:
        """Return True if a write must be left out."""
        guard = self._hot_loop_guard
        return guard.has_history(scope) and guard.is_parked(
            scope, diff.compute_digest(body, before)
        )

    async def count_attempt(
        self,
        scope: WriteScope,
        body: Object,
        *,
        before: Mapping[str, Any],
        answer: Mapping[str, Any],
        resource: Resource,
        tenant_x: Entry | None,
    ) -> None:
        """Count a write of a difference, and post an Event when it becomes parked.

        `before` is the object for which the body was computed. `tenant_x` gets the Event. Without
        it only the log and the condition Synced report the write.
        """

        def build_outcome() -> WriteOutcome:
            untaken = diff.find_lacking(body, answer)
            return WriteOutcome(
                diff.format_paths(untaken or diff.find_written_paths(body, before)), not untaken
            )

        digest = diff.compute_digest(body, before)
        if self._hot_loop_guard.count_attempt(scope, digest, build_outcome):
            await self._report(scope, build_outcome(), resource, tenant_x)

    async def _report(
        self, scope: WriteScope, outcome: WriteOutcome, resource: Resource, tenant_x: Entry | None
    ) -> None:
        """Report a parked write. A server of a different version, or another writer, is the cause.

        Hazard: the Event must name the path. Otherwise an object would silently stay different.
        """
        paths, taken = outcome
        _log.warning("diff.parked", side=scope.side, paths=paths, accepted=taken)
        metrics.DIFFS_PARKED.labels(scope.side).inc()
        self._on_changed()
        if tenant_x is None:
            return
        where = "in the super cluster" if scope.side == SUPER_SIDE else "in this cluster"
        why = (
            f"are not accepted {where}, perhaps because it has another version"
            if not taken
            else f"are reset {where} each time they are set"
        )
        message = f"{paths}: these fields {why}. They are left unchanged for now (rule parked)."
        await self._event_recorder.record(resource, tenant_x, reason=SYNC_PARKED, message=message)

    def clear_if_converged(self, key: Key, side: str, subresource: str = "") -> None:
        """Record that a part of an object no longer differs."""
        if self._hot_loop_guard.clear_if_converged(WriteScope(key, side, subresource)):
            self._on_changed()
