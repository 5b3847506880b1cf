"""Reconciler of super Events: posted in the tenant, and updated as their count grows.

Best effort by design. An Event that cannot be posted is dropped, and Events from before the watch
are not repeated. Both event APIs store their objects in one place, so one watch sees both. An Event
that arrives before its object waits for the object. After `EVENT_WAIT_SECONDS` the object is read
live. Hazard: Events must run at low priority and with a budget. Otherwise they would delay other
work.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog

from kubeio import Object, errors
from kubeio.controller.worker import Done, Result
from syncer.model.keys import Key
from syncer.rules import events
from syncer.tenants.sanitizer import NODE_PLACEHOLDER
from syncer.tenants.session import Session
from tenancy.resources import EVENTS, PODS

EVENT_WAIT_SECONDS = 10.0
"""Time in seconds that an Event waits for its object in the cache, before a live read."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_event(key: Key, session: Session) -> Result:
    """Post one Event, or let it wait for its object."""
    memory = session.event_memory
    event = memory.get_pending(key)
    if event is None:
        return Done()
    told, is_behind = _build_from_caches(event, session)
    if is_behind:
        left = memory.get_event_wait(key, EVENT_WAIT_SECONDS)
        if left > 0:
            kind, _, name, _ = events.get_regarding(event)
            about = session.build_key(kind, key.namespace, session.kinds[kind].tenant_name(name))
            session.work.add_waiter(about, key)
            session.queue.add_after(key, left, low=True)
            return Done()
        told = await _build_from_live(event, session) or told
    if told is not None:
        await _sync_event_up(key, told, session)
    # A failure was raised and is retried. An Event that arrived meanwhile has its own turn.
    if memory.get_pending(key) is event:
        memory.forget_event(key)
    return Done()


async def _sync_event_up(key: Key, told: Object, session: Session) -> None:
    growth = events.build_update(told)
    if session.event_memory.was_state_written(key, growth):
        return
    try:
        await _write_tenant_event(
            told, growth, session, is_known=session.event_memory.has_written_event(key)
        )
    except errors.Unavailable:
        raise
    except errors.ApiError as problem:
        _log.debug("event.dropped", problem=str(problem))
    else:
        session.event_memory.record_written_event(key, growth)


async def _write_tenant_event(
    told: Object, growth: Object, session: Session, *, is_known: bool
) -> None:
    """Create or update the Event. A tenant deletes it an hour after its last change."""
    writer, metadata = session.writer, told["metadata"]
    if not is_known:
        try:
            await writer.create_unguarded(EVENTS, told)
        except errors.AlreadyExists:
            pass  # posted before a restart
        else:
            return
    try:
        await writer.patch_unguarded(
            EVENTS, metadata["name"], growth, namespace=metadata["namespace"]
        )
    except errors.NotFound:
        await writer.create_unguarded(EVENTS, told)


def _build_from_caches(event: Mapping[str, Any], session: Session) -> tuple[Object | None, bool]:
    """Return the Event for the tenant from the caches, and whether they are behind.

    The first Events of an object, especially of a binding, may arrive before the object.
    """
    kind, namespace, name, _ = events.get_regarding(event)
    cached = session.twins.get_store(kind).get(namespace, name)
    if cached is None:
        return None, True
    twin = cached.decode()
    found = _build_tenant_event(twin, event, session)
    if found is None or kind != PODS.kind or NODE_PLACEHOLDER not in found["message"]:
        return found, False
    return found, not _get_node_name(twin)


async def _build_from_live(event: Mapping[str, Any], session: Session) -> Object | None:
    """Return the Event for the tenant from a live read of its object."""
    kind, namespace, name, _ = events.get_regarding(event)
    try:
        live = await session.super_client.get(
            session.kinds[kind].resource, name, namespace=namespace
        )
    except errors.NotFound:
        return None
    return _build_tenant_event(live, event, session)


def _build_tenant_event(twin: Object, event: Mapping[str, Any], session: Session) -> Object | None:
    kind, _, name, _ = events.get_regarding(event)
    return events.build_tenant_event(
        event,
        twin["metadata"],
        session.view,
        name=session.kinds[kind].tenant_name(name),
        sanitize=partial(
            session.sanitizer.sanitize_text, node=_get_node_name(twin) if kind == PODS.kind else ""
        ),
    )


def _get_node_name(super_pod: Mapping[str, Any]) -> str:
    """Return the node of a super pod. The tenant sees that node, or will in a moment."""
    return str((super_pod.get("spec") or {}).get("nodeName") or "")
