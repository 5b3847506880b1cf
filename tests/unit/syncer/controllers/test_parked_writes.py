"""Parked writes: what ends the pause, and what the tenant reads about it."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.controllers import sync_down
from syncer.handlers.tenant_events import TenantEvents
from syncer.rules import registry
from syncer.safety.hot_loop_guard import (
    REPEATS_TO_PARK,
    WriteOutcome,
    WriteScope,
)
from syncer.safety.parked_differences import SYNC_PARKED, TENANT_SIDE
from tests.support.syncer.sessions import SessionWorld


@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "Service"])
def test_our_own_status_that_comes_back_does_not_count_as_the_tenants_change(kind):
    """Neither kind counts its generations."""
    world = SessionWorld()
    TenantEvents(world.session).subscribe()
    world.tenant_has(kind, "c", spec={"x": 1})
    part = WriteScope(world.key(kind, "web", "c"), TENANT_SIDE, "status")
    for _ in range(REPEATS_TO_PARK):
        world.session.hot_loop_guard.count_attempt(
            part, b"d", lambda: WriteOutcome("status.x", is_accepted=True)
        )
    world.tenant_has(kind, "c", spec={"x": 1}, status={"x": 2}, metadata={"resourceVersion": "51"})
    assert world.session.hot_loop_guard.is_parked(part, b"d")
    world.tenant_has(kind, "c", spec={"x": 2}, status={"x": 2}, metadata={"resourceVersion": "52"})
    assert not world.session.hot_loop_guard.is_parked(part, b"d")


async def test_a_twin_that_is_put_back_is_parked_with_its_path():
    world = SessionWorld()
    world.ready()
    world.session.pods.references.set("web", "user", {downward_ref("c")})
    world.tenant_has("ConfigMap", "c", data={"a": "1"})
    key = world.key("ConfigMap", "web", "c")
    for number in range(REPEATS_TO_PARK + 2):
        revision = {"resourceVersion": str(2000 + number)}
        world.super_has("ConfigMap", "c", data={"a": "theirs"}, metadata=revision)
        await sync_down.reconcile(registry.KINDS_BY_NAME["ConfigMap"], key, world.session)
    assert len(world.below.writes("ConfigMap")) == REPEATS_TO_PARK
    assert world.told() == [SYNC_PARKED]
    assert "data.a" in world.above.bodies[-1]["message"]


def downward_ref(name: str) -> Any:
    """Return a need for a ConfigMap."""
    from syncer.model.references import ObjectReference  # noqa: PLC0415 - only here

    return ObjectReference("ConfigMap", name)
