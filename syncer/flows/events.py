"""One super Event on its way up: told once in the tenant.

Owns the effects; best effort by design: an Event that cannot be told is dropped, and those of the
time when nobody listened are not repeated. Hazard: it must never delay anything else, so it runs in
the low lane and on a budget.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from kubeio import errors
from kubeio.store import Entry
from kubeio.worker import Done, Verdict
from syncer.keys import Key
from syncer.session import Session
from syncer.special import events
from tenancy.resources import EVENTS

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Tell one Event."""
    event = session.reminders.events.pop(key, None)
    if event is None:
        return Done()
    twin = _twin(event, session)
    told = events.told(event, _metadata(twin), session.view) if twin is not None else None
    if told is None or session.reminders.was_told(key):
        return Done()
    try:
        await session.tenant_client.create(EVENTS, told)
    except errors.AlreadyExists:
        pass  # told before a restart
    except errors.ApiError as problem:
        _log.debug("event.dropped", problem=str(problem))
        return Done()
    session.reminders.told(key)
    return Done()


def _twin(event: Mapping[str, Any], session: Session) -> Entry | None:
    kind, namespace, name, _ = events.regards(event)
    return session.super_store(kind).get(namespace, name)


def _metadata(twin: Entry) -> Mapping[str, Any]:
    return {"uid": twin.uid, "annotations": twin.annotations}
