"""Reconciler of super Events: posted in the tenant, and updated as their count grows.

Best effort by design. An Event that cannot be posted is dropped, and Events from before the watch
are not repeated. Both event APIs store their objects in one place, so one watch sees both. An Event
that arrives before its object waits for the object. After `PATIENCE_SECONDS` the object is read
live. Hazard: Events must run at low priority and with a budget. Otherwise they would delay other
work.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog

from kubeio import Object, errors
from kubeio.controller.worker import Done, Verdict
from syncer.model.keys import Key
from syncer.rules import events
from syncer.rules.registry import BY_NAME
from syncer.tenants.sanitizer import A_NODE
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import EVENTS, PODS

PATIENCE_SECONDS = 10.0
"""Time in seconds that an Event waits for its object in the cache, before a live read."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Post one Event, or let it wait for its object."""
    reminders = session.reminders
    event = reminders.events.get(key)
    if event is None:
        return Done()
    told, is_behind = _cached(event, session)
    if is_behind:
        left = reminders.event_may_wait(key, PATIENCE_SECONDS)
        if left > 0:
            kind, _, name, _ = events.regards(event)
            about = session.key(kind, key.namespace, BY_NAME[kind].tenant_name(name))
            session.wait_for(about, key)
            session.queue.add_after(key, left, low=True)
            return Done()
        told = await _live(event, session) or told
    if told is not None:
        await _bring_up(key, told, session)
    # A failure was raised and is retried. An Event that arrived meanwhile has its own turn.
    if reminders.events.get(key) is event:
        reminders.event_done(key)
    return Done()


async def _bring_up(key: Key, told: Object, session: Session) -> None:
    growth = events.growth(told)
    if session.reminders.was_told(key, growth):
        return
    try:
        await _tell(told, growth, session, is_known=session.reminders.has_told(key))
    except errors.Unavailable:
        raise
    except errors.ApiError as problem:
        _log.debug("event.dropped", problem=str(problem))
    else:
        session.reminders.told(key, growth)


async def _tell(told: Object, growth: Object, session: Session, *, is_known: bool) -> None:
    """Create or update the Event. A tenant deletes it an hour after its last change."""
    client = session.tenant_client
    metadata = told["metadata"]
    if not is_known:
        try:
            await client.create(EVENTS, told, field_manager=wellknown.SYNCER)
        except errors.AlreadyExists:
            pass  # posted before a restart
        else:
            return
    try:
        await client.patch(
            EVENTS,
            metadata["name"],
            growth,
            namespace=metadata["namespace"],
            field_manager=wellknown.SYNCER,
        )
    except errors.NotFound:
        await client.create(EVENTS, told, field_manager=wellknown.SYNCER)


def _cached(event: Mapping[str, Any], session: Session) -> tuple[Object | None, bool]:
    """Return the Event for the tenant from the caches, and whether they are behind.

    The first Events of an object, especially of a binding, may arrive before the object.
    """
    kind, namespace, name, _ = events.regards(event)
    cached = session.super_store(kind).get(namespace, name)
    if cached is None:
        return None, True
    twin = cached.decode()
    found = _told_of(twin, event, session)
    if found is None or kind != PODS.kind or A_NODE not in found["message"]:
        return found, False
    return found, not _node(twin)


async def _live(event: Mapping[str, Any], session: Session) -> Object | None:
    """Return the Event for the tenant from a live read of its object."""
    kind, namespace, name, _ = events.regards(event)
    try:
        live = await session.super_client.get(BY_NAME[kind].resource, name, namespace=namespace)
    except errors.NotFound:
        return None
    return _told_of(live, event, session)


def _told_of(twin: Object, event: Mapping[str, Any], session: Session) -> Object | None:
    kind, _, name, _ = events.regards(event)
    return events.told(
        event,
        twin["metadata"],
        session.view,
        name=BY_NAME[kind].tenant_name(name),
        clean=partial(session.scrubber.clean, node=_node(twin) if kind == PODS.kind else ""),
    )


def _node(super_pod: Mapping[str, Any]) -> str:
    """Return the node of a super pod. The tenant sees that node, or will in a moment."""
    return str((super_pod.get("spec") or {}).get("nodeName") or "")
