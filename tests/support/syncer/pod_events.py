"""Events of a pod in the super cluster, and the worlds in which they are synced back."""

from __future__ import annotations

from typing import Any

from syncer.model.keys import EVENT, Key
from tests.support.syncer.sessions import SessionWorld, put

SPEC = {"containers": [{"name": "main", "image": "i"}]}


def queued(world: SessionWorld) -> Key:
    """Have the Event of a binding come. Returns its key."""
    space = world.session.view.get_super_namespace("web")
    event = {
        "metadata": {"name": "p.1", "namespace": space},
        "involvedObject": {"kind": "Pod", "namespace": space, "name": "p", "uid": "p-below"},
        "reason": "Scheduled",
        "message": f"Successfully assigned {space}/p to node-1",
    }
    key = world.key(EVENT, "web", "p.1")
    world.session.event_memory.queue_event(key, event)
    return key


def world_with(cached: dict[str, Any] | None, live: dict[str, Any] | None) -> SessionWorld:
    """Return a world with a node that the tenant is not shown yet, and a pod's two states.

    Each is a PodSpec's part, or None where there is no pod. `uid` makes the live one another pod.
    """
    world = SessionWorld()
    put(world.super_cluster.nodes, {"metadata": {"name": "node-1", "uid": "n"}})
    entry = world.super_has("Pod", "p", spec={**SPEC, **(cached or {})})
    twin = entry.decode()
    if cached is None:
        world.super_cluster.stores["Pod"].discard(entry, live=True)
    if live is not None:
        metadata = {**twin["metadata"], "uid": live.get("uid", twin["metadata"]["uid"])}
        spec = {field: value for field, value in live.items() if field != "uid"}
        world.below.has("Pod", "p", {**twin, "metadata": metadata, "spec": spec})
    return world


ON = {"nodeName": "node-1"}


def reads(world: SessionWorld) -> int:
    return len([verb for verb, _, _ in world.below.asked if verb == "get"])
