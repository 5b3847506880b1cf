"""A guarded writer and proven deletes of two clusters, for tests without a session."""

from __future__ import annotations

from typing import Any

from syncer.safety.expectations import Expectations
from syncer.safety.guarded_writer import GuardedWriter
from syncer.safety.hot_loop_guard import HotLoopGuard
from syncer.safety.parked_differences import ParkedDifferences
from syncer.safety.proven_deletes import ProvenDeletes
from syncer.safety.store_guard import StoreGuard


class RecordedReasons:
    """An event recorder that keeps the reasons."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def record(self, *_: Any, reason: str, message: str) -> None:  # noqa: ARG002
        """Keep the reason."""
        self.reasons.append(reason)


def proven_deletes(
    *, store_guard: StoreGuard, tenant_client: Any, super_client: Any, expectations: Expectations
) -> ProvenDeletes:
    """Return the deletes in one super cluster, with a writer of their own."""
    hot_loop_guard = HotLoopGuard()
    parked = ParkedDifferences(hot_loop_guard, RecordedReasons())
    writer = GuardedWriter(
        tenant_client=tenant_client,
        super_client=super_client,
        expectations=expectations,
        hot_loop_guard=hot_loop_guard,
        store_guard=store_guard,
        parked=parked,
    )
    return ProvenDeletes(
        store_guard=store_guard,
        tenant_client=tenant_client,
        super_client=super_client,
        writer=writer,
        parked=parked,
    )
