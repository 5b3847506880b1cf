"""One super Event on its way up: told in the tenant, and told again as it grows.

Owns the effects; best effort by design: an Event that cannot be told is dropped, and those of the
time when nobody listened are not repeated. Both event APIs keep their objects in one place, so one
watch sees both. Hazard: it must never delay anything else, so it runs in the low lane and on a
budget.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog

from kubeio import Object, errors
from kubeio.worker import Done, Verdict
from syncer.keys import Key
from syncer.kinds import BY_NAME
from syncer.scrubber import A_NODE
from syncer.session import Session
from syncer.special import events
from tenancy import marks
from tenancy.resources import EVENTS, PODS

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Tell one Event."""
    event = session.reminders.events.get(key)
    if event is None:
        return Done()
    told = await _told(event, session)
    if told is not None:
        await _bring_up(key, told, session)
    # What failed on the way was raised, and is tried again; what came meanwhile has its turn.
    if session.reminders.events.get(key) is event:
        del session.reminders.events[key]
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
    """Make the Event, or bring it up to date; an hour after its last change a tenant drops it."""
    client = session.tenant_client
    metadata = told["metadata"]
    if not is_known:
        try:
            await client.create(EVENTS, told, field_manager=marks.SYNCER)
        except errors.AlreadyExists:
            pass  # told before a restart
        else:
            return
    try:
        await client.patch(
            EVENTS,
            metadata["name"],
            growth,
            namespace=metadata["namespace"],
            field_manager=marks.SYNCER,
        )
    except errors.NotFound:
        await client.create(EVENTS, told, field_manager=marks.SYNCER)


async def _told(event: Mapping[str, Any], session: Session) -> Object | None:
    """Return the Event for the tenant; reads live what the caches are behind with.

    The Events of the first moments, of a binding above all, may be here before their object is.
    """
    kind, namespace, name, _ = events.regards(event)
    cached = session.super_store(kind).get(namespace, name)
    found = _told_of(cached.decode(), event, session) if cached is not None else None
    if found is not None and (kind != PODS.kind or A_NODE not in found["message"]):
        return found
    if cached is not None and (found is None or _node(cached.decode())):
        return found
    try:
        live = await session.super_client.get(BY_NAME[kind].resource, name, namespace=namespace)
    except errors.NotFound:
        return found
    return _told_of(live, event, session) or found


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
    """Return the node that a super pod runs on: its tenant sees it, or will in a moment."""
    return str((super_pod.get("spec") or {}).get("nodeName") or "")
