"""A guarded writer and proven deletes of two clusters, for tests without a session."""

from __future__ import annotations

from typing import Any

from syncer.safety.expectations import Expectations
from syncer.safety.guarded_writer import GuardedWriter
from syncer.safety.hot_loop_guard import HotLoopGuard
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
    writer = GuardedWriter(
        tenant_client=tenant_client,
        super_client=super_client,
        expectations=expectations,
        hot_loop_guard=HotLoopGuard(),
        store_guard=store_guard,
        event_recorder=RecordedReasons(),
    )
    return ProvenDeletes(
        store_guard=store_guard,
        tenant_client=tenant_client,
        super_client=super_client,
        writer=writer,
    )
