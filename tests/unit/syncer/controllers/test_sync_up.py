"""Write-back of status to the tenant."""

from __future__ import annotations

from syncer.controllers import parked_writes, sync_up
from syncer.controllers.sync_up import Seen
from syncer.rules import registry
from syncer.safety.hot_loop_guard import (
    REPEATS,
)
from tests.support.syncer.sessions import World, is_counted


async def test_a_status_that_the_tenants_api_does_not_take_is_told_once_and_left():
    world = World()
    entry = world.tenant_has("Pod", "p", spec={}, status={})
    kind, key = registry.BY_NAME["Pod"], world.key("Pod", "web", "p")
    body = {"metadata": {"uid": "p-uid"}, "status": {"newer": "x"}}
    for _ in range(REPEATS + 3):
        await sync_up.write(
            kind, key, body, world.session, subresource="status", seen=Seen(entry, entry.decode())
        )
    assert len(world.above.writes("Pod")) == REPEATS
    assert world.told() == [parked_writes.REASON]
    assert "status.newer" in world.above.bodies[-1]["message"]
    assert "Pod web/p status.newer" in parked_writes.sentence(world.link)


async def test_writes_upward_are_counted():
    world = World()
    world.tenant_has("Pod", "p", spec={})
    key = world.key("Pod", "web", "p")
    await sync_up.write(registry.BY_NAME["Pod"], key, {"status": {}}, world.session)
    assert is_counted(world, key, 1)
