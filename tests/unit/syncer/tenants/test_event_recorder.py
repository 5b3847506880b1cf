"""Events of the syncer in a tenant: once each, and again only if their cause comes again."""

from __future__ import annotations

import pytest

from syncer.tenants import event_recorder
from tenancy.resources import STORAGE_CLASSES
from tests.support.syncer.sessions import SessionWorld


@pytest.mark.parametrize(("repeat", "events"), [({}, 1), ({"repeat_seconds": 3600.0}, 2)])
async def test_an_event_is_posted_again_after_its_time(
    monkeypatch: pytest.MonkeyPatch, repeat: dict[str, float], events: int
):
    world = SessionWorld()
    entry = world.tenant_has("StorageClass", "gold", namespace="")
    now = 10.0
    monkeypatch.setattr(event_recorder.time, "monotonic", lambda: now)
    for seconds in (0.0, 100.0, 3600.0):
        now += seconds
        if seconds == 3600.0:  # the tenant's API server has deleted it by then
            for name in [name for verb, _, name in world.above.asked if verb == "create"]:
                world.above.lacks("Event", name, "default")
        await world.session.event_recorder.record(
            STORAGE_CLASSES, entry, reason="SyncReverted", message="x", **repeat
        )
    assert world.told() == ["SyncReverted"] * events


async def test_a_message_has_no_control_characters():
    """SEC-55: a refusal of the super cluster quotes what a tenant wrote."""
    world = SessionWorld()
    entry = world.tenant_has("StorageClass", "gold", namespace="")
    await world.session.event_recorder.record(
        STORAGE_CLASSES, entry, reason="SyncRejected", message="bad \x1b[2J"
    )
    (body,) = [body for body in world.above.bodies if body and body.get("reason")]
    assert body["message"] == "bad \\u001b[2J"
