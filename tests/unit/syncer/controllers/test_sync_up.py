"""Write-back of status to the tenant."""

from __future__ import annotations

import pytest

from kubeio.controller.worker import NotReadyYet
from syncer.controllers import parked_writes, sync_up
from syncer.controllers.sync_up import ObservedTenantObject
from syncer.rules import registry
from syncer.safety.hot_loop_guard import (
    REPEATS_TO_PARK,
)
from syncer.safety.parked_differences import SYNC_PARKED
from tests.support.syncer.sessions import SessionWorld, is_counted


async def test_a_status_that_the_tenants_api_does_not_take_is_told_once_and_left():
    world = SessionWorld()
    entry = world.tenant_has("Pod", "p", spec={}, status={})
    kind, key = registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p")
    body = {"metadata": {"uid": "p-uid"}, "status": {"newer": "x"}}
    for _ in range(REPEATS_TO_PARK + 3):
        await sync_up.write_tenant_object(
            kind,
            key,
            body,
            world.session,
            subresource="status",
            observed=ObservedTenantObject(entry, entry.decode()),
        )
    assert len(world.above.writes("Pod")) == REPEATS_TO_PARK
    assert world.told() == [SYNC_PARKED]
    assert "status.newer" in world.above.bodies[-1]["message"]
    assert "Pod web/p status.newer" in parked_writes.format_parked_message(world.link)


async def test_writes_upward_are_counted():
    world = SessionWorld()
    world.tenant_has("Pod", "p", spec={})
    key = world.key("Pod", "web", "p")
    await sync_up.write_tenant_object(
        registry.KINDS_BY_NAME["Pod"], key, {"status": {}}, world.session
    )
    assert is_counted(world, key, 1)


async def test_a_condition_that_was_written_meanwhile_is_not_overwritten():
    world = SessionWorld()
    ready = {"type": "Ready", "status": "True"}
    entry = world.tenant_has("Pod", "p", spec={}, status={})
    kind, key = registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p")
    checked = {"type": "example.com/Checked", "status": "True"}
    there = {**entry.decode(), "status": {"conditions": [checked]}}
    there["metadata"] = {**there["metadata"], "resourceVersion": "99"}
    world.above.has("Pod", "p", there)
    body = {"metadata": {"uid": "p-uid"}, "status": {"conditions": [ready]}}
    observed = ObservedTenantObject(entry, entry.decode())
    with pytest.raises(NotReadyYet):
        await sync_up.write_status(
            kind, key, body, lambda: body["status"], world.session, observed=observed
        )
    assert world.above.object("Pod", "p")["status"]["conditions"] == [checked]
    plain = {"metadata": {"uid": "p-uid"}, "status": {"phase": "Running"}}
    await sync_up.write_status(
        kind, key, plain, lambda: plain["status"], world.session, observed=observed
    )
    found = world.above.object("Pod", "p")["status"]
    assert found == {"conditions": [checked], "phase": "Running"}
