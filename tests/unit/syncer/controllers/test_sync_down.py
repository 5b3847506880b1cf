"""Reconciles with a failing API, a failing tenant or another writer."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.controllers import sync_down
from syncer.handlers.resync import Resync
from syncer.handlers.tenant_events import TenantEvents
from syncer.rules import registry
from tenancy import names
from tests.support.syncer.sessions import CONTAINERS, TOKEN_MARKS, SessionWorld


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Secret", f"{names.TOKEN_SECRET_PREFIX}0123456789"),
        ("ConfigMap", names.SUPER_ROOT_CA),
    ],
)
async def test_a_tenant_object_of_a_reserved_name_has_none_of_our_objects_as_twin(kind, name):
    world = SessionWorld()
    world.super_has(kind, name, uid="another-uid", metadata={"annotations": TOKEN_MARKS})
    world.tenant_has(kind, name)
    world.above.has(kind, name, {"metadata": {"uid": f"{name}-uid"}})
    key = world.key(kind, "web", name)
    world.session.grace_timers.grace_period_seconds = 0
    await sync_down.reconcile(registry.KINDS_BY_NAME[kind], key, world.session)
    assert not world.below.writes()
    assert not world.below.asked


async def test_the_resync_leaves_what_it_cannot_read_to_a_worker():
    world = SessionWorld()
    world.ready()
    world.tenant_has("Pod", "p", spec=None, status={})
    world.super_has("Pod", "p", spec={"containers": CONTAINERS}, status={})
    world.tenant_has("Pod", "q", spec={"containers": CONTAINERS}, status={})
    assert await Resync({}).resync_session(world.session) >= 2


async def test_the_end_of_what_has_no_twin_is_not_remembered():
    world = SessionWorld()
    TenantEvents(world.session).subscribe()
    world.super_has("ConfigMap", "twin")
    for name in ("twin", "other"):
        entry = world.tenant_has("ConfigMap", name)
        world.session.stores["ConfigMap"].discard(entry, live=True)
    assert list(world.session.proven_deletes._ended_tenant_objects) == [
        world.key("ConfigMap", "web", "twin")
    ]


async def test_a_key_is_tried_from_the_start_when_its_object_changes_and_not_at_its_status():
    world = SessionWorld()
    TenantEvents(world.session).subscribe()
    key, queue = world.key("Pod", "web", "p"), world.session.queue

    def seen(revision: int, generation: int, **fields: Any) -> int:
        for _ in range(5):
            queue.add_rate_limited(key)
        metadata = {"generation": generation, "resourceVersion": str(revision)}
        world.tenant_has("Pod", "p", spec={}, metadata=metadata, **fields)
        return queue.count_requeues(key)

    seen(1, 1)
    assert seen(2, 1, status={"phase": "Running"}) > 0
    assert seen(3, 2) == 0
