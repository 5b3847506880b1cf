"""A wired session, and which keys its events have woken."""

from __future__ import annotations

from syncer.handlers.home_events import HomeWiring
from syncer.handlers.tenant_events import wire_tenant
from tests.support.syncer.sessions import World

ON_NODE = {"nodeName": "n", "containers": []}


def wired() -> World:
    """Return a wired session whose queue is empty."""
    found = World()
    found.ready()
    wire_tenant(found.session)
    HomeWiring(found.super_cluster, {found.session.tenant.uid: found.session}).subscribe()
    return found


def woken(world: World) -> bool:
    """Take all keys; tells whether that of pod p was among them."""
    taken = []
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        taken.append(key)
    return world.key("Pod", "web", "p") in taken
