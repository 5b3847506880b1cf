"""A wired session, and which keys its events have woken."""

from __future__ import annotations

from syncer.handlers.home_events import HomeEvents
from syncer.handlers.tenant_events import TenantEvents
from tests.support.syncer.sessions import SessionWorld

ON_NODE = {"nodeName": "n", "containers": []}


def wired() -> SessionWorld:
    """Return a wired session whose queue is empty."""
    found = SessionWorld()
    found.ready()
    TenantEvents(found.session).subscribe()
    HomeEvents(found.super_cluster, {found.session.tenant.uid: found.session}).subscribe()
    return found


def woken(world: SessionWorld) -> bool:
    """Remove all keys. Return whether the key of pod p was among them."""
    taken = []
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        taken.append(key)
    return world.key("Pod", "web", "p") in taken


def queued(world: SessionWorld, kind: str) -> list[str]:
    """Return the names of the waiting keys of a kind, and forget them all."""
    found = []
    while (key := world.session.queue.take()) is not None:
        world.session.queue.done(key)
        if key.kind == kind:
            found.append(key.name)
    return sorted(found)
